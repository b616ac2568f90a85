#include <math.h>

#include "tensor/block_encode_priv.h"

/* Non-negative scales as whole numbers up to `top` times one f16 number, which goes to p. */
static void share_scale(const float *scales, int n, int top, uint8_t *p, uint8_t *out)
{
    float most = 0;
    for (int i = 0; i < n; i++) most = scales[i] > most ? scales[i] : most;
    encode_f16(p, most / (float)top);
    for (int i = 0; i < n; i++) out[i] = (uint8_t)encode_code(scales[i], block_f16(p), 0, top);
}

/* Scales of any sign, from lo to hi. */
static void share_signed(const float *scales, int n, int lo, int hi, uint8_t *p, int *out)
{
    float most = 0;
    for (int i = 0; i < n; i++) most = fabsf(scales[i]) > most ? fabsf(scales[i]) : most;
    encode_f16(p, most / (float)hi);
    for (int i = 0; i < n; i++) out[i] = encode_code(scales[i], block_f16(p), lo, hi);
}

void encode_q2_k(const float *x, uint8_t *b)
{
    float steps[16], mins[16];
    uint8_t sc[16], m[16];
    memset(b, 0, 84);
    for (int g = 0; g < 16; g++) encode_affine(x + 16 * g, 16, 3, &steps[g], &mins[g]);
    share_scale(steps, 16, 15, b + 80, sc);
    share_scale(mins, 16, 15, b + 82, m);
    for (int g = 0; g < 16; g++) {
        float step = block_f16(b + 80) * (float)sc[g], min = block_f16(b + 82) * (float)m[g];
        b[g] = (uint8_t)(sc[g] | m[g] << 4);
        for (int i = 0; i < 16; i++) {
            int q = encode_code(x[16 * g + i] + min, step, 0, 3);
            b[16 + 32 * (g / 8) + 16 * (g % 2) + i] |= (uint8_t)(q << (g % 8 / 2 * 2));
        }
    }
}

void encode_q3_k(const float *x, uint8_t *b)
{
    float steps[16];
    int sc[16];
    memset(b, 0, 110);
    for (int g = 0; g < 16; g++) steps[g] = encode_symmetric(x + 16 * g, 16, -4, 3);
    share_signed(steps, 16, -32, 31, b + 108, sc);
    for (int g = 0; g < 16; g++) {
        float step = block_f16(b + 108) * (float)sc[g];
        int stored = sc[g] + 32, pair = g % 8 / 2, from = 16 * (g % 2);
        b[96 + g % 8] |= (uint8_t)((stored & 15) << (g < 8 ? 0 : 4));
        b[104 + g % 4] |= (uint8_t)(stored >> 4 << (2 * (g / 4)));
        for (int i = 0; i < 16; i++) {
            int q = encode_code(x[16 * g + i], step, -4, 3) + 4;
            b[32 + 32 * (g / 8) + from + i] |= (uint8_t)((q & 3) << (2 * pair));
            b[from + i] |= (uint8_t)(q >> 2 << (4 * (g / 8) + pair));
        }
    }
}

/* Scales and minima of 8 groups into the 12 bytes; the inverse of block_scale_min. */
static void put_scale_min(const uint8_t *sc, const uint8_t *m, uint8_t *s)
{
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(sc[j] | sc[j + 4] >> 4 << 6);
        s[j + 4] = (uint8_t)(m[j] | m[j + 4] >> 4 << 6);
        s[j + 8] = (uint8_t)((sc[j + 4] & 15) | (m[j + 4] & 15) << 4);
    }
}

static void q45_k(const float *x, int top, uint8_t *b, uint8_t *high, uint8_t *codes)
{
    float steps[8], mins[8];
    uint8_t sc[8], m[8];
    for (int g = 0; g < 8; g++) encode_affine(x + 32 * g, 32, top, &steps[g], &mins[g]);
    share_scale(steps, 8, 63, b, sc);
    share_scale(mins, 8, 63, b + 2, m);
    put_scale_min(sc, m, b + 4);
    for (int g = 0; g < 8; g++) {
        float step = block_f16(b) * (float)sc[g], min = block_f16(b + 2) * (float)m[g];
        for (int i = 0; i < 32; i++) {
            int q = encode_code(x[32 * g + i] + min, step, 0, top);
            codes[g / 2 * 32 + i] |= (uint8_t)((q & 15) << (4 * (g % 2)));
            if (high) high[i] |= (uint8_t)(q >> 4 << g);
        }
    }
}

void encode_q4_k(const float *x, uint8_t *b)
{
    memset(b, 0, 144);
    q45_k(x, 15, b, NULL, b + 16);
}

void encode_q5_k(const float *x, uint8_t *b)
{
    memset(b, 0, 176);
    q45_k(x, 31, b, b + 16, b + 48);
}

void encode_q6_k(const float *x, uint8_t *b)
{
    float steps[16];
    int sc[16];
    memset(b, 0, 210);
    for (int g = 0; g < 16; g++) steps[g] = encode_symmetric(x + 16 * g, 16, -32, 31);
    share_signed(steps, 16, -128, 127, b + 208, sc);
    for (int e = 0; e < 256; e++) {
        int half = e / 128, part = e % 128 / 32, i = e % 32, scale = sc[e / 16];
        int q = encode_code(x[e], block_f16(b + 208) * (float)scale, -32, 31) + 32;
        b[192 + e / 16] = (uint8_t)(int8_t)scale;
        b[64 * half + 32 * (part % 2) + i] |= (uint8_t)((q & 15) << (4 * (part / 2)));
        b[128 + 32 * half + i] |= (uint8_t)(q >> 4 << (2 * part));
    }
}

void encode_iq4_xs(const float *x, uint8_t *b)
{
    float steps[8];
    int sc[8];
    uint32_t high = 0;
    memset(b, 0, 136);
    for (int g = 0; g < 8; g++) steps[g] = encode_iq4_step(x + 32 * g, 32);
    share_signed(steps, 8, -32, 31, b, sc);
    for (int g = 0; g < 8; g++) {
        float step = block_f16(b) * (float)sc[g];
        int stored = sc[g] + 32;
        b[4 + g / 2] |= (uint8_t)((stored & 15) << (4 * (g % 2)));
        high |= (uint32_t)(stored >> 4) << (2 * g);
        for (int j = 0; j < 16; j++) {
            int low = encode_iq4_code(x[32 * g + j], step);
            int up = encode_iq4_code(x[32 * g + 16 + j], step);
            b[8 + 16 * g + j] = (uint8_t)(low | up << 4);
        }
    }
    b[2] = (uint8_t)high;
    b[3] = (uint8_t)(high >> 8);
}
