#include "cache/reuse.h"

#include <math.h>

#include "base/asserts.h"
#include "base/mem.h"
#include "cache/kv_pool.h"
#include "cache/prefix_tree.h"

enum { NONE = -1, FREE = -1, LENT = -2 };
/* By reuse_weight. Of a turn 4: it is kept as one in passing twice as far from the state before it
 * would be, since who takes back something said goes to the beginning of a message. */
static const double WEIGHTS[] = {1, 4, 8, 8};
/* A use counts as fresh for a quarter of the tokens that the pool holds: else what was used a
 * moment ago, however small, would outlive everything. */
enum { GRACE_PART = 4 };

/* What hangs on a block. */
typedef struct {
    int32_t n_lanes; /* that hold it */
    int32_t cell, window;
    int32_t prev, next; /* among the idle nodes; prev = itself when not there */
} leaf;

typedef struct {
    int32_t node; /* or FREE, LENT */
    reuse_weight weight;
    int64_t used; /* clock */
} cell;

typedef struct {
    int32_t node; /* or FREE */
    int64_t used;
} window;

struct reuse {
    reuse_options opt;
    kv_pool *pool; /* a count for the tree, one for each lane */
    prefix_tree *tree;
    leaf *leaves;    /* owned [n_blocks] */
    cell *cells;     /* owned [n_cells] */
    window *windows; /* owned [n_windows] */
    /* Nodes without children and cell, the first to go first. Held ones may be among them. */
    int32_t idle_first, idle_last;
    int64_t clock;
    reuse_counters count;
};

status reuse_open(reuse **out, const reuse_options *o, err *e)
{
    if (o->n_cells != 0 && o->n_cells <= o->n_lanes)
        return err_set(e, ERR_INVALID, "reuse", -1, "%d cells for %d lanes", o->n_cells,
                       o->n_lanes);
    reuse *r = mem_new(sizeof *r);
    if (!r) return err_set(e, ERR_NOMEM, "reuse", -1, "reuse");
    r->opt = *o;
    r->idle_first = r->idle_last = NONE;
    status s = kv_pool_open(&r->pool, o->n_blocks, e);
    if (s == ERR_OK) s = prefix_tree_open(&r->tree, o->n_blocks, e);
    if (s == ERR_OK) {
        r->leaves = mem_new_array((size_t)o->n_blocks, sizeof *r->leaves);
        r->cells = mem_new_array((size_t)o->n_cells, sizeof *r->cells);
        r->windows = mem_new_array((size_t)o->n_windows, sizeof *r->windows);
        if (!r->leaves || !r->cells || !r->windows)
            s = err_set(e, ERR_NOMEM, "reuse", -1, "%d blocks, %d cells", o->n_blocks, o->n_cells);
    }
    if (s != ERR_OK) {
        reuse_close(r);
        return s;
    }
    for (int i = 0; i < o->n_blocks; i++)
        r->leaves[i] = (leaf){.cell = NONE, .window = NONE, .prev = i};
    for (int i = 0; i < o->n_cells; i++) r->cells[i].node = FREE;
    for (int i = 0; i < o->n_windows; i++) r->windows[i].node = FREE;
    *out = r;
    return ERR_OK;
}

void reuse_close(reuse *r)
{
    if (!r) return;
    kv_pool_close(r->pool);
    prefix_tree_close(r->tree);
    mem_free(r->leaves);
    mem_free(r->cells);
    mem_free(r->windows);
    mem_free(r);
}

bool reuse_is_on(const reuse *r)
{
    return r->opt.n_cells > 0;
}

void reuse_advance(reuse *r, int64_t n_tokens)
{
    r->clock += n_tokens;
}

/* ---- the idle list ---- */

static bool is_idle(const reuse *r, int32_t b)
{
    return r->leaves[b].prev != b;
}

static void idle_remove(reuse *r, int32_t b)
{
    leaf *l = &r->leaves[b];
    if (!is_idle(r, b)) return;
    if (l->prev == NONE)
        r->idle_first = l->next;
    else
        r->leaves[l->prev].next = l->next;
    if (l->next == NONE)
        r->idle_last = l->prev;
    else
        r->leaves[l->next].prev = l->prev;
    l->prev = b;
}

/* Put b in the list if it belongs there and is not: at its end, or first of all. */
static void idle_update(reuse *r, int32_t b, bool is_first)
{
    leaf *l = &r->leaves[b];
    if (!prefix_tree_has(r->tree, b) || prefix_tree_n_children(r->tree, b) > 0 || l->cell != NONE) {
        idle_remove(r, b);
        return;
    }
    if (is_idle(r, b)) return;
    l->prev = is_first ? NONE : r->idle_last;
    l->next = is_first ? r->idle_first : NONE;
    if (l->prev == NONE)
        r->idle_first = b;
    else
        r->leaves[l->prev].next = b;
    if (l->next == NONE)
        r->idle_last = b;
    else
        r->leaves[l->next].prev = b;
}

/* ---- eviction ---- */

/* A node without children goes; a parent that is thereby of no use goes next. */
static void remove_node(reuse *r, int32_t b)
{
    leaf *l = &r->leaves[b];
    int32_t parent = prefix_tree_parent(r->tree, b);
    idle_remove(r, b);
    if (l->cell != NONE) r->cells[l->cell].node = FREE;
    if (l->window != NONE) r->windows[l->window].node = FREE;
    l->cell = l->window = NONE;
    prefix_tree_remove(r->tree, b);
    kv_pool_drop(r->pool, &b, 1);
    if (parent != PREFIX_ROOT) idle_update(r, parent, true);
}

/* The deepest node above b that has a cell, or PREFIX_ROOT. */
static int32_t node_before(const reuse *r, int32_t b)
{
    do {
        b = prefix_tree_parent(r->tree, b);
    } while (b != PREFIX_ROOT && r->leaves[b].cell == NONE);
    return b;
}

/* What the loss of a node's cell would cost, over how long ago it was of use. */
static double score(const reuse *r, const cell *c)
{
    int32_t before = node_before(r, c->node);
    int depth = before == PREFIX_ROOT ? 0 : prefix_tree_depth(r->tree, before);
    double lost = prefix_tree_depth(r->tree, c->node) -
                  depth; /* blocks, and so the time that they take */
    double grace = (double)r->opt.n_blocks * PREFIX_BLOCK / GRACE_PART;
    return WEIGHTS[c->weight] * lost * lost / ((double)(r->clock - c->used) + grace);
}

/* The attached cell of the lowest score, with only_ends among those on unheld nodes without
 * children; or -1. */
static int32_t worst_cell(const reuse *r, bool only_ends)
{
    int32_t worst = NONE;
    double lowest = INFINITY;
    for (int i = 0; i < r->opt.n_cells; i++) {
        const cell *c = &r->cells[i];
        if (c->node < 0) continue;
        if (only_ends &&
            (r->leaves[c->node].n_lanes > 0 || prefix_tree_n_children(r->tree, c->node) > 0))
            continue;
        double s = score(r, c);
        if (s >= lowest) continue;
        lowest = s;
        worst = i;
    }
    return worst;
}

static void evict_cell(reuse *r, int32_t i)
{
    int32_t b = r->cells[i].node, before = node_before(r, b);
    if (before != PREFIX_ROOT) { /* who would have come here comes there */
        cell *heir = &r->cells[r->leaves[before].cell];
        if (heir->used < r->cells[i].used) heir->used = r->cells[i].used;
    }
    r->leaves[b].cell = NONE;
    r->cells[i].node = FREE;
    r->count.evicted_cells++;
    idle_update(r, b, true);
}

static bool evict_block(reuse *r)
{
    int32_t b = r->idle_first;
    while (b != NONE && r->leaves[b].n_lanes > 0) b = r->leaves[b].next;
    if (b == NONE) {
        int32_t i = worst_cell(r, true);
        if (i == NONE) return false;
        b = r->cells[i].node;
        evict_cell(r, i);
    }
    remove_node(r, b);
    r->count.evicted_blocks++;
    return true;
}

/* ---- blocks ---- */

int reuse_n_available(const reuse *r)
{
    return r->opt.n_blocks - r->count.n_held;
}

status reuse_take(reuse *r, int n, int32_t *ids)
{
    if (n > reuse_n_available(r)) return ERR_LIMIT;
    if (r->opt.evicts_always) evict_block(r);
    while (kv_pool_n_free(r->pool) < n) {
        bool evicted = evict_block(r);
        ASSERT(evicted);
        (void)evicted;
    }
    TRY(kv_pool_take(r->pool, n, ids));
    for (int i = 0; i < n; i++) r->leaves[ids[i]].n_lanes = 1;
    r->count.n_held += n;
    return ERR_OK;
}

void reuse_hold(reuse *r, const int32_t *ids, int n)
{
    kv_pool_share(r->pool, ids, n);
    for (int i = 0; i < n; i++)
        if (r->leaves[ids[i]].n_lanes++ == 0) r->count.n_held++;
}

void reuse_drop(reuse *r, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) {
        ASSERT(r->leaves[ids[i]].n_lanes > 0);
        if (--r->leaves[ids[i]].n_lanes == 0) r->count.n_held--;
    }
    kv_pool_drop(r->pool, ids, n);
}

/* ---- prefixes ---- */

/* The usable part of a prompt, and how much of that lanes hold. */
static int peek(const reuse *r, const int32_t *ids, int n_ids, int *n_held)
{
    int32_t b = PREFIX_ROOT;
    int deepest = 0, held = 0;
    *n_held = 0;
    for (int i = 0; reuse_is_on(r) && i < (n_ids - 1) / PREFIX_BLOCK; i++) {
        b = prefix_tree_find(r->tree, b, ids + (int64_t)i * PREFIX_BLOCK);
        if (b == NONE) break;
        held += r->leaves[b].n_lanes > 0;
        if (r->leaves[b].cell == NONE) continue;
        deepest = i + 1;
        *n_held = held;
    }
    return deepest;
}

int reuse_peek(const reuse *r, const int32_t *ids, int n_ids)
{
    int held;
    return peek(r, ids, n_ids, &held);
}

int reuse_peek_held(const reuse *r, const int32_t *ids, int n_ids)
{
    int held;
    peek(r, ids, n_ids, &held);
    return held;
}

reuse_found reuse_match(reuse *r, const int32_t *ids, int n_ids, int32_t *path)
{
    reuse_found f = {.cell = NONE};
    int most = (n_ids - 1) / PREFIX_BLOCK;
    if (!reuse_is_on(r)) return f;
    for (int32_t b = PREFIX_ROOT; f.n_match < most; f.n_match++) {
        b = prefix_tree_find(r->tree, b, ids + (int64_t)f.n_match * PREFIX_BLOCK);
        if (b == NONE) break;
        path[f.n_match] = b;
        if (r->leaves[b].cell == NONE) continue;
        f.n_blocks = f.n_match + 1;
        f.cell = r->leaves[b].cell;
    }
    if (f.cell != NONE) r->cells[f.cell].used = r->clock;
    f.reason = f.n_blocks == most        ? REUSE_WHOLE
               : f.n_blocks == f.n_match ? REUSE_DIFFERS
                                         : REUSE_NO_STATE;
    r->count.lookups++;
    r->count.stops[f.reason]++;
    r->count.reused_tokens += (int64_t)f.n_blocks * PREFIX_BLOCK;
    if (f.n_blocks > 0) r->count.hits++;
    return f;
}

int32_t reuse_publish(reuse *r, int32_t parent, const int32_t *ids, int32_t block)
{
    int32_t there = prefix_tree_find(r->tree, parent, ids);
    if (there == block) return block;
    if (there != NONE) {
        reuse_hold(r, &there, 1);
        reuse_drop(r, &block, 1);
        r->count.duplicates++;
        return there;
    }
    prefix_tree_add(r->tree, parent, ids, block);
    kv_pool_share(r->pool, &block, 1);
    if (parent != PREFIX_ROOT) idle_update(r, parent, false);
    idle_update(r, block, false);
    r->count.published++;
    return block;
}

void reuse_clear(reuse *r)
{
    for (int i = 0; i < r->opt.n_cells; i++)
        if (r->cells[i].node >= 0) evict_cell(r, i);
    /* Without cells every node without children is idle, and its removal makes its parent so. */
    while (r->idle_first != NONE) remove_node(r, r->idle_first);
    r->count.clears++;
}

static bool is_below(const reuse *r, int32_t b, int32_t top)
{
    while (b != PREFIX_ROOT && b != top) b = prefix_tree_parent(r->tree, b);
    return b == top;
}

void reuse_forget(reuse *r, int32_t top)
{
    bool found = prefix_tree_has(r->tree, top);
    for (int i = 0; found && i < r->opt.n_cells; i++)
        if (r->cells[i].node >= 0 && is_below(r, r->cells[i].node, top)) evict_cell(r, i);
    while (found) { /* those without children, until top is one */
        int32_t b = r->idle_first;
        while (b != NONE && !is_below(r, b, top)) b = r->leaves[b].next;
        ASSERT(b != NONE);
        found = b != top;
        remove_node(r, b);
    }
}

/* ---- cells ---- */

int32_t reuse_cell_take(reuse *r)
{
    if (r->opt.evicts_always) {
        int32_t worst = worst_cell(r, false);
        if (worst != NONE) evict_cell(r, worst);
    }
    int32_t i = 0;
    while (i < r->opt.n_cells && r->cells[i].node != FREE) i++;
    if (i == r->opt.n_cells) {
        i = worst_cell(r, false);
        ASSERT(i != NONE);
        evict_cell(r, i);
    }
    r->cells[i].node = LENT;
    return i;
}

void reuse_cell_drop(reuse *r, int32_t i)
{
    ASSERT(r->cells[i].node == LENT);
    r->cells[i].node = FREE;
}

void reuse_cell_attach(reuse *r, int32_t block, int32_t i, reuse_weight weight)
{
    ASSERT(r->cells[i].node == LENT && prefix_tree_has(r->tree, block));
    if (r->leaves[block].cell != NONE) {
        reuse_cell_drop(r, i);
        reuse_cell_raise(r, block, weight);
        return;
    }
    r->cells[i] = (cell){block, weight, r->clock};
    r->leaves[block].cell = i;
    idle_remove(r, block);
}

bool reuse_has_cell(const reuse *r, int32_t block)
{
    return r->leaves[block].cell != NONE;
}

void reuse_cell_raise(reuse *r, int32_t block, reuse_weight weight)
{
    int32_t i = r->leaves[block].cell;
    if (i == NONE) return;
    if (r->cells[i].weight < weight) r->cells[i].weight = weight;
    r->cells[i].used = r->clock;
}

void reuse_pass_ends(reuse *r, int32_t block)
{
    for (int32_t b = block; b != PREFIX_ROOT; b = prefix_tree_parent(r->tree, b)) {
        int32_t i = r->leaves[b].cell;
        if (i != NONE && r->cells[i].weight == REUSE_END) r->cells[i].weight = REUSE_TURN;
    }
}

/* ---- windows ---- */

int32_t reuse_window_use(reuse *r, int32_t block)
{
    int32_t i = r->leaves[block].window;
    if (i != NONE) r->windows[i].used = r->clock;
    return i;
}

int32_t reuse_window_take(reuse *r, int32_t block)
{
    int32_t oldest = NONE;
    ASSERT(prefix_tree_has(r->tree, block) && r->leaves[block].window == NONE);
    for (int i = 0; i < r->opt.n_windows; i++) {
        const window *w = &r->windows[i];
        if (w->node == FREE) {
            oldest = i;
            break;
        }
        if (w->used < r->clock && (oldest == NONE || w->used < r->windows[oldest].used)) oldest = i;
    }
    if (oldest == NONE) return NONE;
    window *w = &r->windows[oldest];
    if (w->node != FREE) {
        r->leaves[w->node].window = NONE;
        r->count.evicted_windows++;
    }
    *w = (window){block, r->clock};
    r->leaves[block].window = oldest;
    return oldest;
}

reuse_counters reuse_stats(const reuse *r)
{
    reuse_counters c = r->count;
    c.n_blocks = r->opt.n_blocks;
    c.n_free = kv_pool_n_free(r->pool);
    c.n_nodes = prefix_tree_n_nodes(r->tree);
    c.n_cells = r->opt.n_cells;
    for (int i = 0; i < r->opt.n_cells; i++) {
        if (r->cells[i].node == FREE) c.n_cells_free++;
        if (r->cells[i].node >= 0) c.n_cells_attached++;
    }
    return c;
}
