/* replay: an agent's session against the engine, request after request, and what the prompt cache
 * makes of it.
 *
 * A warm-up prompt, then append-only requests (each holds the one before, its answer and new
 * text), then the last one again, changed in the middle, shortened, beside another agent, and
 * again. At the end the last prompt on an engine that keeps nothing: its ids must be the same.
 * Thread: one. */
#ifndef RIPTIDE_BENCH_REPLAY_PRIV_H
#define RIPTIDE_BENCH_REPLAY_PRIV_H

#include "engine/engine.h"

enum { REPLAY_APPENDS = 11, REPLAY_ROWS_MAX = REPLAY_APPENDS + 8 };

typedef struct {
    engine_options engine;
    double scale; /* 1: 14,500 tokens growing to 31,700 */
    int n_new;    /* tokens of an answer */
    double temperature;
} replay_request;

typedef struct {
    char name[24];
    int64_t n_prompt, n_cached, n_new;
    double first_ms;  /* from submit to the first token */
    double decode_ms; /* from the first token to the last */
    double per_cycle; /* tokens */
    uint64_t output;  /* hash of the ids */
} replay_row;

typedef struct {
    replay_row rows[REPLAY_ROWS_MAX];
    int n;
    engine_cache_counters cache; /* of the engine that keeps, at the end */
    bool is_same;                /* the last prompt's ids, kept and not */
} replay_record;

/* on_row is called after each request; NULL for none. */
status replay_run(const replay_request *r, replay_record *out, void (*on_row)(const replay_row *),
                  err *e);

#endif
