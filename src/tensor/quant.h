/* quant: block layouts and their scalar codecs: the definition of truth for every kernel.
 *
 * MLX affine: along a row of K elements, groups of `group`; code q is unsigned `bits` wide, bits
 * 2, 4, 8 never straddle a 32-bit word, 3, 5, 6 do; element i starts at bit i*bits of the
 * little-endian bit string. value = scale*q + bias, in f32, product and sum each rounded.
 * INT8 KV: symmetric per token and KV head: scale = max|x| / 127, q = round-half-even(x / scale),
 * value = scale * q; a zero vector has scale 0. */
#ifndef RIPTIDE_TENSOR_QUANT_H
#define RIPTIDE_TENSOR_QUANT_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

bool quant_affine_is_valid(int bits, int group);
/* Bytes of the codes of a row of k elements (k a multiple of 32). */
int64_t quant_affine_row_bytes(int64_t k, int bits);
/* The code of element i of a row. */
uint32_t quant_affine_code(const void *row, int64_t i, int bits);
/* One row of k elements to f32. scales, biases: k/group values of scale_type. */
void quant_affine_decode_row(const void *row, const void *scales, const void *biases,
                             dtype scale_type, int bits, int group, int64_t k, float *out);
/* One row of k f32 to codes and bf16 scales and biases, the way MLX's quantiser chooses them:
 * scale = (max - min) / (2^bits - 1), negated so that the edge of larger magnitude is met
 * exactly; scale and bias rounded to bf16 before the codes are made. */
void quant_affine_encode_row(const float *in, int64_t k, int bits, int group, void *row,
                             uint16_t *scales, uint16_t *biases);

/* d values to q[d] and the scale. */
float quant_kv_encode(const float *in, int d, int8_t *q);

#endif
