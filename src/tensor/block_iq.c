/* Super-blocks whose codes are entries of a codebook, or of a table of 16 values. */
#include "tensor/block_priv.h"
#include "tensor/iq_grids.inc"

const int8_t block_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

/* n values of an entry (its bytes from the lowest), bit i of `signs` set where value i is negative.
 */
static void put_signed(uint64_t entry, uint32_t signs, int n, int8_t *v)
{
    for (int i = 0; i < n; i++) {
        int8_t value = (int8_t)(entry >> (8 * i) & 255);
        v[i] = (int8_t)(signs >> i & 1 ? -value : value);
    }
}

/* Seven bits stand for eight signs whose total parity is even. */
static uint32_t even_signs(uint32_t index)
{
    index &= 127;
    return index | (uint32_t)__builtin_parity(index) << 7;
}

/* d, then for each 32: four indexes, and a word with four sign indexes and the scale on top. */
void block_iq2_xxs(const uint8_t *b, float *scales, int8_t *values)
{
    float d = block_f16(b);
    for (int g = 0; g < 8; g++) {
        const uint8_t *index = b + 2 + 8 * g;
        uint32_t word = block_u32(index + 4);
        scales[2 * g] = scales[2 * g + 1] = d * (0.5f + (float)(word >> 28)) * 0.25f;
        for (int l = 0; l < 4; l++)
            put_signed(iq2xxs_grid[index[l]], even_signs(word >> (7 * l)), 8,
                       values + 32 * g + 8 * l);
    }
}

/* A half byte for 16 values. */
static void iq2_scales(float d, const uint8_t *packed, float *scales)
{
    for (int g = 0; g < 16; g++)
        scales[g] = d * (0.5f + (float)(packed[g / 2] >> (4 * (g % 2)) & 15)) * 0.25f;
}

/* d, u16 codes[32] (9 bits index, 7 bits signs), scales[8]. */
void block_iq2_xs(const uint8_t *b, float *scales, int8_t *values)
{
    iq2_scales(block_f16(b), b + 66, scales);
    for (int i = 0; i < 32; i++) {
        uint32_t code = block_u16(b + 2 + 2 * i);
        put_signed(iq2xs_grid[code & 511], even_signs(code >> 9), 8, values + 8 * i);
    }
}

/* d, indexes[32], signs[32], high bits[8], scales[8]. */
void block_iq2_s(const uint8_t *b, float *scales, int8_t *values)
{
    iq2_scales(block_f16(b), b + 74, scales);
    for (int i = 0; i < 32; i++) {
        uint32_t index = b[2 + i] | (uint32_t)(b[66 + i / 4] >> (2 * (i % 4)) & 3) << 8;
        put_signed(iq2s_grid[index], b[34 + i], 8, values + 8 * i);
    }
}

/* d, indexes[64], then for each 32 a word as in IQ2_XXS. */
void block_iq3_xxs(const uint8_t *b, float *scales, int8_t *values)
{
    float d = block_f16(b);
    for (int g = 0; g < 8; g++) {
        uint32_t word = block_u32(b + 66 + 4 * g);
        scales[2 * g] = scales[2 * g + 1] = d * (0.5f + (float)(word >> 28)) * 0.5f;
        for (int i = 0; i < 8; i++)
            put_signed(iq3xxs_grid[b[2 + 8 * g + i]],
                       even_signs(word >> (i / 2 * 7)) >> (i % 2 * 4), 4, values + 32 * g + 4 * i);
    }
}

/* d, indexes[64], high bits[8], signs[32], scales[4]. */
void block_iq3_s(const uint8_t *b, float *scales, int8_t *values)
{
    float d = block_f16(b);
    for (int g = 0; g < 8; g++) {
        scales[2 * g] = d * (float)(1 + 2 * (b[106 + g / 2] >> (4 * (g % 2)) & 15));
        scales[2 * g + 1] = scales[2 * g];
        for (int i = 0; i < 8; i++) {
            uint32_t index = b[2 + 8 * g + i] | (uint32_t)(b[66 + g] >> i & 1) << 8;
            uint32_t signs = (uint32_t)b[74 + 4 * g + i / 2] >> (i % 2 * 4);
            put_signed(iq3s_grid[index], signs, 4, values + 32 * g + 4 * i);
        }
    }
}

/* Eight values of a codebook of -1, 0, 1, moved by an eighth up or down: in eighths, which the
 * scales make up for. */
static void put_moved(uint64_t entry, bool is_down, int8_t *v)
{
    for (int i = 0; i < 8; i++)
        v[i] = (int8_t)(8 * (int8_t)(entry >> (8 * i) & 255) + (is_down ? -1 : 1));
}

/* d, indexes[32], u16 for each 32: four times 3 high bits, scale, sign of the offset. */
void block_iq1_s(const uint8_t *b, float *scales, int8_t *values)
{
    float d = 0.125f * block_f16(b);
    for (int g = 0; g < 8; g++) {
        uint32_t word = block_u16(b + 34 + 2 * g);
        scales[2 * g] = scales[2 * g + 1] = d * (float)(2 * (word >> 12 & 7) + 1);
        for (int l = 0; l < 4; l++) {
            uint32_t index = b[2 + 4 * g + l] | (word >> (3 * l) & 7) << 8;
            put_moved(iq1s_grid[index], word >> 15, values + 32 * g + 8 * l);
        }
    }
}

/* indexes[32], half bytes[32] of 3 high bits and the offset's sign, four u16 of four 3-bit scales,
 * whose top half bytes together are d. */
void block_iq1_m(const uint8_t *b, float *scales, int8_t *values)
{
    uint32_t words[4], d_bits = 0;
    for (int i = 0; i < 4; i++) {
        words[i] = block_u16(b + 48 + 2 * i);
        d_bits |= words[i] >> 12 << (4 * i);
    }
    float d = 0.125f * half_from_f16((uint16_t)d_bits);
    for (int g = 0; g < 16; g++)
        scales[g] = d * (float)(2 * (words[g / 4] >> (3 * (g % 4)) & 7) + 1);
    for (int i = 0; i < 32; i++) {
        uint32_t more = (uint32_t)b[32 + i / 2] >> (4 * (i % 2)) & 15;
        put_moved(iq1s_grid[b[i] | (more & 7) << 8], more & 8, values + 8 * i);
    }
}

void block_iq4_nl(const uint8_t *b, float *y)
{
    float d = block_f16(b);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)block_iq4_values[b[2 + j] & 15];
        y[j + 16] = d * (float)block_iq4_values[b[2 + j] >> 4];
    }
}

/* d, u16 high scale bits, low scale bits[4], codes[128]. */
void block_iq4_xs(const uint8_t *b, float *y)
{
    float d = block_f16(b);
    uint32_t high = block_u16(b + 2);
    for (int g = 0; g < 8; g++) {
        int low = b[4 + g / 2] >> (4 * (g % 2)) & 15;
        float scale = d * (float)((low | (int)(high >> (2 * g) & 3) << 4) - 32);
        for (int j = 0; j < 16; j++) {
            uint8_t q = b[8 + 16 * g + j];
            y[32 * g + j] = scale * (float)block_iq4_values[q & 15];
            y[32 * g + 16 + j] = scale * (float)block_iq4_values[q >> 4];
        }
    }
}
