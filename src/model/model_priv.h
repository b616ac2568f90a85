/* model: what is behind model.h. */
#ifndef RIPTIDE_MODEL_MODEL_PRIV_H
#define RIPTIDE_MODEL_MODEL_PRIV_H

#include "backend/dev_arena.h"
#include "model/layers_priv.h"
#include "model/model.h"

/* What a GDN layer must keep from a verify pass until the commit. */
typedef struct {
    dev_buf p, qkv;  /* act [T, C] */
    dev_buf g, beta; /* f32 [T, Hv] */
} gdn_inputs;

/* Activations of one pass; every buffer has one role. Sized for max_rows. */
typedef struct {
    dev_buf h;           /* f32 [T, E] residual stream */
    dev_buf x;           /* act [T, E] normed */
    dev_buf cs;          /* f32 [T, n_pairs, 2] */
    dev_buf qg, k, v, q; /* act [T, H*2D], [T, G*D] x2, [T, H*D] */
    dev_buf mixed;       /* act [T, max(H*D, Hv*dv)] output of the mixer before its projection */
    dev_buf z;           /* act [T, Hv*dv] */
    dev_buf a, b;        /* act [T, Hv] */
    gdn_inputs gdn;      /* of an advancing pass, shared by all layers */
    dev_buf f;           /* act [T, F] */
    dev_buf router;      /* f32 [T, X] */
    dev_buf expert_ids, expert_w; /* [T, K] */
    dev_buf hm, xm;               /* f32, act [M, E] rows that want logits */
    dev_buf logits;               /* f32 [M, V] */
    dev_buf taps;                 /* act [T, n_taps * E] */
    dev_buf layers;               /* f32 [n_layers, T, E] with keeps_layers */
} model_scratch;

/* The index arrays of a step: one device buffer, one copy from a host image of it. */
typedef struct {
    dev_buf mem;
    uint8_t *host; /* owned, the image */
    int64_t n_bytes;
    int64_t ids, row_lane, row_pos, pos3, lane_row, lane_slot, logit_row; /* offsets */
} model_step;

struct model {
    backend *be;
    const load_model *files;
    arch_target arch;
    model_options opt;
    int taps[ARCH_TAPS_MAX];
    int n_attn, n_gdn; /* layers of each type */
    int C;             /* GDN convolution channels */
    int table_stride;
    model_memory bytes;

    dev_weight embed, head; /* TABLE, LINEAR [V, E] */
    dev_buf final_norm;     /* f32 [E] */
    layer_weights *layers;  /* owned [n_layers] */
    dev_arena vectors;      /* norms and the like, f32 */

    dev_arena cache;    /* KV, states, tables */
    kv_layer *kv;       /* owned [n_attn] */
    dev_buf *state;     /* owned [n_gdn] f32 [S, Hv, dk, dv] */
    dev_buf *conv;      /* owned [n_gdn] act [S, C, 3] */
    gdn_inputs *verify; /* owned [n_gdn] */
    dev_buf table;      /* i32 [S, table_stride] */
    dev_buf counts;     /* u32 [S, V] or empty */
    dev_arena scratch_mem;
    model_scratch s;
    model_step step;

    ops_rows rows; /* of the last upload */
    int M;
    bool advance;
};

/* arch_qwen35.c: names to layers; opens every weight. */
status model_load_layers(model *m, err *e);
void model_close_layers(model *m);

/* state.c: plan and take caches and scratch. */
status model_open_state(model *m, err *e);
void model_close_state(model *m);
status model_plan_bytes(model *m, err *e); /* m->bytes but for the weights; takes nothing */

/* One sub-layer each: h += mixer(x) or ffn(x), x already normed. */
status layer_attn_run(model *m, const layer_weights *w);
status layer_gdn_run(model *m, const layer_weights *w);
status layer_ffn_run(model *m, const layer_weights *w);

static inline int64_t model_act_bytes(const model *m)
{
    return dtype_bits(m->be->act) / 8;
}

#endif
