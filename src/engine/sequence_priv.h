/* sequence: one choice of a request, from waiting to finished. Everything it needs while running
 * is allocated when it is made.
 *
 * A running sequence can be suspended (engine_admit_priv.h): it waits again without slot and
 * blocks, and when it gets a slot computes what it had of prompt and answer as a prompt. Nothing
 * of what was delivered depends on that. */
#ifndef RIPTIDE_ENGINE_SEQUENCE_PRIV_H
#define RIPTIDE_ENGINE_SEQUENCE_PRIV_H

#include <stdatomic.h>

#include "base/arena.h"
#include "cache/reuse.h"
#include "decode/cycle.h"
#include "engine/engine.h"
#include "grammar/constraint.h"
#include "sample/stop.h"
#include "token/detok.h"

/* What the choices of a request share; freed with the last of them. */
typedef struct request request;
struct request {
    request *next; /* among the engine's live requests, under its lock */
    arena mem;     /* owns ids, bias, stop strings */
    uint64_t id;
    const int32_t *ids; /* [n_ids] */
    int n_ids;
    int64_t max_tokens; /* already cut to the context */
    policy policy;
    const str *stop;
    int n_stop;
    bool wants_logprobs, keeps_special;
    grammar *grammar; /* held, or NULL */
    bool starts_in_reasoning, ends_loops;
    int64_t reasoning_most; /* -1: no limit */
    int priority;
    const int32_t *score_ids; /* [n_scores] */
    int n_scores;
    float *scores; /* the caller's */
    engine_event_fn *on_event;
    void *ctx;
    int n_left; /* choices not yet finished; engine thread */
    atomic_bool is_canceled;
};

enum { SEQ_PLAN_MAX = 16 };

/* A block boundary to keep the state at, and what it will be worth there. */
typedef struct {
    int boundary;
    reuse_weight weight;
} state_plan;

typedef struct sequence sequence;
struct sequence {
    sequence *next; /* in the waiting list */
    request *req;
    int choice;
    int slot;        /* -1 while waiting */
    int32_t *ids;    /* owned [n_ids + max_tokens]: the prompt, then what was emitted */
    int64_t n_new;   /* tokens emitted */
    int64_t pos;     /* tokens done on the way to the goal; then the anchor's position */
    int32_t anchor;  /* last token, not yet in the cache */
    int32_t *blocks; /* owned [n_blocks] KV blocks, the first n_taken are held */
    int n_blocks;    /* most it can come to */
    int n_taken;
    int n_published;               /* first blocks that are nodes of the prefix tree */
    state_plan plan[SEQ_PLAN_MAX]; /* ascending */
    int n_plan;
    int first_end; /* boundary from which on the session's next prompt may leave this one */
    int32_t cell;  /* lent for the boundary that decoding comes to, or -1 */
    bool has_waited;
    /* Scheduling (engine_admit_priv.h). */
    int64_t work; /* prompt tokens that the cache does not have, as of work_stamp */
    int64_t work_stamp;
    int64_t overtaken; /* tokens computed for later ones ahead of this one */
    int64_t floor;     /* position that a suspension at every chance must come past */
    int64_t shown;     /* prompt tokens told as done */
    int n_recomputed;  /* times that its numbers were no numbers */
    detok detok;
    stop stop;
    buf raw, text;            /* reused for every event */
    engine_logprob *logprobs; /* owned [OPS_ROWS_MAX] when wanted */
    constraint *constraint;   /* owned; NULL: any token may come */
    engine_usage usage;
    int64_t submitted_ns, prefill_ns, decode_ns; /* when each stage began */
    int64_t last_ns;                             /* of the last tokens */
};

/* Copy what the caller lent. Returns NOMEM or INVALID (stop strings). */
status request_new(request **r, const engine_request *from, int64_t max_tokens, err *e);
void request_free(request *r);

status sequence_new(sequence **s, request *r, int choice, const vocab *v, err *e);
void sequence_free(sequence *s);

/* Position of the anchor that decoding goes on from: prompt and answer so far but for the last
 * token are computed before. */
static inline int64_t sequence_goal(const sequence *s)
{
    return s->req->n_ids + s->n_new - 1;
}

/* It has a slot and is on the way to its goal. */
static inline bool sequence_is_prefilling(const sequence *s)
{
    return s && s->pos < sequence_goal(s);
}

/* a came before b. */
static inline bool sequence_is_older(const sequence *a, const sequence *b)
{
    return a->req->id < b->req->id || (a->req->id == b->req->id && a->choice < b->choice);
}

/* The slot's device settings for this choice. bias [OPS_BIAS_MAX] is filled. */
sample_policy sequence_policy(const sequence *s, const int32_t *eos, int n_eos, sample_bias *bias);

/* Deliver tokens: detokenise, cut at stop strings, call back. Returns true when a stop string was
 * met; *n_used tells how many of the ids count. */
bool sequence_emit(sequence *s, const cycle_result *r, bool ends, int *n_used);
void sequence_emit_prefill(sequence *s);
void sequence_finish(sequence *s, engine_finish reason, const err *error);

#endif
