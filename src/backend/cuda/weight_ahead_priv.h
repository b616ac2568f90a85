/* weight_ahead: which weights the next launch reads, so that their first parts can be on their way
 * into the second-level cache while this launch ends and small kernels run between the two.
 *
 * A step is the same sequence of launches each time, so what follows a launch is learned from the
 * last time. A wrong guess costs bandwidth, never a result. Pure C, tested without a GPU.
 *
 * Thread: one at a time (the backend's). */
#ifndef RIPTIDE_BACKEND_CUDA_WEIGHT_AHEAD_PRIV_H
#define RIPTIDE_BACKEND_CUDA_WEIGHT_AHEAD_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    AHEAD_SPANS_MAX = 4,
    AHEAD_LAUNCHES_MAX = 4096, /* a power of two; more than a step of any model has */
    AHEAD_BYTES_MIN = 512,     /* of a run, below which it isn't worth an instruction */
};

/* n_rows blocks of outputs, row_bytes apart; each is cut into n_slices runs, slice_bytes apart,
 * that are read at the same time from their beginnings. `bytes` of each run are fetched ahead: a
 * multiple of 16; 0 = none. */
typedef struct {
    const void *from;
    int64_t row_bytes;
    int32_t n_rows, n_slices, slice_bytes, bytes;
} ahead_span;

typedef struct {
    int n;
    ahead_span span[AHEAD_SPANS_MAX];
} ahead_spans;

/* Add a span; one too many is left out. row_bytes and slice_bytes must be multiples of 16. */
void ahead_add(ahead_spans *s, const void *from, int64_t row_bytes, int64_t n_rows, int n_slices,
               int64_t slice_bytes);
/* Bytes of all runs to their ends. */
int64_t ahead_total(const ahead_spans *s);
/* Set `bytes` so that all spans together fetch at most `budget`, the same share of every run. */
void ahead_fit(ahead_spans *s, int64_t budget);

typedef struct {
    const void *key; /* the launch's first weight; NULL: free */
    int next;        /* place of the launch that followed the last time; -1: not known */
    ahead_spans own;
} ahead_launch;

typedef struct {
    int n, last; /* last: place of the launch before; -1: none */
    ahead_launch at[AHEAD_LAUNCHES_MAX];
} ahead_table;

/* Forget all launches; also how a table begins. */
void ahead_clear(ahead_table *t);
/* Launch `key` reads `own` now; returns what the launch after it read the last time (valid until
 * the next call; n = 0: not known). */
ahead_spans ahead_note(ahead_table *t, const void *key, const ahead_spans *own);

#ifdef __cplusplus
}
#endif
#endif
