#include "grammar/token_mask_priv.h"

#include "base/hash.h"

typedef struct {
    uint32_t state;
    uint16_t inner, n; /* n: characters done */
    uint32_t end;
} step;

enum { PATH_MOST = 4096 };

/* What has been found of a part. */
typedef struct {
    grammar_tokens *t;
    const leaf *l;
    int n_exits, n_closing, n_inside;
    uint32_t need_most;
} finder;

static void add_exits(finder *f, uint32_t node_id, uint16_t n)
{
    const token_trie *tr = &f->t->trie;
    for (uint32_t c = node_id + 1; c < tr->end[node_id]; c = tr->end[c]) {
        f->t->made_exits[f->n_exits] = c;
        f->t->made_exits_n[f->n_exits++] = n;
    }
}

static void add_closing(finder *f, uint32_t node_id, uint16_t n)
{
    const token_trie *tr = &f->t->trie;
    for (uint32_t i = tr->first[node_id]; i < tr->first[node_id + 1]; i++) {
        f->t->made_closing[f->n_closing] = tr->ids[i];
        f->t->made_closing_n[f->n_closing++] = n;
    }
}

/* Fewest characters from an unfinished one to an accepting state, with itself. */
static uint32_t need_within(const leaf *l, uint32_t state, uint32_t inner)
{
    uint32_t best = UINT32_MAX;
    for (int w = 0; w < LEAF_WORDS; w++)
        for (uint64_t both = l->reach[inner].w[w] & l->live[state].w[w]; both; both &= both - 1) {
            int c = w * 64 + __builtin_ctzll(both);
            uint32_t need = l->least[l->next[state * (uint32_t)l->n_classes + (uint32_t)c]] + 1;
            if (need < best) best = need;
        }
    return best;
}

static void add_inside(finder *f, uint32_t node_id, step at)
{
    const token_trie *tr = &f->t->trie;
    uint32_t from = tr->first[node_id], to = tr->first[node_id + 1];
    if (from == to) return;
    uint32_t need = at.n +
                    (at.inner ? need_within(f->l, at.state, at.inner) : f->l->least[at.state]);
    if (need > UINT16_MAX) need = UINT16_MAX;
    if (need > f->need_most) f->need_most = need;
    for (uint32_t i = from; i < to; i++) {
        f->t->made_inside[f->n_inside] = tr->ids[i];
        f->t->made_need[f->n_inside++] = (uint16_t)need;
    }
}

static bool can_finish(const leaf *l, uint32_t state, uint32_t inner)
{
    for (int w = 0; w < LEAF_WORDS; w++)
        if (l->reach[inner].w[w] & l->live[state].w[w]) return true;
    return false;
}

/* One byte inside the leaf; false when it leads nowhere further inside. */
static bool advance(finder *f, step *at, uint32_t node_id)
{
    const leaf *l = f->l;
    uint16_t to = l->code[at->inner * 256 + f->t->trie.byte[node_id]];
    if (to == LEAF_DEAD) return false;
    if (to == LEAF_CLOSE) {
        if (l->accept[at->state]) {
            add_closing(f, node_id, at->n);
            add_exits(f, node_id, at->n);
        }
        return false;
    }
    if (!(to & LEAF_CLASS)) {
        at->inner = to;
        return can_finish(l, at->state, to);
    }
    uint32_t next = l->next[at->state * (uint32_t)l->n_classes + (to & ~(uint32_t)LEAF_CLASS)];
    if (next == LEAF_DEAD) return false;
    at->state = next;
    at->inner = 0;
    if (at->n < UINT16_MAX) at->n++;
    if (l->closes || !l->accept[next]) return true;
    add_exits(f, node_id, at->n);
    if (!leaf_is_stuck(l, next)) return true;
    add_closing(f, node_id, at->n);
    return false;
}

static void find(finder *f, uint32_t at)
{
    const token_trie *tr = &f->t->trie;
    step path[PATH_MOST];
    int depth = 0;
    uint32_t n_inner = (uint32_t)f->l->n_inner;
    path[0] = (step){at / n_inner, (uint16_t)(at % n_inner), 0, (uint32_t)tr->n_nodes};
    for (uint32_t i = 0; i < (uint32_t)tr->n_nodes;) {
        while (i >= path[depth].end) depth--;
        step next = path[depth];
        if (!advance(f, &next, i)) {
            i = tr->end[i];
            continue;
        }
        add_inside(f, i, next);
        if (tr->end[i] > i + 1 && depth + 1 < PATH_MOST) {
            next.end = tr->end[i];
            path[++depth] = next;
            i++;
        } else {
            i = tr->end[i];
        }
    }
}

static void *take(grammar_tokens *t, size_t bytes)
{
    size_t need = (bytes + 15) & ~(size_t)15;
    if (need > TOKEN_SLAB_BYTES - t->slab_used) return NULL;
    void *p = t->slab + t->slab_used;
    t->slab_used += need;
    return p;
}

static bool store_needs(grammar_tokens *t, const finder *f, token_part *p)
{
    int32_t *ids = take(t, (size_t)f->n_inside * sizeof *ids);
    uint32_t *at = take(t, ((size_t)f->need_most + 2) * sizeof *at);
    if (!ids || !at) return false;
    memset(at, 0, ((size_t)f->need_most + 2) * sizeof *at);
    for (int i = 0; i < f->n_inside; i++) at[t->made_need[i] + 1]++;
    for (uint32_t k = 0; k <= f->need_most; k++) at[k + 1] += at[k];
    for (int i = 0; i < f->n_inside; i++) ids[at[t->made_need[i]]++] = t->made_inside[i];
    for (uint32_t k = f->need_most + 1; k > 0; k--) at[k] = at[k - 1];
    at[0] = 0;
    p->by_need = ids;
    p->need_at = at;
    return true;
}

static bool store(grammar_tokens *t, const finder *f, token_part *p)
{
    uint32_t *inside = take(t, (size_t)t->n_words * sizeof *inside);
    int32_t *closing = take(t, (size_t)f->n_closing * sizeof *closing);
    uint16_t *closing_n = take(t, (size_t)f->n_closing * sizeof *closing_n);
    uint32_t *exits = take(t, (size_t)f->n_exits * sizeof *exits);
    uint16_t *exits_n = take(t, (size_t)f->n_exits * sizeof *exits_n);
    if (!inside || !closing || !closing_n || !exits || !exits_n) return false;
    memset(inside, 0, (size_t)t->n_words * sizeof *inside);
    for (int i = 0; i < f->n_inside; i++) token_mask_set(inside, t->made_inside[i]);
    memcpy(closing, t->made_closing, (size_t)f->n_closing * sizeof *closing);
    memcpy(closing_n, t->made_closing_n, (size_t)f->n_closing * sizeof *closing_n);
    memset(p->exit_at, 0, sizeof p->exit_at);
    for (int i = 0; i < f->n_exits; i++) p->exit_at[t->trie.byte[t->made_exits[i]] + 1]++;
    for (int b = 0; b < 256; b++) p->exit_at[b + 1] += p->exit_at[b];
    uint32_t at[256];
    memcpy(at, p->exit_at, sizeof at);
    for (int i = 0; i < f->n_exits; i++) {
        uint32_t to = at[t->trie.byte[t->made_exits[i]]]++;
        exits[to] = t->made_exits[i];
        exits_n[to] = t->made_exits_n[i];
    }
    p->inside = inside;
    p->need_most = f->need_most;
    p->n_closing = f->n_closing;
    p->closing = closing;
    p->closing_n = closing_n;
    p->exits = exits;
    p->exits_n = exits_n;
    return !p->has_needs || store_needs(t, f, p);
}

static token_part *slot_of(grammar_tokens *t, const token_part *key)
{
    uint64_t words[3] = {key->serial, (uint64_t)key->leaf << 32 | key->at, key->has_needs};
    uint32_t i = (uint32_t)(hash_bytes(words, sizeof words, 0) % TOKEN_PARTS);
    for (;; i = (i + 1) % TOKEN_PARTS) {
        token_part *p = &t->parts[i];
        if (!p->is_used || (p->serial == key->serial && p->leaf == key->leaf && p->at == key->at &&
                            p->has_needs == key->has_needs))
            return p;
    }
}

static void forget(grammar_tokens *t)
{
    memset(t->parts, 0, TOKEN_PARTS * sizeof *t->parts);
    t->n_parts = 0;
    t->slab_used = 0;
}

static const token_part *find_or_make(grammar_tokens *t, const leaf *l, token_part key)
{
    token_part *p = slot_of(t, &key);
    if (p->is_used) return p;
    finder f = {.t = t, .l = l};
    find(&f, key.at);
    if (t->n_parts >= TOKEN_PARTS / 2) forget(t);
    for (int tries = 0; tries < 2; tries++) {
        size_t used = t->slab_used;
        p = slot_of(t, &key);
        if (store(t, &f, &key)) {
            *p = key;
            t->n_parts++;
            return p;
        }
        t->slab_used = used;
        if (tries == 0) forget(t);
    }
    return NULL;
}

const token_part *token_part_find(grammar_tokens *t, const grammar *g, uint32_t leaf_index,
                                  uint32_t at, bool wants_needs)
{
    const leaf *l = g->leaves[leaf_index];
    token_part key = {.serial = l->is_free ? 0 : g->serial,
                      .leaf = l->is_free ? 0 : leaf_index,
                      .at = at,
                      .is_used = true,
                      .has_needs = wants_needs};
    return find_or_make(t, l, key);
}

bool token_part_warm(grammar_tokens *t)
{
    arena a;
    const leaf *l = NULL;
    int least = 0, most = EXPR_NO_MOST;
    int64_t work = LEAF_WORK_MOST;
    arena_init(&a, 0);
    bool ok = leaf_build(&a, &work, NULL, 0, LEAF_FREE, &least, &most, "#", &l, NULL) == ERR_OK;
    for (int i = 0; ok && i < 2; i++)
        find_or_make(t, l, (token_part){.is_used = true, .has_needs = i});
    arena_fini(&a);
    return ok;
}
