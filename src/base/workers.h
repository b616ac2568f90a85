/* workers: a fixed pool of threads for parallel-for over static chunks.
 *
 * The caller takes part as worker 0. How work is cut never changes results: kernels give each
 * output element to exactly one worker and compute it the same way whoever it is.
 * Workers spin for a short while after a run, then sleep. On a busy machine a run does not wait
 * for a worker that has not begun: the caller does its share. Thread: one caller at a time. */
#ifndef RIPTIDE_BASE_WORKERS_H
#define RIPTIDE_BASE_WORKERS_H

#include <stdint.h>

#include "base/err.h"

typedef struct workers workers;

/* n >= 1 threads in all, the caller included; n = 0 takes the cores of the process. */
status workers_open(workers **w, int n, err *e);
void workers_close(workers *w); /* NULL is fine */
int workers_count(const workers *w);

/* Bind each worker to a core of its own, of those that the process may use; the caller stays free
 * (its place is the first of them). For a machine that does nothing else: a bound worker cannot
 * leave a core that another process takes.
 *
 * Returns  INVALID with more threads than cores, UNSUPPORTED when the system refuses */
status workers_pin(workers *w, err *e);

/* Call fn(ctx, begin, end, worker) for each share of [0, n), one a worker, ends rounded to
 * multiples of `grain` (>= 1); returns when all are done. `worker` says who does it, for scratch:
 * no two calls at a time have the same, but 0 may do several. Allocates nothing. */
typedef void workers_fn(void *ctx, int64_t begin, int64_t end, int worker);
void workers_for(workers *w, int64_t n, int64_t grain, workers_fn *fn, void *ctx);

#endif
