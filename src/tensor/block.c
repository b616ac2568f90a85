#include "tensor/block.h"

#include "base/asserts.h"
#include "tensor/block_priv.h"

/* ---- blocks of 32: element j in the low half of byte j, j + 16 in the high half ------------- */

static void q4_0(const uint8_t *b, float *y)
{
    float d = block_f16(b);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)((b[2 + j] & 15) - 8);
        y[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
    }
}

static void q4_1(const uint8_t *b, float *y)
{
    float d = block_f16(b), m = block_f16(b + 2);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)(b[4 + j] & 15) + m;
        y[j + 16] = d * (float)(b[4 + j] >> 4) + m;
    }
}

static void q5_0(const uint8_t *b, float *y)
{
    float d = block_f16(b);
    uint32_t high = block_u32(b + 2);
    for (int j = 0; j < 16; j++) {
        int low = (b[6 + j] & 15) | (int)(high >> j & 1) << 4;
        int up = b[6 + j] >> 4 | (int)(high >> (j + 16) & 1) << 4;
        y[j] = d * (float)(low - 16);
        y[j + 16] = d * (float)(up - 16);
    }
}

static void q5_1(const uint8_t *b, float *y)
{
    float d = block_f16(b), m = block_f16(b + 2);
    uint32_t high = block_u32(b + 4);
    for (int j = 0; j < 16; j++) {
        int low = (b[8 + j] & 15) | (int)(high >> j & 1) << 4;
        int up = b[8 + j] >> 4 | (int)(high >> (j + 16) & 1) << 4;
        y[j] = d * (float)low + m;
        y[j + 16] = d * (float)up + m;
    }
}

static void q8_0(const uint8_t *b, float *y)
{
    float d = block_f16(b);
    for (int j = 0; j < 32; j++) y[j] = d * (float)(int8_t)b[2 + j];
}

/* ---- 4-bit floats: the table holds doubled values, the scales are halved for that ----------- */

const int8_t block_fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* 2^(e - 128), of which the two smallest are subnormal. */
float block_half_e8m0(uint8_t e)
{
    uint32_t bits = e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static void mxfp4(const uint8_t *b, float *y)
{
    float d = block_half_e8m0(b[0]);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)block_fp4_values[b[1 + j] & 15];
        y[j + 16] = d * (float)block_fp4_values[b[1 + j] >> 4];
    }
}

/* Unsigned E4M3, bias 7, without infinity; 0x7f counts as 0. */
float block_half_ue4m3(uint8_t b)
{
    int exponent = b >> 3 & 15, fraction = b & 7;
    if ((b & 0x7f) == 0x7f || (b & 0x7f) == 0) return 0;
    float v = exponent ? (float)(8 + fraction) : (float)fraction;
    for (int i = exponent ? exponent : 1; i < 10; i++) v *= 0.5f;
    for (int i = exponent; i > 10; i--) v *= 2;
    return 0.5f * v;
}

void block_nvfp4(const uint8_t *b, float *scales, int8_t *values)
{
    for (int s = 0; s < 4; s++) {
        scales[s] = block_half_ue4m3(b[s]);
        for (int j = 0; j < 8; j++) {
            uint8_t q = b[4 + 8 * s + j];
            values[16 * s + j] = block_fp4_values[q & 15];
            values[16 * s + 8 + j] = block_fp4_values[q >> 4];
        }
    }
}

/* ---- rows ---------------------------------------------------------------------------------- */

typedef void decode_block(const uint8_t *block, float *y);

static decode_block *const decoders[DTYPE_COUNT] = {
    [DTYPE_Q4_0] = q4_0,           [DTYPE_Q4_1] = q4_1,       [DTYPE_Q5_0] = q5_0,
    [DTYPE_Q5_1] = q5_1,           [DTYPE_Q8_0] = q8_0,       [DTYPE_Q2_K] = block_q2_k,
    [DTYPE_Q4_K] = block_q4_k,     [DTYPE_Q5_K] = block_q5_k, [DTYPE_IQ4_NL] = block_iq4_nl,
    [DTYPE_IQ4_XS] = block_iq4_xs, [DTYPE_MXFP4] = mxfp4,
};

static block_coder *const coders[DTYPE_COUNT] = {
    [DTYPE_Q3_K] = block_q3_k,     [DTYPE_Q6_K] = block_q6_k,   [DTYPE_NVFP4] = block_nvfp4,
    [DTYPE_IQ1_S] = block_iq1_s,   [DTYPE_IQ1_M] = block_iq1_m, [DTYPE_IQ2_XXS] = block_iq2_xxs,
    [DTYPE_IQ2_XS] = block_iq2_xs, [DTYPE_IQ2_S] = block_iq2_s, [DTYPE_IQ3_XXS] = block_iq3_xxs,
    [DTYPE_IQ3_S] = block_iq3_s,
};

block_coder *block_coder_of(dtype type)
{
    return coders[type];
}

static void decode_coded(block_coder *code, const uint8_t *b, int n, float *y)
{
    float scales[16];
    int8_t values[256];
    code(b, scales, values);
    for (int i = 0; i < n; i++) y[i] = scales[i / 16] * (float)values[i];
}

int64_t block_row_bytes(dtype type, int64_t k)
{
    return k / dtype_block(type) * dtype_block_bytes(type);
}

void block_decode_row(dtype type, const void *row, int64_t k, float *out)
{
    ASSERT(dtype_is_block(type));
    const uint8_t *b = row;
    int n = dtype_block(type), n_bytes = dtype_block_bytes(type);
    DASSERT(k % n == 0);
    for (int64_t i = 0; i + n <= k; i += n, b += n_bytes) {
        if (coders[type])
            decode_coded(coders[type], b, n, out + i);
        else
            decoders[type](b, out + i);
    }
}
