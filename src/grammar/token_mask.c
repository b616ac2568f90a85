#include "grammar/token_mask_priv.h"

#include "base/mem.h"

void grammar_tokens_close(grammar_tokens *t)
{
    if (!t) return;
    token_trie_close(&t->trie);
    mem_free(t->levels);
    mem_free(t->pool);
    mem_free(t->parts);
    mem_free(t->slab);
    mem_free(t->made_exits);
    mem_free(t->made_exits_n);
    mem_free(t->made_closing);
    mem_free(t->made_closing_n);
    mem_free(t->made_inside);
    mem_free(t->made_need);
    mem_free(t->made_words);
    for (int i = 0; t->kept && i < TOKEN_KEPT; i++) {
        mem_free(t->kept[i].key);
        mem_free(t->kept[i].words);
    }
    mem_free(t->kept);
    mem_free(t->key);
    mem_free(t);
}

static bool take_memory(grammar_tokens *t)
{
    size_t nodes = (size_t)t->trie.n_nodes + 1, ids = (size_t)t->trie.n_ids + 1;
    size_t n_words = (size_t)t->n_words;
    t->levels = mem_new_array((size_t)t->trie.longest + 2, sizeof *t->levels);
    t->pool = mem_new_array(TOKEN_POOL, sizeof *t->pool);
    t->parts = mem_new_array(TOKEN_PARTS, sizeof *t->parts);
    t->slab = mem_new_aligned(TOKEN_SLAB_BYTES, 64);
    t->made_exits = mem_new_array(nodes, sizeof *t->made_exits);
    t->made_exits_n = mem_new_array(nodes, sizeof *t->made_exits_n);
    t->made_closing = mem_new_array(ids, sizeof *t->made_closing);
    t->made_closing_n = mem_new_array(ids, sizeof *t->made_closing_n);
    t->made_inside = mem_new_array(ids, sizeof *t->made_inside);
    t->made_need = mem_new_array(ids, sizeof *t->made_need);
    t->made_words = mem_new_array(n_words, sizeof *t->made_words);
    t->kept = mem_new_array(TOKEN_KEPT, sizeof *t->kept);
    t->key = mem_new(TOKEN_KEY_MOST);
    if (!t->levels || !t->pool || !t->parts || !t->slab || !t->made_exits || !t->made_exits_n ||
        !t->made_closing || !t->made_closing_n || !t->made_inside || !t->made_need ||
        !t->made_words || !t->kept || !t->key)
        return false;
    for (int i = 0; i < TOKEN_KEPT; i++) {
        t->kept[i].key = mem_new(TOKEN_KEY_MOST);
        t->kept[i].words = mem_new_array(n_words, sizeof *t->kept[i].words);
        if (!t->kept[i].key || !t->kept[i].words) return false;
    }
    return true;
}

status grammar_tokens_open(grammar_tokens **out, const vocab *v, int V, const int32_t *eos,
                           int n_eos, err *e)
{
    if (V < 1) return err_set(e, ERR_INVALID, "grammar", -1, "a mask of %d tokens", V);
    if (n_eos < 0 || n_eos > TOKEN_MASK_EOS_MOST)
        return err_set(e, ERR_INVALID, "grammar", -1, "%d end tokens", n_eos);
    for (int i = 0; i < n_eos; i++)
        if (eos[i] < 0 || eos[i] >= V)
            return err_set(e, ERR_INVALID, "grammar", -1, "an end token with id %d", (int)eos[i]);
    grammar_tokens *t = mem_new(sizeof *t);
    if (!t) return err_set(e, ERR_NOMEM, "grammar", -1, "a vocabulary's masks");
    t->v = v;
    t->V = V;
    t->n_words = (V + 31) / 32;
    t->n_eos = n_eos;
    if (n_eos) memcpy(t->eos, eos, (size_t)n_eos * sizeof *eos);
    status s = token_trie_open(&t->trie, v, V, eos, n_eos, e);
    if (s == ERR_OK && !(take_memory(t) && token_part_warm(t)))
        s = err_set(e, ERR_NOMEM, "grammar", -1, "a vocabulary's masks");
    if (s == ERR_OK)
        *out = t;
    else
        grammar_tokens_close(t);
    return s;
}

/* ---- walking ------------------------------------------------------------------------------- */

static void set_ids(const grammar_tokens *t, uint32_t node_id, uint32_t *words)
{
    const token_trie *tr = &t->trie;
    for (uint32_t i = tr->first[node_id]; i < tr->first[node_id + 1]; i++)
        token_mask_set(words, tr->ids[i]);
}

/* Threads after one byte, written behind pool[at]; their number. */
static int step_all(grammar_tokens *t, threads *w, const thread *from, int n, int at, uint8_t byte)
{
    threads_begin(w, t->pool + at, TOKEN_POOL - at);
    for (int i = 0; i < n; i++) threads_step(w, from[i], byte);
    return w->n_out;
}

/* All of the tree from node `from` to node `to`, siblings, with pool[first .. first + n] before
 * them. Frames and pool are as before afterwards. */
static void walk(grammar_tokens *t, threads *w, uint32_t from, uint32_t to, int first, int n,
                 uint32_t *words)
{
    const token_trie *tr = &t->trie;
    int depth = 0;
    t->levels[0] = (token_level){to, first, n, w->n_frames};
    for (uint32_t i = from; i < to;) {
        while (i >= t->levels[depth].end) depth--;
        token_level *l = &t->levels[depth];
        int at = l->first + l->n;
        w->n_frames = l->n_frames;
        int made = step_all(t, w, t->pool + l->first, l->n, at, tr->byte[i]);
        if (made == 0) {
            i = tr->end[i];
            continue;
        }
        set_ids(t, i, words);
        if (tr->end[i] > i + 1) {
            t->levels[++depth] = (token_level){tr->end[i], at, made, w->n_frames};
            i++;
        } else {
            i = tr->end[i];
        }
    }
    w->n_frames = t->levels[0].n_frames;
}

/* ---- inside a leaf -------------------------------------------------------------------------- */

static void set_inside(const grammar_tokens *t, const token_part *p, uint32_t room, uint32_t *words)
{
    if (room >= p->need_most) {
        for (int i = 0; i < t->n_words; i++) words[i] |= p->inside[i];
        return;
    }
    uint32_t fit = p->need_at[room + 1], all = p->need_at[p->need_most + 1];
    if (fit < all / 2) {
        for (uint32_t i = 0; i < fit; i++) token_mask_set(words, p->by_need[i]);
        return;
    }
    memcpy(t->made_words, p->inside, (size_t)t->n_words * sizeof *words);
    for (uint32_t i = fit; i < all; i++)
        t->made_words[p->by_need[i] / 32] &= ~(1u << (p->by_need[i] % 32));
    for (int i = 0; i < t->n_words; i++) words[i] |= t->made_words[i];
}

/* Tokens that close the leaf or go on behind it. `missing`: characters it still must have. */
static void set_leaving(grammar_tokens *t, threads *w, const token_part *p, thread th,
                        uint32_t missing, uint32_t room, uint32_t *words)
{
    const node *n = &w->g->nodes[th.node];
    uint32_t n_frames = w->n_frames;
    for (int i = 0; i < p->n_closing; i++)
        if (p->closing_n[i] >= missing && p->closing_n[i] <= room)
            token_mask_set(words, p->closing[i]);
    threads_begin(w, t->pool, TOKEN_POOL);
    threads_enter(w, n->next, th.parent);
    int n_behind = w->n_out;
    uint32_t behind_frames = w->n_frames;
    for (int b = 0; b < 256; b++) {
        if (p->exit_at[b] == p->exit_at[b + 1]) continue;
        w->n_frames = behind_frames;
        int made = step_all(t, w, t->pool, n_behind, n_behind, (uint8_t)b);
        for (uint32_t i = p->exit_at[b]; made && i < p->exit_at[b + 1]; i++) {
            uint32_t at = p->exits[i];
            if (p->exits_n[i] < missing || p->exits_n[i] > room) continue;
            set_ids(t, at, words);
            if (t->trie.end[at] > at + 1)
                walk(t, w, at + 1, t->trie.end[at], n_behind, made, words);
        }
    }
    w->n_frames = n_frames;
}

static void set_thread(grammar_tokens *t, threads *w, thread th, uint32_t *words)
{
    const node *n = &w->g->nodes[th.node];
    if (n->kind == NODE_LEAF) {
        bool is_bounded = n->most != EXPR_NO_MOST;
        const token_part *p = token_part_find(t, w->g, n->a, th.at, is_bounded);
        if (p) {
            uint32_t room = is_bounded ? (uint32_t)n->most - th.count : UINT32_MAX;
            uint32_t least = (uint32_t)n->least;
            set_inside(t, p, room, words);
            set_leaving(t, w, p, th, least > th.count ? least - th.count : 0, room, words);
            return;
        }
    }
    t->pool[0] = th;
    walk(t, w, 0, (uint32_t)t->trie.n_nodes, 0, 1, words);
}

/* ---- whole masks ---------------------------------------------------------------------------- */

static bool put_key(grammar_tokens *t, int *n, uint32_t v)
{
    if (*n + 4 > TOKEN_KEY_MOST) return false;
    memcpy(t->key + *n, &v, 4);
    *n += 4;
    return true;
}

/* Everything a mask depends on, into t->key; false when that is too much to keep. */
static bool make_key(grammar_tokens *t, const threads *w, const thread *list, int n, int *key_n)
{
    *key_n = 8;
    memcpy(t->key, &w->g->serial, 8);
    for (int i = 0; i < n; i++) {
        if (!put_key(t, key_n, list[i].node) || !put_key(t, key_n, list[i].at) ||
            !put_key(t, key_n, list[i].count))
            return false;
        for (uint32_t f = list[i].parent; f; f = w->frames[f].parent)
            if (!put_key(t, key_n, w->frames[f].node) || !put_key(t, key_n, w->frames[f].count))
                return false;
        if (!put_key(t, key_n, UINT32_MAX)) return false;
    }
    return true;
}

static int count_bits(const uint32_t *words, int n)
{
    int total = 0;
    for (int i = 0; i < n; i++) total += __builtin_popcount(words[i]);
    return total;
}

static void set_list(grammar_tokens *t, threads *w, const thread *list, int n, uint32_t *words)
{
    bool can_end = false;
    int n_walked = 0;
    memset(words, 0, (size_t)t->n_words * sizeof *words);
    for (int i = 0; i < n; i++) {
        node_kind kind = (node_kind)w->g->nodes[list[i].node].kind;
        if (kind == NODE_END) can_end = true;
        if (kind == NODE_LEAF) set_thread(t, w, list[i], words);
    }
    /* All the others together: they share the first bytes of what they read. */
    for (int i = 0; i < n; i++) {
        node_kind kind = (node_kind)w->g->nodes[list[i].node].kind;
        if (kind != NODE_END && kind != NODE_LEAF) t->pool[n_walked++] = list[i];
    }
    if (n_walked) walk(t, w, 0, (uint32_t)t->trie.n_nodes, 0, n_walked, words);
    for (int i = 0; can_end && i < t->n_eos; i++) token_mask_set(words, t->eos[i]);
}

int token_mask_fill(grammar_tokens *t, threads *w, const thread *list, int n, uint32_t *words)
{
    int key_n, oldest = 0;
    size_t bytes = (size_t)t->n_words * sizeof *words;
    bool is_kept = make_key(t, w, list, n, &key_n);
    t->tick++;
    for (int i = 0; is_kept && i < TOKEN_KEPT; i++) {
        token_kept *k = &t->kept[i];
        if (k->key_n == key_n && memcmp(k->key, t->key, (size_t)key_n) == 0) {
            k->tick = t->tick;
            memcpy(words, k->words, bytes);
            return k->n_allowed;
        }
        if (k->tick < t->kept[oldest].tick) oldest = i;
    }
    set_list(t, w, list, n, words);
    int n_allowed = count_bits(words, t->n_words);
    if (is_kept) {
        token_kept *k = &t->kept[oldest];
        k->key_n = key_n;
        k->tick = t->tick;
        k->n_allowed = n_allowed;
        memcpy(k->key, t->key, (size_t)key_n);
        memcpy(k->words, words, bytes);
    }
    return n_allowed;
}
