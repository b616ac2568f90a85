/* block_pack: weights of GGUF's block types on the device: affine groups of the same values, 32
 * outputs side by side, and the sum of products that the kernel makes of them.
 *
 * A panel holds 32 outputs, group after group: 32 scales, 32 biases (f32), then the codes as words,
 * a word of each output side by side. A word is 4 codes of 8 bits or 8 of 4, the first lowest. With
 * a code z for zero, value = scale (code - z); without, z is 0 and value = scale code + bias. Pure
 * C, the same on the host, where it is tested without a GPU, and in the kernel. */
#ifndef RIPTIDE_BACKEND_CUDA_BLOCK_PACK_PRIV_H
#define RIPTIDE_BACKEND_CUDA_BLOCK_PACK_PRIV_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "tensor/tensor.h"

#ifdef __CUDACC__
#define BLOCK_FN static __host__ __device__ __forceinline__
#else
#define BLOCK_FN static inline
#endif

enum {
    BLOCK_PANEL_N = 32, /* outputs of a panel: a warp's lanes */
    BLOCK_SLICES = 8,   /* parts of K that are summed apart, then in ascending order */
};

typedef struct {
    int bits, group, zero;
    int64_t n_groups; /* of a row */
} block_format;

BLOCK_FN int64_t block_group_bytes(const block_format *f)
{
    return BLOCK_PANEL_N * (8 + (int64_t)f->group * f->bits / 8);
}

BLOCK_FN int64_t block_panel_bytes(const block_format *f)
{
    return f->n_groups * block_group_bytes(f);
}

/* First group of slice s; slice BLOCK_SLICES begins at the end. By K alone. */
BLOCK_FN int64_t block_slice_begin(const block_format *f, int s)
{
    int64_t each = (f->n_groups + BLOCK_SLICES - 1) / BLOCK_SLICES, at = s * each;
    return at < f->n_groups ? at : f->n_groups;
}

BLOCK_FN float block_bf16(uint32_t bits)
{
    uint32_t u = bits << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* acc[r] += the products of output `lane` of a panel with row r of x over groups [from, to).
 *
 * x  bf16 bits, rows[r] begins row r; 8-byte aligned */
BLOCK_FN void block_dot(const block_format *f, const uint8_t *panel, int lane, int64_t from,
                        int64_t to, const uint16_t *const *rows, int n_rows, float *acc)
{
    int in_word = 32 / f->bits;
    uint32_t mask = (1u << f->bits) - 1;
    for (int64_t g = from; g < to; g++) {
        const uint8_t *at = panel + g * block_group_bytes(f);
        const float *scales = (const float *)(const void *)at;
        const uint32_t *words = (const uint32_t *)(const void *)(at + BLOCK_PANEL_N * 8);
        float scale = scales[lane], bias = scales[BLOCK_PANEL_N + lane];
        float dot[8] = {0}, sum[8] = {0};
        for (int k = 0; k < f->group; k += 4) {
            uint32_t word = words[k / in_word * BLOCK_PANEL_N + lane] >> (k % in_word * f->bits);
            float w[4];
            for (int i = 0; i < 4; i++)
                w[i] = (float)((int)(word >> (i * f->bits) & mask) - f->zero);
            for (int r = 0; r < n_rows; r++) {
                const uint32_t *two = (const uint32_t *)(const void *)(rows[r] + g * f->group + k);
                float x[4] = {block_bf16(two[0] & 0xffffu), block_bf16(two[0] >> 16),
                              block_bf16(two[1] & 0xffffu), block_bf16(two[1] >> 16)};
                for (int i = 0; i < 4; i++) {
                    dot[r] = fmaf(w[i], x[i], dot[r]);
                    sum[r] += x[i];
                }
            }
        }
        for (int r = 0; r < n_rows; r++) acc[r] = fmaf(scale, dot[r], fmaf(bias, sum[r], acc[r]));
    }
}

/* Of a matrix [N, K] of a block type. */
block_format block_format_of(const tensor *t);
/* Whether its groups stay whole in the program's order of columns. */
bool block_is_packable(const tensor *t);

/* Bytes of a weight as the device has it: of its panels; of a table, which becomes AFFINE rows, of
 * their codes, with *side those of the scales and once more of the biases (else 0). */
int64_t block_pack_bytes(const tensor *t, bool is_table, int64_t *side);

/* Panel `panel` of [N, K] into out [block_panel_bytes]; outputs from N on become zeros.
 *
 * codes   [K] and groups [2 * n_groups]: the caller's, to work in */
void block_pack_panel(const tensor *t, int64_t panel, uint8_t *codes, float *groups, uint8_t *out);

/* Row `row` of a table as the device's tables have AFFINE rows: codes of f.bits as a bit string,
 * scale and bias of each group, in the program's order. */
void block_pack_row(const tensor *t, int64_t row, uint8_t *codes, float *groups, uint8_t *out_codes,
                    float *out_scales, float *out_biases);

#ifdef __cplusplus
}
#endif
#endif
