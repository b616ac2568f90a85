#include <stdlib.h>

#include "grammar/leaf_priv.h"

enum { SETS_MOST = 2048, RUNS_MOST = 1 << 17 };

typedef struct {
    arena *a;
    expr **sets; /* different sets */
    int n, cap;
    int n_bounds;
    bool failed, is_full;
} collector;

static bool same_set(const expr *x, const expr *y)
{
    return x->n == y->n &&
           (x->n == 0 || memcmp(x->ranges, y->ranges, (size_t)x->n * sizeof *x->ranges) == 0);
}

static void collect_set(collector *c, expr *e)
{
    for (int i = 0; i < c->n; i++)
        if (same_set(c->sets[i], e)) {
            e->id = i;
            return;
        }
    if (c->n == c->cap) {
        int cap = c->cap ? c->cap * 2 : 32;
        expr **more = arena_new_array(c->a, (size_t)cap, sizeof *more);
        if (!more || cap > SETS_MOST) {
            c->failed = !more;
            c->is_full = more != NULL;
            return;
        }
        if (c->n) memcpy(more, c->sets, (size_t)c->n * sizeof *more);
        c->sets = more;
        c->cap = cap;
    }
    e->id = c->n;
    c->sets[c->n++] = e;
    c->n_bounds += 2 * e->n;
    if (c->n_bounds > RUNS_MOST) c->is_full = true;
}

static void collect(collector *c, expr *e)
{
    if (c->failed || c->is_full) return;
    if (e->kind == EXPR_SET) {
        collect_set(c, e);
        return;
    }
    for (int i = 0; i < e->n; i++) collect(c, e->items[i]);
}

static int by_value(const void *p, const void *q)
{
    uint32_t x = *(const uint32_t *)p, y = *(const uint32_t *)q;
    return (x > y) - (x < y);
}

/* Every place where some set begins or ends, ascending. */
static int find_bounds(const collector *c, uint32_t *lo)
{
    int n = 0, kept = 0;
    lo[n++] = 0;
    for (int i = 0; i < c->n; i++)
        for (int r = 0; r < c->sets[i]->n; r++) {
            lo[n++] = c->sets[i]->ranges[r].lo;
            lo[n++] = c->sets[i]->ranges[r].hi + 1;
        }
    qsort(lo, (size_t)n, sizeof *lo, by_value);
    for (int i = 0; i < n; i++)
        if (lo[i] <= EXPR_LAST_CP && (kept == 0 || lo[kept - 1] != lo[i])) lo[kept++] = lo[i];
    return kept;
}

static int run_at(const uint32_t *lo, int n, uint32_t cp)
{
    int from = 0, to = n;
    while (to - from > 1) {
        int middle = (from + to) / 2;
        if (lo[middle] <= cp)
            from = middle;
        else
            to = middle;
    }
    return from;
}

/* Which sets each run is in, as bits. */
static void mark(const collector *c, const leaf_alphabet *al, uint64_t *bits)
{
    for (int s = 0; s < c->n; s++)
        for (int r = 0; r < c->sets[s]->n; r++) {
            expr_range range = c->sets[s]->ranges[r];
            for (int i = run_at(al->lo, al->n, range.lo); i < al->n && al->lo[i] <= range.hi; i++)
                bits[i * al->n_words + s / 64] |= 1ull << (s % 64);
        }
}

status leaf_alphabet_build(arena *a, const leaf_part *parts, int n, const char *where,
                           leaf_alphabet *out, err *e)
{
    collector c = {.a = a};
    leaf_alphabet al = {0};
    for (int i = 0; i < n; i++) collect(&c, parts[i].e);
    if (c.is_full) return err_set(e, ERR_LIMIT, where, -1, "too many different character sets");
    al.n_sets = c.n;
    al.n_words = c.n / 64 + 1;
    al.lo = arena_new_array(a, (size_t)c.n_bounds + 1, sizeof *al.lo);
    if (!al.lo || c.failed) goto nomem;
    al.n = find_bounds(&c, al.lo);
    uint64_t *bits = arena_new_array(a, (size_t)al.n * (size_t)al.n_words, sizeof *bits);
    al.class_of = arena_new_array(a, (size_t)al.n, sizeof *al.class_of);
    al.class_sets = arena_new_array(a, (size_t)LEAF_CLASSES_MOST * (size_t)al.n_words,
                                    sizeof *al.class_sets);
    if (!bits || !al.class_of || !al.class_sets) goto nomem;
    mark(&c, &al, bits);
    size_t width = (size_t)al.n_words * sizeof *bits;
    for (int i = 0; i < al.n; i++) {
        int k = 0;
        while (k < al.n_classes &&
               memcmp(al.class_sets + k * al.n_words, bits + i * al.n_words, width) != 0)
            k++;
        if (k == LEAF_CLASSES_MOST)
            return err_set(e, ERR_LIMIT, where, -1, "more than %d kinds of characters",
                           LEAF_CLASSES_MOST);
        if (k == al.n_classes) {
            memcpy(al.class_sets + k * al.n_words, bits + i * al.n_words, width);
            al.n_classes++;
        }
        al.class_of[i] = (uint16_t)k;
    }
    *out = al;
    return ERR_OK;
nomem:
    return err_set(e, ERR_NOMEM, where, -1, "an automaton's alphabet");
}
