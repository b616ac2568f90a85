/* block_encode: f32 values to the plain and block types that `convert` writes.
 *
 * Our own choice of scales: each group's scale is tried around the one that reaches its largest
 * value and the one with the least squared error is kept; scales are rounded as they are stored
 * before the codes are made. What is written decodes as block.h says. Thread: any; no state. */
#ifndef RIPTIDE_TENSOR_BLOCK_ENCODE_H
#define RIPTIDE_TENSOR_BLOCK_ENCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, NVFP4. The
 * codebook types (IQ1*, IQ2*, IQ3*) can be read, not written. */
bool block_can_encode(dtype type);

/* One row of k finite values (k whole blocks) into block_row_bytes(type, k) bytes at out. */
void block_encode_row(dtype type, const float *in, int64_t k, void *out);

#endif
