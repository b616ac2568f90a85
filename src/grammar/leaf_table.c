/* From a tree to a deterministic table by way of a nondeterministic automaton: states that read a
 * set, and states that only lead on. Built from the end backwards, so that each piece knows what
 * comes after it. */
#include <stdlib.h>

#include "base/hash.h"
#include "grammar/leaf_priv.h"

enum { NFA_MOST = 60000, STEPS_MOST = 8 << 20 };

typedef enum { NFA_FINAL, NFA_READ, NFA_FORK, NFA_START, NFA_END } nfa_kind;
typedef struct {
    nfa_kind kind;
    int out, other; /* other: FORK only */
    int set;        /* READ */
} nfa_state;

typedef struct {
    arena *a;
    nfa_state *states;
    int n, cap;
    bool failed, is_full;
    const leaf_alphabet *al;
    int *mark; /* [2, n] the round that a state was last seen in, by mode */
    int round;
    int *stack, *reads;
    int n_reads;
    int64_t steps;
} nfa;

static int add(nfa *m, nfa_state s)
{
    if (m->failed || m->is_full) return 0;
    if (m->n == m->cap) {
        int cap = m->cap ? m->cap * 2 : 256;
        if (cap > 2 * NFA_MOST) {
            m->is_full = true;
            return 0;
        }
        nfa_state *more = arena_new_array(m->a, (size_t)cap, sizeof *more);
        if (!more) {
            m->failed = true;
            return 0;
        }
        if (m->n) memcpy(more, m->states, (size_t)m->n * sizeof *more);
        m->states = more;
        m->cap = cap;
    }
    m->states[m->n] = s;
    return m->n++;
}

static int emit(nfa *m, const expr *e, int next);

static int emit_repeat(nfa *m, const expr *e, int next)
{
    int at = next;
    if (e->most == EXPR_NO_MOST) {
        at = add(m, (nfa_state){NFA_FORK, next, next, 0});
        int body = emit(m, e->items[0], at);
        if (!m->failed && !m->is_full) m->states[at].out = body;
    } else {
        for (int i = e->least; i < e->most && !m->is_full && !m->failed; i++)
            at = add(m, (nfa_state){NFA_FORK, emit(m, e->items[0], at), next, 0});
    }
    for (int i = 0; i < e->least && !m->is_full && !m->failed; i++) at = emit(m, e->items[0], at);
    return at;
}

/* The state from which `e` and then `next` are read. */
static int emit(nfa *m, const expr *e, int next)
{
    switch (e->kind) {
    case EXPR_SET: return add(m, (nfa_state){NFA_READ, next, next, e->id});
    case EXPR_CAT:
        for (int i = e->n - 1; i >= 0; i--) next = emit(m, e->items[i], next);
        return next;
    case EXPR_ALT: {
        int at = emit(m, e->items[e->n - 1], next);
        for (int i = e->n - 2; i >= 0; i--)
            at = add(m, (nfa_state){NFA_FORK, emit(m, e->items[i], next), at, 0});
        return at;
    }
    case EXPR_REPEAT: return emit_repeat(m, e, next);
    case EXPR_START: return add(m, (nfa_state){NFA_START, next, next, 0});
    case EXPR_END: return add(m, (nfa_state){NFA_END, next, next, 0});
    case EXPR_EMPTY:
    case EXPR_RULE: return next;
    }
    return next;
}

static void visit(nfa *m, int s, int mode, int *n_stack)
{
    int *seen = &m->mark[2 * s + mode];
    if (*seen == m->round) return;
    *seen = m->round;
    m->stack[(*n_stack)++] = 2 * s + mode;
}

/* Follow all that reads nothing. Mode 1 is behind an end anchor: no more characters may come.
 * Fills m->reads (unsorted); returns whether the text may end here. */
static bool follow(nfa *m, const int *from, int n, bool at_start)
{
    int n_stack = 0;
    bool is_final = false;
    m->round++;
    m->n_reads = 0;
    for (int i = 0; i < n; i++) visit(m, from[i], 0, &n_stack);
    while (n_stack > 0) {
        int top = m->stack[--n_stack], mode = top % 2;
        const nfa_state *s = &m->states[top / 2];
        m->steps++;
        switch (s->kind) {
        case NFA_FINAL: is_final = true; break;
        case NFA_READ:
            if (mode == 0) m->reads[m->n_reads++] = top / 2;
            break;
        case NFA_FORK:
            visit(m, s->out, mode, &n_stack);
            visit(m, s->other, mode, &n_stack);
            break;
        case NFA_START:
            if (at_start) visit(m, s->out, mode, &n_stack);
            break;
        case NFA_END: visit(m, s->out, 1, &n_stack); break;
        }
    }
    return is_final;
}

static int by_int(const void *p, const void *q)
{
    int x = *(const int *)p, y = *(const int *)q;
    return (x > y) - (x < y);
}

/* Deterministic states: lists of reading states, in one pool. */
typedef struct {
    int *first;      /* [n + 1] where each state's list begins */
    uint64_t *hash;  /* [n] */
    uint8_t *accept; /* [n] */
    int n, cap;
    int *pool;
    int pool_n, pool_cap;
    int *slots;
    int n_slots;
} subsets;

static void *grown(arena *a, const void *old, int n, int cap, size_t size)
{
    void *p = arena_new_array(a, (size_t)cap, size);
    if (p && n) memcpy(p, old, (size_t)n * size);
    return p;
}

static bool subsets_reserve(subsets *d, nfa *m)
{
    if (d->n + 1 >= d->cap) {
        int cap = d->cap ? d->cap * 2 : 64;
        d->first = grown(m->a, d->first, d->n ? d->n + 1 : 0, cap + 1, sizeof *d->first);
        d->hash = grown(m->a, d->hash, d->n, cap, sizeof *d->hash);
        d->accept = grown(m->a, d->accept, d->n, cap, sizeof *d->accept);
        d->n_slots = cap * 2;
        d->slots = arena_new_array(m->a, (size_t)d->n_slots, sizeof *d->slots);
        if (!d->first || !d->hash || !d->accept || !d->slots) return false;
        d->cap = cap;
        for (int i = 0; i < d->n; i++) {
            int at = (int)(d->hash[i] % (uint64_t)d->n_slots);
            while (d->slots[at]) at = (at + 1) % d->n_slots;
            d->slots[at] = i + 1;
        }
    }
    if (!d->pool || d->pool_n + m->n_reads > d->pool_cap) {
        int cap = (d->pool_cap ? d->pool_cap * 2 : 1024) + m->n_reads;
        d->pool = grown(m->a, d->pool, d->pool_n, cap, sizeof *d->pool);
        if (!d->pool) return false;
        d->pool_cap = cap;
    }
    return true;
}

/* The number of the state that is m->reads with `accept`; -1 without memory. */
static int subset_find(subsets *d, nfa *m, bool accept)
{
    qsort(m->reads, (size_t)m->n_reads, sizeof *m->reads, by_int);
    size_t bytes = (size_t)m->n_reads * sizeof *m->reads;
    uint64_t h = hash_bytes(m->reads, bytes, accept);
    if (!subsets_reserve(d, m)) return -1;
    int at = (int)(h % (uint64_t)d->n_slots);
    for (; d->slots[at]; at = (at + 1) % d->n_slots) {
        int s = d->slots[at] - 1;
        if (d->hash[s] == h && d->accept[s] == accept &&
            d->first[s + 1] - d->first[s] == m->n_reads &&
            memcmp(d->pool + d->first[s], m->reads, bytes) == 0)
            return s;
    }
    d->slots[at] = d->n + 1;
    d->hash[d->n] = h;
    d->accept[d->n] = accept;
    d->first[d->n] = d->pool_n;
    if (bytes) memcpy(d->pool + d->pool_n, m->reads, bytes);
    d->pool_n += m->n_reads;
    d->first[d->n + 1] = d->pool_n;
    return d->n++;
}

static bool nfa_room(nfa *m)
{
    m->mark = arena_new_array(m->a, (size_t)m->n * 2, sizeof *m->mark);
    m->stack = arena_new_array(m->a, (size_t)m->n * 2, sizeof *m->stack);
    m->reads = arena_new_array(m->a, (size_t)m->n, sizeof *m->reads);
    return m->mark && m->stack && m->reads;
}

/* Fill the row of state s. False without memory, or past a limit (*full). */
static bool fill_row(nfa *m, subsets *d, int s, int **next, int *next_cap, int *from, bool *full)
{
    int k = m->al->n_classes;
    *full = (int64_t)(s + 1) * k > LEAF_TABLE_MOST || s >= LEAF_STATES_MOST ||
            m->steps > STEPS_MOST;
    if (*full) return false;
    if ((s + 1) * k > *next_cap) {
        int cap = (*next_cap ? *next_cap * 2 : 1024) + k;
        *next = grown(m->a, *next, s * k, cap, sizeof **next);
        if (!*next) return false;
        *next_cap = cap;
    }
    for (int c = 0; c < k; c++) {
        int n = 0;
        for (int i = d->first[s]; i < d->first[s + 1]; i++) {
            const nfa_state *r = &m->states[d->pool[i]];
            if (leaf_class_in_set(m->al, c, r->set)) from[n++] = r->out;
        }
        m->steps += d->first[s + 1] - d->first[s];
        bool accept = follow(m, from, n, false);
        int to = subset_find(d, m, accept);
        if (to < 0) return false;
        (*next)[s * k + c] = to;
    }
    return true;
}

status leaf_table_from_expr(arena *a, int64_t *work, const expr *tree, const leaf_alphabet *al,
                            const char *where, leaf_table *out, err *e)
{
    nfa m = {.a = a, .al = al};
    subsets d = {0};
    int *next = NULL, next_cap = 0;
    bool full = false;
    int final = add(&m, (nfa_state){NFA_FINAL, 0, 0, 0});
    int start = emit(&m, tree, final);
    if (m.is_full) return err_set(e, ERR_LIMIT, where, -1, "the repetitions are too many");
    int *from = m.failed ? NULL : arena_new_array(a, (size_t)m.n, sizeof *from);
    if (!from || !nfa_room(&m)) goto nomem;
    bool accept = follow(&m, &start, 1, true);
    if (subset_find(&d, &m, accept) < 0) goto nomem;
    for (int s = 0; s < d.n; s++) {
        int64_t steps = m.steps;
        if (!fill_row(&m, &d, s, &next, &next_cap, from, &full)) {
            if (full) return err_set(e, ERR_LIMIT, where, -1, "the automaton is too large");
            goto nomem;
        }
        if (!leaf_spend(work, m.steps - steps + 4 * al->n_classes))
            return err_set(e, ERR_LIMIT, where, -1, "the automata are too large together");
    }
    *out = (leaf_table){d.n, al->n_classes, next, d.accept};
    return ERR_OK;
nomem:
    return err_set(e, ERR_NOMEM, where, -1, "an automaton's states");
}
