#include "tensor/half.h"

#include <stdbool.h>

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

/* The 15 low bits shifted into place are the value times 2^-112, subnormals included, so one
 * exact multiplication does all finite cases without a branch. */
float half_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = (uint32_t)(h & 0x7fffu) << 13;
    bool is_finite = (h & 0x7c00u) != 0x7c00u;
    return from_bits(sign | (is_finite ? to_bits(from_bits(rest) * 0x1p112f) : rest | 0x7f800000u));
}

uint16_t half_to_f16(float f)
{
    uint32_t u = to_bits(f), sign = u >> 16 & 0x8000u, abs = u & 0x7fffffffu;
    if (abs > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (abs >> 13 & 0x3ffu));
    if (abs >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on: infinity */
    if (abs < 0x38800000u) {
        /* Subnormal: adding 0.5 puts the last kept bit (2^-24) at the end of the mantissa, and the
         * adder rounds to nearest even. */
        return (uint16_t)(sign | (to_bits(from_bits(abs) + 0.5f) - 0x3f000000u));
    }
    uint32_t r = abs + 0xfffu + (abs >> 13 & 1);
    return (uint16_t)(sign | ((r - 0x38000000u) >> 13));
}

void half_row_from_bf16(const uint16_t *in, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = half_from_bf16(in[i]);
}

void half_row_from_f16(const uint16_t *in, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = half_from_f16(in[i]);
}
