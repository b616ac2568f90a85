/* kern_lin_block: the parts of a block kind's panel (cpu_panel_priv.h): scales as f32, and codes as
 * bytes. Included by kern_lin_priv.h only; kinds are literals at the calls.
 *
 * Scales are those of block_affine_row, by the same operations in the same order: the f16 number
 * times the integer, rounded once; an offset is the negative of such a product, or, where codes
 * have a zero, -zero * scale. So a block kind gives the bits that affine groups of these scales
 * would. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_LIN_BLOCK_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_LIN_BLOCK_PRIV_H

/* The scales of a block's groups, and their offsets where they are no multiple of them. */
typedef struct {
    float scale[16][PANEL_N], offset[8][PANEL_N];
} lin_scale_block;

V16_FN v16 lin_byte(v16i v, int j)
{
    return v16_of_i(v16i_and(v16i_shr(v, 8 * j), v16i_set1(255)));
}

V16_FN v16 lin_half(const uint8_t *p)
{
    return v16_load_f16((const uint16_t *)(const void *)p);
}

/* Scales and minima of groups 0 to 3, then 4 to 7, as four bytes each (block_scale_min). */
V16_FORM void lin_scales_k(const uint8_t *at, lin_scale_block *b)
{
    const v16i six = v16i_set1(0x3f3f3f3f), four = v16i_set1(0x0f0f0f0f),
               two = v16i_set1(0x30303030);
    v16 d = lin_half(at), dmin = lin_half(at + 32);
    v16i w0 = v16i_load(at + 64), w1 = v16i_load(at + 128), w2 = v16i_load(at + 192);
    v16i scales[2] = {v16i_and(w0, six),
                      v16i_or(v16i_and(w2, four), v16i_and(v16i_shr(w0, 2), two))};
    v16i mins[2] = {v16i_and(w1, six),
                    v16i_or(v16i_and(v16i_shr(w2, 4), four), v16i_and(v16i_shr(w1, 2), two))};
    for (int g = 0; g < 8; g++) {
        v16_store(b->scale[g], v16_mul(d, lin_byte(scales[g / 4], g % 4)));
        v16_store(b->offset[g], v16_neg(v16_mul(dmin, lin_byte(mins[g / 4], g % 4))));
    }
}

V16_FORM void lin_scales_of(panel_kind kind, const uint8_t *at, lin_scale_block *b)
{
    if (kind == PANEL_Q4_K || kind == PANEL_Q5_K) {
        lin_scales_k(at, b);
    } else if (kind == PANEL_Q6_K || kind == PANEL_IQ4_XS) {
        v16 d = lin_half(at);
        for (int g = 0; g < (kind == PANEL_Q6_K ? 16 : 8); g++)
            v16_store(b->scale[g], v16_mul(d, v16_load_i8((const int8_t *)at + 64 + 16 * g)));
    } else {
        for (int g = 0; g < 2; g++) v16_store(b->scale[g], lin_half(at + 32 * g));
    }
}

/* Whether codes are half bytes as they stand, or bytes. */
V16_FN bool lin_is_plain4(panel_kind kind)
{
    return kind == PANEL_Q4_0 || kind == PANEL_Q4_K;
}

V16_FN int lin_block_zero(panel_kind kind)
{
    switch (kind) {
    case PANEL_Q4_0: return 8;
    case PANEL_Q8_0: return 128;
    case PANEL_Q6_K: return 32;
    case PANEL_IQ4_NL:
    case PANEL_IQ4_XS: return 127;
    default: return 0;
    }
}

/* The values of IQ4_NL and IQ4_XS, 127 more than they are. */
V16_FN v16i lin_iq4_table(void)
{
    static const uint8_t table[64] = {
        0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240,
        0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240,
        0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240,
        0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240,
    };
    return v16i_load(table);
}

/* Bit `from` of every byte and those above, to bit 4. */
V16_FN v16i lin_to_bit4(v16i v, int from)
{
    return from < 4 ? v16i_shl(v, 4 - from) : v16i_shr(v, from - 4);
}

/* Run c of a group as bytes: k = 8 c .. 8 c + 3 and 8 c + 4 .. 8 c + 7. `codes` is the group's, and
 * `high` its further bits. */
V16_FORM void lin_wide_run(panel_kind kind, const uint8_t *codes, const uint8_t *high, int c,
                           v16i wide[2])
{
    const v16i low = v16i_set1(0x0f0f0f0f);
    v16i w = v16i_load(codes + 64 * c);
    wide[0] = v16i_and(w, low);
    wide[1] = v16i_and(v16i_shr(w, 4), low);
    for (int h = 0; h < 2; h++) {
        if (kind == PANEL_IQ4_NL || kind == PANEL_IQ4_XS) {
            wide[h] = v16i_look_up(lin_iq4_table(), wide[h]);
        } else {
            const bool is_q5 = kind == PANEL_Q5_K;
            v16i bits = lin_to_bit4(v16i_load(high), is_q5 ? 2 * c + h : 4 * c + 2 * h);
            wide[h] = v16i_or(wide[h], v16i_and(bits, v16i_set1(is_q5 ? 0x10101010 : 0x30303030)));
        }
    }
}

/* Where group g of a block has its codes and further bits. */
V16_FN const uint8_t *lin_group_codes(panel_kind kind, const uint8_t *at, int group, int g)
{
    return at + panel_block_head(kind) + g * group * PANEL_N / (kind == PANEL_Q8_0 ? 1 : 2);
}

V16_FN const uint8_t *lin_group_high(panel_kind kind, const uint8_t *at, int g)
{
    return at + panel_block_head(kind) + panel_block_size(kind) * PANEL_N / 2 + 64 * g;
}

#endif
