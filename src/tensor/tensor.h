/* tensor: a borrowed view of a weight as it lies in a file. Copied freely; owns nothing. */
#ifndef RIPTIDE_TENSOR_TENSOR_H
#define RIPTIDE_TENSOR_TENSOR_H

#include <stdbool.h>

#include "base/err.h"
#include "tensor/dtype.h"

enum { TENSOR_DIMS_MAX = 4 };

/* GGUF files hold the delta rule's value heads in another order than the rest of the program
 * (model-spec 4.3): head k * r + j of group k lies there as head j * n_groups + k, r = n /
 * n_groups. Rows could be moved, but columns share blocks, and a mapped file is not copied: such a
 * tensor says so, and tensor_row_f32 gives its values in the program's order. */
typedef struct {
    int n, n_groups, size; /* heads, groups (key heads), rows or columns of a head; n = 0: none */
    int64_t from;          /* first row of the heads; rows before it lie as they are */
    bool in_columns;       /* of [N, n * size]; from is 0 */
} tensor_heads;

/* Row-major, outermost dimension first: a linear weight is [N, K] = [out, in]; experts are
 * [X, N, K]. For AFFINE, shape is the logical one (K elements a row, not words) and
 *   data    u32 codes [.., N, K*bits/32], a little-endian bit string along the row
 *   scales  [.., N, K/group] of scale_type; biases alike
 *   value   = scale * code + bias
 * A row of a block type (GGUF) is whole blocks; see block.h. Data may be unaligned (files are
 * mapped). */
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
    tensor_heads heads;   /* block types only, dense, 2 dimensions */
} tensor;

/* Product of the shape; false on overflow or a negative dimension. */
bool tensor_count(const tensor *t, int64_t *n);
/* The view of slice i along the outermost dimension: [X, N, K] -> [N, K]. */
tensor tensor_slice(const tensor *t, int64_t i);
/* Rows [from, to) of a dense [N, K]. */
tensor tensor_rows(const tensor *t, int64_t from, int64_t to);
/* Rows [from, to) of every slice of a dense [X, N, K]: a view with slice_stride. */
tensor tensor_slice_rows(const tensor *t, int64_t from, int64_t to);
/* Which row of the file row i is: i itself unless rows are heads in another order. */
int64_t tensor_file_row(const tensor *t, int64_t i);
/* Which column the file's column c is: c itself unless columns are heads in another order. */
int64_t tensor_our_column(const tensor *t, int64_t c);
/* Row i of [N, K], or a whole [K] with i = 0, of any type here as f32 into out[K]: the definition
 * of a weight's value. */
void tensor_row_f32(const tensor *t, int64_t i, float *out);
/* "[3072, 384] AFFINE4/64" into out; returns out. */
const char *tensor_format(const tensor *t, char *out, int cap);

#endif
