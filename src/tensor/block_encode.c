#include "tensor/block_encode.h"

#include <math.h>

#include "base/asserts.h"
#include "tensor/block_encode_priv.h"

/* ---- choosing a scale ----------------------------------------------------------------------- */

int encode_code(float x, float step, int lo, int hi)
{
    if (step == 0) return lo > 0 ? lo : 0;
    float q = rintf(x / step);
    return !(q > (float)lo) ? lo : q >= (float)hi ? hi : (int)q;
}

static float largest(const float *x, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

/* Steps are tried from a little less to a little more than what reaches the largest value. */
enum { TRIES = 9 };

static float stretched(float step, int i)
{
    return step * (0.92f + 0.02f * (float)i);
}

float encode_symmetric(const float *x, int n, int lo, int hi)
{
    float start = largest(x, n) / (float)lo, best = start;
    double least = INFINITY;
    for (int i = 0; i < TRIES && start != 0; i++) {
        float step = stretched(start, i);
        double sum = 0;
        for (int k = 0; k < n; k++) {
            double d = (double)x[k] - (double)step * encode_code(x[k], step, lo, hi);
            sum += d * d;
        }
        if (sum >= least) continue;
        least = sum;
        best = step;
    }
    return best;
}

void encode_affine(const float *x, int n, int top, float *step, float *min)
{
    float lo = 0, hi = x[0];
    for (int i = 0; i < n; i++) {
        if (x[i] < lo) lo = x[i];
        if (x[i] > hi) hi = x[i];
    }
    if (hi < lo) hi = lo;
    float start = (hi - lo) / (float)top;
    double least = INFINITY;
    *step = start;
    *min = -lo;
    for (int i = 0; i < TRIES && start != 0; i++) {
        float s = stretched(start, i);
        double sum = 0;
        for (int k = 0; k < n; k++) {
            double d = (double)(x[k] - lo) - (double)s * encode_code(x[k] - lo, s, 0, top);
            sum += d * d;
        }
        if (sum >= least) continue;
        least = sum;
        *step = s;
    }
}

int encode_nearest(float x, float step, const int8_t *table)
{
    int best = 0;
    float least = INFINITY;
    for (int q = 0; q < 16; q++) {
        float d = fabsf(x - step * (float)table[q]);
        if (!(d < least)) continue;
        least = d;
        best = q;
    }
    return best;
}

float encode_table(const float *x, int n, const int8_t *table, int most)
{
    float start = largest(x, n) / (float)most, best = start;
    double least = INFINITY;
    for (int i = 0; i < TRIES && start != 0; i++) {
        float step = stretched(start, i);
        double sum = 0;
        for (int k = 0; k < n; k++) {
            double d = (double)x[k] -
                       (double)(step * (float)table[encode_nearest(x[k], step, table)]);
            sum += d * d;
        }
        if (sum >= least) continue;
        least = sum;
        best = step;
    }
    return best;
}

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
    encode_f16(b, fabsf(largest(x, 32)) / 127);
    for (int j = 0; j < 32; j++) b[2 + j] = (uint8_t)encode_code(x[j], block_f16(b), -127, 127);
}

static void iq4_nl(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    encode_f16(b, encode_table(x, 32, block_iq4_values, -127));
    for (int j = 0; j < 32; j++)
        codes[j] = (uint8_t)encode_nearest(x[j], block_f16(b), block_iq4_values);
    put_halves(codes, b + 2);
}

/* The scale is a power of two, chosen so that the largest value is between 4 and 8 of it: values
 * above 6 are cut. */
static void mxfp4(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    float most = fabsf(largest(x, 32));
    int e = most > 0 ? 127 + ilogbf(most) - 2 : 0;
    b[0] = (uint8_t)(e < 0 ? 0 : e > 254 ? 254 : e);
    for (int j = 0; j < 32; j++)
        codes[j] = (uint8_t)encode_nearest(x[j], block_half_e8m0(b[0]), block_fp4_values);
    put_halves(codes, b + 1);
}

static void nvfp4(const float *x, uint8_t *b)
{
    for (int s = 0; s < 4; s++) {
        float most = fabsf(largest(x + 16 * s, 16)) / 12, d = 0, least = INFINITY;
        b[s] = 0;
        for (int code = 0; code < 127; code++) {
            float distance = fabsf(block_half_ue4m3((uint8_t)code) - most);
            if (!(distance < least)) continue;
            least = distance;
            b[s] = (uint8_t)code;
        }
        d = block_half_ue4m3(b[s]);
        for (int j = 0; j < 8; j++) {
            int low = encode_nearest(x[16 * s + j], d, block_fp4_values);
            int high = encode_nearest(x[16 * s + 8 + j], d, block_fp4_values);
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
