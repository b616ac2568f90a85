/* client: requests of a benchmark to an engine, and what each of them took.
 *
 * Thread: the one that steps the engine, which is not started. */
#ifndef RIPTIDE_BENCH_CLIENT_PRIV_H
#define RIPTIDE_BENCH_CLIENT_PRIV_H

#include "engine/engine.h"

typedef struct {
    const int32_t *ids;
    int n_ids, n_new; /* tokens of the answer, which no end token ends */
    double temperature;
} client_ask;

typedef struct {
    int64_t start_ns, first_ns; /* submit; first token, 0 = not yet */
    double first_ms, end_ms;    /* from submit */
    double decode_ms;           /* engine_usage's */
    int64_t n_cached, n_new, cycles, drafted, accepted;
    uint64_t output; /* hash of the ids */
    bool is_done;
    err failure;
} client_answer;

/* out is written to by engine_step until it is done. */
status client_submit(engine *en, const client_ask *a, client_answer *out, err *e);
/* Step until idle. Returns the first failure among the n answers. */
status client_wait(engine *en, const client_answer *all, int n, err *e);
status client_ask_one(engine *en, const client_ask *a, client_answer *out, err *e);

/* Append lines of code like no other until ids holds at least n tokens. */
status client_text(const tokenizer *t, int64_t n, token_ids *ids, err *e);

#endif
