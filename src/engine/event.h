/* event: what a consumer sees of a running request. */
#ifndef RIPTIDE_ENGINE_EVENT_H
#define RIPTIDE_ENGINE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef enum {
    ENGINE_PREFILL, /* a slice of the prompt is done: prefilled of prompt_tokens */
    ENGINE_TOKENS,  /* tokens were emitted; text may lag behind (a held-back character or stop) */
    ENGINE_FINISH,  /* the last event of a choice; text holds what was still held back */
} engine_event_kind;

typedef enum {
    ENGINE_STOP,        /* an end token */
    ENGINE_STOP_STRING, /* a stop string, cut before it */
    ENGINE_LENGTH,      /* max_tokens or the context is full */
    ENGINE_CANCELED,
    ENGINE_FAILED, /* event.error says why */
} engine_finish;

enum { ENGINE_TOP_MAX = 20 };

typedef struct {
    float logprob;                   /* log-softmax of the raw logits at the emitted token */
    int32_t top_ids[ENGINE_TOP_MAX]; /* largest first */
    float top_logprobs[ENGINE_TOP_MAX];
} engine_logprob;

/* Why no more of a prompt was taken over from earlier work. */
typedef enum {
    ENGINE_CACHE_OFF,    /* nothing is kept, or it has not begun */
    ENGINE_CACHE_END,    /* all whole blocks were, but for the last token */
    ENGINE_CACHE_TOKENS, /* its next block's tokens are new */
    ENGINE_CACHE_STATE,  /* they are known, but no state is kept behind them */
} engine_cache_stop;

/* Counters of one choice so far. */
typedef struct {
    int64_t prompt_tokens, completion_tokens;
    int64_t cached_tokens; /* of the prompt, taken over from earlier work */
    engine_cache_stop cache_stop;
    int64_t cycles, drafted, accepted; /* accepted = proposals that were right */
    int64_t suspensions;               /* times it lost its lane and went on later */
    double queue_ms, prefill_ms, decode_ms;
} engine_usage;

/* All pointers are borrowed for the duration of the callback. */
typedef struct {
    uint64_t request;
    int choice;
    engine_event_kind kind;
    const int32_t *ids; /* TOKENS [n_ids], an end token included */
    int n_ids;
    const engine_logprob *logprobs; /* [n_ids] when asked for, else NULL */
    str text;                       /* TOKENS, FINISH: well-formed UTF-8 to append */
    int64_t prefilled;              /* PREFILL */
    engine_finish reason;           /* FINISH */
    int stop_string;                /* FINISH: index of the stop string, or -1 */
    const err *error;               /* FINISH with ENGINE_FAILED, else NULL */
    engine_usage usage;
} engine_event;

#endif
