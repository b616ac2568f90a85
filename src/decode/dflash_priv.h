/* dflash: what is behind draft_priv.h, shared by loading (dflash_load.c) and the pass (dflash.c).
 */
#ifndef RIPTIDE_DECODE_DFLASH_PRIV_H
#define RIPTIDE_DECODE_DFLASH_PRIV_H

#include "backend/dev_arena.h"
#include "decode/draft_priv.h"

/* A sublayer's dynamic convolution (v2). */
typedef struct {
    dev_weight kernel; /* [4 E / group, E] */
    dev_buf base;      /* f32 [2, 2, E] */
} draft_conv_weights;

typedef struct {
    dev_buf in_norm, post_norm; /* f32 [E] */
    dev_buf q_norm, k_norm;     /* f32 [D] */
    dev_weight q, k, v;         /* [H*D, E], [G*D, E] x2 */
    dev_weight o;               /* [E, H*D] */
    dev_weight gate, up, down;  /* [F, E] x2, [E, F] */
    draft_conv_weights attn_conv, mlp_conv;
    draft_ring ring;
} draft_layer;

struct draft {
    backend *be;
    arch_draft arch;
    draft_options opt;
    int n_layers;
    draft_layer *layers;       /* owned [n_layers] */
    dev_weight fc;             /* [E, n_taps * E] */
    dev_weight pred, succ;     /* TABLE [V, R], v2 */
    dev_weight hid;            /* [R, E], v2 */
    dev_buf hidden_norm, norm; /* f32 [E] */
    int64_t weight_bytes;
    dev_arena vectors;
    dev_arena mem; /* rings and scratch */

    /* context, for max_rows rows */
    dev_buf c32;          /* f32 [T, E] fc output */
    dev_buf c;            /* act [T, E] normed */
    dev_buf ctx_cs;       /* f32 [T, D/2, 2] */
    dev_buf ctx_k, ctx_v; /* act [T, G*D] */
    /* block, for n_slots * B rows */
    dev_buf h;                 /* f32 [M, E] */
    dev_buf x, u;              /* act [M, E] */
    dev_buf delta;             /* act [M, 4 E / group] */
    dev_buf cs;                /* f32 [M, D/2, 2] */
    dev_buf q, k, v, o;        /* act [M, H*D], [M, G*D] x2, [M, H*D] */
    dev_buf f;                 /* act [M, F] */
    dev_buf fh;                /* f32 [M', E], M' = n_slots * (B-1) */
    dev_buf fx;                /* act [M', E] final-normed rows */
    dev_buf logits;            /* f32 [M', V] */
    dev_buf r;                 /* act [M', R] */
    dev_buf top_ids, top_vals; /* [M', k] */
};

/* dflash_load.c */
status dflash_load(draft *d, const load_model *files, err *e);
void dflash_unload(draft *d);

#endif
