/* cpu_panel: how a linear weight lies in memory: panels of 16 outputs, each one stream.
 *
 * A panel holds outputs 16 p .. 16 p + 15 for all K, in blocks of consecutive k. A vector lane is
 * an output, so that a sum over K never crosses lanes and its order is plain ascending k.
 * Affine weights, block = `group` codes (64, 32 or 16; a file's 128 is stored as twice 64):
 *   scales [16], biases [16]   bf16, or f32 when the file's are not bf16; no biases where the codes
 *              have one zero: then bias = -zero * scale
 *   PANEL_Q4   group/8 runs of 64 bytes; byte 4 n + j of run c holds the codes of output n at
 *              k = 8 c + j (low half) and 8 c + 4 + j (high half)
 *   PANEL_Q8   group/4 runs of 64 bytes; byte 4 n + j of run c is the code at k = 4 c + j
 * 2- and 3-bit codes are stored as Q4, 5- and 6-bit codes as Q8.
 *   PANEL_F32, PANEL_BF16, PANEL_F16   [K][16] elements
 * GGUF's types that are read much keep their own bits (block kinds): blocks of several groups,
 * whose scales lie together in front of all their codes. `run` = 64 bytes as in PANEL_Q4.
 *   PANEL_Q4_0, PANEL_IQ4_NL   64 k: f16 scales [2][16], 8 runs
 *   PANEL_Q8_0                 64 k: f16 scales [2][16], 16 runs as in PANEL_Q8
 *   PANEL_Q4_K   256 k: f16 d [16], dmin [16]; the 12 bytes of scales and minima of each output as
 *                three u32 [3][16]; 32 runs
 *   PANEL_Q5_K   as Q4_K; then a u32 of fifth bits for each group, [8][16]: byte j, bit 2 c + h is
 *                that of k = 8 c + 4 h + j
 *   PANEL_Q6_K   256 k: f16 d [16], 32 unused bytes, i8 scales [16][16], 32 runs; then a u32 of
 * fifth and sixth bits for each group, [16][16]: byte j, bits 2 i and 2 i + 1 with i = 2 c + h as
 * above PANEL_IQ4_XS 256 k: f16 d [16], 32 unused bytes, i8 scales [8][16], 32 runs Outputs past N
 * are zeros. Panels start at multiples of 64 bytes.
 *
 * Affine and block kinds meet activations quantised to int8 per group (Q) or, where few outputs
 * decide much (router, gates), the f32 activations themselves (FQ; the bytes are the same). */
#ifndef RIPTIDE_BACKEND_CPU_PANEL_PRIV_H
#define RIPTIDE_BACKEND_CPU_PANEL_PRIV_H

#include <stdbool.h>
#include <stdint.h>

enum { PANEL_N = 16 };

typedef enum {
    PANEL_Q4,
    PANEL_Q8,
    PANEL_FQ4,
    PANEL_FQ8,
    PANEL_F32,
    PANEL_BF16,
    PANEL_F16,
    PANEL_Q4_0,
    PANEL_Q8_0,
    PANEL_Q4_K,
    PANEL_Q5_K,
    PANEL_Q6_K,
    PANEL_IQ4_NL,
    PANEL_IQ4_XS,
    PANEL_KINDS,
} panel_kind;

typedef struct {
    panel_kind kind;
    int group;           /* affine: 64, 32 or 16; blocks: 32 or 16 */
    bool has_f32_scales; /* affine */
    int zero;            /* the code of 0, of 1 to 128; or 0 when there are biases */
} panel_format;

/* Whether tiles of both can be one. */
static inline bool panel_is_alike(panel_format a, panel_format b)
{
    return a.kind == b.kind && a.group == b.group && a.has_f32_scales == b.has_f32_scales &&
           a.zero == b.zero;
}

static inline bool panel_is_affine(panel_kind kind)
{
    return kind <= PANEL_FQ8;
}

static inline bool panel_is_block(panel_kind kind)
{
    return kind >= PANEL_Q4_0;
}

/* Whether it meets int8 activations. */
static inline bool panel_is_int8(panel_kind kind)
{
    return kind == PANEL_Q4 || kind == PANEL_Q8 || panel_is_block(kind);
}

static inline bool panel_is_4bit(panel_kind kind)
{
    return kind == PANEL_Q4 || kind == PANEL_FQ4;
}

/* Bytes of the scales in front of a block's codes, and of the biases when it has them. */
static inline int panel_scale_bytes(panel_format f)
{
    return PANEL_N * (f.has_f32_scales ? 4 : 2);
}

static inline int panel_head_bytes(panel_format f)
{
    return panel_scale_bytes(f) * (f.zero ? 1 : 2);
}

/* Activations meet a weight in its groups: 0, 1, 2 for 64, 32, 16. */
enum { PANEL_GROUPS = 3 };
static inline int panel_group_index(int group)
{
    return group == 16 ? 2 : group == 32;
}

/* Block kinds: elements of a block, bytes in front of its codes, and of the bits behind them. */
static inline int panel_block_size(panel_kind kind)
{
    return kind == PANEL_Q4_0 || kind == PANEL_Q8_0 || kind == PANEL_IQ4_NL ? 64 : 256;
}

static inline int panel_block_head(panel_kind kind)
{
    switch (kind) {
    case PANEL_Q4_K:
    case PANEL_Q5_K: return 256;
    case PANEL_Q6_K: return 320;
    case PANEL_IQ4_XS: return 192;
    default: return 64;
    }
}

static inline int panel_block_high(panel_kind kind)
{
    return kind == PANEL_Q5_K ? 512 : kind == PANEL_Q6_K ? 1024 : 0;
}

static inline int64_t panel_block_bytes(panel_format f)
{
    if (panel_is_block(f.kind))
        return panel_block_head(f.kind) + panel_block_high(f.kind) +
               panel_block_size(f.kind) * PANEL_N / (f.kind == PANEL_Q8_0 ? 1 : 2);
    return panel_head_bytes(f) + f.group * PANEL_N / (panel_is_4bit(f.kind) ? 2 : 1);
}

static inline int64_t panel_bytes(panel_format f, int64_t k)
{
    if (panel_is_affine(f.kind)) return k / f.group * panel_block_bytes(f);
    if (panel_is_block(f.kind)) return k / panel_block_size(f.kind) * panel_block_bytes(f);
    int64_t n = k * PANEL_N * (f.kind == PANEL_F32 ? 4 : 2);
    return (n + 63) / 64 * 64;
}

#endif
