/* What remains when the graph is whole: calls get their targets, nodes that no text can finish are
 * cut off, and recursion without reading is refused. */
#include "base/mem.h"
#include "grammar/graph_priv.h"

static uint32_t target(const grammar *g, const node *n)
{
    return n->kind == NODE_CALL ? g->rules[n->a] : n->a;
}

static bool any_productive(const grammar *g, const node *n)
{
    for (uint32_t i = 0; i < n->n; i++)
        if (g->nodes[g->alts[n->a + i]].is_productive) return true;
    return false;
}

static bool is_productive(const grammar *g, const node *n)
{
    switch ((node_kind)n->kind) {
    case NODE_RETURN:
    case NODE_END: return true;
    case NODE_SPLIT: return any_productive(g, n);
    case NODE_BYTES:
    case NODE_SPACE:
    case NODE_LEAF: return g->nodes[n->next].is_productive;
    case NODE_CALL: return g->nodes[n->next].is_productive && g->nodes[target(g, n)].is_productive;
    case NODE_REPEAT:
        return g->nodes[n->next].is_productive && (n->least == 0 || g->nodes[n->a].is_productive);
    }
    return false;
}

/* Least fixed point. Nodes come after what they lead to, but for recursion: few rounds. */
static void find_productive(grammar *g)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < g->n_nodes; i++) {
            node *n = &g->nodes[i];
            if (!n->is_productive && is_productive(g, n)) n->is_productive = changed = true;
        }
    }
}

static void cut(grammar *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        node *n = &g->nodes[i];
        if (n->kind == NODE_CALL) n->a = g->rules[n->a];
        if (n->kind == NODE_REPEAT && !g->nodes[n->a].is_productive) n->most = 0;
        if (n->kind != NODE_SPLIT) continue;
        uint32_t kept = 0;
        for (uint32_t k = 0; k < n->n; k++) {
            uint32_t alt = g->alts[n->a + k];
            if (g->nodes[alt].is_productive) g->alts[n->a + kept++] = alt;
        }
        n->n = kept;
    }
}

/* Whether a RETURN can be reached from each node without reading. */
static void find_empty(const grammar *g, uint8_t *empty)
{
    empty[GRAPH_RETURN] = 1;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < g->n_nodes; i++) {
            const node *n = &g->nodes[i];
            uint8_t is = empty[i];
            if (n->kind == NODE_SPACE) is = empty[n->next];
            if (n->kind == NODE_CALL) is = empty[n->a] && empty[n->next];
            if (n->kind == NODE_REPEAT) is = (n->least == 0 || empty[n->a]) && empty[n->next];
            if (n->kind == NODE_SPLIT)
                for (uint32_t k = 0; k < n->n; k++) is |= empty[g->alts[n->a + k]];
            changed |= is != empty[i];
            empty[i] = is;
        }
    }
}

/* The k-th node that can be entered from n without reading; false when there is none. */
static bool step_without_reading(const grammar *g, const uint8_t *empty, const node *n, uint32_t k,
                                 uint32_t *to)
{
    switch ((node_kind)n->kind) {
    case NODE_SPACE: *to = n->next; return k == 0;
    case NODE_SPLIT:
        if (k >= n->n) return false;
        *to = g->alts[n->a + k];
        return true;
    case NODE_CALL: *to = k == 0 ? n->a : n->next; return k == 0 || (k == 1 && empty[n->a]);
    case NODE_REPEAT:
        *to = k == 0 ? n->a : n->next;
        return k == 0 || (k == 1 && (n->least == 0 || empty[n->a]));
    case NODE_RETURN:
    case NODE_END:
    case NODE_BYTES:
    case NODE_LEAF: return false;
    }
    return false;
}

/* Depth first, without a stack of our own calls: recursion here is as deep as the graph. */
static bool recurs_without_reading(const grammar *g, const uint8_t *empty, uint8_t *color,
                                   uint32_t *stack, uint32_t *edge)
{
    for (int from = 0; from < g->n_nodes; from++) {
        int depth = 0;
        if (color[from]) continue;
        stack[0] = (uint32_t)from;
        edge[0] = 0;
        color[from] = 1;
        while (depth >= 0) {
            uint32_t at = stack[depth], to = 0;
            if (!step_without_reading(g, empty, &g->nodes[at], edge[depth], &to)) {
                color[at] = 2;
                depth--;
                continue;
            }
            edge[depth]++;
            if (color[to] == 1) return true;
            if (color[to]) continue;
            color[to] = 1;
            depth++;
            stack[depth] = to;
            edge[depth] = 0;
        }
    }
    return false;
}

static status check(grammar *g, const char *where, err *e)
{
    size_t n = (size_t)g->n_nodes;
    uint8_t *empty = mem_new(n), *color = mem_new(n);
    uint32_t *stack = mem_new_array(n, sizeof *stack), *edge = mem_new_array(n, sizeof *edge);
    status s = ERR_OK;
    if (!empty || !color || !stack || !edge) {
        s = err_set(e, ERR_NOMEM, where, -1, "a grammar's check");
        goto done;
    }
    find_empty(g, empty);
    for (size_t i = 0; i < n && s == ERR_OK; i++) {
        node *r = &g->nodes[i];
        if (r->kind != NODE_REPEAT || !empty[r->a]) continue;
        if (r->most > 1)
            s = err_set(e, ERR_UNSUPPORTED, where, -1,
                        "a bounded repetition of something that may be empty");
        r->least = 0;
    }
    if (s == ERR_OK && recurs_without_reading(g, empty, color, stack, edge))
        s = err_set(e, ERR_UNSUPPORTED, where, -1,
                    "a rule that begins with itself (left recursion)");
done:
    mem_free(empty);
    mem_free(color);
    mem_free(stack);
    mem_free(edge);
    return s;
}

status graph_finish(grammar *g, uint32_t start, const char *where, err *e)
{
    if (g->failed != ERR_OK) {
        if (e) *e = g->error;
        return g->failed;
    }
    g->start = start;
    find_productive(g);
    cut(g);
    if (!g->nodes[start].is_productive)
        return err_set(e, ERR_INVALID, where, -1, "no text can satisfy this");
    return check(g, where, e);
}
