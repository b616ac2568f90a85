/* Block types as affine groups: their codes, scales and offsets apart. */
#include "base/asserts.h"
#include "tensor/block_priv.h"

block_affine block_affine_of(dtype type)
{
    static const block_affine rows[DTYPE_COUNT] = {
        [DTYPE_Q4_0] = {4, 32, 8},     [DTYPE_Q4_1] = {4, 32, 0},    [DTYPE_Q5_0] = {8, 32, 16},
        [DTYPE_Q5_1] = {8, 32, 0},     [DTYPE_Q8_0] = {8, 32, 128},  [DTYPE_Q2_K] = {8, 16, 0},
        [DTYPE_Q3_K] = {8, 16, 4},     [DTYPE_Q4_K] = {4, 32, 0},    [DTYPE_Q5_K] = {8, 32, 0},
        [DTYPE_Q6_K] = {8, 16, 32},    [DTYPE_IQ1_S] = {8, 32, 9},   [DTYPE_IQ1_M] = {8, 16, 9},
        [DTYPE_IQ2_XXS] = {8, 32, 43}, [DTYPE_IQ2_XS] = {8, 16, 43}, [DTYPE_IQ2_S] = {8, 16, 43},
        [DTYPE_IQ3_XXS] = {8, 32, 62}, [DTYPE_IQ3_S] = {8, 32, 15},  [DTYPE_IQ4_NL] = {8, 32, 127},
        [DTYPE_IQ4_XS] = {8, 32, 127}, [DTYPE_MXFP4] = {8, 32, 12},  [DTYPE_NVFP4] = {8, 16, 12},
    };
    return rows[type];
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
        const uint8_t *from = q + g / 2 * 32;
        uint8_t *to = codes + 32 * g;
        int shift = 4 * (g % 2);
        for (int i = 0; i < 32; i++) to[i] = from[i] >> shift & 15;
        for (int i = 0; high && i < 32; i++) to[i] |= (uint8_t)((high[i] >> g & 1) << 4);
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

static void affine_q2_k(const uint8_t *b, uint8_t *codes, float *scales, float *biases)
{
    for (int g = 0; g < 16; g++) {
        float min;
        block_q2_k_group(b, g, &scales[g], &min, codes + 16 * g);
        biases[g] = -min;
    }
}

static void affine_coded(dtype type, const uint8_t *b, int n, uint8_t *codes, float *scales,
                         float *biases)
{
    block_affine a = block_affine_of(type);
    float of_16[16];
    int8_t values[256];
    block_coder_of(type)(b, of_16, values);
    for (int i = 0; i < n; i++) codes[i] = (uint8_t)(values[i] + a.zero);
    for (int g = 0; g < n / a.group; g++) {
        scales[g] = of_16[g * a.group / 16];
        biases[g] = (float)-a.zero * scales[g];
    }
}

void block_affine_row(dtype type, const void *row, int64_t k, uint8_t *codes, float *scales,
                      float *biases)
{
    ASSERT(dtype_is_block(type));
    const uint8_t *b = row;
    int n = dtype_block(type), n_bytes = dtype_block_bytes(type),
        group = block_affine_of(type).group;
    for (int64_t i = 0; i + n <= k; i += n, b += n_bytes) {
        int64_t g = i / group;
        if (block_coder_of(type))
            affine_coded(type, b, n, codes + i, scales + g, biases + g);
        else if (type == DTYPE_Q2_K)
            affine_q2_k(b, codes + i, scales + g, biases + g);
        else if (type == DTYPE_IQ4_XS)
            affine_iq4_xs(b, codes + i, scales + g, biases + g);
        else if (n == 256)
            affine_k(type, b, codes + i, scales + g, biases + g);
        else
            affine_32(type, b, codes + i, scales + g, biases + g);
    }
}
