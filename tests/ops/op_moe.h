/* op_moe: cases and readings of the router and the experts. */
#ifndef RIPTIDE_TESTS_OP_MOE_H
#define RIPTIDE_TESTS_OP_MOE_H

#include "ops/op_dense.h"

/* ---- moe_route ---------------------------------------------------------------------------- */

enum { ROUTE_LOGITS = OP_ROWS_N, ROUTE_IDS, ROUTE_W };

static inline status route_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const route_case *p = c->param;
    moe_route_args a = {d[ROUTE_LOGITS], d[ROUTE_IDS], d[ROUTE_W], c->lanes[0].T, p->X, p->K};
    return b->ops->moe_route(b, &a);
}

/* Every other row is on a grid, so that ties abound. */
static inline void route_build(op_call *c, int i, const op_lanes *lanes)
{
    const route_case *p = c->param = &route_cases[i];
    c->run = route_run;
    c->bound_act = c->bound_f32;
    op_add_single_rows(c, lanes, p->T);
    op_add_noise(c, "logits", OP_IN, OP_F32, OP_ROW, 0, p->X, 2, 0);
    op_add(c, "ids", OP_OUT, OP_I32, OP_ROW, 0, p->K);
    op_add(c, "w", OP_OUT, OP_F32, OP_ROW, 0, p->K);
    for (int64_t k = 0; k < c->buf[ROUTE_LOGITS].n; k++) {
        float *x = op_f32(c, ROUTE_LOGITS) + k;
        int index, l = op_row_lane(&c->lanes[0], k / p->X, &index);
        if (l >= 0 && c->lanes[0].lane[l].key % 2) *x = rintf(*x * 2) / 2;
    }
}

static inline void route_read(op_call *c)
{
    const route_case *p = c->param;
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        const float *x = op_f32(c, ROUTE_LOGITS) + t * p->X;
        double *ids = c->buf[ROUTE_IDS].want + t * p->K, *w = c->buf[ROUTE_W].want + t * p->K;
        bool is_taken[64] = {false};
        double sum = 0;
        for (int k = 0; k < p->K; k++) {
            int best = -1;
            for (int e = 0; e < p->X; e++) {
                if (!is_taken[e] && (best < 0 || x[e] > x[best])) best = e;
            }
            is_taken[best] = true;
            ids[k] = best;
            sum += w[k] = exp((double)x[best]);
        }
        for (int k = 0; k < p->K; k++) w[k] /= sum;
    }
}

/* ---- moe_ffn ------------------------------------------------------------------------------ */

enum { MOE_X = OP_ROWS_N, MOE_IDS, MOE_W, MOE_H };
enum { MOE_GATE, MOE_UP, MOE_DOWN, MOE_S_GATE, MOE_S_UP, MOE_S_DOWN, MOE_S_SIGMOID };

static inline status moe_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    const moe_case *p = c->param;
    moe_ffn_args a = {.x = d[MOE_X],
                      .ids = d[MOE_IDS],
                      .w = d[MOE_W],
                      .gate = &w[MOE_GATE],
                      .up = &w[MOE_UP],
                      .down = &w[MOE_DOWN],
                      .h = d[MOE_H],
                      .T = c->lanes[0].T,
                      .E = p->E,
                      .X = p->X,
                      .K = p->K,
                      .F = p->F,
                      .shared_F = p->shared_F};
    if (p->shared_F > 0) {
        a.s_gate = &w[MOE_S_GATE];
        a.s_up = &w[MOE_S_UP];
        a.s_down = &w[MOE_S_DOWN];
        a.s_sigmoid = &w[MOE_S_SIGMOID];
    }
    return b->ops->moe_ffn(b, &a);
}

/* Gate and up of all experts, apart or as the halves of one tensor as transformers stores it. */
static inline void moe_add_gate_up(op_call *c, const moe_case *p)
{
    if (!p->is_fused) {
        op_add_weight(c, WEIGHT_EXPERTS, p->format, p->X, p->F, p->E, p->is_odd);
        op_add_weight(c, WEIGHT_EXPERTS, p->format, p->X, p->F, p->E, p->is_odd);
        return;
    }
    int i = op_add_weight(c, WEIGHT_EXPERTS, p->format, p->X, 2 * p->F, p->E, p->is_odd);
    tensor t = c->weight[i];
    int64_t half = (int64_t)p->F * p->E;
    t.slice_stride = 2 * half;
    t.shape[1] = p->F;
    t.n_bytes /= 2;
    c->weight[i] = t;
    if (t.type == DTYPE_AFFINE) {
        int64_t size = dtype_bits(t.scale_type) / 8;
        t.data = (const char *)t.data + half * t.bits / 8;
        t.scales = (const char *)t.scales + half / t.group * size;
        t.biases = (const char *)t.biases + half / t.group * size;
    } else {
        t.data = (const char *)t.data + half * dtype_bits(t.type) / 8;
    }
    c->weight[c->n_weights] = t;
    c->use[c->n_weights++] = WEIGHT_EXPERTS;
}

static inline void moe_build(op_call *c, int i, const op_lanes *lanes)
{
    const moe_case *p = c->param = &moe_cases[i];
    c->run = moe_run;
    op_add_single_rows(c, lanes, p->T);
    op_add_noise(c, "x", OP_IN, OP_ACT, OP_ROW, 0, p->E, 1.5, 0);
    op_add(c, "ids", OP_IN, OP_I32, OP_ROW, 0, p->K);
    op_add_noise(c, "w", OP_IN, OP_F32, OP_ROW, 0, p->K, 0.1, 1.0 / p->K);
    op_add_noise(c, "h", OP_INOUT, OP_F32, OP_ROW, 0, p->E, 0.2, 0);
    if (p->format.type == DTYPE_AFFINE) op_loosen(c, MOE_H, i % 2 ? 2.5e-2 : 4e-2);
    if (i % 2) op_put_on_grid(c, MOE_X);
    for (int64_t t = 0; t < c->lanes[0].T; t++) { /* distinct experts from a random one on */
        uint64_t s = op_stream(c, MOE_IDS, t);
        int first = (int)(test_random(&s) % (uint64_t)p->X), step = 1;
        if (p->X % 2) step = 1 + (int)(test_random(&s) % 2);
        for (int k = 0; k < p->K; k++) {
            op_i32(c, MOE_IDS)[t * p->K + k] = (first + k * step) % p->X;
        }
    }
    moe_add_gate_up(c, p);
    op_add_weight(c, WEIGHT_EXPERTS, p->format, p->X, p->E, p->F, p->is_odd);
    if (p->shared_F == 0) return;
    op_add_weight(c, WEIGHT_LINEAR, p->shared, 0, p->shared_F, p->E, p->is_odd);
    op_add_weight(c, WEIGHT_LINEAR, p->shared, 0, p->shared_F, p->E, p->is_odd);
    op_add_weight(c, WEIGHT_LINEAR, p->shared, 0, p->E, p->shared_F, p->is_odd);
    op_add_weight(c, WEIGHT_LINEAR, p->shared, 0, 1, p->E, p->is_odd);
}

/* y += weight * down(silu(gate x) * up x) with slice e of three weights. */
static inline void moe_read_expert(op_call *c, int first, int64_t e, int F, const double *x,
                                   double weight, double *y, read_way way)
{
    const moe_case *p = c->param;
    const tensor *w = &c->weight[first];
    double a[256];
    for (int f = 0; f < F; f++) {
        double g = read_dot_as(&w[0], e, f, x, way);
        a[f] = g * read_sigmoid(g) * read_dot_as(&w[1], e, f, x, way);
        if (way == READ_BF16) a[f] = read_rounded(a[f]);
    }
    for (int n = 0; n < p->E; n++) y[n] += weight * read_dot_as(&w[2], e, n, a, way);
}

static inline void moe_read_as(op_call *c, double *h, read_way way)
{
    const moe_case *p = c->param;
    const double *x = read_doubles(c, MOE_X);
    for (int64_t i = 0; i < c->buf[MOE_H].n; i++) h[i] = (double)op_f32(c, MOE_H)[i];
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        const double *row = x + t * p->E;
        double *y = h + t * p->E;
        for (int k = 0; k < p->K; k++) {
            moe_read_expert(c, MOE_GATE, op_i32(c, MOE_IDS)[t * p->K + k], p->F, row,
                            (double)op_f32(c, MOE_W)[t * p->K + k], y, way);
        }
        if (p->shared_F == 0) continue;
        double gate = read_sigmoid(read_dot_as(&c->weight[MOE_S_SIGMOID], 0, 0, row, way));
        moe_read_expert(c, MOE_S_GATE, 0, p->shared_F, row, gate, y, way);
    }
}

/* A few rows are enough: the reading decodes every weight bit by bit. Of three weights in turn,
 * what rounding does to them depends on the numbers too much for one bound: so it is read as well.
 */
static inline void moe_read(op_call *c)
{
    op_buf *h = &c->buf[MOE_H];
    moe_read_as(c, h->want, READ_EXACT);
    h->want_bf16 = op_new(c, h->n, sizeof(double));
    moe_read_as(c, h->want_bf16, READ_BF16);
}

static const op_entry op_moe[] = {
    {"moe_route", N_CASES(route_cases), route_build, route_read, true, false},
    {"moe_ffn", N_CASES(moe_cases), moe_build, moe_read, true, false},
};

#endif
