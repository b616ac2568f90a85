/* block: the block types of GGUF files and what their bytes mean (model-spec 4.4).
 *
 * A row of K elements is K / dtype_block whole blocks one after another, each with its own scales;
 * blocks may be unaligned. These scalar codecs are the definition of a weight's value for every
 * backend. A value is formed in f32 from f16 scales and integer codes: a scale times its integer
 * part first, then times the code, then the offset, each rounded. Of the types, Q*_0, Q*_1, Q8_0,
 * Q4_K and Q5_K round at most once that way. Thread: any; no state. */
#ifndef RIPTIDE_TENSOR_BLOCK_H
#define RIPTIDE_TENSOR_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* Bytes of a row of k elements of a plain or block type; k is whole blocks. */
int64_t block_row_bytes(dtype type, int64_t k);

/* One row of k elements of a block type to f32. */
void block_decode_row(dtype type, const void *row, int64_t k, float *out);

/* Every block type is affine groups in another form: value = scale * code + bias, with unsigned
 * codes. Where a code's zero is the same in all groups, bias = -zero * scale. */
typedef struct {
    int bits;  /* of a code: 4 or 8 */
    int group; /* elements that share a scale: 16 or 32 */
    int zero;  /* the code of the value 0, or 0 when each group has a bias of its own */
} block_affine;
block_affine block_affine_of(dtype type);

/* Such a row of k elements: codes[k], scales and biases [k / group]. In real numbers scale * code +
 * bias is the value; block_decode_row rounds it to f32. */
void block_affine_row(dtype type, const void *row, int64_t k, uint8_t *codes, float *scales,
                      float *biases);

#endif
