#include "grammar/graph_priv.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"

enum { TEXT_MOST = 65536, TREE_DEPTH = 200, JOIN_DEPTH = 100, SHARED_MOST = 256 };

void graph_fail(grammar *g, status s, const char *where, const char *msg)
{
    if (g->failed != ERR_OK) return;
    g->failed = s;
    err_set(&g->error, s, where, -1, "%s", msg);
}

/* Room for n more items of *array; false (and failed) without. */
static bool reserve(grammar *g, void *array, int n_used, int *cap, int n, size_t size)
{
    void *old, *more;
    if (g->failed != ERR_OK) return false;
    if (n_used + n <= *cap) return true;
    int want = *cap * 2 + n + 64;
    if (n > GRAPH_NODES_MOST || want > 4 * GRAPH_NODES_MOST) {
        graph_fail(g, ERR_LIMIT, "#", "the grammar is too large");
        return false;
    }
    memcpy(&old, array, sizeof old);
    more = mem_resize(old, (size_t)want * size);
    if (!more) {
        graph_fail(g, ERR_NOMEM, "#", "a grammar's nodes");
        return false;
    }
    memcpy(array, &more, sizeof more);
    *cap = want;
    return true;
}

static uint32_t add(grammar *g, node n)
{
    if (g->n_nodes >= GRAPH_NODES_MOST) graph_fail(g, ERR_LIMIT, "#", "the grammar is too large");
    if (!reserve(g, &g->nodes, g->n_nodes, &g->cap_nodes, 1, sizeof n)) return GRAPH_NEVER;
    g->nodes[g->n_nodes] = n;
    return (uint32_t)g->n_nodes++;
}

status graph_open(grammar **out, err *e)
{
    static atomic_uint_fast64_t serial = 1;
    grammar *g = mem_new(sizeof *g);
    if (!g) return err_set(e, ERR_NOMEM, "grammar", -1, "a grammar");
    arena_init(&g->a, 0);
    g->work = LEAF_WORK_MOST;
    g->serial = atomic_fetch_add(&serial, 1);
    add(g, (node){.kind = NODE_SPLIT});
    add(g, (node){.kind = NODE_RETURN});
    add(g, (node){.kind = NODE_END});
    if (g->failed != ERR_OK) {
        status s = g->failed;
        if (e) *e = g->error;
        grammar_close(g);
        return s;
    }
    *out = g;
    return ERR_OK;
}

grammar *grammar_hold(grammar *g)
{
    atomic_fetch_add(&g->n_more_holders, 1);
    return g;
}

void grammar_close(grammar *g)
{
    if (!g || atomic_fetch_sub(&g->n_more_holders, 1) > 0) return;
    mem_free(g->nodes);
    mem_free(g->alts);
    mem_free(g->bytes);
    mem_free(g->leaves);
    mem_free(g->rules);
    arena_fini(&g->a);
    mem_free(g);
}

uint32_t graph_bytes(grammar *g, str bytes, uint32_t next)
{
    int n = (int)bytes.len;
    if (n == 0 || next == GRAPH_NEVER) return next;
    if (!reserve(g, &g->bytes, g->n_bytes, &g->cap_bytes, n, 1)) return GRAPH_NEVER;
    uint32_t at = (uint32_t)g->n_bytes;
    memcpy(g->bytes + at, bytes.ptr, bytes.len);
    g->n_bytes += n;
    return add(g, (node){.kind = NODE_BYTES, .next = next, .a = at, .n = (uint32_t)n});
}

uint32_t graph_space(grammar *g, int most, uint32_t next)
{
    if (most == 0 || next == GRAPH_NEVER) return next;
    return add(g, (node){.kind = NODE_SPACE, .next = next, .n = (uint32_t)most});
}

int graph_add_leaf(grammar *g, const leaf *l)
{
    if (!reserve(g, &g->leaves, g->n_leaves, &g->cap_leaves, 1, sizeof l)) return 0;
    g->leaves[g->n_leaves] = l;
    return g->n_leaves++;
}

uint32_t graph_leaf(grammar *g, int index, int least, int most, uint32_t next)
{
    if (g->failed != ERR_OK || next == GRAPH_NEVER) return GRAPH_NEVER;
    const leaf *l = g->leaves[index];
    bool may_be_empty = !l->closes && l->accept[0] && least == 0;
    if (may_be_empty && leaf_is_stuck(l, 0)) return next;
    uint32_t n = add(
        g,
        (node){
            .kind = NODE_LEAF, .next = next, .a = (uint32_t)index, .least = least, .most = most});
    return may_be_empty ? graph_either(g, n, next) : n;
}

uint32_t graph_split(grammar *g, const uint32_t *alts, int n)
{
    int kept = 0;
    uint32_t only = GRAPH_NEVER;
    for (int i = 0; i < n; i++)
        if (alts[i] != GRAPH_NEVER) {
            only = alts[i];
            kept++;
        }
    if (kept < 2) return only;
    if (!reserve(g, &g->alts, g->n_alts, &g->cap_alts, kept, sizeof *alts)) return GRAPH_NEVER;
    uint32_t at = (uint32_t)g->n_alts;
    for (int i = 0; i < n; i++)
        if (alts[i] != GRAPH_NEVER) g->alts[g->n_alts++] = alts[i];
    return add(g, (node){.kind = NODE_SPLIT, .a = at, .n = (uint32_t)kept});
}

/* Node n behind its first `bytes` bytes. */
static uint32_t rest_of(grammar *g, node n, uint32_t bytes)
{
    if (bytes == n.n) return n.next;
    n.a += bytes;
    n.n -= bytes;
    return add(g, n);
}

static uint32_t either(grammar *g, uint32_t x, uint32_t y, int depth);

/* One node for the common beginning of two; GRAPH_NEVER when they begin differently. */
static uint32_t join(grammar *g, uint32_t x, uint32_t y, int depth)
{
    node p = g->nodes[x], q = g->nodes[y];
    if (p.kind != q.kind) return GRAPH_NEVER;
    if (p.kind == NODE_SPACE && p.n == q.n) {
        p.next = either(g, p.next, q.next, depth + 1);
        return add(g, p);
    }
    if (p.kind != NODE_BYTES) return GRAPH_NEVER;
    uint32_t n = 0;
    while (n < p.n && n < q.n && g->bytes[p.a + n] == g->bytes[q.a + n]) n++;
    if (n == 0) return GRAPH_NEVER;
    uint32_t p_rest = rest_of(g, p, n), q_rest = rest_of(g, q, n);
    p.next = either(g, p_rest, q_rest, depth + 1);
    p.n = n;
    return add(g, p);
}

/* Alternatives that begin alike share that beginning: one thread instead of many. A split of one is
 * a reserved node, not to be looked into. */
static uint32_t either(grammar *g, uint32_t x, uint32_t y, int depth)
{
    uint32_t alts[SHARED_MOST + 1];
    node p = g->nodes[x];
    int n = 0;
    if (x == y || y == GRAPH_NEVER) return x;
    if (x == GRAPH_NEVER) return y;
    if (p.kind != NODE_SPLIT && g->nodes[y].kind == NODE_SPLIT) return either(g, y, x, depth);
    bool is_list = p.kind == NODE_SPLIT && p.n >= 2 && p.n < SHARED_MOST;
    if (depth > JOIN_DEPTH || (!is_list && p.kind == NODE_SPLIT)) {
        uint32_t both[2] = {x, y};
        return graph_split(g, both, 2);
    }
    if (is_list)
        for (uint32_t i = 0; i < p.n; i++) alts[n++] = g->alts[p.a + i];
    else
        alts[n++] = x;
    for (int i = 0; i < n; i++) {
        uint32_t joined = join(g, alts[i], y, depth);
        if (joined == GRAPH_NEVER) continue;
        alts[i] = joined;
        return n == 1 ? joined : graph_split(g, alts, n);
    }
    alts[n++] = y;
    return graph_split(g, alts, n);
}

uint32_t graph_either(grammar *g, uint32_t x, uint32_t y)
{
    return g->failed == ERR_OK ? either(g, x, y, 0) : GRAPH_NEVER;
}

uint32_t graph_reserve(grammar *g)
{
    if (!reserve(g, &g->alts, g->n_alts, &g->cap_alts, 1, sizeof *g->alts)) return GRAPH_NEVER;
    g->alts[g->n_alts] = GRAPH_NEVER;
    return add(g, (node){.kind = NODE_SPLIT, .a = (uint32_t)g->n_alts++, .n = 1});
}

void graph_patch(grammar *g, uint32_t reserved, uint32_t target)
{
    if (g->failed == ERR_OK) g->alts[g->nodes[reserved].a] = target;
}

uint32_t graph_repeat(grammar *g, uint32_t body, int least, int most, uint32_t next)
{
    if (next == GRAPH_NEVER || most == 0) return next;
    if (body == GRAPH_NEVER) return least > 0 ? GRAPH_NEVER : next;
    return add(g,
               (node){.kind = NODE_REPEAT, .next = next, .a = body, .least = least, .most = most});
}

int graph_add_rule(grammar *g)
{
    if (!reserve(g, &g->rules, g->n_rules, &g->cap_rules, 1, sizeof *g->rules)) return 0;
    g->rules[g->n_rules] = GRAPH_NEVER;
    return g->n_rules++;
}

void graph_set_rule(grammar *g, int rule, uint32_t first)
{
    if (g->failed == ERR_OK) g->rules[rule] = first;
}

uint32_t graph_call(grammar *g, int rule, uint32_t next)
{
    if (g->failed != ERR_OK || next == GRAPH_NEVER) return GRAPH_NEVER;
    node first = g->nodes[g->rules[rule]];
    bool is_step = first.kind == NODE_LEAF || first.kind == NODE_BYTES;
    if (is_step && first.next == GRAPH_RETURN) {
        first.next = next;
        return add(g, first);
    }
    /* `"` and then a leaf: an ordinary string */
    if (first.kind == NODE_BYTES && g->nodes[first.next].kind == NODE_LEAF &&
        g->nodes[first.next].next == GRAPH_RETURN) {
        node second = g->nodes[first.next];
        second.next = next;
        first.next = add(g, second);
        return add(g, first);
    }
    return add(g, (node){.kind = NODE_CALL, .next = next, .a = (uint32_t)rule});
}

static int by_bytes(const void *p, const void *q)
{
    return str_compare(*(const str *)p, *(const str *)q);
}

/* texts[0 .. n] sorted, all different from each other, equal in their first `from` bytes. */
static uint32_t text_tree(grammar *g, const str *texts, int n, size_t from, int depth,
                          uint32_t next)
{
    size_t to = from;
    if (depth == TREE_DEPTH) { /* each begins with the one before it: no more sharing */
        uint32_t any = GRAPH_NEVER;
        for (int i = n - 1; i >= 0; i--)
            any = graph_either(g, graph_bytes(g, str_skip(texts[i], from), next), any);
        return any;
    }
    while (to < texts[0].len && to < texts[n - 1].len && texts[0].ptr[to] == texts[n - 1].ptr[to])
        to++;
    uint32_t alts[257];
    int n_alts = 0, i = 0;
    if (texts[0].len == to) {
        alts[n_alts++] = next;
        i = 1;
    }
    while (i < n) {
        int k = i + 1;
        while (k < n && texts[k].ptr[to] == texts[i].ptr[to]) k++;
        alts[n_alts++] = text_tree(g, texts + i, k - i, to, depth + 1, next);
        i = k;
    }
    uint32_t rest = n == 1 ? next : graph_split(g, alts, n_alts);
    if (n == 1) to = texts[0].len;
    return graph_bytes(g, str_slice(texts[0], from, to), rest);
}

uint32_t graph_texts(grammar *g, str *texts, int n, uint32_t next)
{
    int kept = 0;
    if (n == 0) return GRAPH_NEVER;
    qsort(texts, (size_t)n, sizeof *texts, by_bytes);
    for (int i = 0; i < n; i++)
        if (kept == 0 || !str_equal(texts[kept - 1], texts[i])) texts[kept++] = texts[i];
    for (int i = 0; i < kept; i++)
        if (texts[i].len > TEXT_MOST) {
            graph_fail(g, ERR_LIMIT, "#", "a constant of more than 65536 bytes");
            return GRAPH_NEVER;
        }
    return text_tree(g, texts, kept, 0, 0, next);
}
