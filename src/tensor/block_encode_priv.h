/* block_encode_priv: choices that the encoders share. */
#ifndef RIPTIDE_TENSOR_BLOCK_ENCODE_PRIV_H
#define RIPTIDE_TENSOR_BLOCK_ENCODE_PRIV_H

#include "tensor/block_encode.h"
#include "tensor/block_priv.h"

static inline void encode_f16(uint8_t *p, float v)
{
    uint16_t h = half_to_f16(v);
    memcpy(p, &h, 2);
}

/* The whole number nearest to v in [lo, hi]; lo for NaN. */
static inline float encode_round(float v, float lo, float hi)
{
    /* 1.5 * 2^23: added to a number below 2^22 it leaves no bits behind the point, rounded to even,
     * as rintf does, which is a call. */
    const float rounder = 12582912;
    v = v > lo ? v : lo;
    v = v < hi ? v : hi;
    return v + rounder - rounder;
}

/* The whole number nearest to x / step in [lo, hi]; nearest to 0 when step is 0. */
static inline int encode_code(float x, float step, int lo, int hi)
{
    if (step == 0) return lo > 0 ? lo : 0;
    return (int)encode_round(x / step, (float)lo, (float)hi);
}

/* block_encode_step.c: n is a multiple of 8. */

/* The value that is largest without its sign; 0 for zeros. */
float encode_largest(const float *x, int n);
/* step so that n values lie well on step * q, q in [lo, hi], -lo >= hi: 0 for zeros. */
float encode_symmetric(const float *x, int n, int lo, int hi);
/* step and min >= 0 so that they lie well on step * q - min, q in [0, top]. */
void encode_affine(const float *x, int n, int top, float *step, float *min);
/* step so that they lie well on step * block_iq4_values[q]. */
float encode_iq4_step(const float *x, int n);
/* The q whose step * block_iq4_values[q], or step * block_fp4_values[q], is nearest to x. */
int encode_iq4_code(float x, float step);
int encode_fp4_code(float x, float step);

/* block_encode_k.c */
void encode_q2_k(const float *x, uint8_t *b);
void encode_q3_k(const float *x, uint8_t *b);
void encode_q4_k(const float *x, uint8_t *b);
void encode_q5_k(const float *x, uint8_t *b);
void encode_q6_k(const float *x, uint8_t *b);
void encode_iq4_xs(const float *x, uint8_t *b);

#endif
