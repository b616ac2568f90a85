/* ops: one argument struct an operation: shapes, types, aliasing, formula.
 *
 * Letters (design.md): T rows, L lanes in this call, S lane slots in all, H query heads, G KV
 * heads, D head size, E model width, F FFN width, X experts, K chosen, V vocabulary, B rows of a
 * draft block. "act" is backend.act (f32 on ref and cpu, bf16 on cuda). All dev_buf are in the
 * backend's memory, row-major and dense unless a stride is named. Sizes are host numbers; what
 * changes from step to step under a captured graph (positions, lanes, lengths) is device data.
 * Unless said otherwise an output must not alias an input. An empty dev_buf has ptr NULL. */
#ifndef RIPTIDE_BACKEND_OPS_H
#define RIPTIDE_BACKEND_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/dev_buf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dev_weight dev_weight;

enum {
    OPS_BLOCK = 64,                    /* positions of a KV block */
    OPS_PARTS_MAX = 12,                /* weights that share one linear call */
    OPS_RINGS_MAX = OPS_PARTS_MAX / 2, /* layers of a draft whose context shares one call */
    OPS_TOPK_MAX = 16,                 /* draft candidates a position */
    OPS_ROWS_MAX = 16,                 /* verify rows a lane */
    OPS_BIAS_MAX = 1024,               /* logit_bias entries a lane */
    OPS_TOP_LOGPROBS = 20,
};

/* The rows of a call and the lanes they belong to. A lane's rows are consecutive, at ascending
 * consecutive positions; a lane may have none. A padding row has row_lane -1 and stands behind all
 * lanes, at lane_row[L] or later: ops may compute anything for it but must not touch a cache or
 * state. */
typedef struct {
    int T, L;
    int max_rows;      /* most rows of one lane in this call */
    int64_t max_len;   /* no row_pos in this call reaches this */
    dev_buf ids;       /* i32 [T] token ids */
    dev_buf row_lane;  /* i32 [T] index of the lane in [0, L), or -1 */
    dev_buf row_pos;   /* i32 [T] absolute position */
    dev_buf lane_row;  /* i32 [L+1] first row of each lane; [L] = end */
    dev_buf lane_slot; /* i32 [L] the lane's slot in [0, S): its state cell, ring, table row */
    dev_buf table;     /* i32 [S, table_stride] KV block ids by slot */
    int table_stride;
} ops_rows;

/* ---- dense pieces ------------------------------------------------------------------------- */

/* out[t] = scale * table[ids[t]], de-quantised. An id is < V. */
typedef struct {
    const dev_weight *table; /* TABLE [V, E] */
    dev_buf ids;             /* i32 [T] */
    dev_buf out;             /* f32 [T, E] */
    float scale;
    int T;
} embed_args;

/* y = x * rsqrt(mean(x^2) + eps) * w, in f32, rounded to act once (model-spec N1, N3; a 1 + w
 * norm has its 1 added at load). */
typedef struct {
    dev_buf x; /* f32 [T, E] */
    dev_buf w; /* f32 [E] */
    dev_buf y; /* act [T, E] */
    float eps;
    int T, E;
} rmsnorm_args;

typedef enum {
    LINEAR_ACT, /* y act, written */
    LINEAR_F32, /* y f32, written (logits, router) */
    LINEAR_ADD, /* y f32 += (the residual stream) */
} linear_out;

/* y_i = x W_i^T for up to 4 weights that read the same rows. Reduction over K in one fixed order
 * that depends on the weight's shape and format alone. */
typedef struct {
    dev_buf x; /* act [T, K] */
    int T, n_parts;
    struct {
        const dev_weight *w; /* LINEAR [N, K] */
        dev_buf y;           /* [T, N] */
        linear_out out;
    } part[OPS_PARTS_MAX];
} linear_args;

/* y = silu(x Wg^T) * (x Wu^T), silu(a) = a / (1 + exp(-a)). */
typedef struct {
    dev_buf x;                   /* act [T, K] */
    const dev_weight *gate, *up; /* LINEAR [F, K] */
    dev_buf y;                   /* act [T, F] */
    int T;
} linear_swiglu_args;

/* y[m] = x[index[m]], both f32 [., E]. */
typedef struct {
    dev_buf x;     /* f32 [T, E] */
    dev_buf index; /* i32 [M] */
    dev_buf y;     /* f32 [M, E] */
    int M, E;
} gather_rows_args;

/* taps[t, col .. col+E) = h[t]: a layer's output for the draft (model-spec C1, C2). */
typedef struct {
    dev_buf h;    /* f32 [T, E] */
    dev_buf taps; /* act [T, n_cols] */
    int T, E, col, n_cols;
} tap_store_args;

/* ---- full attention ----------------------------------------------------------------------- */

/* cs[t, j] = (cos, sin) of pos_axis(j)[t] * theta^(-2j / (2 n_pairs)), the angle in double, the
 * result f32. With f32_angles position, frequency and their product are each rounded to f32 first:
 * the rotation that the drafts' published code trains and runs them with, up to 3e-4 rad away at
 * position 2,700, which a draft's hidden rows show (4e-5 of their norm). Interleaved MRoPE
 * (model-spec R2): with section (s_t, s_h, s_w), axis h serves j = 1, 4, .. while j < 3 s_h, axis w
 * j = 2, 5, .. while j < 3 s_w, axis t the rest; plain 1-D rotation has section (n_pairs, 0, 0).
 * Row t of a long call equals the same position computed alone, bit for bit. */
typedef struct {
    dev_buf pos; /* i32 [3, T]: axes t, h, w; only axis t is read when section[1] = 0 */
    dev_buf cs;  /* f32 [T, n_pairs, 2] */
    double theta;
    int n_pairs;
    int section[3];
    int T;
    bool f32_angles;
} rope_table_args;

typedef enum { KV_INT8, KV_BF16, KV_F32 } kv_format;

/* One layer's paged cache. */
typedef struct {
    kv_format format;
    dev_buf k, v;             /* i8, bf16 or f32 [n_blocks, G, OPS_BLOCK, D] */
    dev_buf k_scale, v_scale; /* f32 [n_blocks, G, OPS_BLOCK] when INT8 (quant.h), else empty */
} kv_layer;

/* Per head: q, k <- rmsnorm over D (weights q_norm, k_norm), then rotate the first 2 n_pairs dims
 * (split halves: pair j is (j, j + n_pairs)); store k and v of row t in the cache at its position
 * in the cache's format (rounded or quantised from f32 values). */
typedef struct {
    dev_buf qg;             /* act [T, H, 2D] (query D, gate D) with has_gate, else [T, H, D] */
    dev_buf k, v;           /* act [T, G, D] */
    dev_buf q_norm, k_norm; /* f32 [D] */
    dev_buf cs;             /* f32 [T, n_pairs, 2] */
    dev_buf q;              /* act [T, H, D] out */
    kv_layer kv;
    ops_rows rows;
    float eps;
    int H, G, D, n_pairs;
    bool has_gate;
} attn_prep_args;

/* out = softmax(q k^T * scale) v over positions 0..row_pos[t] of the row's lane, read from the
 * cache; query head h uses KV head h / (H / G); times sigmoid(gate) with has_gate. Covers fixed
 * segments of absolute positions merged in ascending order. */
typedef struct {
    dev_buf q;  /* act [T, H, D] */
    dev_buf qg; /* act [T, H, 2D]: the gate is the second D of each head; unused without gate */
    kv_layer kv;
    ops_rows rows;
    dev_buf out; /* act [T, H, D] */
    float scale;
    int H, G, D;
    bool has_gate;
} attn_args;

/* ---- gated delta rule --------------------------------------------------------------------- */

/* Convolution, activation, normalisation and gates (model-spec G2 to G5). Channels: q [Hk, dk],
 * k [Hk, dk], v [Hv, dv], C in all. Row t of a lane sees the 3 columns before it: rows of this
 * call, and before the lane's first row the columns of conv_state (oldest first).
 *   c = silu(sum_j w[ch, j] p_{t-3+j}[ch]);  q, k <- x * rsqrt(sum x^2 + 1e-6);  q *= dk^-0.5
 *   beta = sigmoid(b);  g = neg_A * softplus(a + dt_bias)   (softplus is the identity above 20)
 * conv_state is only read. */
typedef struct {
    dev_buf p;          /* act [T, C] pre-convolution projections */
    dev_buf a, b;       /* act [T, Hv] */
    dev_buf conv_w;     /* f32 [C, 4] */
    dev_buf neg_A;      /* f32 [Hv] = -exp(A_log), made in double */
    dev_buf dt_bias;    /* f32 [Hv] */
    dev_buf conv_state; /* act [S, C, 3] by slot */
    ops_rows rows;
    dev_buf qkv;     /* act [T, C] out */
    dev_buf g, beta; /* f32 [T, Hv] out */
    int Hk, Hv, dk, dv;
} gdn_prep_args;

/* The recurrent rule, position by position (G6, G8). Value head h uses key head h / (Hv / Hk).
 *   S <- exp(g) S;  m = S^T k;  d = beta (v - m);  S <- S + k d^T;  o = S^T q
 *   out = rmsnorm(o; norm_w, eps) * silu(z)     over each head's dv values, weight not offset
 * With `advance` the lane's state and conv_state are left as after its last row; without, both
 * stay as they were (verify), and gdn_commit moves them later. */
typedef struct {
    dev_buf qkv, g, beta; /* as gdn_prep wrote them */
    dev_buf p;            /* act [T, C], for the new conv_state */
    dev_buf z;            /* act [T, Hv, dv] */
    dev_buf norm_w;       /* f32 [dv] */
    dev_buf state;        /* f32 [S, Hv, dk, dv] by slot (a backend may order dk, dv its own way) */
    dev_buf conv_state;   /* act [S, C, 3] */
    ops_rows rows;
    dev_buf out; /* act [T, Hv, dv] */
    float eps;
    int Hk, Hv, dk, dv;
    bool advance;
} gdn_scan_args;

/* Advance the state and conv_state of each lane by its first n_commit[l] rows (0..rows of the
 * lane), from the inputs that the verify pass left; same arithmetic as gdn_scan, same bits. */
typedef struct {
    dev_buf qkv, g, beta, p;
    dev_buf state, conv_state;
    ops_rows rows;
    dev_buf n_commit; /* i32 [L] */
    int Hk, Hv, dk, dv;
} gdn_commit_args;

/* ---- mixture of experts ------------------------------------------------------------------- */

/* The K largest of softmax(logits) over X, ties to the lower expert, renormalised to sum 1;
 * descending. */
typedef struct {
    dev_buf logits; /* f32 [T, X] */
    dev_buf ids;    /* i32 [T, K] out */
    dev_buf w;      /* f32 [T, K] out */
    int T, X, K;
} moe_route_args;

/* h += sum_k w_k down_e(silu(gate_e x) * up_e x), experts in the order of ids, then
 * + sigmoid(x shared_gate^T) * down(silu(gate x) * up x) of the shared expert.
 * A row's sum is formed in f32 before it is added to h. */
typedef struct {
    dev_buf x;                                /* act [T, E] */
    dev_buf ids, w;                           /* [T, K] */
    const dev_weight *gate, *up, *down;       /* EXPERTS [X, F, E], [X, F, E], [X, E, F] */
    const dev_weight *s_gate, *s_up, *s_down; /* LINEAR, shared expert; NULL when there is none */
    const dev_weight *s_sigmoid;              /* LINEAR [1, E] */
    dev_buf h;                                /* f32 [T, E] += */
    int T, E, X, K, F, shared_F;
} moe_ffn_args;

/* ---- draft -------------------------------------------------------------------------------- */

/* A draft layer's context: K and V of past positions in a ring by position, slot r = pos % R. */
typedef struct {
    dev_buf k, v; /* act [S, G, R, D] */
    int R;
} draft_ring;

/* Context K, V (model-spec C4) of some layers: k <- rope(rmsnorm(k; k_norm)) over all D dims, pairs
 * (j, j+D/2); row t of lane l is stored at row_pos[t] % R when its index in the lane is below
 * n_commit[l] (all rows when n_commit is empty) and when it is among the lane's last R stored rows.
 */
typedef struct {
    struct {
        dev_buf k, v;   /* act [T, G, D] */
        dev_buf k_norm; /* f32 [D] */
        draft_ring ring;
    } layer[OPS_RINGS_MAX];
    int n_layers;
    dev_buf cs; /* f32 [T, D/2, 2] */
    ops_rows rows;
    dev_buf n_commit; /* i32 [L], or empty */
    float eps;
    int G, D;
} draft_kv_write_args;

/* q, k <- rope(rmsnorm(.)) per head over all D dims, for the block's own rows. */
typedef struct {
    dev_buf q;              /* act [M, H, D], in place */
    dev_buf k;              /* act [M, G, D], in place */
    dev_buf q_norm, k_norm; /* f32 [D] */
    dev_buf cs;             /* f32 [M, D/2, 2] */
    float eps;
    int M, H, G, D;
} draft_attn_prep_args;

/* Block attention (model-spec 3.3). Lane l owns rows l*B .. l*B+B-1 at positions p .. p+B-1,
 * p = anchor_pos[l]. Row i sees context positions s with ctx_begin[l] <= s < p and, when
 * window > 0, p + i - s < window; and block rows j (all, or j <= i when is_causal).
 *   out = softmax(q k^T * scale) v,  query head h uses KV head h / (H / G) */
typedef struct {
    dev_buf q;          /* act [L*B, H, D] */
    dev_buf k, v;       /* act [L*B, G, D] block rows */
    draft_ring ring;    /* by lane_slot */
    dev_buf lane_slot;  /* i32 [L] */
    dev_buf anchor_pos; /* i32 [L] */
    dev_buf ctx_begin;  /* i32 [L] first position whose context is in the ring */
    dev_buf out;        /* act [L*B, H, D] */
    float scale;
    int L, B, H, G, D, window;
    bool is_causal;
} draft_attn_args;

/* Attention of a block from its input: q, k, v = x w^T, then draft_attn_prep and draft_attn of
 * them. What q, k and v hold afterwards is not said. */
typedef struct {
    dev_buf x;                   /* act [M, K] */
    const dev_weight *q, *k, *v; /* [H*D, K], [G*D, K] x2 */
    draft_attn_prep_args prep;
    draft_attn_args attn;
} draft_attend_args;

/* Grouped dynamic convolution, one side (model-spec E2), history empty before each block:
 *   c[t, ch] = sum_tau (base[side, tau, ch] + delta[t, side, tau, ch / group]) * u[t - tau, ch]
 * written to y, or added to h when `adds`. */
typedef struct {
    dev_buf u;     /* act [L*B, E] */
    dev_buf delta; /* act [L*B, 2, 2, E/group] */
    dev_buf base;  /* f32 [2, 2, E] */
    dev_buf y;     /* act [L*B, E], unused when adds */
    dev_buf h;     /* f32 [L*B, E], used when adds */
    int L, B, E, group, side;
    bool adds;
} draft_conv_args;

/* The way into a sublayer that a convolution wraps (model-spec E3): x = rmsnorm(h; norm),
 * delta = x kernel^T, y = side 0 of the convolution of x. */
typedef struct {
    dev_buf h;                /* f32 [L*B, E] */
    dev_buf norm;             /* f32 [E] */
    const dev_weight *kernel; /* [4 E/group, E] */
    dev_buf base;             /* f32 [2, 2, E] */
    dev_buf x;                /* act [L*B, E] out */
    dev_buf delta;            /* act [L*B, 2, 2, E/group] out */
    dev_buf y;                /* act [L*B, E] out */
    float eps;
    int L, B, E, group;
} draft_enter_args;

/* The way out of it: u = x w^T, h += side 1 of the convolution of u. */
typedef struct {
    dev_buf x;           /* act [L*B, K] */
    const dev_weight *w; /* [E, K] */
    dev_buf delta;       /* act [L*B, 2, 2, E/group] */
    dev_buf base;        /* f32 [2, 2, E] */
    dev_buf u;           /* act [L*B, E] out */
    dev_buf h;           /* f32 [L*B, E] in out */
    int L, B, E, group;
} draft_leave_args;

/* The k largest of each row, descending, ties to the lower id; exact. Values after
 * x <- scale * x, then x <- softcap * tanh(x / softcap) when softcap > 0. */
typedef struct {
    dev_buf logits; /* f32 [M, V] */
    dev_buf ids;    /* i32 [M, k] out */
    dev_buf vals;   /* f32 [M, k] out */
    float scale, softcap;
    int M, V, k;
} topk_args;

/* ---- sampling ----------------------------------------------------------------------------- */

/* One lane's checked settings; the same bytes in C and CUDA. Neutral: temperature 1, top_p 1,
 * min_p 0, top_k 0, repetition 1, presence and frequency 0. */
typedef struct {
    uint64_t seed;
    uint32_t choice;   /* index among n answers */
    int32_t top_k;     /* 0 = off */
    float temperature; /* 0 = greedy */
    float top_p, min_p;
    float repetition, presence, frequency;
    int32_t n_bias;   /* entries of this lane's bias row */
    int32_t has_mask; /* the mask rows of this lane are valid; 0 = everything is allowed */
    int32_t n_eos;
    int32_t eos[8]; /* ids that end the lane; none when n_eos is 0 (ignore_eos) */
} sample_policy;

typedef struct {
    int32_t id;
    float value;
} sample_bias;

/* A token's count word: generated occurrences in the low 31 bits, top bit = in the prompt. */
#define SAMPLE_IN_PROMPT 0x80000000u

/* Lane-wide sampling data, all by slot. */
typedef struct {
    dev_buf policy; /* sample_policy [S] */
    dev_buf bias;   /* sample_bias [S, OPS_BIAS_MAX] */
    dev_buf counts; /* u32 [S, V], or empty when no lane ever has a penalty */
} sample_lanes;

/* Coupled sampling (design.md "Identity"). For row m, which continues row r = row[m] of lane l:
 *   y = logits[m]; masked ids become -inf; y += bias; then penalties with the lane's counts plus
 *   the block's own tokens ids[lane_row[l]+1 .. r], unless is_prompt: repetition (counted or in
 *   the prompt):
 *   y > 0 ? y / rep : y * rep;  y -= frequency * count + presence * (count > 0)
 *   temperature 0: token = argmax y, ties to the lower id
 *   else z = y / temperature; survivors: z >= max z + log(min_p); then the top_k largest (ties:
 *   lower id first); then the shortest descending run (ties: lower id first) whose softmax mass,
 *   renormalised over the survivors so far, reaches top_p; at least one survives.
 *   token = argmax over survivors of z + gumbel(seed, choice, row_pos[r] + 1, id), ties lower id
 * logprob = log-softmax of the raw logits at the token. */
typedef struct {
    dev_buf logits; /* f32 [M, V], not changed */
    dev_buf row;    /* i32 [M] row in [0, T) */
    ops_rows rows;
    sample_lanes lanes;
    dev_buf mask;    /* u32 [M, (V + 31) / 32], bit set = allowed; or empty */
    dev_buf token;   /* i32 [M] out */
    dev_buf logprob; /* f32 [M] out, or empty */
    dev_buf top_ids; /* i32 [M, OPS_TOP_LOGPROBS] out, or empty: largest raw logits, descending */
    dev_buf top_logprobs; /* f32 alike */
    int M, V;
    bool is_prompt; /* the call's rows are prompt, not proposals: none of their ids counts */
} sample_args;

/* The drafter's walk (model-spec F2, F3) with the target's own policy and noise. Lane l, i in
 * 1..n_draft[l]; candidates c of row j = l*(B-1) + i-1; predecessor s_0 = anchor, then s_{i-1}:
 *   score(c) = vals[j, c] + sum_m pred[s_{i-1}, m] * r[j, m] * succ[ids[j, c], m]   (v2)
 *   score(c) = vals[j, c]                                                            (v1)
 *   then bias and penalties as in sample (counts plus s_1 .. s_{i-1}), temperature, the filters
 *   over these candidates, + gumbel(seed, choice, anchor_pos + i, id); argmax, ties to the
 *   better unary rank
 * proposals[l, i-1] and verify_ids[lane_row[l] + i] = s_i. */
typedef struct {
    dev_buf ids, vals;             /* [L*(B-1), k] from topk */
    dev_buf r;                     /* act [L*(B-1), R]; empty for v1 */
    const dev_weight *pred, *succ; /* TABLE [V, R]; NULL for v1 */
    dev_buf anchor;                /* i32 [L] */
    dev_buf anchor_pos;            /* i32 [L] */
    dev_buf lane_slot;             /* i32 [L] */
    dev_buf lane_row;              /* i32 [L+1] of the verify rows */
    dev_buf n_draft;               /* i32 [L] proposals wanted, 0..B-1 */
    sample_lanes lanes;
    dev_buf proposals;  /* i32 [L, B-1] out; entries from n_draft on become -1 */
    dev_buf verify_ids; /* i32 [T] out, the rows' ids */
    int L, B, k, R, V;
} draft_select_args;

/* Accept and cut (model-spec W2, W4). Row i of lane l holds ids[r0 + i], sampled token t_i.
 *   a = longest prefix with ids[r0 + i + 1] = t_i;  emit t_0 .. t_a, cut after the first eos of
 *   the policy and after max_new[l] tokens: n tokens. n_commit = n (rows r0 .. r0+n-1 are right).
 * counts (when not empty) gain the emitted tokens. Lanes have all their rows sampled: token[r]
 * belongs to row r. */
typedef struct {
    ops_rows rows;
    dev_buf token;   /* i32 [T] */
    dev_buf max_new; /* i32 [L] tokens that may still be emitted, >= 1 */
    sample_lanes lanes;
    dev_buf n_commit; /* i32 [L] out */
    dev_buf emitted;  /* i32 [L, OPS_ROWS_MAX] out; entries from n_commit on become -1 */
    int V;
} accept_args;

/* counts[slot][ids[t]] |= SAMPLE_IN_PROMPT for each row. */
typedef struct {
    ops_rows rows;
    dev_buf counts;
    int V;
} count_prompt_args;

/* The time, once all work before is done, in ns of a clock of the backend's own: for measuring, as
 * a part of what a graph captures too. */
typedef struct {
    dev_buf at; /* u64 [1] out */
} mark_args;

#ifdef __cplusplus
}
#endif
#endif
