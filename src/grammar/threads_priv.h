/* threads: where in a grammar a text may be, and one byte further.
 *
 * A text can be read in several ways at once; each is a thread: a node, how far inside it, and a
 * stack of frames below (calls to return to, counts). Frames are shared and never change, so a
 * copy of a thread is four numbers. A frame's parent always has a lower number. */
#ifndef RIPTIDE_GRAMMAR_THREADS_PRIV_H
#define RIPTIDE_GRAMMAR_THREADS_PRIV_H

#include "grammar/graph_priv.h"

typedef struct {
    uint32_t node;
    uint32_t at;     /* BYTES, SPACE: bytes done; LEAF: state * n_inner + inner state */
    uint32_t count;  /* LEAF: characters done, as far as bounds need it */
    uint32_t parent; /* frame; 0 = none */
} thread;

typedef struct {
    uint32_t parent, node, count, depth;
    uint64_t hash; /* of the whole stack from here down */
} frame;

enum { THREADS_FRAMES_MOST = 16384, THREADS_SLOTS = 4 * GRAMMAR_THREADS_MOST };

typedef struct {
    const grammar *g;
    frame *frames; /* [THREADS_FRAMES_MOST]; 0 is not used */
    uint32_t n_frames;
    thread *out; /* where threads are written, [n_most] */
    int n_out, n_most;
    thread *todo;    /* [2 * GRAMMAR_THREADS_MOST] */
    uint32_t *slots; /* [THREADS_SLOTS] round << 12 | index into out */
    uint32_t round;
} threads;

/* NULL members on failure; false without memory. */
bool threads_init(threads *t, const grammar *g);
void threads_fini(threads *t);

/* Begin a set of threads at out[0 ..]; a full out drops what does not fit. */
void threads_begin(threads *t, thread *out, int n_most);
/* Add all that can be reached from a node without reading. */
void threads_enter(threads *t, uint32_t node, uint32_t parent);
/* Add what one byte makes of a thread. */
void threads_step(threads *t, thread from, uint8_t byte);

/* Whether the leaf's states allow a character to end in `state` with `count` characters. */
static inline bool leaf_count_fits(const node *n, const leaf *l, uint32_t state, uint32_t count)
{
    return n->most == EXPR_NO_MOST || count + l->least[state] <= (uint32_t)n->most;
}
/* The count to keep: without an upper bound it stops at the lower one. */
static inline uint32_t leaf_count_next(const node *n, uint32_t count)
{
    return n->most == EXPR_NO_MOST && count >= (uint32_t)n->least ? count : count + 1;
}
/* Whether an unfinished character in `inner` can still become one that leads on. */
bool leaf_can_go_on(const node *n, const leaf *l, uint32_t state, uint32_t inner, uint32_t count);

#endif
