/* block_priv: one block of each type to f32; block.c has the table. */
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
void block_q3_k(const uint8_t *b, float *y);
void block_q4_k(const uint8_t *b, float *y);
void block_q5_k(const uint8_t *b, float *y);
void block_q6_k(const uint8_t *b, float *y);

/* block_iq.c */
void block_iq1_s(const uint8_t *b, float *y);
void block_iq1_m(const uint8_t *b, float *y);
void block_iq2_xxs(const uint8_t *b, float *y);
void block_iq2_xs(const uint8_t *b, float *y);
void block_iq2_s(const uint8_t *b, float *y);
void block_iq3_xxs(const uint8_t *b, float *y);
void block_iq3_s(const uint8_t *b, float *y);
void block_iq4_nl(const uint8_t *b, float *y);
void block_iq4_xs(const uint8_t *b, float *y);

#endif
