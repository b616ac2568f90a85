#include <stdlib.h>

#include "base/hash.h"
#include "grammar/leaf_priv.h"

bool leaf_keys_init(leaf_keys *k, arena *a, int width)
{
    *k = (leaf_keys){.a = a, .width = width, .cap = 64, .n_slots = 128};
    k->keys = arena_new_array(a, (size_t)k->cap * (size_t)width, sizeof *k->keys);
    k->slots = arena_new_array(a, (size_t)k->n_slots, sizeof *k->slots);
    return k->keys && k->slots;
}

static int slot_of(const leaf_keys *k, const int *key)
{
    size_t bytes = (size_t)k->width * sizeof *key;
    int at = (int)(hash_bytes(key, bytes, 0) % (uint64_t)k->n_slots);
    while (k->slots[at] && memcmp(k->keys + (k->slots[at] - 1) * k->width, key, bytes) != 0)
        at = (at + 1) % k->n_slots;
    return at;
}

int leaf_keys_find(leaf_keys *k, const int *key)
{
    size_t width = (size_t)k->width;
    int at = slot_of(k, key);
    if (k->slots[at]) return k->slots[at] - 1;
    if (k->n == k->cap) {
        int *keys = arena_new_array(k->a, (size_t)k->cap * 2 * width, sizeof *keys);
        int *slots = arena_new_array(k->a, (size_t)k->cap * 4, sizeof *slots);
        if (!keys || !slots) return -1;
        memcpy(keys, k->keys, (size_t)k->n * width * sizeof *keys);
        k->keys = keys;
        k->slots = slots;
        k->cap *= 2;
        k->n_slots = k->cap * 2;
        for (int i = 0; i < k->n; i++) k->slots[slot_of(k, keys + i * k->width)] = i + 1;
        at = slot_of(k, key);
    }
    memcpy(k->keys + k->n * k->width, key, width * sizeof *key);
    k->slots[at] = k->n + 1;
    return k->n++;
}

/* All tables at once: accepts where each accepts or, negated, does not. */
static status intersect(arena *a, int64_t *work, const leaf_table *t, const leaf_part *parts, int n,
                        const char *where, leaf_table *out, err *e)
{
    leaf_keys k;
    int key[LEAF_PARTS_MOST] = {0}, row[LEAF_PARTS_MOST], n_classes = t[0].n_classes;
    int *next = NULL, cap = 0;
    if (!leaf_keys_init(&k, a, n) || leaf_keys_find(&k, key) < 0) goto nomem;
    for (int s = 0; s < k.n; s++) {
        if (s >= LEAF_STATES_MOST || (int64_t)(s + 1) * n_classes > LEAF_TABLE_MOST ||
            !leaf_spend(work, 4 * n_classes))
            return err_set(e, ERR_LIMIT, where, -1, "the automaton is too large");
        if ((s + 1) * n_classes > cap) {
            int more = cap * 2 + 1024 + n_classes;
            int *grown = arena_new_array(a, (size_t)more, sizeof *grown);
            if (!grown) goto nomem;
            if (s) memcpy(grown, next, (size_t)(s * n_classes) * sizeof *next);
            next = grown;
            cap = more;
        }
        memcpy(row, k.keys + s * n, (size_t)n * sizeof *row);
        for (int c = 0; c < n_classes; c++) {
            for (int i = 0; i < n; i++) key[i] = t[i].next[row[i] * n_classes + c];
            int to = leaf_keys_find(&k, key);
            if (to < 0) goto nomem;
            next[s * n_classes + c] = to;
        }
    }
    uint8_t *accept = arena_new_array(a, (size_t)k.n, 1);
    if (!accept) goto nomem;
    for (int s = 0; s < k.n; s++) {
        accept[s] = 1;
        for (int i = 0; i < n; i++)
            if (!t[i].accept[k.keys[s * n + i]] != parts[i].is_negated) accept[s] = 0;
    }
    *out = (leaf_table){k.n, n_classes, next, accept};
    return ERR_OK;
nomem:
    return err_set(e, ERR_NOMEM, where, -1, "an intersection of automata");
}

/* The table with a count of characters in its states. */
static status count_in_states(arena *a, int64_t *work, const leaf_table *t, int least, int most,
                              const char *where, leaf_table *out, err *e)
{
    leaf_keys k;
    int key[2] = {0, 0}, n_classes = t->n_classes, *next = NULL, cap = 0;
    int last = most == EXPR_NO_MOST ? least : most + 1; /* one too many is a count of its own */
    if (!leaf_keys_init(&k, a, 2) || leaf_keys_find(&k, key) < 0) goto nomem;
    for (int s = 0; s < k.n; s++) {
        if (s >= LEAF_STATES_MOST || (int64_t)(s + 1) * n_classes > LEAF_TABLE_MOST ||
            !leaf_spend(work, 4 * n_classes))
            return err_set(e, ERR_LIMIT, where, -1, "the automaton with its length is too large");
        if ((s + 1) * n_classes > cap) {
            int more = cap * 2 + 1024 + n_classes;
            int *grown = arena_new_array(a, (size_t)more, sizeof *grown);
            if (!grown) goto nomem;
            if (s) memcpy(grown, next, (size_t)(s * n_classes) * sizeof *next);
            next = grown;
            cap = more;
        }
        int from = k.keys[2 * s], count = k.keys[2 * s + 1];
        for (int c = 0; c < n_classes; c++) {
            key[0] = t->next[from * n_classes + c];
            key[1] = count < last ? count + 1 : count;
            if (most != EXPR_NO_MOST && key[1] == last) key[0] = 0;
            int to = leaf_keys_find(&k, key);
            if (to < 0) goto nomem;
            next[s * n_classes + c] = to;
        }
    }
    uint8_t *accept = arena_new_array(a, (size_t)k.n, 1);
    if (!accept) goto nomem;
    for (int s = 0; s < k.n; s++) {
        int count = k.keys[2 * s + 1];
        accept[s] = t->accept[k.keys[2 * s]] && count >= least &&
                    (most == EXPR_NO_MOST || count <= most);
    }
    *out = (leaf_table){k.n, n_classes, next, accept};
    return ERR_OK;
nomem:
    return err_set(e, ERR_NOMEM, where, -1, "an automaton with its length");
}

/* Which states matter, and the lengths of what may still come. */
typedef struct {
    int *first, *preds;          /* edges backwards: into s are preds[first[s] .. first[s + 1]] */
    uint32_t *nearest, *longest; /* characters to an accepting state; UINT32_MAX: none, no end */
    int *queue;
} lengths;

static bool find_preds(arena *a, const leaf_table *t, lengths *l)
{
    int n = t->n_states, k = t->n_classes;
    l->first = arena_new_array(a, (size_t)n + 2, sizeof *l->first);
    l->preds = arena_new_array(a, (size_t)n * (size_t)k, sizeof *l->preds);
    l->nearest = arena_new_array(a, (size_t)n, sizeof *l->nearest);
    l->longest = arena_new_array(a, (size_t)n, sizeof *l->longest);
    l->queue = arena_new_array(a, (size_t)n, sizeof *l->queue);
    if (!l->first || !l->preds || !l->nearest || !l->longest || !l->queue) return false;
    for (int i = 0; i < n * k; i++) l->first[t->next[i] + 2]++;
    for (int s = 0; s < n; s++) l->first[s + 2] += l->first[s + 1];
    for (int i = 0; i < n * k; i++) l->preds[l->first[t->next[i] + 1]++] = i / k;
    return true;
}

static void find_nearest(const leaf_table *t, lengths *l)
{
    int n_queue = 0;
    for (int s = 0; s < t->n_states; s++) {
        l->nearest[s] = t->accept[s] ? 0 : UINT32_MAX;
        if (t->accept[s]) l->queue[n_queue++] = s;
    }
    for (int i = 0; i < n_queue; i++) {
        int s = l->queue[i];
        for (int j = l->first[s]; j < l->first[s + 1]; j++) {
            int p = l->preds[j];
            if (l->nearest[p] != UINT32_MAX) continue;
            l->nearest[p] = l->nearest[s] + 1;
            l->queue[n_queue++] = p;
        }
    }
}

/* Longest paths among states that matter; whoever can go round has none. */
static bool find_longest(arena *a, const leaf_table *t, lengths *l)
{
    int n_queue = 0, k = t->n_classes;
    int *open = arena_new_array(a, (size_t)t->n_states, sizeof *open); /* successors not done */
    if (!open) return false;
    for (int s = 0; s < t->n_states; s++) {
        for (int c = 0; c < k; c++) open[s] += l->nearest[t->next[s * k + c]] != UINT32_MAX;
        if (l->nearest[s] == UINT32_MAX) continue;
        if (open[s] == 0) l->queue[n_queue++] = s;
    }
    for (int i = 0; i < n_queue; i++) {
        int s = l->queue[i];
        for (int j = l->first[s]; j < l->first[s + 1]; j++) {
            int p = l->preds[j];
            if (l->nearest[p] == UINT32_MAX) continue;
            if (l->longest[p] < l->longest[s] + 1) l->longest[p] = l->longest[s] + 1;
            if (--open[p] == 0) l->queue[n_queue++] = p;
        }
    }
    for (int s = 0; s < t->n_states; s++)
        if (open[s] > 0) l->longest[s] = UINT32_MAX;
    return true;
}

typedef struct {
    uint32_t lo, hi;
} span;

static int by_span(const void *p, const void *q)
{
    const span *x = p, *y = q;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Whether from every state that matters all lengths between the nearest and the longest can be
 * had, so that two numbers say what a count may still become. It holds when at each state the
 * spans of its successors leave no gap: by induction over the length. */
static bool has_no_gap(const leaf_table *t, const lengths *l)
{
    span spans[LEAF_CLASSES_MOST + 1];
    int k = t->n_classes;
    for (int s = 0; s < t->n_states; s++) {
        int n = 0, last = -1;
        if (l->nearest[s] == UINT32_MAX) continue;
        if (t->accept[s]) spans[n++] = (span){0, 0};
        for (int c = 0; c < k; c++) {
            int to = t->next[s * k + c];
            if (to == last || l->nearest[to] == UINT32_MAX) continue;
            last = to;
            spans[n++] = (span){l->nearest[to] + 1,
                                l->longest[to] == UINT32_MAX ? UINT32_MAX : l->longest[to] + 1};
        }
        qsort(spans, (size_t)n, sizeof *spans, by_span);
        uint32_t hi = n ? spans[0].hi : 0;
        for (int i = 1; i < n && hi != UINT32_MAX; i++) {
            if (spans[i].lo > hi + 1) return false;
            if (spans[i].hi > hi) hi = spans[i].hi;
        }
    }
    return true;
}

static bool is_endless(const leaf_table *t, const lengths *l)
{
    for (int s = 0; s < t->n_states; s++)
        if (l->nearest[s] != UINT32_MAX && l->longest[s] != UINT32_MAX) return false;
    return true;
}

static bool measure(arena *a, const leaf_table *t, lengths *l)
{
    if (!find_preds(a, t, l)) return false;
    find_nearest(t, l);
    return find_longest(a, t, l);
}

/* Copy the states that matter. */
static bool write_leaf(arena *result, arena *a, const leaf_table *t, const lengths *l, leaf *out)
{
    int n = 0, k = t->n_classes;
    int *number = arena_new_array(a, (size_t)t->n_states, sizeof *number);
    if (!number) return false;
    for (int s = 0; s < t->n_states; s++) number[s] = l->nearest[s] == UINT32_MAX ? -1 : n++;
    uint16_t *next = arena_new_array(result, (size_t)n * (size_t)k, sizeof *next);
    uint8_t *accept = arena_new_array(result, (size_t)n, 1);
    uint32_t *least = arena_new_array(result, (size_t)n, sizeof *least);
    leaf_classes *live = arena_new_array(result, (size_t)n, sizeof *live);
    if (!next || !accept || !least || !live) return false;
    for (int s = 0; s < t->n_states; s++) {
        int to = number[s];
        if (to < 0) continue;
        accept[to] = t->accept[s];
        least[to] = l->nearest[s];
        for (int c = 0; c < k; c++) {
            int target = number[t->next[s * k + c]];
            next[to * k + c] = target < 0 ? LEAF_DEAD : (uint16_t)target;
            if (target >= 0) live[to].w[c / 64] |= 1ull << (c % 64);
        }
    }
    out->n_states = n;
    out->n_classes = k;
    out->next = next;
    out->accept = accept;
    out->least = least;
    out->live = live;
    return true;
}

status leaf_finish(arena *result, arena *a, int64_t *work, const leaf_table *t,
                   const leaf_alphabet *al, leaf_coding coding, int *least, int *most,
                   const char *where, const leaf **out, err *e)
{
    lengths l = {0};
    leaf_table counted;
    if (!measure(a, t, &l)) goto nomem;
    /* An upper bound alone needs no more than the nearest end, which every state knows. */
    if (*least > 0 && (!has_no_gap(t, &l) || !is_endless(t, &l))) {
        TRY(count_in_states(a, work, t, *least, *most, where, &counted, e));
        t = &counted;
        if (!measure(a, t, &l)) goto nomem;
        *least = 0;
        *most = EXPR_NO_MOST;
    }
    if (l.nearest[0] == UINT32_MAX ||
        (*most != EXPR_NO_MOST && (l.nearest[0] > (uint32_t)*most || *least > *most))) {
        *out = NULL;
        return ERR_OK;
    }
    leaf *made = arena_new(result, sizeof *made);
    if (!made || !write_leaf(result, a, t, &l, made)) goto nomem;
    made->closes = coding != LEAF_RAW;
    made->is_free = coding == LEAF_FREE;
    if (!leaf_coder_build(result, al, coding, made)) goto nomem;
    *out = made;
    return ERR_OK;
nomem:
    return err_set(e, ERR_NOMEM, where, -1, "an automaton");
}

static status build(arena *result, arena *a, int64_t *work, const leaf_part *parts, int n,
                    leaf_coding coding, int *least, int *most, const char *where, const leaf **out,
                    err *e)
{
    leaf_part all = {.e = NULL};
    leaf_alphabet al;
    leaf_table tables[LEAF_PARTS_MOST], t;
    if (!leaf_spend(work, LEAF_WORK_EACH))
        return err_set(e, ERR_LIMIT, where, -1, "too many automata");
    if (n > LEAF_PARTS_MOST) return err_set(e, ERR_LIMIT, where, -1, "too many patterns at once");
    if (n == 0) {
        all.e = expr_repeat(a, expr_any(a), 0, EXPR_NO_MOST);
        if (!all.e) return err_set(e, ERR_NOMEM, where, -1, "an automaton");
        parts = &all;
        n = 1;
    }
    TRY(leaf_alphabet_build(a, parts, n, where, &al, e));
    for (int i = 0; i < n; i++)
        TRY(leaf_table_from_expr(a, work, parts[i].e, &al, where, &tables[i], e));
    if (n == 1 && !parts[0].is_negated)
        t = tables[0];
    else
        TRY(intersect(a, work, tables, parts, n, where, &t, e));
    return leaf_finish(result, a, work, &t, &al, coding, least, most, where, out, e);
}

status leaf_build(arena *result, int64_t *work, const leaf_part *parts, int n, leaf_coding coding,
                  int *least, int *most, const char *where, const leaf **out, err *e)
{
    arena a;
    arena_init(&a, 0);
    status s = build(result, &a, work, parts, n, coding, least, most, where, out, e);
    arena_fini(&a);
    return s;
}
