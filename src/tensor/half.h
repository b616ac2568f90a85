/* half: bf16 and f16 to and from f32, scalar. To-half rounds to nearest even; NaN stays NaN. */
#ifndef RIPTIDE_TENSOR_HALF_H
#define RIPTIDE_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline float half_from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint16_t half_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

float half_from_f16(uint16_t h);
uint16_t half_to_f16(float f);

/* n elements. */
void half_row_from_bf16(const uint16_t *in, float *out, int64_t n);
void half_row_from_f16(const uint16_t *in, float *out, int64_t n);

#endif
