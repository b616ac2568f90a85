/* block_bytes: random weights of GGUF's block types. */
#ifndef RIPTIDE_TESTS_BLOCK_BYTES_H
#define RIPTIDE_TESTS_BLOCK_BYTES_H

#include "support/test.h"
#include "tensor/block.h"

/* Random bytes whose f16 scales are small: all bytes of a scale's exponent stay below 0.5. */
static inline void block_bytes_fill(dtype t, uint8_t *b, int64_t n_bytes, uint64_t *seed)
{
    static const int at[DTYPE_COUNT][2] = {
        [DTYPE_Q4_1] = {1, 3},     [DTYPE_Q5_1] = {1, 3},    [DTYPE_Q2_K] = {81, 83},
        [DTYPE_Q3_K] = {109, 109}, [DTYPE_Q4_K] = {1, 3},    [DTYPE_Q5_K] = {1, 3},
        [DTYPE_Q6_K] = {209, 209}, [DTYPE_IQ1_M] = {55, 55}, [DTYPE_MXFP4] = {0, 0},
        [DTYPE_NVFP4] = {0, 1},
    };
    for (int64_t i = 0; i < n_bytes; i++) b[i] = (uint8_t)test_random(seed);
    for (int64_t i = 0; i < n_bytes; i += dtype_block_bytes(t)) {
        uint8_t *p = b + i;
        int first = at[t][0], second = at[t][1] ? at[t][1] : first;
        if (t == DTYPE_MXFP4) {
            p[0] = (uint8_t)(118 + p[0] % 4);
        } else if (t == DTYPE_NVFP4) {
            for (int k = 0; k < 4; k++) p[k] &= 0x3f;
        } else if (t == DTYPE_IQ1_M) {
            p[55] = (uint8_t)((p[55] & 0x8f) | 0x20);
        } else {
            if (first == 0) first = second = 1;
            p[first] = (uint8_t)((p[first] & 0x83) | 0x20);
            p[second] = (uint8_t)((p[second] & 0x83) | 0x20);
        }
    }
}

#endif
