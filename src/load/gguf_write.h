/* gguf_write: one GGUF file (model-spec 4.3, version 3) written front to back.
 *
 * Keys are collected first; then each tensor's rows are asked for and encoded, some of them at a
 * time over the threads of a pool, so that a model of any size needs the memory of these few rows.
 * What is written does not depend on the threads. Thread: one at a time. */
#ifndef RIPTIDE_LOAD_GGUF_WRITE_H
#define RIPTIDE_LOAD_GGUF_WRITE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/workers.h"
#include "tensor/tensor.h"

/* The keys, in the order in which they are put. A failed allocation shows when the file is written.
 */
typedef struct {
    buf bytes;
    int64_t n;
} gguf_out_keys;

void gguf_out_init(gguf_out_keys *k);
void gguf_out_fini(gguf_out_keys *k);
void gguf_out_u32(gguf_out_keys *k, const char *key, uint32_t v);
void gguf_out_f32(gguf_out_keys *k, const char *key, float v);
void gguf_out_bool(gguf_out_keys *k, const char *key, bool v);
void gguf_out_str(gguf_out_keys *k, const char *key, str v);
void gguf_out_ints(gguf_out_keys *k, const char *key, const int32_t *v, int64_t n);
void gguf_out_strs(gguf_out_keys *k, const char *key, const str *v, int64_t n);

typedef struct {
    const char *name;
    dtype type; /* block_can_encode */
    int n_dims;
    int64_t shape[TENSOR_DIMS_MAX]; /* outermost first; the last is whole blocks */
} gguf_out_tensor;

/* Row `row` of tensor i, counted over all outer dimensions, as f32 into out. Called by any thread
 * of the pool, `worker` as workers_for counts them. */
typedef status gguf_out_row(void *ctx, int worker, int i, int64_t row, float *out, err *e);

/* Write beside `path`, flush, rename: a reader sees no file or the whole one.
 *
 * Returns  IO; INVALID for a tensor that cannot be written; NOMEM; what `row` returns */
status gguf_write(const char *path, const gguf_out_keys *k, const gguf_out_tensor *list, int n,
                  workers *pool, gguf_out_row *row, void *ctx, err *e);

#endif
