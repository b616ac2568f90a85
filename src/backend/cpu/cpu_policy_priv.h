/* cpu_policy: what sampling and the drafter's walk share: penalties and filters of a few sorted
 * candidates (ops.h, sample_args). */
#ifndef RIPTIDE_BACKEND_CPU_POLICY_PRIV_H
#define RIPTIDE_BACKEND_CPU_POLICY_PRIV_H

#include "backend/backend.h"

/* y after repetition, frequency and presence penalty, for a token with this count word that the
 * block itself holds n_more times. */
float cpu_policy_penalise(const sample_policy *p, float y, uint32_t count_word, int n_more);
bool cpu_policy_has_penalty(const sample_policy *p);

/* Whether z passes min_p: z >= this. -inf without min_p. */
float cpu_policy_least(const sample_policy *p, float max);

/* How many of n descending z survive min_p, top_k and top_p, in this order; at least one when
 * n > 0, unless all are -inf. */
int cpu_policy_keep(const sample_policy *p, const float *z, int n);

#endif
