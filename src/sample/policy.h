/* policy: how a request wants its tokens chosen; ranges checked, defaults filled.
 *
 * What the numbers mean is the op `sample` (backend/ops.h); this is only what people may ask. */
#ifndef RIPTIDE_SAMPLE_POLICY_H
#define RIPTIDE_SAMPLE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { POLICY_BIAS_MAX = 1024 };

typedef struct {
    int32_t id;
    float value; /* -100 and below forbids the token */
} policy_bias;

typedef struct {
    double temperature; /* [0, 2]; 0 = greedy; below 0.01 but not 0 becomes 0.01 */
    double top_p;       /* (0, 1] */
    double min_p;       /* [0, 1] */
    int64_t top_k;      /* 0 or -1 = off; above the vocabulary = off */
    double repetition;  /* > 0, neutral 1 */
    double presence;    /* [-2, 2] */
    double frequency;   /* [-2, 2] */
    uint64_t seed;
    bool ignore_eos;
    const policy_bias *bias; /* borrowed [n_bias] */
    int n_bias;
} policy;

/* Neutral settings: temperature 1, nothing cut, nothing penalised, seed 0. */
policy policy_neutral(void);

/* Check every range against a vocabulary of V ids and put top_k and temperature in canonical
 * form.
 *
 * Returns  INVALID with where = the request's field name, e.g. "top_p"; *p is then unchanged */
status policy_check(policy *p, int V, err *e);

/* Whether counts of tokens matter. */
bool policy_has_penalties(const policy *p);

#endif
