#include "tensor/block_encode.h"

#include <math.h>

#include "base/asserts.h"
#include "tensor/block_encode_priv.h"

/* ---- blocks of 32 --------------------------------------------------------------------------- */

/* Codes to half bytes: element j low in byte j, j + 16 high. */
static void put_halves(const uint8_t *codes, uint8_t *q)
{
    for (int j = 0; j < 16; j++) q[j] = (uint8_t)((codes[j] & 15) | (codes[j + 16] & 15) << 4);
}

static void put_fifth_bits(const uint8_t *codes, uint8_t *p)
{
    uint32_t high = 0;
    for (int j = 0; j < 32; j++) high |= (uint32_t)(codes[j] >> 4 & 1) << j;
    memcpy(p, &high, 4);
}

static void symmetric_32(const float *x, int lo, uint8_t *b, uint8_t *codes)
{
    encode_f16(b, encode_symmetric(x, 32, lo, -lo - 1));
    float d = block_f16(b);
    for (int j = 0; j < 32; j++) codes[j] = (uint8_t)(encode_code(x[j], d, lo, -lo - 1) - lo);
}

/* The offset is any number here, not only a negative one. */
static void affine_32(const float *x, int top, uint8_t *b, uint8_t *codes)
{
    float lo = x[0], moved[32], step, min;
    for (int j = 1; j < 32; j++) lo = x[j] < lo ? x[j] : lo;
    encode_f16(b + 2, lo);
    lo = block_f16(b + 2);
    for (int j = 0; j < 32; j++) moved[j] = x[j] > lo ? x[j] - lo : 0;
    encode_affine(moved, 32, top, &step, &min);
    encode_f16(b, step);
    for (int j = 0; j < 32; j++) codes[j] = (uint8_t)encode_code(moved[j], block_f16(b), 0, top);
}

static void q4_0(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    symmetric_32(x, -8, b, codes);
    put_halves(codes, b + 2);
}

static void q4_1(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    affine_32(x, 15, b, codes);
    put_halves(codes, b + 4);
}

static void q5_0(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    symmetric_32(x, -16, b, codes);
    put_fifth_bits(codes, b + 2);
    put_halves(codes, b + 6);
}

static void q5_1(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    affine_32(x, 31, b, codes);
    put_fifth_bits(codes, b + 4);
    put_halves(codes, b + 8);
}

static void q8_0(const float *x, uint8_t *b)
{
    encode_f16(b, fabsf(encode_largest(x, 32)) / 127);
    for (int j = 0; j < 32; j++) b[2 + j] = (uint8_t)encode_code(x[j], block_f16(b), -127, 127);
}

static void iq4_nl(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    encode_f16(b, encode_iq4_step(x, 32));
    for (int j = 0; j < 32; j++) codes[j] = (uint8_t)encode_iq4_code(x[j], block_f16(b));
    put_halves(codes, b + 2);
}

/* The scale is a power of two, chosen so that the largest value is between 4 and 8 of it: values
 * above 6 are cut. */
static void mxfp4(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    float most = fabsf(encode_largest(x, 32));
    int e = most > 0 ? 127 + ilogbf(most) - 2 : 0;
    b[0] = (uint8_t)(e < 0 ? 0 : e > 254 ? 254 : e);
    for (int j = 0; j < 32; j++) codes[j] = (uint8_t)encode_fp4_code(x[j], block_half_e8m0(b[0]));
    put_halves(codes, b + 1);
}

/* Codes 0 to 126 ascend. */
static uint8_t nearest_ue4m3(float v)
{
    uint8_t low = 0, high = 126;
    while (high - low > 1) {
        uint8_t mid = (uint8_t)((low + high) / 2);
        if (block_half_ue4m3(mid) <= v)
            low = mid;
        else
            high = mid;
    }
    return v - block_half_ue4m3(low) <= block_half_ue4m3(high) - v ? low : high;
}

static void nvfp4(const float *x, uint8_t *b)
{
    for (int s = 0; s < 4; s++) {
        float most = fabsf(encode_largest(x + 16 * s, 16)) / 12;
        b[s] = nearest_ue4m3(most);
        float d = block_half_ue4m3(b[s]);
        for (int j = 0; j < 8; j++) {
            int low = encode_fp4_code(x[16 * s + j], d);
            int high = encode_fp4_code(x[16 * s + 8 + j], d);
            b[4 + 8 * s + j] = (uint8_t)(low | high << 4);
        }
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void f32(const float *x, uint8_t *b)
{
    memcpy(b, x, 4);
}

static void bf16(const float *x, uint8_t *b)
{
    uint16_t h = half_to_bf16(*x);
    memcpy(b, &h, 2);
}

static void f16(const float *x, uint8_t *b)
{
    encode_f16(b, *x);
}

typedef void encode_block(const float *x, uint8_t *block);

static encode_block *const encoders[DTYPE_COUNT] = {
    [DTYPE_F32] = f32,          [DTYPE_F16] = f16,          [DTYPE_BF16] = bf16,
    [DTYPE_Q4_0] = q4_0,        [DTYPE_Q4_1] = q4_1,        [DTYPE_Q5_0] = q5_0,
    [DTYPE_Q5_1] = q5_1,        [DTYPE_Q8_0] = q8_0,        [DTYPE_Q2_K] = encode_q2_k,
    [DTYPE_Q3_K] = encode_q3_k, [DTYPE_Q4_K] = encode_q4_k, [DTYPE_Q5_K] = encode_q5_k,
    [DTYPE_Q6_K] = encode_q6_k, [DTYPE_IQ4_NL] = iq4_nl,    [DTYPE_IQ4_XS] = encode_iq4_xs,
    [DTYPE_MXFP4] = mxfp4,      [DTYPE_NVFP4] = nvfp4,
};

bool block_can_encode(dtype type)
{
    return (unsigned)type < DTYPE_COUNT && encoders[type];
}

void block_encode_row(dtype type, const float *in, int64_t k, void *out)
{
    ASSERT(block_can_encode(type));
    uint8_t *b = out;
    int n = dtype_block(type), n_bytes = dtype_block_bytes(type);
    for (int64_t i = 0; i + n <= k; i += n, b += n_bytes) encoders[type](in + i, b);
}
