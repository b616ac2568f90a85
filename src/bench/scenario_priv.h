/* scenario: `riptide bench backend`: what an engine takes for the kinds of work that agents give
 * it.
 *
 *   decode   64 tokens a lane, of 1, 2, 3, 4 and 8 lanes at a time, without the draft and with it
 *   short    prompts of 480 to 2,016 tokens, cold: to the first token
 *   partial  10,000 + 4,096 tokens: cold; the 10,000 alone; then the rest on top of them
 *   context  2K, 10K and 50K tokens: cold, again, with 256 more, an answer, and what follows it
 *   exact    4,096 tokens cold and again
 *   beside   the first token of 64 tokens beside a prompt of 16,384 under way
 * Lengths but those of decode and the 64 are scaled, and cut to the model's context. A metric is a
 * time: less is better. Invariants are kept whatever the machine; one that is not fails the run.
 * Thread: one. */
#ifndef RIPTIDE_BENCH_SCENARIO_PRIV_H
#define RIPTIDE_BENCH_SCENARIO_PRIV_H

#include "engine/engine.h"

enum { SCENARIO_SAMPLES_MAX = 16, SCENARIO_METRICS_MAX = 64, SCENARIO_FAILURES_MAX = 16 };

typedef struct {
    char name[48]; /* its unit is its last word */
    double samples[SCENARIO_SAMPLES_MAX];
    int n;
    uint64_t output; /* hash of the ids of all its samples' answers */
} scenario_metric;

typedef struct {
    scenario_metric metrics[SCENARIO_METRICS_MAX];
    int n;
    char failures[SCENARIO_FAILURES_MAX][96];
    int n_failures;
    int64_t drafted, accepted;
} scenario_record;

typedef struct {
    engine_options engine; /* n_lanes is the scenario's */
    double scale;
    int samples;
    const char *names; /* "decode,short", or "all" */
} scenario_request;

/* on_metric is told each metric when it is whole; NULL for none. Returns INVALID for a name that is
 * no scenario, and what an engine returns */
status scenario_run(const scenario_request *r, scenario_record *out,
                    void (*on_metric)(const scenario_metric *), err *e);

double scenario_median(const double *samples, int n);

#endif
