/* kern_lin_avx2: int8 tiles for AVX2, where 16 registers have to do: two sums of 16 bits for each
 * of up to 4 rows, four of codes, one of x. What is needed once a block is left to memory.
 *
 * The bits are those of kern_lin_int8: the dot products are exact, and the sums across blocks are
 * the same operations in the same order. Included by kern_lin_priv.h only. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_LIN_AVX2_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_LIN_AVX2_PRIV_H

#include <immintrin.h>

#define LIN_R 4
enum { LIN_P = 1, LIN_TILE_ROWS = 8, LIN_FEW = 2 };

/* Runs of 64 bytes whose products of 4-bit codes fit 16 bits: 8 k's each, 15 * 127 * 2 a step. */
enum { LIN8_RUNS = 4 };

/* A sum that is finished here: else the compiler regroups the additions of many products, which
 * then all wait in memory. */
#define LIN8_KEEP(v) __asm__("" : "+x"(v))

V16_FN bool lin_fetches_few(const lin_tile *t, bool fetches)
{
    (void)t;
    return fetches;
}

V16_FN __m256i lin8_quad(const int8_t *q)
{
    int32_t x;
    memcpy(&x, q, 4);
    return _mm256_set1_epi32(x);
}

V16_FN __m256i lin8_load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

V16_FN __m256 lin8_scales(const uint8_t *p, bool is_f32)
{
    if (is_f32) return _mm256_loadu_ps((const float *)(const void *)p);
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* LIN8_RUNS runs of 4-bit codes against R rows from k on, on top of dot. */
V16_FORM void lin8_runs4(const uint8_t *codes, const int8_t *const *q, int64_t k, int R,
                         __m256i dot[LIN_R][2])
{
    const __m256i low = _mm256_set1_epi8(15), one = _mm256_set1_epi16(1);
    __m256i d[LIN_R][2];
    for (int r = 0; r < R; r++) d[r][0] = d[r][1] = _mm256_setzero_si256();
    for (int c = 0; c < LIN8_RUNS; c++, codes += 64, k += 8) {
        __m256i a = lin8_load(codes), b = lin8_load(codes + 32);
        __m256i a0 = _mm256_and_si256(a, low), a1 = _mm256_and_si256(_mm256_srli_epi16(a, 4), low);
        __m256i b0 = _mm256_and_si256(b, low), b1 = _mm256_and_si256(_mm256_srli_epi16(b, 4), low);
        for (int r = 0; r < R; r++) {
            __m256i x = lin8_quad(q[r] + k);
            d[r][0] = _mm256_add_epi16(d[r][0], _mm256_maddubs_epi16(a0, x));
            d[r][1] = _mm256_add_epi16(d[r][1], _mm256_maddubs_epi16(b0, x));
            LIN8_KEEP(d[r][0]);
            LIN8_KEEP(d[r][1]);
            x = lin8_quad(q[r] + k + 4);
            d[r][0] = _mm256_add_epi16(d[r][0], _mm256_maddubs_epi16(a1, x));
            d[r][1] = _mm256_add_epi16(d[r][1], _mm256_maddubs_epi16(b1, x));
            LIN8_KEEP(d[r][0]);
            LIN8_KEEP(d[r][1]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++)
            dot[r][h] = _mm256_add_epi32(dot[r][h], _mm256_madd_epi16(d[r][h], one));
}

/* n runs of 8-bit codes, 4 k's each: even and odd bytes apart, as two products of a full byte do
 * not fit 16 bits. */
V16_FORM void lin8_runs8(const uint8_t *codes, const int8_t *const *q, int64_t k, int n, int R,
                         __m256i dot[LIN_R][2])
{
    const __m256i even = _mm256_set1_epi16(255);
    for (int c = 0; c < n; c++, codes += 64, k += 4) {
        __m256i a = lin8_load(codes), b = lin8_load(codes + 32);
        __m256i a0 = _mm256_and_si256(a, even), a1 = _mm256_srli_epi16(a, 8);
        __m256i b0 = _mm256_and_si256(b, even), b1 = _mm256_srli_epi16(b, 8);
        for (int r = 0; r < R; r++) {
            __m256i x = lin8_quad(q[r] + k);
            __m256i x0 = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8),
                    x1 = _mm256_srai_epi16(x, 8);
            dot[r][0] = _mm256_add_epi32(dot[r][0], _mm256_madd_epi16(a0, x0));
            dot[r][1] = _mm256_add_epi32(dot[r][1], _mm256_madd_epi16(b0, x0));
            dot[r][0] = _mm256_add_epi32(dot[r][0], _mm256_madd_epi16(a1, x1));
            dot[r][1] = _mm256_add_epi32(dot[r][1], _mm256_madd_epi16(b1, x1));
            LIN8_KEEP(dot[r][0]);
            LIN8_KEEP(dot[r][1]);
        }
    }
}

/* A group's share of half h of the outputs: y + dot * (scale * xs) + offset * sum. */
V16_FORM void lin8_sum(const lin_tile *t, __m256 s, __m256 o, int64_t b, int r0, int R, int h,
                       __m256i dot[LIN_R][2], __m256 y[LIN_R][2])
{
    for (int r = 0; r < R; r++) {
        __m256 f = _mm256_mul_ps(s, _mm256_set1_ps(t->scale[r0 + r][b]));
        y[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r][h]), f, y[r][h]);
        y[r][h] = _mm256_fmadd_ps(o, _mm256_set1_ps(t->sum[r0 + r][b]), y[r][h]);
    }
}

/* The same, of affine groups. */
V16_FORM void lin8_add(const lin_tile *t, const uint8_t *at, int64_t b, int r0, int R, int h,
                       __m256i dot[LIN_R][2], __m256 y[LIN_R][2])
{
    const bool is_f32 = t->format.has_f32_scales;
    at += is_f32 ? 32 * h : 16 * h;
    __m256 s = lin8_scales(at, is_f32);
    __m256 o = t->format.zero ? _mm256_mul_ps(s, _mm256_set1_ps(-(float)t->format.zero))
                              : lin8_scales(at + panel_scale_bytes(t->format), is_f32);
    lin8_sum(t, s, o, b, r0, R, h, dot, y);
}

/* Blocks that lie between what is read of a panel and what is fetched: 3 KB of 4-bit codes. The
 * processor's own fetching begins anew in every page and every panel, which a tile of few rows
 * waits for. */
enum { LIN8_AHEAD = 5 };

/* What is read behind panel p of a tile. */
V16_FN const uint8_t *lin8_after(const lin_tile *t, int p)
{
    return p + 1 < t->n_panels ? t->panel[p + 1] : t->next[0];
}

/* Rows [r0, r0 + R) against panel p. R, bits and fetches are literals at the call, and group too
 * where speed matters. With few rows the panel itself is fetched, and the beginning of what is read
 * behind it; with more of them the next panel, which has the time of this tile. */
V16_FORM void lin_int8(const lin_tile *t, const uint8_t *const *panel, int p, int r0, int R,
                       int bits, int group, bool fetches)
{
    const int head = panel_head_bytes(t->format);
    const int64_t block = head + group * PANEL_N * bits / 8, n_blocks = t->K / group;
    const bool is_few = R <= LIN_FEW;
    const uint8_t *at = panel[0], *next = NULL;
    if (fetches) next = is_few ? lin8_after(t, p) : t->next[p];
    const int8_t *q[LIN_R];
    __m256 y[LIN_R][2];
    for (int r = 0; r < R; r++) {
        q[r] = t->q[r0 + r];
        y[r][0] = y[r][1] = _mm256_setzero_ps();
    }
    for (int64_t b = 0; b < n_blocks; b++, at += block) {
        __m256i dot[LIN_R][2];
        for (int r = 0; r < R; r++) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
        if (bits == 4)
            for (int k = 0; k < group; k += 8 * LIN8_RUNS)
                lin8_runs4(at + head + 8 * k, q, b * group + k, R, dot);
        else
            lin8_runs8(at + head, q, b * group, group / 4, R, dot);
        for (int h = 0; h < 2; h++) lin8_add(t, at, b, r0, R, h, dot, y);
        if (!fetches) continue;
        bool is_own = is_few && b + LIN8_AHEAD < n_blocks;
        const uint8_t *ahead = is_own ? at + LIN8_AHEAD * block : next;
        for (int64_t i = 0; i < block; i += 64) {
            if (is_few)
                __builtin_prefetch(ahead + i, 0, 3);
            else
                __builtin_prefetch(ahead + i, 0, 2);
        }
        if (!is_own) next += block;
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++)
            _mm256_storeu_ps(t->out + ((r0 + r) * TILE_PANELS + p) * PANEL_N + 8 * h, y[r][h]);
}

V16_FORM void lin8_block_dots(panel_kind kind, const uint8_t *at, int g, const int8_t *const *q,
                              int64_t k, int group, int R, __m256i dot[LIN_R][2])
{
    const uint8_t *codes = lin_group_codes(kind, at, group, g);
    for (int r = 0; r < R; r++) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
    if (lin_is_plain4(kind)) {
        lin8_runs4(codes, q, k, R, dot);
    } else if (kind == PANEL_Q8_0) {
        lin8_runs8(codes, q, k, group / 4, R, dot);
    } else {
        uint8_t bytes[8][64]; /* runs of 8-bit codes */
#define LIN8_WIDE_RUN(c)                                                  \
    do {                                                                  \
        v16i w[2];                                                        \
        lin_wide_run(kind, codes, lin_group_high(kind, at, g), (c), w);   \
        for (int h = 0; h < 2; h++) v16i_store(bytes[2 * (c) + h], w[h]); \
    } while (0)
        LIN8_WIDE_RUN(0);
        LIN8_WIDE_RUN(1);
        if (group == 32) {
            LIN8_WIDE_RUN(2);
            LIN8_WIDE_RUN(3);
        }
#undef LIN8_WIDE_RUN
        lin8_runs8(bytes[0], q, k, group / 4, R, dot);
    }
}

/* How far ahead a tile of few rows fetches, in bytes: see LIN8_AHEAD. */
enum { LIN8_AHEAD_BYTES = 3072 };

/* lin_int8 for the block kinds: the same sums, scales from a block's own form. */
V16_FORM void lin_blocks(const lin_tile *t, const uint8_t *const *panel, int p, int r0, int R,
                         panel_kind kind, bool fetches)
{
    const int group = kind == PANEL_Q6_K ? 16 : 32, size = panel_block_size(kind);
    const int n_bytes = (int)panel_block_bytes((panel_format){.kind = kind}),
              share = n_bytes / (size / group);
    const bool has_zero = lin_block_zero(kind) != 0, is_few = R <= LIN_FEW;
    const __m256 minus_zero = _mm256_set1_ps(-(float)lin_block_zero(kind));
    const int64_t total = t->K / size * n_bytes;
    const uint8_t *at = panel[0], *from = at, *next = is_few ? lin8_after(t, p) : t->next[p];
    const int8_t *q[LIN_R];
    __m256 y[LIN_R][2];
    if (!next) next = panel[0];
    for (int r = 0; r < R; r++) {
        q[r] = t->q[r0 + r];
        y[r][0] = y[r][1] = _mm256_setzero_ps();
    }
    for (int64_t k0 = 0; k0 < t->K; k0 += size, at += n_bytes) {
        lin_scale_block scales;
        lin_scales_of(kind, at, &scales);
        for (int g = 0; g < size / group; g++, from += share) {
            __m256i dot[LIN_R][2];
            int64_t k = k0 + g * group, b = k / group;
            lin8_block_dots(kind, at, g, q, k, group, R, dot);
            for (int h = 0; h < 2; h++) {
                __m256 s = _mm256_loadu_ps(scales.scale[g] + 8 * h);
                __m256 o = has_zero ? _mm256_mul_ps(s, minus_zero)
                                    : _mm256_loadu_ps(scales.offset[g % 8] + 8 * h);
                lin8_sum(t, s, o, b, r0, R, h, dot, y);
            }
            if (!fetches) continue;
            bool is_own = is_few && from + LIN8_AHEAD_BYTES < panel[0] + total;
            const uint8_t *ahead = is_own ? from + LIN8_AHEAD_BYTES : next;
            for (int i = 0; i < share; i += 64) {
                if (is_few)
                    __builtin_prefetch(ahead + i, 0, 3);
                else
                    __builtin_prefetch(ahead + i, 0, 2);
            }
            if (!is_own) next += share;
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++)
            _mm256_storeu_ps(t->out + ((r0 + r) * TILE_PANELS + p) * PANEL_N + 8 * h, y[r][h]);
}

#endif
