/* token_mask: which tokens fit, by walking the tree of tokens and the grammar together.
 *
 * A thread inside a leaf, where nearly every token may fit, is answered from a part: what the whole
 * tree does in one state of a leaf, whatever surrounds it. Only tokens that leave the leaf are
 * then walked with the real stack. Parts and whole masks are kept in memory taken at open; when it
 * is full, all are forgotten. */
#ifndef RIPTIDE_GRAMMAR_TOKEN_MASK_PRIV_H
#define RIPTIDE_GRAMMAR_TOKEN_MASK_PRIV_H

#include "grammar/threads_priv.h"
#include "grammar/token_trie_priv.h"

enum { TOKEN_MASK_EOS_MOST = 32 };

/* What the tree does in one state of a leaf. Numbers of characters are those begun since. */
typedef struct {
    uint64_t serial; /* of the grammar; 0 = any, for the free leaf; parts in use only */
    uint32_t leaf, at;
    bool is_used, has_needs;
    const uint32_t *inside;  /* [n_words] tokens that end within the leaf */
    const int32_t *by_need;  /* has_needs: the same, by the characters they need room for */
    const uint32_t *need_at; /* [need_most + 2] where those of each need begin */
    uint32_t need_most;
    int n_closing; /* tokens that end where the leaf must be left */
    const int32_t *closing;
    const uint16_t *closing_n; /* characters, without a closing quote */
    uint32_t exit_at[257];     /* by byte: where its exits begin */
    const uint32_t *exits;     /* nodes right behind a place where the leaf may be left */
    const uint16_t *exits_n;
} token_part;

typedef struct {
    uint32_t end;      /* node that ends this level */
    int first, n;      /* threads before its byte: pool[first .. first + n] */
    uint32_t n_frames; /* to go back to */
} token_level;

typedef struct {
    int key_n;
    uint64_t tick;
    int n_allowed;
    unsigned char *key;
    uint32_t *words;
} token_kept;

enum {
    TOKEN_PARTS = 512,
    TOKEN_SLAB_BYTES = 16 << 20,
    TOKEN_POOL = 1 << 16,
    TOKEN_KEPT = 64,
    TOKEN_KEY_MOST = 4096
};

struct grammar_tokens {
    token_trie trie;
    const vocab *v;
    int V, n_words, n_eos;
    int32_t eos[TOKEN_MASK_EOS_MOST];
    token_level *levels; /* [longest + 2] */
    thread *pool;        /* [TOKEN_POOL] */
    token_part *parts;   /* [TOKEN_PARTS], by hash */
    int n_parts;
    char *slab;
    size_t slab_used;
    /* while a part is made */
    uint32_t *made_exits; /* [n_nodes] */
    uint16_t *made_exits_n;
    int32_t *made_closing; /* [n_ids] */
    uint16_t *made_closing_n;
    int32_t *made_inside; /* [n_ids] */
    uint16_t *made_need;
    uint32_t *made_words; /* [n_words] */
    token_kept *kept;     /* [TOKEN_KEPT] */
    unsigned char *key;   /* [TOKEN_KEY_MOST] */
    uint64_t tick;
};

static inline void token_mask_set(uint32_t *words, int32_t id)
{
    words[id / 32] |= 1u << (id % 32);
}

/* The part of a leaf's state, made when it is new; NULL when it does not fit into the memory. */
const token_part *token_part_find(grammar_tokens *t, const grammar *g, uint32_t leaf_index,
                                  uint32_t at, bool wants_needs);

/* Make the parts of the inside of any string, which nearly every reply asks for. False without
 * memory. */
bool token_part_warm(grammar_tokens *t);

/* Set the bits of all tokens that fit some of the n threads; returns how many there are. The
 * frames of w are as before afterwards. */
int token_mask_fill(grammar_tokens *t, threads *w, const thread *list, int n, uint32_t *words);

#endif
