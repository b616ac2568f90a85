/* leaf: a regular part of a grammar as one deterministic automaton that reads bytes.
 *
 * Two machines in one: `code` turns bytes into characters (more exactly into classes of characters
 * that nothing here tells apart), `next` walks over classes. Between two characters the inner
 * state is 0; within one (UTF-8, an escape) it is above, and `reach` says which classes can still
 * come of it. Every state can reach an accepting one, so a byte is fit exactly when some class it
 * leads to has a transition.
 *
 * A leaf that closes is the inside of a JSON string with its closing quote: it ends with that
 * quote and nowhere else. A leaf that does not close may be left in every accepting state. Whoever
 * runs a leaf may count its characters. Thread: any; never changes. */
#ifndef RIPTIDE_GRAMMAR_LEAF_PRIV_H
#define RIPTIDE_GRAMMAR_LEAF_PRIV_H

#include "grammar/expr_priv.h"

enum {
    LEAF_DEAD = 0xffff,  /* in next and code: refused */
    LEAF_CLOSE = 0xfffe, /* in code: the closing quote */
    LEAF_CLASS = 0x8000, /* in code: a whole character, class in the low bits */
    LEAF_CLASSES_MOST = 256,
    LEAF_WORDS = LEAF_CLASSES_MOST / 64,
    LEAF_STATES_MOST = 40000,
    LEAF_TABLE_MOST = 4 << 20 /* entries of next */
};

typedef struct {
    uint64_t w[LEAF_WORDS];
} leaf_classes;

typedef struct {
    int n_states, n_classes, n_inner;
    const uint16_t *next;      /* [n_states, n_classes] */
    const uint8_t *accept;     /* [n_states] */
    const uint32_t *least;     /* [n_states] fewest characters to an accepting state */
    const leaf_classes *live;  /* [n_states] classes with a transition */
    const uint16_t *code;      /* [n_inner, 256] inner state, LEAF_CLASS | class, CLOSE or DEAD */
    const leaf_classes *reach; /* [n_inner] classes that may come of an unfinished character */
    bool closes;
    bool is_free; /* the inside of any JSON string: the same in every grammar */
} leaf;

/* Whether nothing more can be read in this state. */
static inline bool leaf_is_stuck(const leaf *l, uint32_t state)
{
    uint64_t any = 0;
    for (int w = 0; w < LEAF_WORDS; w++) any |= l->live[state].w[w];
    return any == 0;
}

/* How characters are written. */
typedef enum {
    LEAF_RAW,    /* UTF-8 */
    LEAF_STRING, /* inside a JSON string, each character in one way: escaped only where it must be
                  */
    LEAF_FREE    /* inside a JSON string, any escapes; only for sets that tell nothing apart */
} leaf_coding;

/* Texts that match every part (none: every text). */
typedef struct {
    expr *e; /* for the whole text */
    bool is_negated;
} leaf_part;

enum { LEAF_PARTS_MOST = 12 };

/* How much may be done for one schema or grammar, in steps of a few nanoseconds: many automata,
 * each within its limits, must not take for ever. */
enum { LEAF_WORK_MOST = 64 << 20, LEAF_WORK_EACH = 2000 };
static inline bool leaf_spend(int64_t *work, int64_t n)
{
    *work -= n;
    return *work >= 0;
}

/* Build the automaton of the texts that match all n parts and have least to most characters.
 *
 * least, most  in and out; EXPR_NO_MOST = any number. Set to 0 and EXPR_NO_MOST when the automaton
 *              does the counting; else whoever runs it counts, and then every count that `least`
 *              of its states allows can be finished within the bounds
 * out          in `result`; *out is NULL (and the call ERR_OK) when no text matches
 * work         in and out, what is left of LEAF_WORK_MOST
 * Returns      LIMIT when the automaton is too large or the work is used up, NOMEM. err.where is
 * `where` */
status leaf_build(arena *result, int64_t *work, const leaf_part *parts, int n, leaf_coding coding,
                  int *least, int *most, const char *where, const leaf **out, err *e);

/* --- the steps of leaf_build ------------------------------------------------------------------ */

/* Code points in runs of one class each: run i covers lo[i] .. lo[i + 1] - 1. */
typedef struct {
    int n, n_classes;
    uint32_t *lo;
    uint16_t *class_of;
    int n_sets, n_words;
    uint64_t *class_sets; /* [n_classes, n_words] the sets that a class is in */
} leaf_alphabet;

/* The coarsest classes that no set of the parts tells apart. Numbers each set (expr.id). */
status leaf_alphabet_build(arena *a, const leaf_part *parts, int n, const char *where,
                           leaf_alphabet *out, err *e);
static inline bool leaf_class_in_set(const leaf_alphabet *al, int c, int set)
{
    return al->class_sets[c * al->n_words + set / 64] >> (set % 64) & 1;
}

/* Complete: every state has a transition for every class. State 0 is the start. */
typedef struct {
    int n_states, n_classes;
    int *next;
    uint8_t *accept;
} leaf_table;

status leaf_table_from_expr(arena *a, int64_t *work, const expr *e, const leaf_alphabet *al,
                            const char *where, leaf_table *out, err *e_out);

/* A table being discovered state by state: keys of `width` ints, numbered as they are found. */
typedef struct {
    arena *a;
    int width, n, cap, n_slots;
    int *keys;
    int *slots;
} leaf_keys;
bool leaf_keys_init(leaf_keys *k, arena *a, int width);
/* The number of the key, new or known; -1 without memory. */
int leaf_keys_find(leaf_keys *k, const int *key);

/* Cut away what cannot reach an accepting state, count, and write characters as bytes. `al` may
 * have classes beyond those of the table's: they are dead. */
status leaf_finish(arena *result, arena *a, int64_t *work, const leaf_table *t,
                   const leaf_alphabet *al, leaf_coding coding, int *least, int *most,
                   const char *where, const leaf **out, err *e);

/* The `code` part of a leaf. False without memory. */
bool leaf_coder_build(arena *result, const leaf_alphabet *al, leaf_coding coding, leaf *l);

#endif
