#include "grammar/threads_priv.h"

#include "base/mem.h"

enum { ROUND_SHIFT = 12, TODO_MOST = 2 * GRAMMAR_THREADS_MOST };
_Static_assert(THREADS_SLOTS <= 1 << ROUND_SHIFT, "an index fits beside the round");

bool threads_init(threads *t, const grammar *g)
{
    *t = (threads){.g = g, .n_frames = 1};
    t->frames = mem_new_array(THREADS_FRAMES_MOST, sizeof *t->frames);
    t->todo = mem_new_array(TODO_MOST, sizeof *t->todo);
    t->slots = mem_new_array(THREADS_SLOTS, sizeof *t->slots);
    return t->frames && t->todo && t->slots;
}

void threads_fini(threads *t)
{
    mem_free(t->frames);
    mem_free(t->todo);
    mem_free(t->slots);
    *t = (threads){0};
}

void threads_begin(threads *t, thread *out, int n_most)
{
    t->out = out;
    t->n_out = 0;
    t->n_most = n_most < GRAMMAR_THREADS_MOST ? n_most : GRAMMAR_THREADS_MOST;
    t->round++;
    if (t->round >> (32 - ROUND_SHIFT)) { /* the rounds are used up: forget them all */
        memset(t->slots, 0, THREADS_SLOTS * sizeof *t->slots);
        t->round = 1;
    }
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

static bool same_stack(const threads *t, uint32_t x, uint32_t y)
{
    while (x != y) {
        if (x == 0 || y == 0) return false;
        const frame *p = &t->frames[x], *q = &t->frames[y];
        if (p->hash != q->hash || p->depth != q->depth || p->node != q->node ||
            p->count != q->count)
            return false;
        x = p->parent;
        y = q->parent;
    }
    return true;
}

/* A new frame, or 0 when there is no room for it. */
static uint32_t push(threads *t, uint32_t parent, uint32_t node_id, uint32_t count)
{
    uint32_t depth = parent ? t->frames[parent].depth + 1 : 1;
    if (t->n_frames == THREADS_FRAMES_MOST || depth > GRAMMAR_DEPTH_MOST) return 0;
    uint64_t hash = mix(mix(t->frames[parent].hash, node_id), count);
    t->frames[t->n_frames] = (frame){parent, node_id, count, depth, hash};
    return t->n_frames++;
}

static void add(threads *t, thread made)
{
    uint64_t h = mix(mix(mix(made.node, made.at), made.count), t->frames[made.parent].hash);
    uint32_t slot = (uint32_t)(h >> 40) % THREADS_SLOTS;
    for (;; slot = (slot + 1) % THREADS_SLOTS) {
        uint32_t v = t->slots[slot];
        if (v >> ROUND_SHIFT != t->round) break;
        const thread *old = &t->out[v & ((1u << ROUND_SHIFT) - 1)];
        if (old->node == made.node && old->at == made.at && old->count == made.count &&
            same_stack(t, old->parent, made.parent))
            return;
    }
    if (t->n_out == t->n_most) return;
    t->slots[slot] = t->round << ROUND_SHIFT | (uint32_t)t->n_out;
    t->out[t->n_out++] = made;
}

static void later(threads *t, int *n, uint32_t node_id, uint32_t parent)
{
    if (*n < TODO_MOST) t->todo[(*n)++] = (thread){node_id, 0, 0, parent};
}

/* Once more round a repetition, or out of it. */
static void loop(threads *t, int *n, uint32_t node_id, uint32_t count, uint32_t parent)
{
    const node *r = &t->g->nodes[node_id];
    if (count >= (uint32_t)r->least) later(t, n, r->next, parent);
    if (r->most == EXPR_NO_MOST || count < (uint32_t)r->most) {
        uint32_t f = push(t, parent, node_id, count);
        if (f) later(t, n, r->a, f);
    }
}

static void leave(threads *t, int *n, uint32_t parent)
{
    const frame *f = &t->frames[parent];
    const node *to = &t->g->nodes[f->node];
    if (to->kind == NODE_CALL) {
        later(t, n, to->next, f->parent);
        return;
    }
    uint32_t most = to->most == EXPR_NO_MOST ? (uint32_t)to->least : (uint32_t)to->most;
    loop(t, n, f->node, f->count < most ? f->count + 1 : f->count, f->parent);
}

void threads_enter(threads *t, uint32_t node_id, uint32_t parent)
{
    const grammar *g = t->g;
    uint32_t first_frame = t->n_frames;
    int n = 0;
    later(t, &n, node_id, parent);
    while (n > 0) {
        thread at = t->todo[--n];
        const node *p = &g->nodes[at.node];
        switch ((node_kind)p->kind) {
        case NODE_SPLIT:
            for (uint32_t i = p->n; i > 0; i--) later(t, &n, g->alts[p->a + i - 1], at.parent);
            break;
        case NODE_RETURN:
            /* a frame made in this very call: its body was empty, once more changes nothing */
            if (at.parent >= first_frame && g->nodes[t->frames[at.parent].node].kind == NODE_REPEAT)
                break;
            leave(t, &n, at.parent);
            break;
        case NODE_CALL: {
            uint32_t f = at.parent;
            if (p->next != GRAPH_RETURN) f = push(t, at.parent, at.node, 0);
            if (f || p->next == GRAPH_RETURN) later(t, &n, p->a, f);
            break;
        }
        case NODE_REPEAT: loop(t, &n, at.node, 0, at.parent); break;
        case NODE_SPACE:
            add(t, (thread){at.node, 0, 0, at.parent});
            later(t, &n, p->next, at.parent);
            break;
        case NODE_BYTES:
        case NODE_LEAF:
        case NODE_END: add(t, (thread){at.node, 0, 0, at.parent}); break;
        }
    }
}

bool leaf_can_go_on(const node *n, const leaf *l, uint32_t state, uint32_t inner, uint32_t count)
{
    for (int w = 0; w < LEAF_WORDS; w++) {
        uint64_t both = l->reach[inner].w[w] & l->live[state].w[w];
        if (both && n->most == EXPR_NO_MOST) return true;
        for (; both; both &= both - 1) {
            int c = w * 64 + __builtin_ctzll(both);
            uint32_t to = l->next[state * (uint32_t)l->n_classes + (uint32_t)c];
            if (leaf_count_fits(n, l, to, count + 1)) return true;
        }
    }
    return false;
}

static void step_leaf(threads *t, thread from, uint8_t byte)
{
    const node *n = &t->g->nodes[from.node];
    const leaf *l = t->g->leaves[n->a];
    uint32_t n_inner = (uint32_t)l->n_inner, state = from.at / n_inner, inner = from.at % n_inner;
    uint16_t to = l->code[inner * 256 + byte];
    if (to == LEAF_DEAD) return;
    if (to == LEAF_CLOSE) {
        if (l->accept[state] && from.count >= (uint32_t)n->least)
            threads_enter(t, n->next, from.parent);
        return;
    }
    if (!(to & LEAF_CLASS)) {
        if (leaf_can_go_on(n, l, state, to, from.count))
            add(t, (thread){from.node, state * n_inner + to, from.count, from.parent});
        return;
    }
    uint32_t next = l->next[state * (uint32_t)l->n_classes + (to & ~(uint32_t)LEAF_CLASS)];
    if (next == LEAF_DEAD || !leaf_count_fits(n, l, next, from.count + 1)) return;
    if (l->closes || !leaf_is_stuck(l, next))
        add(t, (thread){from.node, next * n_inner, leaf_count_next(n, from.count), from.parent});
    if (!l->closes && l->accept[next] && from.count + 1 >= (uint32_t)n->least)
        threads_enter(t, n->next, from.parent);
}

static bool is_space(uint8_t b)
{
    return b == ' ' || b == '\n' || b == '\t' || b == '\r';
}

void threads_step(threads *t, thread from, uint8_t byte)
{
    const node *n = &t->g->nodes[from.node];
    switch ((node_kind)n->kind) {
    case NODE_BYTES:
        if ((uint8_t)t->g->bytes[n->a + from.at] != byte) return;
        if (from.at + 1 < n->n)
            add(t, (thread){from.node, from.at + 1, 0, from.parent});
        else
            threads_enter(t, n->next, from.parent);
        return;
    case NODE_SPACE:
        if (!is_space(byte)) return;
        if (from.at + 1 < n->n) add(t, (thread){from.node, from.at + 1, 0, from.parent});
        threads_enter(t, n->next, from.parent);
        return;
    case NODE_LEAF: step_leaf(t, from, byte); return;
    case NODE_END:
    case NODE_SPLIT:
    case NODE_RETURN:
    case NODE_CALL:
    case NODE_REPEAT: return;
    }
}
