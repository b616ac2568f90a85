/* soak: many clients at the engine for as long as asked: requests of mixed lengths and kinds come,
 * finish and are canceled at random, in memory that does not hold them all. Every answer is
 * compared with what a plain engine gave, a canceled one as far as it went. Thread: clients on the
 * caller's, the engine on its own. */
#ifndef RIPTIDE_BENCH_SOAK_PRIV_H
#define RIPTIDE_BENCH_SOAK_PRIV_H

#include "engine/engine.h"

typedef struct {
    engine_options engine; /* kv_blocks 0: one context and two more */
    int n_clients;         /* 1..64 */
    double seconds;        /* 0: until n_requests */
    int64_t n_requests;
    int longest; /* tokens of a prompt */
    uint64_t seed;
    void (*on_second)(const engine_counters *c, int64_t rss); /* now and then; NULL for none */
} soak_request;

typedef struct {
    int64_t n_done, n_canceled, n_wrong, n_failed, n_stuck, n_prompt_tokens, n_tokens;
    int64_t rss_early, rss_late;         /* after a fifth of the time, and at its end */
    int64_t n_live_before, n_live_after; /* allocations */
    int64_t ledger_bytes;                /* of the plan, what need not be touched at once */
    bool blocks_add_up;
    engine_counters count;
    char first_wrong[160];
} soak_record;

status soak_run(const soak_request *r, soak_record *out, err *e);

/* Nothing wrong, stuck, failed, lost or grown (by more than 2 % and 16 MiB). */
bool soak_passed(const soak_record *r);

#endif
