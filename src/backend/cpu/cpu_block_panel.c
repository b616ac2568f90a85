/* Block kinds of panels (cpu_panel_priv.h): GGUF's blocks in their own form, 16 outputs side by
 * side. Scales are the file's own bytes; codes are split into their low four bits and the rest. */
#include <string.h>

#include "backend/cpu/cpu_priv.h"
#include "tensor/block.h"

bool cpu_block_kind(const tensor *t, panel_kind *kind)
{
    static const panel_kind kinds[DTYPE_COUNT] = {
        [DTYPE_Q4_0] = PANEL_Q4_0,     [DTYPE_Q8_0] = PANEL_Q8_0, [DTYPE_Q4_K] = PANEL_Q4_K,
        [DTYPE_Q5_K] = PANEL_Q5_K,     [DTYPE_Q6_K] = PANEL_Q6_K, [DTYPE_IQ4_NL] = PANEL_IQ4_NL,
        [DTYPE_IQ4_XS] = PANEL_IQ4_XS,
    };
    panel_kind k = kinds[t->type];
    if (!panel_is_block(k)) return false;
    int size = panel_block_size(k);
    if (t->shape[t->n_dims - 1] % size != 0) return false;
    if (t->heads.n != 0 && t->heads.in_columns && t->heads.size % size != 0) return false;
    *kind = k;
    return true;
}

static uint32_t four(const uint8_t *q)
{
    uint32_t v;
    memcpy(&v, q, 4);
    return v;
}

static void put(uint8_t *to, uint32_t v)
{
    memcpy(to, &v, 4);
}

/* ---- scales ------------------------------------------------------------------------------- */

/* `from`: the blocks of a row that a block of the panel consists of. */
static void put_scales(panel_kind kind, const uint8_t *from, int64_t n, uint8_t *block)
{
    switch (kind) {
    case PANEL_Q4_K:
    case PANEL_Q5_K:
        memcpy(block + 2 * n, from, 2);
        memcpy(block + 32 + 2 * n, from + 2, 2);
        for (int i = 0; i < 3; i++) memcpy(block + 64 + 64 * i + 4 * n, from + 4 + 4 * i, 4);
        break;
    case PANEL_Q6_K:
        memcpy(block + 2 * n, from + 208, 2);
        for (int g = 0; g < 16; g++) block[64 + 16 * g + n] = from[192 + g];
        break;
    case PANEL_IQ4_XS:
        memcpy(block + 2 * n, from, 2);
        for (int g = 0; g < 8; g++) {
            int low = from[4 + g / 2] >> (4 * (g % 2)) & 15;
            int high = from[2 + g / 4] >> (2 * (g % 4)) & 3;
            block[64 + 16 * g + n] = (uint8_t)((low | high << 4) - 32);
        }
        break;
    default:
        for (int g = 0; g < 2; g++)
            memcpy(block + 32 * g + 2 * n, from + g * (kind == PANEL_Q8_0 ? 34 : 18), 2);
        break;
    }
}

/* ---- codes -------------------------------------------------------------------------------- */

/* The indices of IQ4_NL and IQ4_XS: element j in the low half of byte j, j + 16 in the high half.
 */
static void iq4_indices(const uint8_t *row, int64_t K, panel_kind kind, uint8_t *codes)
{
    int in_file = kind == PANEL_IQ4_XS ? 256 : 32, n_bytes = kind == PANEL_IQ4_XS ? 136 : 18;
    for (int64_t k = 0; k < K; k += 32) {
        const uint8_t *block = row + k / in_file * n_bytes;
        const uint8_t *q = kind == PANEL_IQ4_XS ? block + 8 + k % 256 / 2 : block + 2;
        for (int j = 0; j < 16; j++) {
            codes[k + j] = q[j] & 15;
            codes[k + j + 16] = q[j] >> 4;
        }
    }
}

/* Low halves of n codes to lane n of runs from `out` on. */
static void put_low(const uint8_t *q, int n, uint8_t *out)
{
    for (int k = 0; k < n; k += 8, out += 64)
        put(out, (four(q + k) & 0x0f0f0f0f) | (four(q + k + 4) & 0x0f0f0f0f) << 4);
}

/* n bytes of the file whose halves are codes of two places: those of the low halves to lane n of
 * runs from `low` on, the others from `high` on. */
static void put_halves(const uint8_t *from, int n, uint8_t *low, uint8_t *high)
{
    for (int i = 0; i < n; i += 8, low += 64, high += 64) {
        uint32_t a = four(from + i), b = four(from + i + 4);
        put(low, (a & 0x0f0f0f0f) | (b & 0x0f0f0f0f) << 4);
        put(high, (a >> 4 & 0x0f0f0f0f) | (b & 0xf0f0f0f0));
    }
}

/* Codes that are half bytes in the file, without a stop on the way: 8 codes of a row are a line of
 * the panel. A pair of Q4_K's groups shares 32 bytes, the two halves of a group of Q4_0 share 16.
 */
static void put_plain4(panel_kind kind, const uint8_t *from, uint8_t *out)
{
    if (kind == PANEL_Q4_K) {
        for (int i = 0; i < 4; i++)
            put_halves(from + 16 + 32 * i, 32, out + 512 * i, out + 512 * i + 256);
        return;
    }
    for (int g = 0; g < 2; g++)
        put_halves(from + 18 * g + 2, 16, out + 256 * g, out + 256 * g + 128);
}

/* The fifth bits of groups of 32, or the fifth and sixth of groups of 16, in a u32 each. */
static void put_high(const uint8_t *q, int n, int n_bits, uint8_t *out)
{
    uint32_t mask = n_bits == 1 ? 0x01010101 : 0x03030303;
    int group = 32 / n_bits;
    for (int k = 0; k < n; k += group, out += 64) {
        uint32_t v = 0;
        for (int i = 0; i < group / 4; i++) v |= (four(q + k + 4 * i) >> 4 & mask) << (n_bits * i);
        put(out, v);
    }
}

void cpu_block_row(const tensor *t, panel_kind kind, int64_t row, int64_t n, uint8_t *codes,
                   float *groups, uint8_t *panel)
{
    panel_format f = {.kind = kind};
    int64_t K = t->shape[t->n_dims - 1], n_bytes = panel_block_bytes(f);
    int size = panel_block_size(kind), head = panel_block_head(kind);
    int64_t file_bytes = block_row_bytes(t->type, size);
    const uint8_t *from = (const uint8_t *)t->data +
                          tensor_file_row(t, row) * block_row_bytes(t->type, K);
    const bool is_plain4 = kind == PANEL_Q4_0 || kind == PANEL_Q4_K;
    if (kind == PANEL_IQ4_NL || kind == PANEL_IQ4_XS)
        iq4_indices(from, K, kind, codes);
    else if (!is_plain4)
        block_affine_row(t->type, from, K, codes, groups,
                         groups + K / block_affine_of(t->type).group);
    for (int64_t k = 0; k < K; k += size, from += file_bytes, codes += size) {
        uint8_t *block = panel + tensor_our_column(t, k) / size * n_bytes;
        put_scales(kind, from, n, block);
        if (is_plain4)
            put_plain4(kind, from, block + head + 4 * n);
        else if (kind == PANEL_Q8_0)
            for (int i = 0; i < size; i += 4) put(block + head + 16 * i + 4 * n, four(codes + i));
        else
            put_low(codes, size, block + head + 4 * n);
        if (kind == PANEL_Q5_K || kind == PANEL_Q6_K)
            put_high(codes, size, kind == PANEL_Q5_K ? 1 : 2,
                     block + head + size * PANEL_N / 2 + 4 * n);
    }
}
