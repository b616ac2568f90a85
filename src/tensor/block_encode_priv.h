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

/* The whole number nearest to x / step in [lo, hi]; nearest to 0 when step is 0. */
int encode_code(float x, float step, int lo, int hi);
/* step so that n values lie well on step * q, q in [lo, hi], -lo >= hi: 0 for zeros. */
float encode_symmetric(const float *x, int n, int lo, int hi);
/* step and min >= 0 so that they lie well on step * q - min, q in [0, top]. */
void encode_affine(const float *x, int n, int top, float *step, float *min);
/* step so that they lie well on step * table[q], q in [0, 15]. */
float encode_table(const float *x, int n, const int8_t *table, int most);
/* The q whose step * table[q] is nearest to x. */
int encode_nearest(float x, float step, const int8_t *table);

/* block_encode_k.c */
void encode_q2_k(const float *x, uint8_t *b);
void encode_q3_k(const float *x, uint8_t *b);
void encode_q4_k(const float *x, uint8_t *b);
void encode_q5_k(const float *x, uint8_t *b);
void encode_q6_k(const float *x, uint8_t *b);
void encode_iq4_xs(const float *x, uint8_t *b);

#endif
