/* abba: two builds, or two settings of one, compared as design.md "Measuring" says.
 *
 * Rounds A, B, B, A of `riptide bench backend --json`. Of each metric, a round's value is the
 * median of its samples, a side's the mean of its two rounds; spread is the larger relative
 * disagreement of the two rounds of one side. Over 5 % nothing is known, which counts as failing;
 * allowed is the larger of 2 % and twice the spread. Outputs must be equal, unless a change is
 * expected: then acceptance must not fall by more than 0.02. Pure but for abba_round. */
#ifndef RIPTIDE_BENCH_ABBA_PRIV_H
#define RIPTIDE_BENCH_ABBA_PRIV_H

#include "base/arena.h"
#include "base/str.h"
#include "bench/scenario_priv.h"

enum { ABBA_ROUNDS = 4 }; /* A, B, B, A */

typedef enum { ABBA_PASS, ABBA_FAIL, ABBA_INCONCLUSIVE } abba_verdict;

typedef struct {
    char name[48];
    double rounds[ABBA_ROUNDS];
    double a, b, change, spread, allowed; /* change = b / a - 1 */
    abba_verdict verdict;
} abba_metric;

typedef struct {
    abba_metric metrics[SCENARIO_METRICS_MAX];
    int n, n_failed, n_inconclusive;
    bool has_same_output;
    double acceptance[2]; /* of A and B; -1 where nothing was drafted */
    bool passed;
} abba_result;

/* One metric from its rounds' values. */
abba_metric abba_judge(const char *name, const double rounds[ABBA_ROUNDS]);

/* The record that `bench backend --json` printed. INVALID for anything else */
status abba_parse(arena *a, str text, scenario_record *out, err *e);

/* All of it. INVALID when the rounds do not have the same metrics */
status abba_compare(const scenario_record rounds[ABBA_ROUNDS], bool expects_change,
                    abba_result *out, err *e);

/* Run a shell command and read what it prints. IO when it fails */
status abba_round(arena *a, const char *command, scenario_record *out, err *e);

#endif
