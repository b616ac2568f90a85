/* Block types that are affine groups of 32: their codes, scales and offsets apart. */
#include "base/asserts.h"
#include "tensor/block_priv.h"

int block_affine_bits(dtype type)
{
    switch (type) {
    case DTYPE_Q4_0:
    case DTYPE_Q4_1:
    case DTYPE_Q4_K: return 4;
    case DTYPE_Q5_0:
    case DTYPE_Q5_1:
    case DTYPE_Q5_K:
    case DTYPE_Q8_0:
    case DTYPE_IQ4_NL:
    case DTYPE_IQ4_XS:
    case DTYPE_MXFP4: return 8;
    default: return 0;
    }
}

/* Half bytes: element j in the low half of byte j, j + 16 in the high half. */
static void halves(const uint8_t *q, uint8_t *codes)
{
    for (int j = 0; j < 16; j++) {
        codes[j] = q[j] & 15;
        codes[j + 16] = q[j] >> 4;
    }
}

static void add_fifth_bit(const uint8_t *p, uint8_t *codes)
{
    uint32_t high = block_u32(p);
    for (int j = 0; j < 32; j++) codes[j] = (uint8_t)(codes[j] | (high >> j & 1) << 4);
}

/* The values of a table, moved up by `zero` so that none is negative. */
static void look_up(const int8_t *table, int zero, uint8_t *codes)
{
    for (int j = 0; j < 32; j++) codes[j] = (uint8_t)(table[codes[j]] + zero);
}

static void affine_32(dtype type, const uint8_t *b, uint8_t *codes, float *scale, float *bias)
{
    float d = type == DTYPE_MXFP4 ? block_half_e8m0(b[0]) : block_f16(b);
    *scale = d;
    switch (type) {
    case DTYPE_Q4_0:
        halves(b + 2, codes);
        *bias = -8 * d;
        break;
    case DTYPE_Q4_1:
        halves(b + 4, codes);
        *bias = block_f16(b + 2);
        break;
    case DTYPE_Q5_0:
        halves(b + 6, codes);
        add_fifth_bit(b + 2, codes);
        *bias = -16 * d;
        break;
    case DTYPE_Q5_1:
        halves(b + 8, codes);
        add_fifth_bit(b + 4, codes);
        *bias = block_f16(b + 2);
        break;
    case DTYPE_Q8_0:
        for (int j = 0; j < 32; j++) codes[j] = (uint8_t)(b[2 + j] ^ 128);
        *bias = -128 * d;
        break;
    case DTYPE_IQ4_NL:
        halves(b + 2, codes);
        look_up(block_iq4_values, 127, codes);
        *bias = -127 * d;
        break;
    default: /* MXFP4 */
        halves(b + 1, codes);
        look_up(block_fp4_values, 12, codes);
        *bias = -12 * d;
        break;
    }
}

static void affine_k(dtype type, const uint8_t *b, uint8_t *codes, float *scales, float *biases)
{
    const uint8_t *high = type == DTYPE_Q5_K ? b + 16 : NULL, *q = high ? b + 48 : b + 16;
    float d = block_f16(b), dmin = block_f16(b + 2);
    for (int g = 0; g < 8; g++) {
        uint8_t sc, m;
        block_scale_min(b + 4, g, &sc, &m);
        scales[g] = d * (float)sc;
        biases[g] = -(dmin * (float)m);
        for (int i = 0; i < 32; i++) {
            int code = q[g / 2 * 32 + i] >> (4 * (g % 2)) & 15;
            if (high) code |= (high[i] >> g & 1) << 4;
            codes[32 * g + i] = (uint8_t)code;
        }
    }
}

static void affine_iq4_xs(const uint8_t *b, uint8_t *codes, float *scales, float *biases)
{
    float d = block_f16(b);
    uint32_t high = block_u16(b + 2);
    for (int g = 0; g < 8; g++) {
        int low = b[4 + g / 2] >> (4 * (g % 2)) & 15;
        scales[g] = d * (float)((low | (int)(high >> (2 * g) & 3) << 4) - 32);
        biases[g] = -127 * scales[g];
        halves(b + 8 + 16 * g, codes + 32 * g);
        look_up(block_iq4_values, 127, codes + 32 * g);
    }
}

void block_affine_row(dtype type, const void *row, int64_t k, uint8_t *codes, float *scales,
                      float *biases)
{
    ASSERT(block_affine_bits(type) != 0);
    const uint8_t *b = row;
    int n = dtype_block(type), n_bytes = dtype_block_bytes(type);
    for (int64_t i = 0; i + n <= k; i += n, b += n_bytes) {
        if (type == DTYPE_IQ4_XS)
            affine_iq4_xs(b, codes + i, scales + i / 32, biases + i / 32);
        else if (n == 256)
            affine_k(type, b, codes + i, scales + i / 32, biases + i / 32);
        else
            affine_32(type, b, codes + i, scales + i / 32, biases + i / 32);
    }
}
