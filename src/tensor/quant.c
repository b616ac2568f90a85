#include "tensor/quant.h"

#include <math.h>
#include <string.h>

#include "base/asserts.h"
#include "tensor/half.h"

/* Codes are handled 32 at a time: 32 codes of any width are exactly `bits` 32-bit words. */
enum { RUN = 32, LANES = 8 }; /* group sizes are multiples of both */

bool quant_affine_is_valid(int bits, int group)
{
    bool has_bits = (bits >= 2 && bits <= 6) || bits == 8;
    return has_bits && (group == 32 || group == 64 || group == 128);
}

int64_t quant_affine_row_bytes(int64_t k, int bits)
{
    return k / RUN * bits * 4;
}

uint32_t quant_affine_code(const void *row, int64_t i, int bits)
{
    const uint8_t *bytes = row;
    int64_t bit = i * bits, first = bit / 8;
    uint32_t v = bytes[first];
    if (bit % 8 + bits > 8) v |= (uint32_t)bytes[first + 1] << 8;
    return v >> (bit % 8) & ((1u << bits) - 1);
}

/* `bits` is a literal at every call, so that the loop is unrolled with constant shifts. */
static inline __attribute__((always_inline)) void unpack(const uint8_t *p, int bits, uint32_t *q)
{
    uint64_t pending = 0;
    int n_pending = 0;
    for (int i = 0; i < RUN; i++) {
        if (n_pending < bits) {
            uint32_t word;
            memcpy(&word, p, 4);
            p += 4;
            pending |= (uint64_t)word << n_pending;
            n_pending += 32;
        }
        q[i] = (uint32_t)pending & ((1u << bits) - 1);
        pending >>= bits;
        n_pending -= bits;
    }
}

static void unpack_run(const uint8_t *p, int bits, uint32_t *q)
{
    switch (bits) {
    case 2: unpack(p, 2, q); break;
    case 3: unpack(p, 3, q); break;
    case 4: unpack(p, 4, q); break;
    case 5: unpack(p, 5, q); break;
    case 6: unpack(p, 6, q); break;
    default: unpack(p, 8, q); break;
    }
}

static void pack_run(uint8_t *p, int bits, const uint32_t *q)
{
    uint64_t pending = 0;
    int n_pending = 0;
    for (int i = 0; i < RUN; i++) {
        pending |= (uint64_t)q[i] << n_pending;
        n_pending += bits;
        if (n_pending >= 32) {
            uint32_t word = (uint32_t)pending;
            memcpy(p, &word, 4);
            p += 4;
            pending >>= 32;
            n_pending -= 32;
        }
    }
}

static float load_scale(const void *values, int64_t i, dtype type)
{
    const uint8_t *p = values;
    uint16_t h;
    float f;
    switch (type) {
    case DTYPE_F32: memcpy(&f, p + 4 * i, 4); return f;
    case DTYPE_F16: memcpy(&h, p + 2 * i, 2); return half_from_f16(h);
    default: memcpy(&h, p + 2 * i, 2); return half_from_bf16(h);
    }
}

void quant_affine_decode_row(const void *row, const void *scales, const void *biases,
                             dtype scale_type, int bits, int group, int64_t k, float *out)
{
    DASSERT(quant_affine_is_valid(bits, group) && k % group == 0 && dtype_is_float(scale_type));
    const uint8_t *p = row;
    for (int64_t i = 0; i < k; i += RUN, p += 4 * bits) {
        float scale = load_scale(scales, i / group, scale_type);
        float bias = load_scale(biases, i / group, scale_type);
        uint32_t q[RUN];
        unpack_run(p, bits, q);
        for (int j = 0; j < RUN; j++) out[i + j] = scale * (float)q[j] + bias;
    }
}

/* A group's scale and bias before rounding. The edge of larger magnitude becomes the bias (code
 * 0), and the scale is moved a little so that zero falls on a code. */
static void choose_affine(const float *in, int group, int top, float *scale, float *bias)
{
    float low[LANES], high[LANES], lo = in[0], hi = in[0];
    for (int j = 0; j < LANES; j++) low[j] = high[j] = in[0];
    for (int i = 0; i < group; i += LANES)
        for (int j = 0; j < LANES; j++) {
            low[j] = in[i + j] < low[j] ? in[i + j] : low[j];
            high[j] = in[i + j] > high[j] ? in[i + j] : high[j];
        }
    for (int j = 0; j < LANES; j++) {
        lo = low[j] < lo ? low[j] : lo;
        hi = high[j] > hi ? high[j] : hi;
    }
    bool is_low_edge = fabsf(lo) > fabsf(hi);
    float edge = is_low_edge ? lo : hi, step = (hi - lo) / (float)top;
    if (step < 1e-7f) step = 1e-7f; /* all values equal: any step does, zero must not be one */
    if (!is_low_edge) step = -step;
    float q0 = rintf(edge / step);
    *scale = q0 != 0 ? edge / q0 : step;
    *bias = q0 != 0 ? edge : 0;
}

void quant_affine_encode_row(const float *in, int64_t k, int bits, int group, void *row,
                             uint16_t *scales, uint16_t *biases)
{
    DASSERT(quant_affine_is_valid(bits, group) && k % group == 0);
    /* 1.5 * 2^23: added to a number below 2^22 it leaves no bits behind the point, rounded to even,
     * as rintf does, which is a call. */
    const float rounder = 12582912;
    uint8_t *p = row;
    int top = (1 << bits) - 1;
    for (int64_t i = 0; i < k; i += RUN, p += 4 * bits) {
        int64_t g = i / group;
        if (i % group == 0) {
            float s, b;
            choose_affine(in + i, group, top, &s, &b);
            scales[g] = half_to_bf16(s);
            biases[g] = half_to_bf16(b);
        }
        float scale = half_from_bf16(scales[g]), bias = half_from_bf16(biases[g]);
        uint32_t q[RUN];
        for (int j = 0; j < RUN; j++) {
            float x = (in[i + j] - bias) / scale;
            x = x > 0 ? x : 0; /* NaN too: its conversion would be undefined */
            x = x < (float)top ? x : (float)top;
            q[j] = (uint32_t)(int32_t)(x + rounder - rounder);
        }
        pack_run(p, bits, q);
    }
}

float quant_kv_encode(const float *in, int d, int8_t *q)
{
    float most = 0;
    for (int i = 0; i < d; i++) {
        float x = fabsf(in[i]);
        if (!(x <= most)) most = x; /* a NaN stays, and makes the whole vector NaN */
        if (isnan(most)) break;
    }
    float scale = most / 127;
    for (int i = 0; i < d; i++) {
        float x = scale > 0 ? rintf(in[i] / scale) : 0;
        /* The quotient passes 127 only where the scale is subnormal and was rounded. */
        q[i] = (int8_t)(x > 127 ? 127 : x < -127 ? -127 : isnan(x) ? 0 : x);
    }
    return scale;
}
