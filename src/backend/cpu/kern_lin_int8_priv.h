/* kern_lin_int8: int8 tiles, 16 outputs at a time. Included by kern_lin_priv.h only. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_LIN_INT8_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_LIN_INT8_PRIV_H

/* Rows and panels whose sums stay in registers, and rows of a tile in all. */
#if defined(__AVX512F__)
#define LIN_R 6
enum { LIN_P = 2, LIN_TILE_ROWS = 6 };
#else
#define LIN_R 2
enum { LIN_P = 1, LIN_TILE_ROWS = 8 };
#endif
/* Tiles of up to so many rows are done before what they fetch of the next one could be there: they
 * fetch ahead in their own panels instead, and past their ends what mostly lies behind them. */
enum { LIN_FEW = 2 };

V16_FN bool lin_fetches_few(const lin_tile *t, bool fetches)
{
    (void)fetches;
    return t->ahead != 0;
}

V16_FN v16i lin_quad(const int8_t *q)
{
    int32_t x;
    memcpy(&x, q, 4);
    return v16i_set1(x);
}

/* The exact dot products of runs [from, to) of a 4-bit block, on top of d. */
V16_FORM void lin_runs4(const uint8_t *const *codes, const int8_t *const *q, int from, int to,
                        int R, v16_dots d[LIN_R][LIN_P])
{
    const v16i low = v16i_set1(0x0f0f0f0f);
    for (int c = from; c < to; c++) {
        v16i lo[LIN_P], hi[LIN_P];
        for (int p = 0; p < LIN_P; p++) {
            v16i w = v16i_load(codes[p] + 64 * c);
            lo[p] = v16i_and(w, low);
            hi[p] = v16i_and(v16i_shr(w, 4), low);
        }
        for (int r = 0; r < R; r++) {
            v16i x0 = lin_quad(q[r] + 8 * c), x1 = lin_quad(q[r] + 8 * c + 4);
            for (int p = 0; p < LIN_P; p++) d[r][p] = v16_dots_add(d[r][p], lo[p], x0);
            for (int p = 0; p < LIN_P; p++) d[r][p] = v16_dots_add(d[r][p], hi[p], x1);
        }
    }
}

V16_FORM void lin_dots4(const uint8_t *const *codes, const int8_t *const *q, int group, int R,
                        v16i dot[LIN_R][LIN_P])
{
    for (int r = 0; r < R; r++)
        for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_set1(0);
#if V16_DOTS_ARE_WIDE
    lin_runs4(codes, q, 0, group / 8, R, dot);
#else
    for (int c = 0; c < group / 8; c += V16_DOTS_STEPS / 2) {
        v16_dots d[LIN_R][LIN_P];
        for (int r = 0; r < R; r++)
            for (int p = 0; p < LIN_P; p++) d[r][p] = v16_dots_zero();
        lin_runs4(codes, q, c, c + V16_DOTS_STEPS / 2, R, d);
        for (int r = 0; r < R; r++)
            for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_add(dot[r][p], v16_dots_sum(d[r][p]));
    }
#endif
}

V16_FORM void lin_dots8(const uint8_t *const *codes, const int8_t *const *q, int group, int R,
                        v16i dot[LIN_R][LIN_P])
{
    for (int r = 0; r < R; r++)
        for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_set1(0);
    for (int c = 0; c < group / 4; c++) {
        v16i w[LIN_P];
        for (int p = 0; p < LIN_P; p++) w[p] = v16i_load(codes[p] + 64 * c);
        for (int r = 0; r < R; r++) {
            v16i x = lin_quad(q[r] + 4 * c);
            for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_dot4(dot[r][p], w[p], x);
        }
    }
}

/* Rows [r0, r0 + R) against the LIN_P panels of `panel`. R, bits and fetches are literals at the
 * call, and group too where speed matters. */
V16_FORM void lin_int8(const lin_tile *t, const uint8_t *const *panel, int p0, int r0, int R,
                       int bits, int group, bool fetches)
{
    const bool is_f32 = t->format.has_f32_scales, has_zero = t->format.zero != 0;
    const int head = panel_head_bytes(t->format), biases = panel_scale_bytes(t->format);
    const v16 minus_zero = v16_set1(-(float)t->format.zero);
    const int64_t block = head + group * PANEL_N * bits / 8, n_blocks = t->K / group;
    const uint8_t *at[LIN_P], *codes[LIN_P], *next[LIN_P];
    const int8_t *q[LIN_R];
    v16 y[LIN_R][LIN_P];
    for (int p = 0; p < LIN_P; p++) {
        at[p] = panel[p];
        next[p] = !fetches       ? NULL
                  : R <= LIN_FEW ? panel[p] + t->ahead
                                 : t->next[p0 + p < t->n_panels ? p0 + p : 0];
    }
    for (int r = 0; r < R; r++) {
        q[r] = t->q[r0 + r];
        for (int p = 0; p < LIN_P; p++) y[r][p] = v16_zero();
    }
    for (int64_t b = 0; b < n_blocks; b++) {
        v16i dot[LIN_R][LIN_P];
        for (int p = 0; p < LIN_P; p++) codes[p] = at[p] + head;
        if (bits == 4)
            lin_dots4(codes, q, group, R, dot);
        else
            lin_dots8(codes, q, group, R, dot);
        for (int p = 0; p < LIN_P; p++) {
            v16 s = lin_scales(at[p], is_f32);
            v16 o = has_zero ? v16_mul(s, minus_zero) : lin_scales(at[p] + biases, is_f32);
            for (int r = 0; r < R; r++) {
                v16 f = v16_mul(s, v16_set1(t->scale[r0 + r][b]));
                y[r][p] = v16_fma(v16_of_i(dot[r][p]), f, y[r][p]);
                y[r][p] = v16_fma(o, v16_set1(t->sum[r0 + r][b]), y[r][p]);
            }
            at[p] += block;
        }
        for (int p = 0; fetches && p < LIN_P; p++) {
            for (int64_t i = 0; i < block; i += 64) __builtin_prefetch(next[p] + i, 0, 2);
            next[p] += block;
        }
        for (int r = 0; r < R; r++) q[r] += group;
    }
    for (int r = 0; r < R; r++)
        for (int p = 0; p < LIN_P && p0 + p < t->n_panels; p++)
            v16_store(t->out + ((r0 + r) * TILE_PANELS + p0 + p) * PANEL_N, y[r][p]);
}

/* The exact dot products of a group whose codes are widened run by run. */
V16_FORM void lin_dots_wide(panel_kind kind, const uint8_t *const *at, int g,
                            const int8_t *const *q, int group, int R, v16i dot[LIN_R][LIN_P])
{
    for (int r = 0; r < R; r++)
        for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_set1(0);
#define LIN_WIDE_RUN(c)                                                                       \
    do {                                                                                      \
        v16i w[LIN_P][2];                                                                     \
        for (int p = 0; p < LIN_P; p++)                                                       \
            lin_wide_run(kind, lin_group_codes(kind, at[p], group, g),                        \
                         lin_group_high(kind, at[p], g), (c), w[p]);                          \
        for (int r = 0; r < R; r++)                                                           \
            for (int h = 0; h < 2; h++) {                                                     \
                v16i x = lin_quad(q[r] + 8 * (c) + 4 * h);                                    \
                for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_dot4(dot[r][p], w[p][h], x); \
            }                                                                                 \
    } while (0)
    LIN_WIDE_RUN(0);
    LIN_WIDE_RUN(1);
    if (group == 32) {
        LIN_WIDE_RUN(2);
        LIN_WIDE_RUN(3);
    }
#undef LIN_WIDE_RUN
}

V16_FORM void lin_block_dots(panel_kind kind, const uint8_t *const *at, int g,
                             const int8_t *const *q, int group, int R, v16i dot[LIN_R][LIN_P])
{
    const uint8_t *codes[LIN_P];
    for (int p = 0; p < LIN_P; p++) codes[p] = lin_group_codes(kind, at[p], group, g);
    if (lin_is_plain4(kind))
        lin_dots4(codes, q, group, R, dot);
    else if (kind == PANEL_Q8_0)
        lin_dots8(codes, q, group, R, dot);
    else
        lin_dots_wide(kind, at, g, q, group, R, dot);
}

/* lin_int8 for the block kinds: the same sums, scales from a block's own form. From three rows on
 * the next tile's panels are fetched. */
V16_FORM void lin_blocks(const lin_tile *t, const uint8_t *const *panel, int p0, int r0, int R,
                         panel_kind kind, bool fetches)
{
    const int group = kind == PANEL_Q6_K ? 16 : 32, size = panel_block_size(kind);
    const int n_bytes = (int)panel_block_bytes((panel_format){.kind = kind}),
              share = n_bytes / (size / group);
    const bool has_zero = lin_block_zero(kind) != 0;
    const v16 minus_zero = v16_set1(-(float)lin_block_zero(kind));
    const uint8_t *at[LIN_P], *next[LIN_P];
    const int8_t *q[LIN_R];
    v16 y[LIN_R][LIN_P];
    int64_t b = 0;
    for (int p = 0; p < LIN_P; p++) {
        at[p] = panel[p];
        next[p] = panel[p];
        if (R <= LIN_FEW)
            next[p] += t->ahead;
        else if (t->next[0])
            next[p] = t->next[p0 + p < t->n_panels ? p0 + p : 0];
    }
    for (int r = 0; r < R; r++) {
        q[r] = t->q[r0 + r];
        for (int p = 0; p < LIN_P; p++) y[r][p] = v16_zero();
    }
    for (int64_t k = 0; k < t->K; k += size) {
        lin_scale_block scales[LIN_P];
        for (int p = 0; p < LIN_P; p++) lin_scales_of(kind, at[p], &scales[p]);
        for (int g = 0; g < size / group; g++, b++) {
            v16i dot[LIN_R][LIN_P];
            lin_block_dots(kind, at, g, q, group, R, dot);
            for (int p = 0; p < LIN_P; p++) {
                v16 s = v16_load(scales[p].scale[g]);
                v16 o = has_zero ? v16_mul(s, minus_zero) : v16_load(scales[p].offset[g % 8]);
                for (int r = 0; r < R; r++) {
                    v16 f = v16_mul(s, v16_set1(t->scale[r0 + r][b]));
                    y[r][p] = v16_fma(v16_of_i(dot[r][p]), f, y[r][p]);
                    y[r][p] = v16_fma(o, v16_set1(t->sum[r0 + r][b]), y[r][p]);
                }
                for (int i = 0; fetches && i < share; i += 64)
                    __builtin_prefetch(next[p] + i, 0, 2);
                next[p] += share;
            }
            for (int r = 0; r < R; r++) q[r] += group;
        }
        for (int p = 0; p < LIN_P; p++) at[p] += n_bytes;
    }
    for (int r = 0; r < R; r++)
        for (int p = 0; p < LIN_P && p0 + p < t->n_panels; p++)
            v16_store(t->out + ((r0 + r) * TILE_PANELS + p0 + p) * PANEL_N, y[r][p]);
}

#endif
