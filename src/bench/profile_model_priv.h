/* profile_model: a random model of some shape (make_priv.h) for as long as it takes to open it. */
#ifndef RIPTIDE_BENCH_PROFILE_MODEL_PRIV_H
#define RIPTIDE_BENCH_PROFILE_MODEL_PRIV_H

#include <stdint.h>

#include "base/err.h"
#include "bench/shape_priv.h"

typedef struct {
    char target[4200], draft[4300]; /* folders; empty when there are none */
} profile_model;

/* Make both folders, in memory where that has room for the largest shape.
 * Returns  IO, NOMEM; nothing is left then. Owns  the caller removes them */
status profile_model_make(profile_model *m, const shape *s, uint64_t seed, err *e);
void profile_model_remove(profile_model *m); /* leaves zeros; twice is harmless */

#endif
