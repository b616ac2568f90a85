/* plan: the tensors of a checkpoint that is written without ever being in memory.
 *
 * Contents are a counter generator: the i-th 8 bytes of a tensor's stream are a hash of (key, i),
 * so that any thread can make any part. A tensor of 16-bit numbers looks each byte of the stream
 * up in a table of 256 levels; codes are the stream itself. */
#ifndef RIPTIDE_BENCH_PLAN_PRIV_H
#define RIPTIDE_BENCH_PLAN_PRIV_H

#include "base/arena.h"
#include "base/err.h"
#include "tensor/dtype.h"

enum { PLAN_EDGE_MAX = 64 };

/* The first bytes of a row when they are not random. */
typedef struct {
    int n;
    uint8_t keep[PLAN_EDGE_MAX];  /* bits of the random byte that stay */
    uint8_t value[PLAN_EDGE_MAX]; /* bits that are set */
} plan_edge;

/* One row that is not random at all: `edge` and then `fill`. */
typedef struct {
    int64_t row;
    plan_edge edge;
    uint8_t fill[2]; /* repeated */
} plan_mark;

typedef struct {
    const char *name;
    dtype type;
    int n_dims;
    int64_t shape[3];
    int64_t n_bytes, n_rows; /* n_rows = all dimensions but the last */
    uint64_t key;
    const uint16_t *levels; /* [256], or NULL: random bytes */
    const plan_edge *edge;  /* of every row, or NULL */
    const plan_mark *mark;  /* or NULL */
    int shard;
    int64_t offset; /* in the shard's data */
} plan_tensor;

typedef struct {
    arena mem;
    plan_tensor *list; /* in mem */
    int n, cap;
    bool failed; /* out of memory; adding does nothing from there on */
    uint64_t seed;
    int n_shards;
    int64_t n_bytes;
} plan;

void plan_init(plan *p, uint64_t seed);
void plan_fini(plan *p);

/* Append a tensor of random bytes; change its other fields through the answer (a sink when out of
 * memory, never NULL). dims: outermost first, at most 3. */
plan_tensor *plan_add(plan *p, dtype type, const int64_t *dims, int n_dims, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* 256 levels in plan memory: bf16 numbers evenly from lo to hi. */
const uint16_t *plan_levels(plan *p, double lo, double hi);

/* Bytes [at, at + n) of a tensor; at is a multiple of 8. Thread: any. */
void plan_fill(const plan_tensor *t, int64_t at, int64_t n, uint8_t *out);

/* Put the tensors into files of at most max_bytes of data (a larger tensor gets its own). */
void plan_shard(plan *p, int64_t max_bytes);

/* Write all files of the plan into dir (which exists), with an index when there are several.
 * format: "mlx" or NULL, for the header's metadata. All cores fill and write.
 *
 * Returns  IO, NOMEM */
status plan_write(const plan *p, const char *dir, const char *format, err *e);

#endif
