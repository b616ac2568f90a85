/* layers: weight views of the target, the shape beside each. */
#ifndef RIPTIDE_MODEL_LAYERS_PRIV_H
#define RIPTIDE_MODEL_LAYERS_PRIV_H

#include "backend/backend.h"
#include "load/arch.h"

typedef struct {
    dev_weight q;           /* [H * 2D (D without gate), E] query and gate interleaved per head */
    dev_weight k, v;        /* [G * D, E] */
    dev_weight o;           /* [E, H * D] */
    dev_buf q_norm, k_norm; /* f32 [D] */
} layer_attn_weights;

typedef struct {
    dev_weight qkv;  /* [C, E], C = 2 Hk dk + Hv dv */
    dev_weight z;    /* [Hv * dv, E] */
    dev_weight a, b; /* [Hv, E] */
    dev_weight out;  /* [E, Hv * dv] */
    dev_buf conv_w;  /* f32 [C, 4] */
    dev_buf neg_A;   /* f32 [Hv] = -exp(A_log) */
    dev_buf dt_bias; /* f32 [Hv] */
    dev_buf norm;    /* f32 [dv] */
} layer_gdn_weights;

typedef struct {
    dev_weight gate, up;             /* dense: [F, E]; MoE: [X, F, E] */
    dev_weight down;                 /* dense: [E, F]; MoE: [X, E, F] */
    dev_weight router;               /* MoE: [X, E] */
    dev_weight s_gate, s_up, s_down; /* shared expert [Fs, E], [Fs, E], [E, Fs] */
    dev_weight s_sigmoid;            /* [1, E] */
} layer_ffn_weights;

typedef struct {
    arch_layer_type type;
    int index;                  /* among layers of its type: which KV cache or state it owns */
    dev_buf in_norm, post_norm; /* f32 [E] */
    layer_attn_weights attn;
    layer_gdn_weights gdn;
    layer_ffn_weights ffn;
} layer_weights;

#endif
