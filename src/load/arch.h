/* arch: the hyper-parameters of a target or a draft, every one range-checked when read.
 *
 * Filled from config.json (hf_config.c) or GGUF metadata (gguf_config.c); the rest of the program
 * sees only this. Plain data, copied freely. Letters as in design.md. */
#ifndef RIPTIDE_LOAD_ARCH_H
#define RIPTIDE_LOAD_ARCH_H

#include <stdbool.h>
#include <stdint.h>

enum {
    ARCH_LAYERS_MAX = 256,
    ARCH_TAPS_MAX = 16,
    ARCH_EOS_MAX = 8,
    ARCH_SELECT_MAX = 16,
    ARCH_BLOCK_MAX = 16
};

typedef enum { ARCH_QWEN35, ARCH_QWEN35_MOE } arch_family;
typedef enum { ARCH_LAYER_GDN, ARCH_LAYER_ATTN } arch_layer_type;

/* A target: model-spec 1.1. */
typedef struct {
    arch_family family;
    int n_layers;
    uint8_t layer_type[ARCH_LAYERS_MAX]; /* arch_layer_type */
    int E, V;
    int H, G, D;          /* full attention: query heads, KV heads, head size */
    bool has_output_gate; /* q_proj rows hold query and gate interleaved per head */
    int n_rot;            /* rotated dims of D (64) */
    double rope_theta;
    int mrope_section[3]; /* pairs per axis t, h, w; interleaved; sum = n_rot / 2 */
    int gdn_Hk, gdn_Hv, gdn_dk, gdn_dv, gdn_conv; /* delta rule: heads, sizes, kernel (4) */
    int F;                                        /* dense FFN width, 0 for MoE */
    int X, K, moe_F, shared_F;                    /* MoE; 0 for dense */
    float rms_eps;
    int64_t max_position;
    bool is_tied;         /* lm_head = embed_tokens */
    bool has_norm_offset; /* the files hold w, the norm multiplies by 1 + w (raw HF) */
    bool has_neg_decay;   /* "A_log" tensors hold -exp(A_log) already (GGUF) */
    int n_eos;
    int32_t eos[ARCH_EOS_MAX]; /* every stop id: config and generation_config */
    int32_t pad_id;            /* or -1 */
} arch_target;

/* A draft: model-spec 1.4, 1.5. */
typedef struct {
    bool is_v2; /* has convolutions and the candidate selector */
    int n_layers;
    bool layer_is_sliding[ARCH_LAYERS_MAX];
    bool layer_is_causal[ARCH_LAYERS_MAX]; /* in-block causality */
    int window;                            /* sliding window W, 0 when no layer slides */
    int E, F, H, G, D, V;
    double rope_theta;
    bool lacks_rope; /* the file names no theta: it is the family's usual one */
    float rms_eps;
    int block;                     /* B: anchor + B-1 proposals */
    int conv_taps, conv_group;     /* 2, 16; v2 only */
    int select_rank, select_top_k; /* 256, 16; v2 only */
    int32_t mask_id;
    int n_target_layers; /* of the target it was trained on, 0 when the file does not say */
    int n_taps;
    int taps[ARCH_TAPS_MAX]; /* target layer ids whose output is read, ascending */
    float logit_scale;       /* output_multiplier, default 1 */
    float logit_softcap;     /* 0 = off */
    float embed_scale;       /* input_embedding_scale, default 1 */
} arch_draft;

/* Sampling defaults of generation_config.json; `has_` where the file says so. */
typedef struct {
    bool has_temperature, has_top_p, has_top_k, has_min_p, has_presence, has_repetition;
    double temperature, top_p, min_p, presence_penalty, repetition_penalty;
    int64_t top_k;
} arch_sampling;

#endif
