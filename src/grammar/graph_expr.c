#include "grammar/graph_priv.h"

enum { FIXED_MOST = 4096 };

/* A tree without rules, as one automaton. False when that would be too large. */
static bool as_leaf(grammar *g, expr *e, uint32_t next, uint32_t *out)
{
    leaf_part part = {e, false};
    const leaf *l = NULL;
    int least = 0, most = EXPR_NO_MOST;
    err why;
    status s = leaf_build(&g->a, &g->work, &part, 1, LEAF_RAW, &least, &most, "grammar", &l, &why);
    if (s == ERR_LIMIT && e->kind != EXPR_SET) return false;
    if (s != ERR_OK) graph_fail(g, s, "grammar", why.msg);
    *out = s == ERR_OK && l ? graph_leaf(g, graph_add_leaf(g, l), 0, EXPR_NO_MOST, next)
                            : GRAPH_NEVER;
    return true;
}

/* Items from..to - 1 of a list, as a list of the same kind. */
static expr part_of(const expr *e, int from, int to)
{
    expr part = *e;
    part.items = e->items + from;
    part.n = to - from;
    return part;
}

static uint32_t sequence(grammar *g, expr *e, uint32_t next)
{
    int to = e->n;
    while (to > 0) {
        int from = to - 1;
        if (expr_has_rule(e->items[from])) {
            next = graph_expr(g, e->items[from], next);
            to = from;
            continue;
        }
        while (from > 0 && !expr_has_rule(e->items[from - 1])) from--;
        expr run = part_of(e, from, to);
        next = graph_expr(g, run.n == 1 ? e->items[from] : &run, next);
        to = from;
    }
    return next;
}

static uint32_t alternatives(grammar *g, expr *e, uint32_t next)
{
    uint32_t out = GRAPH_NEVER;
    for (int i = e->n - 1; i >= 0; i--)
        out = graph_either(g, graph_expr(g, e->items[i], next), out);
    return out;
}

static uint32_t without_rules(grammar *g, expr *e, uint32_t next)
{
    char text[FIXED_MOST];
    int len = 0;
    uint32_t out;
    if (expr_fixed_text(e, text, FIXED_MOST, &len))
        return graph_bytes(g, (str){text, (size_t)len}, next);
    if (as_leaf(g, e, next, &out)) return out;
    if (e->kind == EXPR_REPEAT)
        return graph_repeat(g, graph_expr(g, e->items[0], GRAPH_RETURN), e->least, e->most, next);
    if (e->kind == EXPR_ALT) return alternatives(g, e, next);
    for (int i = e->n - 1; i >= 0; i--) next = graph_expr(g, e->items[i], next);
    return next;
}

uint32_t graph_expr(grammar *g, expr *e, uint32_t next)
{
    if (g->failed != ERR_OK || next == GRAPH_NEVER) return GRAPH_NEVER;
    if (!expr_has_rule(e)) return without_rules(g, e, next);
    switch (e->kind) {
    case EXPR_CAT: return sequence(g, e, next);
    case EXPR_ALT: return alternatives(g, e, next);
    case EXPR_REPEAT:
        return graph_repeat(g, graph_expr(g, e->items[0], GRAPH_RETURN), e->least, e->most, next);
    case EXPR_RULE: return graph_call(g, e->id, next);
    case EXPR_EMPTY:
    case EXPR_SET:
    case EXPR_START:
    case EXPR_END: break;
    }
    return next;
}
