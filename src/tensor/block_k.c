/* Super-blocks of 256 whose scales are small integers times one or two f16 numbers. */
#include "tensor/block_priv.h"

/* scales[16], codes[64], d, dmin. Scale byte: low half the scale, high half the minimum. */
void block_q2_k_group(const uint8_t *b, int g, float *scale, float *min, uint8_t *codes)
{
    const uint8_t *q = b + 16 + 32 * (g / 8) + 16 * (g % 2);
    int shift = g % 8 / 2 * 2;
    *scale = block_f16(b + 80) * (float)(b[g] & 15);
    *min = block_f16(b + 82) * (float)(b[g] >> 4);
    for (int i = 0; i < 16; i++) codes[i] = q[i] >> shift & 3;
}

void block_q2_k(const uint8_t *b, float *y)
{
    for (int g = 0; g < 16; g++) {
        float scale, min;
        uint8_t codes[16];
        block_q2_k_group(b, g, &scale, &min, codes);
        for (int i = 0; i < 16; i++) y[16 * g + i] = scale * (float)codes[i] - min;
    }
}

/* high bits[32], codes[64], scales[12], d. A code without its high bit is 4 less. */
void block_q3_k(const uint8_t *b, float *scales, int8_t *values)
{
    const uint8_t *high = b, *codes = b + 32, *packed = b + 96;
    float d = block_f16(b + 108);
    for (int g = 0; g < 16; g++) {
        int half = g / 8, pair = g % 8 / 2, from = 16 * (g % 2);
        int low = g < 8 ? packed[g] & 15 : packed[g - 8] >> 4;
        int up = packed[8 + g % 4] >> (2 * (g / 4)) & 3;
        scales[g] = d * (float)((low | up << 4) - 32);
        for (int i = 0; i < 16; i++) {
            int q = codes[32 * half + from + i] >> (2 * pair) & 3;
            if (!(high[from + i] >> (4 * half + pair) & 1)) q -= 4;
            values[16 * g + i] = (int8_t)q;
        }
    }
}

void block_scale_min(const uint8_t *s, int j, uint8_t *scale, uint8_t *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
        return;
    }
    *scale = (uint8_t)((s[j + 4] & 15) | s[j - 4] >> 6 << 4);
    *min = (uint8_t)(s[j + 4] >> 4 | s[j] >> 6 << 4);
}

/* d, dmin, scales[12], then (Q5_K) high bits[32], codes[128]: group 2i in the low halves of 32
 * bytes, group 2i + 1 in the high halves. */
static void q45_k(const uint8_t *b, const uint8_t *high, const uint8_t *codes, float *y)
{
    float d = block_f16(b), dmin = block_f16(b + 2);
    for (int g = 0; g < 8; g++) {
        uint8_t sc, m;
        block_scale_min(b + 4, g, &sc, &m);
        float scale = d * (float)sc, min = dmin * (float)m;
        for (int i = 0; i < 32; i++) {
            int q = codes[g / 2 * 32 + i] >> (4 * (g % 2)) & 15;
            if (high) q |= (high[i] >> g & 1) << 4;
            y[32 * g + i] = scale * (float)q - min;
        }
    }
}

void block_q4_k(const uint8_t *b, float *y)
{
    q45_k(b, NULL, b + 16, y);
}

void block_q5_k(const uint8_t *b, float *y)
{
    q45_k(b, b + 16, b + 48, y);
}

/* low[128], high[64], i8 scales[16], d. */
void block_q6_k(const uint8_t *b, float *scales, int8_t *values)
{
    float d = block_f16(b + 208);
    for (int g = 0; g < 16; g++) scales[g] = d * (float)(int8_t)b[192 + g];
    for (int n = 0; n < 2; n++) {
        const uint8_t *low = b + 64 * n, *high = b + 128 + 32 * n;
        for (int part = 0; part < 4; part++) {
            for (int i = 0; i < 32; i++) {
                int q = low[32 * (part % 2) + i] >> (4 * (part / 2)) & 15;
                q |= (high[i] >> (2 * part) & 3) << 4;
                values[128 * n + 32 * part + i] = (int8_t)(q - 32);
            }
        }
    }
}
