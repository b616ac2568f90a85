/* tensor: a borrowed view of a weight as it lies in a file. Copied freely; owns nothing. */
#ifndef RIPTIDE_TENSOR_TENSOR_H
#define RIPTIDE_TENSOR_TENSOR_H

#include <stdbool.h>

#include "base/err.h"
#include "tensor/dtype.h"

enum { TENSOR_DIMS_MAX = 4 };

/* Row-major, outermost dimension first: a linear weight is [N, K] = [out, in]; experts are
 * [X, N, K]. For AFFINE, shape is the logical one (K elements a row, not words) and
 *   data    u32 codes [.., N, K*bits/32], a little-endian bit string along the row
 *   scales  [.., N, K/group] of scale_type; biases alike
 *   value   = scale * code + bias
 * Data may be unaligned (files are mapped). */
typedef struct {
    dtype type;
    int n_dims;
    int64_t shape[TENSOR_DIMS_MAX];
    const void *data;
    int64_t n_bytes;      /* of data, all slices, as dense */
    const void *scales;   /* AFFINE */
    const void *biases;   /* AFFINE */
    dtype scale_type;     /* AFFINE: F32, F16 or BF16, of scales and biases */
    int bits, group;      /* AFFINE: bits 2,3,4,5,6,8; group 32,64,128 */
    int64_t slice_stride; /* elements from one outermost slice to the next when they are not
                           * dense (half of a fused gate_up); 0 = dense */
} tensor;

/* Product of the shape; false on overflow or a negative dimension. */
bool tensor_count(const tensor *t, int64_t *n);
/* The view of slice i along the outermost dimension: [X, N, K] -> [N, K]. */
tensor tensor_slice(const tensor *t, int64_t i);
/* Rows [from, to) of a dense [N, K]. */
tensor tensor_rows(const tensor *t, int64_t from, int64_t to);
/* Rows [from, to) of every slice of a dense [X, N, K]: a view with slice_stride. */
tensor tensor_slice_rows(const tensor *t, int64_t from, int64_t to);
/* Row i of [N, K], or a whole [K] with i = 0, of any type here as f32 into out[K]: the definition
 * of a weight's value. */
void tensor_row_f32(const tensor *t, int64_t i, float *out);
/* "[3072, 384] AFFINE4/64" into out; returns out. */
const char *tensor_format(const tensor *t, char *out, int cap);

#endif
