/* kernels_table: the table of the instruction set that this file is compiled for; rows of its int8
 * tiles, what their even shares are rounded up to, and the tiles themselves (by the prefix of their
 * names) may be others than kern_lin's. */
#ifndef RIPTIDE_BACKEND_CPU_KERNELS_TABLE_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERNELS_TABLE_PRIV_H

#include "backend/cpu/kern_attn_priv.h"
#include "backend/cpu/kern_gdn_priv.h"
#include "backend/cpu/kern_lin_priv.h"
#include "backend/cpu/kern_row_priv.h"
#include "backend/cpu/kern_sample_priv.h"

/* clang-format off */
#define KERNELS_TABLE(name, n_tile_rows, n_row_step, int8)                                   \
    {                                                                                        \
        .isa = (name), .tile_rows = (n_tile_rows), .row_step = (n_row_step),                 \
        .tile_panels = LIN_P,                                                                \
        .lin = {[PANEL_Q4] = int8##q4, [PANEL_Q8] = int8##q8, [PANEL_FQ4] = lin_fq4,         \
                [PANEL_FQ8] = lin_fq8, [PANEL_F32] = lin_f32, [PANEL_BF16] = lin_bf16,       \
                [PANEL_F16] = lin_f16, [PANEL_Q4_0] = int8##q4_0, [PANEL_Q8_0] = int8##q8_0, \
                [PANEL_Q4_K] = int8##q4_k, [PANEL_Q5_K] = int8##q5_k,                        \
                [PANEL_Q6_K] = int8##q6_k, [PANEL_IQ4_NL] = int8##iq4_nl,                    \
                [PANEL_IQ4_XS] = int8##iq4_xs},                                              \
        .quantise = lin_quantise, .swiglu = row_swiglu, .rmsnorm = row_rmsnorm,              \
        .dot = row_dot, .gate = row_gate, .sigmoid = row_sigmoid, .exp = row_exp,            \
        .kv_store = {[KERNEL_KV_I8] = kv_store_i8, [KERNEL_KV_BF16] = kv_store_bf16,         \
                     [KERNEL_KV_F32] = kv_store_f32},                                        \
        .attn_scores = {[KERNEL_KV_I8] = attn_scores_i8, [KERNEL_KV_BF16] = attn_scores_bf16,\
                        [KERNEL_KV_F32] = attn_scores_f32},                                  \
        .attn_softmax = attn_softmax,                                                        \
        .attn_values = {[KERNEL_KV_I8] = attn_values_i8, [KERNEL_KV_BF16] = attn_values_bf16,\
                        [KERNEL_KV_F32] = attn_values_f32},                                  \
        .gdn_conv = gdn_conv, .gdn_unit = gdn_unit, .gdn_gates = gdn_gates,                  \
        .gdn_slices = gdn_slices, .gdn_out = gdn_out, .max = sample_max,                     \
        .sum_exp = sample_sum_exp, .argmax = sample_argmax,                                  \
        .gumbel_argmax = sample_gumbel_argmax, .gumbel16 = sample_gumbel16,                  \
        .softcap = row_softcap, .masked_div = sample_masked_div,                             \
    }
/* clang-format on */

#endif
