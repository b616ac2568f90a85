/* block_priv: one block of each type to f32, or to scales and integers; block.c has the tables. */
#ifndef RIPTIDE_TENSOR_BLOCK_PRIV_H
#define RIPTIDE_TENSOR_BLOCK_PRIV_H

#include <string.h>

#include "tensor/block.h"
#include "tensor/half.h"

static inline uint16_t block_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

static inline uint32_t block_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static inline float block_f16(const uint8_t *p)
{
    return half_from_f16(block_u16(p));
}

/* 2^(e - 128), the scale of MXFP4, and its doubled values, which NVFP4 has too. */
float block_half_e8m0(uint8_t e);
float block_half_ue4m3(uint8_t b); /* the scale of NVFP4 */
extern const int8_t block_fp4_values[16];

/* What the codes of IQ4_NL and IQ4_XS stand for. */
extern const int8_t block_iq4_values[16];

/* The 6-bit scale and minimum of group j of 8 in the 12 bytes of Q4_K and Q5_K. */
void block_scale_min(const uint8_t *s, int j, uint8_t *scale, uint8_t *min);

/* block_k.c: super-blocks of 256 */
void block_q2_k(const uint8_t *b, float *y);
void block_q4_k(const uint8_t *b, float *y);
void block_q5_k(const uint8_t *b, float *y);
/* The scale and minimum of group g of 16, and the codes 0 .. 3 of Q2_K. */
void block_q2_k_group(const uint8_t *b, int g, float *scale, float *min, uint8_t *codes);

/* Types of which a value is a scale times an integer: the scales of 16 elements each, and the
 * integers, within -zero .. 127 of block_affine_of. */
typedef void block_coder(const uint8_t *b, float *scales, int8_t *values);
block_coder block_q3_k, block_q6_k, block_nvfp4;                   /* block_k.c, block.c */
block_coder block_iq1_s, block_iq1_m, block_iq2_xxs, block_iq2_xs; /* block_iq.c */
block_coder block_iq2_s, block_iq3_xxs, block_iq3_s;
block_coder *block_coder_of(dtype type); /* NULL for the other types */

/* block_iq.c */
void block_iq4_nl(const uint8_t *b, float *y);
void block_iq4_xs(const uint8_t *b, float *y);

#endif
