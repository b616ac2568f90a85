/* workers: a fixed pool of threads for parallel-for over static chunks.
 *
 * The caller takes part as worker 0. How work is cut never changes results: kernels give each
 * output element to exactly one worker and compute it the same way whoever it is.
 * Workers spin for a short while after a run, then sleep. Thread: one caller at a time. */
#ifndef RIPTIDE_BASE_WORKERS_H
#define RIPTIDE_BASE_WORKERS_H

#include <stdint.h>

#include "base/err.h"

typedef struct workers workers;

/* n >= 1 threads in all, the caller included; n = 0 takes the cores of the process. */
status workers_open(workers **w, int n, err *e);
void workers_close(workers *w); /* NULL is fine */
int workers_count(const workers *w);

/* Call fn(ctx, begin, end, worker) on each worker with its share of [0, n), chunk ends rounded to
 * multiples of `grain` (>= 1); returns when all are done. Allocates nothing. */
typedef void workers_fn(void *ctx, int64_t begin, int64_t end, int worker);
void workers_for(workers *w, int64_t n, int64_t grain, workers_fn *fn, void *ctx);

#endif
