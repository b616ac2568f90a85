/* kern_lin_amx_block: AMX's tiles for the block kinds of panels. Included by kernels_amx.c only.
 *
 * As kern_lin_amx, group by group; scales come from a block's own form and codes are spread out to
 * bytes (kern_lin_block), so the bits are those of lin_blocks. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_LIN_AMX_BLOCK_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_LIN_AMX_BLOCK_PRIV_H

#include "backend/cpu/kern_lin_amx_priv.h"

/* Codes of group g of a block as 4 k of 16 outputs a line. */
V16_FORM const uint8_t *amx_group_codes(panel_kind kind, const uint8_t *at, int group, int g,
                                        uint8_t *to)
{
    const uint8_t *codes = lin_group_codes(kind, at, group, g);
    if (kind == PANEL_Q8_0) return codes;
    if (lin_is_plain4(kind)) return amx_codes(codes, 4, group, to);
    const uint8_t *high = lin_group_high(kind, at, g);
    v16i w[4][2];
    lin_wide_run(kind, codes, high, 0, w[0]);
    lin_wide_run(kind, codes, high, 1, w[1]);
    if (group == 32) {
        lin_wide_run(kind, codes, high, 2, w[2]);
        lin_wide_run(kind, codes, high, 3, w[3]);
    }
    for (int c = 0; c < group / 8; c++)
        for (int h = 0; h < 2; h++) v16i_store(to + 128 * c + 64 * h, w[c][h]);
    return to;
}

/* amx_panels over groups: those of a block share its scales, which are worked out when its first
 * group is added up. */
V16_FORM void amx_block_panels(const lin_tile *t, int P, panel_kind kind)
{
    const int group = kind == PANEL_Q6_K ? 16 : 32, per_block = panel_block_size(kind) / group;
    const int64_t n_bytes = panel_block_bytes((panel_format){.kind = kind}), n = t->K / group;
    const int64_t share = n_bytes / per_block;
    const bool has_zero = lin_block_zero(kind) != 0;
    const v16 minus_zero = v16_set1(-(float)lin_block_zero(kind));
    lin_scale_block scales[TILE_PANELS];
    amx_run run;
    amx_begin(t, P, &run);
    for (int64_t i = 0; i <= n; i++) {
        v16 s[TILE_PANELS], o[TILE_PANELS];
        const uint8_t *codes[TILE_PANELS];
        for (int p = 0; p < P && i > 0; p++) {
            int g = (int)((i - 1) % per_block);
            if (g == 0)
                lin_scales_of(kind, t->panel[p] + (i - 1) / per_block * n_bytes, &scales[p]);
            s[p] = v16_load(scales[p].scale[g]);
            o[p] = has_zero ? v16_mul(s[p], minus_zero) : v16_load(scales[p].offset[g % 8]);
        }
        for (int p = 0; p < P && i < n; p++)
            codes[p] = amx_group_codes(kind, t->panel[p] + i / per_block * n_bytes, group,
                                       (int)(i % per_block), run.spread[p]);
        amx_step(t, P, group, i, n, &run, codes, s, o, share);
    }
}

V16_FORM void amx_block_tile(const lin_tile *t, panel_kind kind)
{
    amx_configure(kind == PANEL_Q6_K ? 16 : 32);
    if (t->n_panels == 2)
        amx_block_panels(t, 2, kind);
    else
        amx_block_panels(t, 1, kind);
    _tile_release();
}

#define AMX_BLOCK(name, kind)                 \
    static void amx_##name(const lin_tile *t) \
    {                                         \
        if (t->n_rows < AMX_LEAST)            \
            amx_few(t, kind);                 \
        else                                  \
            amx_block_tile(t, kind);          \
    }
AMX_BLOCK(q4_0, PANEL_Q4_0)
AMX_BLOCK(q8_0, PANEL_Q8_0)
AMX_BLOCK(q4_k, PANEL_Q4_K)
AMX_BLOCK(q5_k, PANEL_Q5_K)
AMX_BLOCK(q6_k, PANEL_Q6_K)
AMX_BLOCK(iq4_nl, PANEL_IQ4_NL)
AMX_BLOCK(iq4_xs, PANEL_IQ4_XS)

#endif
