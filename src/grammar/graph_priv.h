/* graph: a compiled grammar as nodes, built from the end backwards: each function takes the node
 * that comes next and returns the one to come from.
 *
 * A rule is a piece of graph that ends in GRAPH_RETURN; a call of it keeps the place to return to
 * on a stack. A repetition keeps its count there. Errors stick: after one, functions return
 * GRAPH_NEVER and graph_finish reports it. */
#ifndef RIPTIDE_GRAMMAR_GRAPH_PRIV_H
#define RIPTIDE_GRAMMAR_GRAPH_PRIV_H

#include <stdatomic.h>

#include "grammar/grammar.h"
#include "grammar/leaf_priv.h"

typedef enum {
    NODE_SPLIT,  /* one of alts[a .. a + n]; none: matches nothing */
    NODE_RETURN, /* to the frame on top */
    NODE_END,    /* of the text */
    NODE_BYTES,  /* bytes[a .. a + n] */
    NODE_SPACE,  /* 0 to n bytes of white space */
    NODE_LEAF,   /* leaves[a], with least to most characters if it counts; never empty */
    NODE_CALL,   /* rule a (after graph_finish: the node a) */
    NODE_REPEAT  /* node a up to its RETURN, least to most times */
} node_kind;

typedef struct {
    uint8_t kind;
    bool is_productive; /* some text leads from here to RETURN or END */
    uint32_t next, a, n;
    int32_t least, most; /* most: EXPR_NO_MOST */
} node;

enum { GRAPH_NEVER = 0, GRAPH_RETURN = 1, GRAPH_END = 2, GRAPH_NODES_MOST = 4 << 20 };

struct grammar {
    node *nodes;
    uint32_t *alts;
    char *bytes;
    const leaf **leaves;
    uint32_t *rules; /* first node; GRAPH_NEVER until it is known */
    int n_nodes, cap_nodes, n_alts, cap_alts, n_bytes, cap_bytes;
    int n_leaves, cap_leaves, n_rules, cap_rules;
    arena a; /* leaves */
    uint32_t start;
    int64_t work;    /* left of LEAF_WORK_MOST */
    uint64_t serial; /* different for each grammar of the process */
    atomic_int n_more_holders;
    status failed;
    err error;
};

status graph_open(grammar **g, err *e);
/* Keep the first error. */
void graph_fail(grammar *g, status s, const char *where, const char *msg);

uint32_t graph_bytes(grammar *g, str bytes, uint32_t next);
uint32_t graph_space(grammar *g, int most, uint32_t next);
/* `index` from graph_add_leaf. Adds what an empty match needs. */
uint32_t graph_leaf(grammar *g, int index, int least, int most, uint32_t next);
int graph_add_leaf(grammar *g, const leaf *l);
uint32_t graph_split(grammar *g, const uint32_t *alts, int n);
uint32_t graph_either(grammar *g, uint32_t x, uint32_t y);
uint32_t graph_repeat(grammar *g, uint32_t body, int least, int most, uint32_t next);
/* An empty split, to be filled by graph_patch when what follows it is known. */
uint32_t graph_reserve(grammar *g);
void graph_patch(grammar *g, uint32_t reserved, uint32_t target);
int graph_add_rule(grammar *g);
void graph_set_rule(grammar *g, int rule, uint32_t first);
/* A call, or the rule itself where that is one known step. */
uint32_t graph_call(grammar *g, int rule, uint32_t next);
/* One of n texts, sharing their common beginnings. Sorts `texts`. */
uint32_t graph_texts(grammar *g, str *texts, int n, uint32_t next);
/* A tree, with rules; regular parts become leaves. `next` may be any node. */
uint32_t graph_expr(grammar *g, expr *e, uint32_t next);

/* Cut off what cannot be finished. where: for the message of a grammar without any text, or one
 * that recurs without reading. */
status graph_finish(grammar *g, uint32_t start, const char *where, err *e);

#endif
