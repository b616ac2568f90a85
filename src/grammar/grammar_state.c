#include "base/asserts.h"
#include "base/mem.h"
#include "grammar/token_mask_priv.h"

enum { HISTORY_MOST = 1 << 16 };

/* One place in the text: its threads, in places[...]. */
typedef struct {
    int n;
    bool has_ended; /* behind an end token */
    thread *list;   /* [GRAMMAR_THREADS_MOST] */
} place;

struct grammar_state {
    const grammar *g;
    grammar_tokens *t;
    threads w;
    int n_places, first, n_steps; /* places is a ring: the oldest, and how many steps after it */
    place *places;
    thread *lists;   /* all of them */
    thread *other;   /* [2, GRAMMAR_THREADS_MOST] between two bytes */
    uint32_t *moved; /* [THREADS_FRAMES_MOST] for compacting the frames */
};

static place *place_at(const grammar_state *s, int step)
{
    return &s->places[(s->first + step) % s->n_places];
}

static place *current(const grammar_state *s)
{
    return place_at(s, s->n_steps);
}

void grammar_state_close(grammar_state *s)
{
    if (!s) return;
    threads_fini(&s->w);
    mem_free(s->places);
    mem_free(s->lists);
    mem_free(s->other);
    mem_free(s->moved);
    mem_free(s);
}

status grammar_state_open(grammar_state **out, const grammar *g, grammar_tokens *t, int history,
                          err *e)
{
    if (history < 0 || history > HISTORY_MOST)
        return err_set(e, ERR_INVALID, "grammar", -1, "a history of %d steps", history);
    size_t n = (size_t)history + 2;
    grammar_state *s = mem_new(sizeof *s);
    if (!s) return err_set(e, ERR_NOMEM, "grammar", -1, "a state");
    s->g = g;
    s->t = t;
    s->n_places = (int)n;
    s->places = mem_new_array(n, sizeof *s->places);
    s->lists = mem_new_array(n * GRAMMAR_THREADS_MOST, sizeof *s->lists);
    s->other = mem_new_array(2 * GRAMMAR_THREADS_MOST, sizeof *s->other);
    s->moved = mem_new_array(THREADS_FRAMES_MOST, sizeof *s->moved);
    if (!threads_init(&s->w, g) || !s->places || !s->lists || !s->other || !s->moved) {
        grammar_state_close(s);
        return err_set(e, ERR_NOMEM, "grammar", -1, "a state");
    }
    for (size_t i = 0; i < n; i++) s->places[i].list = s->lists + i * GRAMMAR_THREADS_MOST;
    threads_begin(&s->w, s->places[0].list, GRAMMAR_THREADS_MOST);
    threads_enter(&s->w, g->start, 0);
    s->places[0].n = s->w.n_out;
    *out = s;
    return ERR_OK;
}

status grammar_state_fork(grammar_state **copy, const grammar_state *s, err *e)
{
    grammar_state *c;
    const place *from = current(s);
    TRY(grammar_state_open(&c, s->g, s->t, s->n_places - 2, e));
    memcpy(c->w.frames, s->w.frames, s->w.n_frames * sizeof *c->w.frames);
    c->w.n_frames = s->w.n_frames;
    memcpy(c->places[0].list, from->list, (size_t)from->n * sizeof *from->list);
    c->places[0].n = from->n;
    c->places[0].has_ended = from->has_ended;
    *copy = c;
    return ERR_OK;
}

void grammar_state_use_tokens(grammar_state *s, grammar_tokens *t)
{
    s->t = t;
}

/* Keep only frames below a thread of some place. Parents have lower numbers, so that sliding
 * down in order finds each parent moved already. */
static void compact(grammar_state *s)
{
    threads *w = &s->w;
    memset(s->moved, 0, w->n_frames * sizeof *s->moved);
    for (int i = 0; i <= s->n_steps; i++) {
        const place *p = place_at(s, i);
        for (int k = 0; k < p->n; k++)
            for (uint32_t f = p->list[k].parent; f && !s->moved[f]; f = w->frames[f].parent)
                s->moved[f] = 1;
    }
    uint32_t n = 1;
    for (uint32_t f = 1; f < w->n_frames; f++) {
        if (!s->moved[f]) continue;
        frame kept = w->frames[f];
        kept.parent = s->moved[kept.parent];
        w->frames[n] = kept;
        s->moved[f] = n++;
    }
    w->n_frames = n;
    for (int i = 0; i <= s->n_steps; i++) {
        place *p = place_at(s, i);
        for (int k = 0; k < p->n; k++) p->list[k].parent = s->moved[p->list[k].parent];
    }
}

/* Where the next step is written: a new place, in which the oldest one is lost when all are used.
 */
static place *next_place(grammar_state *s)
{
    if (s->n_steps == s->n_places - 1) {
        s->first = (s->first + 1) % s->n_places;
        s->n_steps--;
    }
    return place_at(s, s->n_steps + 1);
}

bool grammar_state_advance_bytes(grammar_state *s, str bytes)
{
    threads *w = &s->w;
    if (w->n_frames > THREADS_FRAMES_MOST / 2) compact(s);
    uint32_t n_frames = w->n_frames;
    const place *from = current(s);
    const thread *list = from->list;
    int n = from->n;
    for (size_t i = 0; i < bytes.len && n > 0; i++) {
        threads_begin(w, s->other + (i % 2) * GRAMMAR_THREADS_MOST, GRAMMAR_THREADS_MOST);
        for (int k = 0; k < n; k++) threads_step(w, list[k], (uint8_t)bytes.ptr[i]);
        list = w->out;
        n = w->n_out;
    }
    if (n == 0 || from->has_ended) {
        w->n_frames = n_frames;
        return false;
    }
    place *to = next_place(s);
    memcpy(to->list, list, (size_t)n * sizeof *list);
    to->n = n;
    to->has_ended = false;
    s->n_steps++;
    return true;
}

bool grammar_state_advance(grammar_state *s, int32_t id)
{
    ASSERT(s->t);
    for (int i = 0; i < s->t->n_eos; i++) {
        if (s->t->eos[i] != id) continue;
        if (!grammar_state_can_end(s)) return false;
        place *to = next_place(s);
        to->n = 0;
        to->has_ended = true;
        s->n_steps++;
        return true;
    }
    if (!vocab_has(s->t->v, id) || vocab_is_special(s->t->v, id) || id >= s->t->V) return false;
    str bytes = vocab_bytes(s->t->v, id);
    return bytes.len > 0 && grammar_state_advance_bytes(s, bytes);
}

void grammar_state_rollback(grammar_state *s, int n)
{
    ASSERT(n >= 0 && n <= s->n_steps);
    s->n_steps -= n;
}

int grammar_state_steps(const grammar_state *s)
{
    return s->n_steps;
}

bool grammar_state_can_end(const grammar_state *s)
{
    const place *p = current(s);
    for (int i = 0; i < p->n; i++)
        if (s->g->nodes[p->list[i].node].kind == NODE_END) return true;
    return false;
}

int grammar_state_mask(grammar_state *s, uint32_t *words)
{
    ASSERT(s->t);
    const place *p = current(s);
    if (s->w.n_frames > THREADS_FRAMES_MOST / 2) compact(s);
    return token_mask_fill(s->t, &s->w, p->list, p->n, words);
}
