/* expr: a regular expression or the right side of a grammar rule, as a tree over code points.
 *
 * Both readers (regex_parse, gbnf) build it; leaf_build turns a tree without EXPR_RULE into an
 * automaton, graph_expr any tree into nodes of a graph. Everything lives in the arena. */
#ifndef RIPTIDE_GRAMMAR_EXPR_PRIV_H
#define RIPTIDE_GRAMMAR_EXPR_PRIV_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { EXPR_LAST_CP = 0x10ffff, EXPR_NO_MOST = -1 };

typedef struct {
    uint32_t lo, hi; /* code points, both included */
} expr_range;

typedef enum {
    EXPR_EMPTY,  /* the empty text */
    EXPR_SET,    /* one code point of a set; an empty set matches nothing */
    EXPR_CAT,    /* items one after another */
    EXPR_ALT,    /* one of the items */
    EXPR_REPEAT, /* items[0], least to most times */
    EXPR_START,  /* nothing, at the start of the text */
    EXPR_END,    /* nothing, at its end */
    EXPR_RULE    /* a rule of a grammar */
} expr_kind;

typedef struct expr expr;
struct expr {
    expr_kind kind;
    int n;              /* items or ranges */
    expr **items;       /* CAT, ALT, REPEAT */
    expr_range *ranges; /* SET: ascending, apart by more than 1 */
    int least, most;    /* REPEAT; EXPR_NO_MOST = without end */
    int id;             /* RULE: which; SET: set by leaf_classes */
};

/* All return NULL when the arena is full, or when an argument is NULL. */
expr *expr_new(arena *a, expr_kind kind);
expr *expr_pair(arena *a, expr_kind kind, expr *left, expr *right);
expr *expr_list(arena *a, expr_kind kind, expr *const *items, int n);
expr *expr_repeat(arena *a, expr *body, int least, int most);
expr *expr_code_point(arena *a, uint32_t cp);
/* The code points of well-formed UTF-8, one after another. */
expr *expr_text(arena *a, str text);
/* Any text that has a match of `body` somewhere in it. */
expr *expr_search(arena *a, expr *body);
expr *expr_any(arena *a); /* any code point */

/* A set under construction: ranges in any order. */
typedef struct {
    arena *a;
    expr_range *ranges;
    int n, cap;
    bool failed; /* out of memory */
} expr_set;
void expr_set_add(expr_set *s, uint32_t lo, uint32_t hi);
/* All that is not in it. */
void expr_set_negate(expr_set *s);
/* As an EXPR_SET. */
expr *expr_from_set(expr_set *s);

/* The text that is all the tree matches, appended to out (of at most cap bytes); false when it
 * matches other texts too or the text is longer. */
bool expr_fixed_text(const expr *e, char *out, int cap, int *len);

/* Whether the tree mentions a rule. */
bool expr_has_rule(const expr *e);

#endif
