/* op_draft: cases and readings of the draft's context, attention, convolution and candidates. */
#ifndef RIPTIDE_TESTS_OP_DRAFT_H
#define RIPTIDE_TESTS_OP_DRAFT_H

#include "ops/op_dense.h"

/* ---- draft_kv_write ----------------------------------------------------------------------- */

enum {
    RING_K_IN = OP_ROWS_N,
    RING_V_IN,
    RING_K_NORM,
    RING_CS,
    RING_COMMIT,
    RING_K,
    RING_V,
    RING_K_2,
    RING_V_2,
    RING_K_NORM_2
};

static inline status ring_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const ring_case *p = c->param;
    dev_buf k = d[RING_K_IN], v = d[RING_V_IN], k_norm = d[RING_K_NORM], second = d[RING_K_NORM_2];
    draft_kv_write_args a = {.layer = {{k, v, k_norm, {d[RING_K], d[RING_V], p->R}},
                                       {v, k, second, {d[RING_K_2], d[RING_V_2], p->R + 1}}},
                             .n_layers = 2,
                             .cs = d[RING_CS],
                             .rows = op_rows(c, 0, d),
                             .n_commit = d[RING_COMMIT],
                             .eps = 1e-6f,
                             .G = p->G,
                             .D = p->D};
    return b->ops->draft_kv_write(b, &a);
}

static inline void ring_build(op_call *c, int i, const op_lanes *lanes)
{
    const ring_case *p = c->param = &ring_cases[i];
    op_lanes own = op_lanes_parse(p->lanes);
    c->run = ring_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    op_add_noise(c, "k", OP_IN, OP_ACT, OP_ROW, 0, p->G * p->D, 0.7, 0);
    op_add_noise(c, "v", OP_IN, OP_ACT, OP_ROW, 0, p->G * p->D, 1, 0);
    op_add_noise(c, "k_norm", OP_IN, OP_F32, OP_WHOLE, 0, p->D, 0.3, 1);
    op_add(c, "cs", OP_IN, OP_F32, OP_ROW, 0, p->D);
    if (p->has_commit) {
        op_add(c, "n_commit", OP_IN, OP_I32, OP_LANE, 0, 1);
    } else {
        op_add_empty(c, "n_commit");
    }
    op_add_noise(c, "ring k", OP_INOUT, OP_ACT, OP_SLOT, 0, (int64_t)p->G * p->R * p->D, 1, 0);
    op_add_noise(c, "ring v", OP_INOUT, OP_ACT, OP_SLOT, 0, (int64_t)p->G * p->R * p->D, 1, 0);
    op_add_noise(c, "ring k 2", OP_INOUT, OP_ACT, OP_SLOT, 0, (int64_t)p->G * (p->R + 1) * p->D, 1,
                 0);
    op_add_noise(c, "ring v 2", OP_INOUT, OP_ACT, OP_SLOT, 0, (int64_t)p->G * (p->R + 1) * p->D, 1,
                 0);
    op_add_noise(c, "k_norm 2", OP_IN, OP_F32, OP_WHOLE, 0, p->D, 0.3, 1);
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        read_angles(op_f32(c, RING_CS) + t * p->D, 1e7, op_i32(c, OP_ROW_POS)[t], p->D / 2);
    }
    for (int l = 0; p->has_commit && l < c->lanes[0].L; l++) {
        uint64_t s = op_stream(c, RING_COMMIT, l);
        int n = c->lanes[0].lane[l].n_rows;
        op_i32(c, RING_COMMIT)[l] = (int32_t)(test_random(&s) % (uint64_t)(n + 1));
    }
}

/* One layer: from which rows into which rings, of R places. Later positions overwrite earlier ones
 * that share their place. */
static inline void ring_read_layer(op_call *c, int k_in, int v_in, int norm, int ring_k, int R)
{
    const ring_case *p = c->param;
    int D = p->D, ring_v = ring_k + 1;
    for (int k = ring_k; k <= ring_v; k++) {
        for (int64_t i = 0; i < c->buf[k].n; i++) c->buf[k].want[i] = (double)op_f32(c, k)[i];
    }
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        int index, l = op_row_lane(&c->lanes[0], t, &index);
        if (l < 0 || (p->has_commit && index >= op_i32(c, RING_COMMIT)[l])) continue;
        const op_lane *lane = &c->lanes[0].lane[l];
        for (int g = 0; g < p->G; g++) {
            int64_t to = ((int64_t)(lane->slot * p->G + g) * R + (lane->start + index) % R) * D;
            int64_t from = (t * p->G + g) * D;
            for (int d = 0; d < D; d++) {
                c->buf[ring_k].want[to + d] = (double)op_f32(c, k_in)[from + d];
                c->buf[ring_v].want[to + d] = (double)op_f32(c, v_in)[from + d];
            }
            read_rmsnorm(c->buf[ring_k].want + to, op_f32(c, norm), 1e-6, D);
            read_rotate(c->buf[ring_k].want + to, op_f32(c, RING_CS) + t * D, D / 2);
        }
    }
}

static inline void ring_read(op_call *c)
{
    const ring_case *p = c->param;
    ring_read_layer(c, RING_K_IN, RING_V_IN, RING_K_NORM, RING_K, p->R);
    ring_read_layer(c, RING_V_IN, RING_K_IN, RING_K_NORM_2, RING_K_2, p->R + 1);
}

/* ---- draft_attn_prep ---------------------------------------------------------------------- */

enum { DPREP_Q = OP_ROWS_N, DPREP_K, DPREP_Q_NORM, DPREP_K_NORM, DPREP_CS };

static inline status draft_prep_run(backend *b, const op_call *c, const dev_buf *d,
                                    const dev_weight *w)
{
    (void)w;
    const draft_prep_case *p = c->param;
    draft_attn_prep_args a = {d[DPREP_Q],  d[DPREP_K], d[DPREP_Q_NORM], d[DPREP_K_NORM],
                              d[DPREP_CS], 1e-6f,      c->lanes[0].T,   p->H,
                              p->G,        p->D};
    return b->ops->draft_attn_prep(b, &a);
}

static inline void draft_prep_build(op_call *c, int i, const op_lanes *lanes)
{
    const draft_prep_case *p = c->param = &draft_prep_cases[i];
    c->run = draft_prep_run;
    op_add_single_rows(c, lanes, p->M);
    op_add_noise(c, "q", OP_INOUT, OP_ACT, OP_ROW, 0, p->H * p->D, 2, 0);
    op_add_noise(c, "k", OP_INOUT, OP_ACT, OP_ROW, 0, p->G * p->D, 0.5, 0);
    op_add_noise(c, "q_norm", OP_IN, OP_F32, OP_WHOLE, 0, p->D, 0.3, 1);
    op_add_noise(c, "k_norm", OP_IN, OP_F32, OP_WHOLE, 0, p->D, 0.3, 1);
    op_add(c, "cs", OP_IN, OP_F32, OP_ROW, 0, p->D);
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        uint64_t s = op_stream(c, DPREP_CS, t);
        read_angles(op_f32(c, DPREP_CS) + t * p->D, 1e7, (double)(test_random(&s) % 9000),
                    p->D / 2);
    }
}

static inline void draft_prep_read(op_call *c)
{
    const draft_prep_case *p = c->param;
    for (int k = 0; k < 2; k++) {
        int heads = k ? p->G : p->H;
        for (int64_t h = 0; h < (int64_t)c->lanes[0].T * heads; h++) {
            double *x = c->buf[DPREP_Q + k].want + h * p->D;
            for (int d = 0; d < p->D; d++) x[d] = (double)op_f32(c, DPREP_Q + k)[h * p->D + d];
            read_rmsnorm(x, op_f32(c, DPREP_Q_NORM + k), 1e-6, p->D);
            read_rotate(x, op_f32(c, DPREP_CS) + h / heads * p->D, p->D / 2);
        }
    }
}

/* ---- draft_attn --------------------------------------------------------------------------- */

enum {
    BLOCK_Q = OP_ROWS_N,
    BLOCK_K,
    BLOCK_V,
    BLOCK_RING_K,
    BLOCK_RING_V,
    BLOCK_ANCHOR,
    BLOCK_BEGIN,
    BLOCK_OUT
};

/* L lanes of B rows at their anchors. */
static inline op_lanes op_lanes_blocks(int L, int B, const int *anchor)
{
    op_lanes s = {.L = L, .S = L + 3, .stride = 1, .n_blocks = L + 3};
    for (int l = 0; l < L; l++) {
        s.lane[l] = (op_lane){l, (l + 2) % s.S, anchor ? anchor[l] : 10 * l, 0, B};
    }
    op_lanes_count(&s);
    return s;
}

static inline status block_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const block_case *p = c->param;
    draft_attn_args a = {.q = d[BLOCK_Q],
                         .k = d[BLOCK_K],
                         .v = d[BLOCK_V],
                         .ring = {d[BLOCK_RING_K], d[BLOCK_RING_V], p->R},
                         .lane_slot = d[OP_LANE_SLOT],
                         .anchor_pos = d[BLOCK_ANCHOR],
                         .ctx_begin = d[BLOCK_BEGIN],
                         .out = d[BLOCK_OUT],
                         .scale = 1.0f / sqrtf((float)p->D),
                         .L = c->lanes[0].L,
                         .B = p->B,
                         .H = p->H,
                         .G = p->G,
                         .D = p->D,
                         .window = p->window,
                         .is_causal = p->is_causal};
    return b->ops->draft_attn(b, &a);
}

static inline void block_build(op_call *c, int i, const op_lanes *lanes)
{
    const block_case *p = c->param = &block_cases[i];
    op_lanes own = op_lanes_blocks(p->L, p->B, p->anchor);
    int D = p->D;
    c->run = block_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    op_add_noise(c, "q", OP_IN, OP_ACT, OP_ROW, 0, p->H * D, 2, 0);
    op_add_noise(c, "k", OP_IN, OP_ACT, OP_ROW, 0, p->G * D, 1, 0);
    op_add_noise(c, "v", OP_IN, OP_ACT, OP_ROW, 0, p->G * D, 1, 0);
    op_add_noise(c, "ring k", OP_IN, OP_ACT, OP_SLOT, 0, (int64_t)p->G * p->R * D, 1, 0);
    op_add_noise(c, "ring v", OP_IN, OP_ACT, OP_SLOT, 0, (int64_t)p->G * p->R * D, 1, 0);
    op_add(c, "anchor_pos", OP_IN, OP_I32, OP_LANE, 0, 1);
    op_add(c, "ctx_begin", OP_IN, OP_I32, OP_LANE, 0, 1);
    op_add(c, "out", OP_OUT, OP_ACT, OP_ROW, 0, p->H * D);
    for (int l = 0; l < c->lanes[0].L; l++) {
        const op_lane *lane = &c->lanes[0].lane[l];
        int begin = p->begin[lane->key];
        op_i32(c, BLOCK_ANCHOR)[l] = lane->start;
        op_i32(c, BLOCK_BEGIN)[l] = begin;
        for (int r = 0; r < p->R; r++) { /* places that hold no context are large */
            bool is_context = false;
            for (int s = begin; s < lane->start; s++) is_context |= s % p->R == r;
            for (int g = 0; !is_context && g < p->G; g++) {
                int64_t at = ((int64_t)(lane->slot * p->G + g) * p->R + r) * D;
                for (int d = 0; d < D; d++) {
                    op_f32(c, BLOCK_RING_K)[at + d] *= 4096;
                    op_f32(c, BLOCK_RING_V)[at + d] *= 4096;
                }
            }
        }
    }
}

/* score and then weight of one key; a first pass collects scores, a second sums values. */
static inline void block_read_head(op_call *c, int l, int i, int h)
{
    const block_case *p = c->param;
    const op_lane *lane = &c->lanes[0].lane[l];
    int D = p->D, g = h / (p->H / p->G), n = 0, at = lane->start, begin = p->begin[lane->key];
    int64_t row = op_i32(c, OP_LANE_ROW)[l];
    const float *keys[1024], *values[1024];
    for (int s = begin; s < at; s++) { /* D2 and the window rule of 3.3 */
        if (p->window > 0 && at + i - s >= p->window) continue;
        int64_t cell = ((int64_t)(lane->slot * p->G + g) * p->R + s % p->R) * D;
        keys[n] = op_f32(c, BLOCK_RING_K) + cell;
        values[n++] = op_f32(c, BLOCK_RING_V) + cell;
    }
    for (int j = 0; j < (p->is_causal ? i + 1 : p->B); j++) {
        keys[n] = op_f32(c, BLOCK_K) + ((row + j) * p->G + g) * D;
        values[n++] = op_f32(c, BLOCK_V) + ((row + j) * p->G + g) * D;
    }
    double weight[1024], max = -INFINITY, sum = 0;
    const float *q = op_f32(c, BLOCK_Q) + ((row + i) * p->H + h) * D;
    for (int s = 0; s < n; s++) {
        weight[s] = 0;
        for (int d = 0; d < D; d++) weight[s] += (double)q[d] * (double)keys[s][d];
        weight[s] *= (double)(1.0f / sqrtf((float)D));
        max = fmax(max, weight[s]);
    }
    for (int s = 0; s < n; s++) sum += weight[s] = exp(weight[s] - max);
    double *out = c->buf[BLOCK_OUT].want + ((row + i) * p->H + h) * D;
    for (int s = 0; s < n; s++) {
        for (int d = 0; d < D; d++) out[d] += weight[s] / sum * (double)values[s][d];
    }
}

static inline void block_read(op_call *c)
{
    const block_case *p = c->param;
    for (int i = 0; i < c->lanes[0].L * p->B * p->H; i++) {
        block_read_head(c, i / p->H / p->B, i / p->H % p->B, i % p->H);
    }
}

/* ---- draft_conv --------------------------------------------------------------------------- */

enum { CONV_U = OP_ROWS_N, CONV_DELTA, CONV_BASE, CONV_OUT };

static inline status conv_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const conv_case *p = c->param;
    draft_conv_args a = {.u = d[CONV_U],
                         .delta = d[CONV_DELTA],
                         .base = d[CONV_BASE],
                         .L = c->lanes[0].L,
                         .B = p->B,
                         .E = p->E,
                         .group = p->group,
                         .side = p->side,
                         .adds = p->adds};
    if (p->adds) {
        a.h = d[CONV_OUT];
    } else {
        a.y = d[CONV_OUT];
    }
    return b->ops->draft_conv(b, &a);
}

static inline void conv_build(op_call *c, int i, const op_lanes *lanes)
{
    const conv_case *p = c->param = &conv_cases[i];
    op_lanes own = op_lanes_blocks(p->L, p->B, NULL);
    c->run = conv_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    op_add_noise(c, "u", OP_IN, OP_ACT, OP_ROW, 0, p->E, 1, 0);
    op_add_noise(c, "delta", OP_IN, OP_ACT, OP_ROW, 0, 4 * p->E / p->group, 0.5, 0);
    op_add_noise(c, "base", OP_IN, OP_F32, OP_WHOLE, 0, 4 * (int64_t)p->E, 0.5, 0.3);
    op_add_noise(c, p->adds ? "h" : "y", p->adds ? OP_INOUT : OP_OUT, p->adds ? OP_F32 : OP_ACT,
                 OP_ROW, 0, p->E, 0.5, 0);
}

static inline void conv_read(op_call *c)
{
    const conv_case *p = c->param;
    int E = p->E, n_groups = E / p->group;
    for (int64_t i = 0; i < c->buf[CONV_OUT].n; i++) {
        int64_t t = i / E, ch = i % E;
        double y = p->adds ? (double)op_f32(c, CONV_OUT)[i] : 0;
        for (int tau = 0; tau < 2 && tau <= t % p->B; tau++) {
            int64_t k = p->side * 2 + tau;
            y += ((double)op_f32(c, CONV_BASE)[k * E + ch] +
                  (double)op_f32(c, CONV_DELTA)[(t * 4 + k) * n_groups + ch / p->group]) *
                 (double)op_f32(c, CONV_U)[(t - tau) * E + ch];
        }
        c->buf[CONV_OUT].want[i] = y;
    }
}

/* ---- draft_enter -------------------------------------------------------------------------- */

enum { ENTER_H = OP_ROWS_N, ENTER_NORM, ENTER_BASE, ENTER_X, ENTER_DELTA, ENTER_Y };

static inline status enter_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    const enter_case *p = c->param;
    draft_enter_args a = {.h = d[ENTER_H],
                          .norm = d[ENTER_NORM],
                          .kernel = &w[0],
                          .base = d[ENTER_BASE],
                          .x = d[ENTER_X],
                          .delta = d[ENTER_DELTA],
                          .y = d[ENTER_Y],
                          .eps = 1e-6f,
                          .L = c->lanes[0].L,
                          .B = p->B,
                          .E = p->E,
                          .group = p->group};
    return b->ops->draft_enter(b, &a);
}

static inline void enter_build(op_call *c, int i, const op_lanes *lanes)
{
    const enter_case *p = c->param = &enter_cases[i];
    op_lanes own = op_lanes_blocks(p->L, p->B, NULL);
    c->run = enter_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    op_add_noise(c, "h", OP_IN, OP_F32, OP_ROW, 0, p->E, 2, 0);
    op_add_noise(c, "norm", OP_IN, OP_F32, OP_WHOLE, 0, p->E, 0.3, 1);
    op_add_noise(c, "base", OP_IN, OP_F32, OP_WHOLE, 0, 4 * (int64_t)p->E, 0.5, 0.3);
    op_add_noise(c, "x", OP_OUT, OP_ACT, OP_ROW, 0, p->E, 1, 0);
    op_add_noise(c, "delta", OP_OUT, OP_ACT, OP_ROW, 0, 4 * p->E / p->group, 1, 0);
    op_add_noise(c, "y", OP_OUT, OP_ACT, OP_ROW, 0, p->E, 1, 0);
    op_add_weight(c, WEIGHT_LINEAR, p->format, 0, 4 * p->E / p->group, p->E, false);
    if (p->format.type == DTYPE_AFFINE) {
        op_loosen(c, ENTER_DELTA, 1.2e-2);
        op_loosen(c, ENTER_Y, 1.2e-2);
    }
}

static inline void enter_read(op_call *c)
{
    const enter_case *p = c->param;
    int E = p->E, N = 4 * E / p->group, n_groups = E / p->group;
    double *x = read_doubles(c, ENTER_H), *w = read_matrix(c, &c->weight[0], 0);
    double *delta = c->buf[ENTER_DELTA].want;
    memcpy(c->buf[ENTER_X].want, x, (size_t)c->buf[ENTER_X].n * sizeof *x);
    x = c->buf[ENTER_X].want;
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        read_rmsnorm(x + t * E, op_f32(c, ENTER_NORM), 1e-6, E);
        for (int n = 0; n < N; n++) {
            delta[t * N + n] = 0;
            for (int k = 0; k < E; k++) delta[t * N + n] += w[(int64_t)n * E + k] * x[t * E + k];
        }
    }
    for (int64_t i = 0; i < c->buf[ENTER_Y].n; i++) {
        int64_t t = i / E, ch = i % E;
        double y = 0;
        for (int tau = 0; tau < 2 && tau <= t % p->B; tau++) {
            y += ((double)op_f32(c, ENTER_BASE)[(int64_t)tau * E + ch] +
                  delta[(t * 4 + tau) * n_groups + ch / p->group]) *
                 x[(t - tau) * E + ch];
        }
        c->buf[ENTER_Y].want[i] = y;
    }
}

/* ---- draft_leave -------------------------------------------------------------------------- */

enum { LEAVE_X = OP_ROWS_N, LEAVE_DELTA, LEAVE_BASE, LEAVE_U, LEAVE_H };

static inline status leave_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    const leave_case *p = c->param;
    draft_leave_args a = {.x = d[LEAVE_X],
                          .w = &w[0],
                          .delta = d[LEAVE_DELTA],
                          .base = d[LEAVE_BASE],
                          .u = d[LEAVE_U],
                          .h = d[LEAVE_H],
                          .L = c->lanes[0].L,
                          .B = p->B,
                          .E = p->E,
                          .group = p->group};
    return b->ops->draft_leave(b, &a);
}

static inline void leave_build(op_call *c, int i, const op_lanes *lanes)
{
    const leave_case *p = c->param = &leave_cases[i];
    op_lanes own = op_lanes_blocks(p->L, p->B, NULL);
    c->run = leave_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    op_add_noise(c, "x", OP_IN, OP_ACT, OP_ROW, 0, p->K, 1, 0);
    op_add_noise(c, "delta", OP_IN, OP_ACT, OP_ROW, 0, 4 * p->E / p->group, 0.5, 0);
    op_add_noise(c, "base", OP_IN, OP_F32, OP_WHOLE, 0, 4 * (int64_t)p->E, 0.5, 0.3);
    op_add_noise(c, "u", OP_OUT, OP_ACT, OP_ROW, 0, p->E, 1, 0);
    op_add_noise(c, "h", OP_INOUT, OP_F32, OP_ROW, 0, p->E, 0.5, 0);
    op_add_weight(c, WEIGHT_LINEAR, p->format, 0, p->E, p->K, false);
    if (p->format.type == DTYPE_AFFINE) {
        op_loosen(c, LEAVE_U, 1.2e-2);
        op_loosen(c, LEAVE_H, 1.2e-2);
    }
}

static inline void leave_read(op_call *c)
{
    const leave_case *p = c->param;
    int E = p->E, n_groups = E / p->group;
    int64_t T = c->lanes[0].T;
    double *x = read_doubles(c, LEAVE_X), *w = read_matrix(c, &c->weight[0], 0);
    double *u = c->buf[LEAVE_U].want;
    for (int64_t i = 0; i < T * E; i++) {
        u[i] = 0;
        for (int k = 0; k < p->K; k++) u[i] += w[i % E * p->K + k] * x[i / E * p->K + k];
    }
    for (int64_t i = 0; i < T * E; i++) {
        int64_t t = i / E, ch = i % E;
        double y = (double)op_f32(c, LEAVE_H)[i];
        for (int tau = 0; tau < 2 && tau <= t % p->B; tau++) {
            int64_t k = 2 + tau;
            y += ((double)op_f32(c, LEAVE_BASE)[k * E + ch] +
                  (double)op_f32(c, LEAVE_DELTA)[(t * 4 + k) * n_groups + ch / p->group]) *
                 u[(t - tau) * E + ch];
        }
        c->buf[LEAVE_H].want[i] = y;
    }
}

/* ---- topk --------------------------------------------------------------------------------- */

enum { TOPK_LOGITS = OP_ROWS_N, TOPK_IDS, TOPK_VALS };

static inline status topk_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const topk_case *p = c->param;
    topk_args a = {d[TOPK_LOGITS], d[TOPK_IDS],   d[TOPK_VALS], p->scale,
                   p->softcap,     c->lanes[0].T, p->V,         p->k};
    return b->ops->topk(b, &a);
}

static inline double topk_value(const op_call *c, int64_t row, int64_t id)
{
    const topk_case *p = c->param;
    double x = (double)p->scale * (double)op_f32(c, TOPK_LOGITS)[row * p->V + id];
    return p->softcap > 0 ? (double)p->softcap * tanh(x / (double)p->softcap) : x;
}

/* Two logits that differ may meet when capped in f32; two equal ones may not change places. */
static inline bool topk_excuse(const op_call *c, int i_buf, int64_t i, int64_t got, int64_t want)
{
    const topk_case *p = c->param;
    (void)i_buf;
    if (p->softcap == 0 || got < 0 || got >= p->V) return false;
    double a = topk_value(c, i / p->k, got), b = topk_value(c, i / p->k, want);
    return a != b && fabs(a - b) < 2e-6 * fabs(b);
}

static inline void topk_build(op_call *c, int i, const op_lanes *lanes)
{
    const topk_case *p = c->param = &topk_cases[i];
    c->run = topk_run;
    c->excuse = topk_excuse;
    c->bound_act = c->bound_f32;
    op_add_single_rows(c, lanes, p->M);
    op_add_noise(c, "logits", OP_IN, OP_F32, OP_ROW, 0, p->V, 4, 0);
    op_add(c, "ids", OP_OUT, OP_I32, OP_ROW, 0, p->k);
    op_add(c, "vals", OP_OUT, OP_F32, OP_ROW, 0, p->k);
    for (int64_t k = 0; p->has_ties && k < c->buf[TOPK_LOGITS].n; k++) {
        op_f32(c, TOPK_LOGITS)[k] = rintf(op_f32(c, TOPK_LOGITS)[k] * 4) / 4;
    }
}

static inline void topk_read(op_call *c)
{
    const topk_case *p = c->param;
    bool *is_taken = op_new(c, p->V, 1);
    for (int64_t m = 0; m < c->lanes[0].T; m++) {
        memset(is_taken, 0, (size_t)p->V);
        for (int k = 0; k < p->k; k++) {
            int best = -1;
            for (int id = 0; id < p->V; id++) {
                if (is_taken[id]) continue;
                if (best < 0 || topk_value(c, m, id) > topk_value(c, m, best)) best = id;
            }
            is_taken[best] = true;
            c->buf[TOPK_IDS].want[m * p->k + k] = best;
            c->buf[TOPK_VALS].want[m * p->k + k] = topk_value(c, m, best);
        }
    }
}

static const op_entry op_draft[] = {
    {"draft_kv_write", N_CASES(ring_cases), ring_build, ring_read, false, false},
    {"draft_attn_prep", N_CASES(draft_prep_cases), draft_prep_build, draft_prep_read, true, false},
    {"draft_attn", N_CASES(block_cases), block_build, block_read, false, true},
    {"draft_conv", N_CASES(conv_cases), conv_build, conv_read, false, true},
    {"draft_enter", N_CASES(enter_cases), enter_build, enter_read, false, true},
    {"draft_leave", N_CASES(leave_cases), leave_build, leave_read, false, true},
    {"topk", N_CASES(topk_cases), topk_build, topk_read, true, false},
};

#endif
