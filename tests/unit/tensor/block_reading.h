/* block_reading: element e of a block, in double, straight from the sentences of model-spec 4.4.
 *
 * It shares no code with src/tensor: the product walks a block and writes runs, this one is asked
 * for one element and finds its bits. Only the codebooks are the same; test_block compares them
 * with the file they were made from. */
#ifndef RIPTIDE_TESTS_BLOCK_READING_H
#define RIPTIDE_TESTS_BLOCK_READING_H

#include "support/test.h"
#include "tensor/dtype.h"
#include "tensor/iq_grids.inc"

/* The value, and the size of the largest term in it, by which an error is judged. */
typedef struct {
    double value, term;
} reading;

static double read_f16(const uint8_t *p)
{
    int bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
    double v = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits & 0x8000 ? -v : v;
}

/* Bit number n of little-endian bytes. */
static int read_bit(const uint8_t *p, int n)
{
    return p[n / 8] >> (n % 8) & 1;
}

static int read_bits(const uint8_t *p, int from, int n)
{
    int v = 0;
    for (int i = 0; i < n; i++) v |= read_bit(p, from + i) << i;
    return v;
}

/* Half byte of element j of 32: bytes 0..15, low halves first. */
static int half_of_32(const uint8_t *p, int j)
{
    return read_bits(p, j < 16 ? 8 * j : 8 * (j - 16) + 4, 4);
}

static reading scaled(double scale, double q)
{
    return (reading){scale * q, fabs(scale * q)};
}

static reading moved(double scale, double q, double offset)
{
    double a = scale * q;
    return (reading){a + offset, fabs(a) > fabs(offset) ? fabs(a) : fabs(offset)};
}

static reading read_32(dtype t, const uint8_t *b, int e)
{
    static const int kv[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                             1,    13,   25,  38,  53,  69,  89,  113};
    static const int fp4[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    double d = read_f16(b);
    switch (t) {
    case DTYPE_Q4_0: return scaled(d, half_of_32(b + 2, e) - 8);
    case DTYPE_Q4_1: return moved(d, half_of_32(b + 4, e), read_f16(b + 2));
    case DTYPE_Q5_0: return scaled(d, half_of_32(b + 6, e) + 16 * read_bit(b + 2, e) - 16);
    case DTYPE_Q5_1:
        return moved(d, half_of_32(b + 8, e) + 16 * read_bit(b + 4, e), read_f16(b + 2));
    case DTYPE_Q8_0: return scaled(d, b[2 + e] < 128 ? b[2 + e] : b[2 + e] - 256);
    case DTYPE_IQ4_NL: return scaled(d, kv[half_of_32(b + 2, e)]);
    case DTYPE_MXFP4: return scaled(ldexp(1, b[0] - 128), fp4[half_of_32(b + 1, e)]);
    default: break;
    }
    /* NVFP4: 16 elements a scale, of which 8 in the low halves. */
    int s = b[e / 16], place = e % 16, exponent = s >> 3 & 15;
    double scale = exponent ? ldexp(8 + s % 8, exponent - 10) : ldexp(s % 8, -9);
    if (s % 128 == 127) scale = 0;
    int q = read_bits(b + 4 + e / 16 * 8 + place % 8, place < 8 ? 0 : 4, 4);
    return scaled(scale / 2, fp4[q]);
}

/* Six-bit scale and minimum j of Q4_K and Q5_K, from their 12 bytes as a list of 96 bits. */
static void read_scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    *scale = j < 4 ? read_bits(s, 8 * j, 6)
                   : read_bits(s, 8 * (j + 4), 4) + 16 * read_bits(s, 8 * (j - 4) + 6, 2);
    *min = j < 4 ? read_bits(s, 8 * (j + 4), 6)
                 : read_bits(s, 8 * (j + 4) + 4, 4) + 16 * read_bits(s, 8 * j + 6, 2);
}

static reading read_k(dtype t, const uint8_t *b, int e)
{
    int half = e / 128, j = e % 128 / 32, g = e % 32 / 16, l = e % 16, scale, min;
    if (t == DTYPE_Q2_K) {
        int sc = b[8 * half + 2 * j + g];
        int q = read_bits(b + 16 + 32 * half + 16 * g + l, 2 * j, 2);
        return moved(read_f16(b + 80) * (sc % 16), q, -read_f16(b + 82) * (sc / 16));
    }
    if (t == DTYPE_Q3_K) {
        int i = 8 * half + 2 * j + g, q = read_bits(b + 32 + 32 * half + 16 * g + l, 2 * j, 2);
        int sc = read_bits(b + 96 + i % 8, i < 8 ? 0 : 4, 4);
        sc += 16 * read_bits(b + 96 + 8 + i % 4, 2 * (i / 4), 2);
        if (!read_bit(b + 16 * g + l, 4 * half + j)) q -= 4;
        return scaled(read_f16(b + 108) * (sc - 32), q);
    }
    if (t == DTYPE_Q6_K) {
        int at = e % 32;
        int q = read_bits(b + 64 * half + (j % 2) * 32 + at, j < 2 ? 0 : 4, 4);
        q += 16 * read_bits(b + 128 + 32 * half + at, 2 * j, 2);
        int sc = b[192 + 8 * half + e % 128 / 16];
        return scaled(read_f16(b + 208) * (sc < 128 ? sc : sc - 256), q - 32);
    }
    read_scale_min(b + 4, e / 32, &scale, &min);
    int at = 32 * (e / 64) + e % 32, up = e / 32 % 2 * 4;
    int q = t == DTYPE_Q4_K
                ? read_bits(b + 16 + at, up, 4)
                : read_bits(b + 48 + at, up, 4) + 16 * read_bit(b + 16 + e % 32, e / 32);
    return moved(read_f16(b) * scale, q, -read_f16(b + 2) * min);
}

/* Value v of a codebook's entry with n values. */
static int entry_value(uint64_t entry, int v)
{
    return (int)(entry >> (8 * v) & 255);
}

/* Sign v of eight from a 7-bit index: the eighth makes their number even. */
static int sign_of(int index, int v)
{
    int ones = 0;
    if (v < 7) return index >> v & 1;
    for (int i = 0; i < 7; i++) ones += index >> i & 1;
    return ones % 2;
}

static reading signed_entry(double scale, int value, int is_negative)
{
    return scaled(scale, is_negative ? -value : value);
}

static reading read_iq23(dtype t, const uint8_t *b, int e)
{
    int g = e / 32, l = e % 32 / 8, v = e % 8, i8 = e / 8;
    double d = read_f16(b);
    if (t == DTYPE_IQ2_XXS) {
        const uint8_t *p = b + 2 + 8 * g;
        double scale = d * (0.5 + read_bits(p + 4, 28, 4)) / 4;
        return signed_entry(scale, entry_value(iq2xxs_grid[p[l]], v),
                            sign_of(read_bits(p + 4, 7 * l, 7), v));
    }
    if (t == DTYPE_IQ2_XS) {
        double scale = d * (0.5 + read_bits(b + 66 + g, l < 2 ? 0 : 4, 4)) / 4;
        return signed_entry(scale, entry_value(iq2xs_grid[read_bits(b + 2, 16 * i8, 9)], v),
                            sign_of(read_bits(b + 2, 16 * i8 + 9, 7), v));
    }
    if (t == DTYPE_IQ2_S) {
        int index = b[2 + i8] + 256 * read_bits(b + 66 + g, 2 * l, 2);
        double scale = d * (0.5 + read_bits(b + 74 + g, l < 2 ? 0 : 4, 4)) / 4;
        return signed_entry(scale, entry_value(iq2s_grid[index], v), read_bit(b + 34 + i8, v));
    }
    int i4 = e % 32 / 4, w = e % 4; /* entries of four values */
    if (t == DTYPE_IQ3_XXS) {
        double scale = d * (0.5 + read_bits(b + 66 + 4 * g, 28, 4)) / 2;
        return signed_entry(scale, entry_value(iq3xxs_grid[b[2 + e / 4]], w),
                            sign_of(read_bits(b + 66 + 4 * g, 7 * l, 7), v));
    }
    int index = b[2 + e / 4] + 256 * read_bit(b + 66 + g, i4);
    double scale = d * (1 + 2 * read_bits(b + 106, 4 * g, 4));
    return signed_entry(scale, entry_value(iq3s_grid[index], w), read_bit(b + 74 + e / 8, v));
}

static reading read_iq14(dtype t, const uint8_t *b, int e)
{
    static const int kv[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                             1,    13,   25,  38,  53,  69,  89,  113};
    int g = e / 32, l = e % 32 / 8, index;
    double scale, offset;
    if (t == DTYPE_IQ4_XS) {
        int ls = read_bits(b + 4, 4 * g, 4) + 16 * read_bits(b + 2, 2 * g, 2);
        return scaled(read_f16(b) * (ls - 32), kv[half_of_32(b + 8 + 16 * g, e % 32)]);
    }
    if (t == DTYPE_IQ1_S) {
        index = b[2 + e / 8] + 256 * read_bits(b + 34, 16 * g + 3 * l, 3);
        scale = read_f16(b) * (2 * read_bits(b + 34, 16 * g + 12, 3) + 1);
        offset = read_bit(b + 34, 16 * g + 15) ? -0.125 : 0.125;
    } else {
        uint8_t d[2] = {(uint8_t)(b[49] >> 4 | (b[51] >> 4) << 4),
                        (uint8_t)(b[53] >> 4 | (b[55] >> 4) << 4)};
        const uint8_t *more = b + 32 + 2 * g + l / 2;
        index = b[e / 8] + 256 * read_bits(more, 4 * (l % 2), 3);
        scale = read_f16(d) *
                (2 * read_bits(b + 48 + 2 * (g / 2), 6 * (g % 2) + 3 * (l / 2), 3) + 1);
        offset = read_bit(more, 4 * (l % 2) + 3) ? -0.125 : 0.125;
    }
    int value = (int8_t)entry_value(iq1s_grid[index], e % 8);
    return scaled(scale, value + offset);
}

static reading read_block(dtype t, const uint8_t *b, int e)
{
    switch (t) {
    case DTYPE_Q2_K:
    case DTYPE_Q3_K:
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
    case DTYPE_Q6_K: return read_k(t, b, e);
    case DTYPE_IQ2_XXS:
    case DTYPE_IQ2_XS:
    case DTYPE_IQ2_S:
    case DTYPE_IQ3_XXS:
    case DTYPE_IQ3_S: return read_iq23(t, b, e);
    case DTYPE_IQ1_S:
    case DTYPE_IQ1_M:
    case DTYPE_IQ4_XS: return read_iq14(t, b, e);
    default: return read_32(t, b, e);
    }
}

#endif
