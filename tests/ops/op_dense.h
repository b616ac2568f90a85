/* op_dense: cases and readings of the dense pieces. */
#ifndef RIPTIDE_TESTS_OP_DENSE_H
#define RIPTIDE_TESTS_OP_DENSE_H

#include "ops/op_cases.h"
#include "ops/op_check.h"
#include "ops/op_read.h"

/* Rows that know nothing of lanes: one lane a row. */
static inline void op_add_single_rows(op_call *c, const op_lanes *lanes, int T)
{
    op_lanes own = op_lanes_single(T);
    op_add_rows(c, 0, lanes ? lanes : &own);
}

/* ---- embed -------------------------------------------------------------------------------- */

enum { EMBED_OUT = OP_ROWS_N };

static inline status embed_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    const embed_case *p = c->param;
    embed_args a = {w, d[OP_IDS], d[EMBED_OUT], p->scale, c->lanes[0].T};
    return b->ops->embed(b, &a);
}

static inline void embed_build(op_call *c, int i, const op_lanes *lanes)
{
    const embed_case *p = c->param = &embed_cases[i];
    c->V = p->V;
    c->run = embed_run;
    op_add_single_rows(c, lanes, p->T);
    op_add(c, "out", OP_OUT, OP_F32, OP_ROW, 0, p->E);
    op_add_weight(c, WEIGHT_TABLE, p->format, 0, p->V, p->E, false);
}

static inline void embed_read(op_call *c)
{
    const embed_case *p = c->param;
    for (int64_t i = 0; i < c->buf[EMBED_OUT].n; i++) {
        int id = op_i32(c, OP_IDS)[i / p->E];
        c->buf[EMBED_OUT].want[i] = (double)p->scale * read_weight(&c->weight[0], 0, id, i % p->E);
    }
}

/* ---- rmsnorm ------------------------------------------------------------------------------ */

enum { NORM_X = OP_ROWS_N, NORM_W, NORM_Y };

static inline status rmsnorm_run(backend *b, const op_call *c, const dev_buf *d,
                                 const dev_weight *w)
{
    (void)w;
    const rmsnorm_case *p = c->param;
    rmsnorm_args a = {d[NORM_X], d[NORM_W], d[NORM_Y], p->eps, c->lanes[0].T, p->E};
    return b->ops->rmsnorm(b, &a);
}

static inline void rmsnorm_build(op_call *c, int i, const op_lanes *lanes)
{
    const rmsnorm_case *p = c->param = &rmsnorm_cases[i];
    c->run = rmsnorm_run;
    op_add_single_rows(c, lanes, p->T);
    op_add_noise(c, "x", OP_IN, OP_F32, OP_ROW, 0, p->E, p->size, 0);
    op_add_noise(c, "w", OP_IN, OP_F32, OP_WHOLE, 0, p->E, 0.5, 1);
    op_add(c, "y", OP_OUT, OP_ACT, OP_ROW, 0, p->E);
}

static inline void rmsnorm_read(op_call *c)
{
    const rmsnorm_case *p = c->param;
    double *y = c->buf[NORM_Y].want;
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        for (int i = 0; i < p->E; i++) y[t * p->E + i] = (double)op_f32(c, NORM_X)[t * p->E + i];
        read_rmsnorm(y + t * p->E, op_f32(c, NORM_W), (double)p->eps, p->E);
    }
}

/* ---- linear ------------------------------------------------------------------------------- */

enum { LINEAR_X = OP_ROWS_N, LINEAR_Y };

static inline status linear_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    const linear_case *p = c->param;
    linear_args a = {.x = d[LINEAR_X], .T = c->lanes[0].T, .n_parts = p->n_parts};
    for (int i = 0; i < p->n_parts; i++) {
        a.part[i].w = &w[i];
        a.part[i].y = d[LINEAR_Y + i];
        a.part[i].out = p->out[i];
    }
    return b->ops->linear(b, &a);
}

static inline void linear_build(op_call *c, int i, const op_lanes *lanes)
{
    const linear_case *p = c->param = &linear_cases[i];
    c->run = linear_run;
    op_add_single_rows(c, lanes, p->T);
    op_add_noise(c, "x", OP_IN, OP_ACT, OP_ROW, 0, p->K, 1, 0);
    if (i % 2) op_put_on_grid(c, LINEAR_X);
    for (int k = 0; k < p->n_parts; k++) {
        op_type type = p->out[k] == LINEAR_ACT ? OP_ACT : OP_F32;
        op_role role = p->out[k] == LINEAR_ADD ? OP_INOUT : OP_OUT;
        op_format f = k % 2 ? p->other : p->format;
        op_add_noise(c, "y", role, type, OP_ROW, 0, p->N[k], 1, 0);
        op_add_weight(c, WEIGHT_LINEAR, f, 0, p->N[k], p->K, p->is_odd);
        if (i % 2 == 0 && f.type == DTYPE_AFFINE) op_loosen(c, LINEAR_Y + k, 1.2e-2);
    }
}

static inline void linear_read(op_call *c)
{
    const linear_case *p = c->param;
    double *x = read_doubles(c, LINEAR_X);
    for (int k = 0; k < p->n_parts; k++) {
        double *w = read_matrix(c, &c->weight[k], 0), *y = c->buf[LINEAR_Y + k].want;
        int N = p->N[k];
        for (int64_t i = 0; i < c->buf[LINEAR_Y + k].n; i++) {
            double sum = p->out[k] == LINEAR_ADD ? (double)op_f32(c, LINEAR_Y + k)[i] : 0;
            for (int j = 0; j < p->K; j++) sum += x[i / N * p->K + j] * w[i % N * p->K + j];
            y[i] = sum;
        }
    }
}

/* ---- linear_swiglu ------------------------------------------------------------------------ */

enum { SWIGLU_X = OP_ROWS_N, SWIGLU_Y };

static inline status swiglu_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    linear_swiglu_args a = {d[SWIGLU_X], &w[0], &w[1], d[SWIGLU_Y], c->lanes[0].T};
    return b->ops->linear_swiglu(b, &a);
}

static inline void swiglu_build(op_call *c, int i, const op_lanes *lanes)
{
    const swiglu_case *p = c->param = &swiglu_cases[i];
    c->run = swiglu_run;
    op_add_single_rows(c, lanes, p->T);
    op_add_noise(c, "x", OP_IN, OP_ACT, OP_ROW, 0, p->K, 1, 0);
    op_add(c, "y", OP_OUT, OP_ACT, OP_ROW, 0, p->F);
    if (i % 2) op_put_on_grid(c, SWIGLU_X);
    if (i % 2 == 0 && p->gate.type == DTYPE_AFFINE) op_loosen(c, SWIGLU_Y, 2e-2);
    op_add_weight(c, WEIGHT_LINEAR, p->gate, 0, p->F, p->K, p->is_odd);
    op_add_weight(c, WEIGHT_LINEAR, p->up, 0, p->F, p->K, p->is_odd);
}

static inline void swiglu_read(op_call *c)
{
    const swiglu_case *p = c->param;
    double *x = read_doubles(c, SWIGLU_X);
    double *gate = read_matrix(c, &c->weight[0], 0), *up = read_matrix(c, &c->weight[1], 0);
    for (int64_t i = 0; i < c->buf[SWIGLU_Y].n; i++) {
        double g = 0, u = 0;
        for (int k = 0; k < p->K; k++) {
            g += x[i / p->F * p->K + k] * gate[i % p->F * p->K + k];
            u += x[i / p->F * p->K + k] * up[i % p->F * p->K + k];
        }
        c->buf[SWIGLU_Y].want[i] = g * read_sigmoid(g) * u;
    }
}

/* ---- gather_rows -------------------------------------------------------------------------- */

enum { GATHER_X = OP_ROWS_N, GATHER_INDEX, GATHER_Y };

static inline status gather_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const gather_case *p = c->param;
    gather_rows_args a = {d[GATHER_X], d[GATHER_INDEX], d[GATHER_Y], c->lanes[0].T, p->E};
    return b->ops->gather_rows(b, &a);
}

static inline void gather_build(op_call *c, int i, const op_lanes *lanes)
{
    const gather_case *p = c->param = &gather_cases[i];
    c->run = gather_run;
    op_add_single_rows(c, lanes, p->M);
    op_add_noise(c, "x", OP_IN, OP_F32, OP_WHOLE, 0, (int64_t)p->T * p->E, 1, 0);
    op_add(c, "index", OP_IN, OP_I32, OP_ROW, 0, 1);
    op_add(c, "y", OP_OUT, OP_F32, OP_ROW, 0, p->E);
    c->bound_read = c->bound_f32 = c->bound_act = 0;
    for (int64_t m = 0; m < c->lanes[0].T; m++) {
        uint64_t s = op_stream(c, GATHER_INDEX, m);
        op_i32(c, GATHER_INDEX)[m] = (int32_t)(test_random(&s) % (uint64_t)p->T);
    }
}

static inline void gather_read(op_call *c)
{
    const gather_case *p = c->param;
    for (int64_t i = 0; i < c->buf[GATHER_Y].n; i++) {
        int64_t row = op_i32(c, GATHER_INDEX)[i / p->E];
        c->buf[GATHER_Y].want[i] = (double)op_f32(c, GATHER_X)[row * p->E + i % p->E];
    }
}

/* ---- tap_store ---------------------------------------------------------------------------- */

enum { TAP_H = OP_ROWS_N, TAP_OUT };

static inline status tap_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const tap_case *p = c->param;
    tap_store_args a = {d[TAP_H], d[TAP_OUT], c->lanes[0].T, p->E, p->col, p->n_cols};
    return b->ops->tap_store(b, &a);
}

static inline void tap_build(op_call *c, int i, const op_lanes *lanes)
{
    const tap_case *p = c->param = &tap_cases[i];
    c->run = tap_run;
    op_add_single_rows(c, lanes, p->T);
    op_add_noise(c, "h", OP_IN, OP_F32, OP_ROW, 0, p->E, 1, 0);
    op_add_noise(c, "taps", OP_INOUT, OP_ACT, OP_ROW, 0, p->n_cols, 1, 0);
    c->bound_read = c->bound_f32 = 0;
}

static inline void tap_read(op_call *c)
{
    const tap_case *p = c->param;
    for (int64_t i = 0; i < c->buf[TAP_OUT].n; i++) {
        int64_t t = i / p->n_cols, col = i % p->n_cols - p->col;
        bool is_inside = col >= 0 && col < p->E;
        c->buf[TAP_OUT].want[i] = (double)(is_inside ? op_f32(c, TAP_H)[t * p->E + col]
                                                     : op_f32(c, TAP_OUT)[i]);
    }
}

/* ---- rope_table --------------------------------------------------------------------------- */

enum { ROPE_POS = OP_ROWS_N, ROPE_CS };

static inline status rope_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const rope_case *p = c->param;
    rope_table_args a = {.pos = d[ROPE_POS],
                         .cs = d[ROPE_CS],
                         .theta = p->theta,
                         .n_pairs = p->n_pairs,
                         .T = c->lanes[0].T,
                         .f32_angles = p->f32_angles};
    memcpy(a.section, p->section, sizeof a.section);
    return b->ops->rope_table(b, &a);
}

static inline void rope_build(op_call *c, int i, const op_lanes *lanes)
{
    const rope_case *p = c->param = &rope_cases[i];
    c->run = rope_run;
    op_add_single_rows(c, lanes, p->T);
    int64_t T = c->lanes[0].T;
    op_add(c, "pos", OP_IN, OP_I32, OP_WHOLE, 0, 3 * T);
    op_add(c, "cs", OP_OUT, OP_F32, OP_ROW, 0, 2 * p->n_pairs);
    c->bound_act = c->bound_f32;
    for (int64_t t = 0; t < T; t++) {
        uint64_t s = op_stream(c, ROPE_CS, t);
        for (int axis = 0; axis < 3; axis++) {
            op_i32(c, ROPE_POS)[axis * T + t] = (int32_t)(test_random(&s) % 262144);
        }
    }
}

/* model-spec R2: axis h at 1, 4, .. 3 s_h - 2, axis w at 2, 5, .. 3 s_w - 1, t elsewhere. */
static inline void rope_read(op_call *c)
{
    const rope_case *p = c->param;
    int axis[64] = {0};
    for (int n = 0; n < p->section[1]; n++) axis[3 * n + 1] = 1;
    for (int n = 0; n < p->section[2]; n++) axis[3 * n + 2] = 2;
    int64_t T = c->lanes[0].T;
    for (int64_t t = 0; t < T; t++) {
        for (int j = 0; j < p->n_pairs; j++) {
            int pos = op_i32(c, ROPE_POS)[axis[j] * T + t];
            double freq = exp(-2.0 * j / (2.0 * p->n_pairs) * log(p->theta));
            double angle = p->f32_angles ? (double)((float)pos * (float)freq) : pos * freq;
            c->buf[ROPE_CS].want[(t * p->n_pairs + j) * 2] = cos(angle);
            c->buf[ROPE_CS].want[(t * p->n_pairs + j) * 2 + 1] = sin(angle);
        }
    }
}

static const op_entry op_dense[] = {
    {"embed", N_CASES(embed_cases), embed_build, embed_read, true, false},
    {"rmsnorm", N_CASES(rmsnorm_cases), rmsnorm_build, rmsnorm_read, true, false},
    {"linear", N_CASES(linear_cases), linear_build, linear_read, true, false},
    {"linear_swiglu", N_CASES(swiglu_cases), swiglu_build, swiglu_read, true, false},
    {"gather_rows", N_CASES(gather_cases), gather_build, gather_read, true, false},
    {"tap_store", N_CASES(tap_cases), tap_build, tap_read, true, false},
    {"rope_table", N_CASES(rope_cases), rope_build, rope_read, true, false},
};

#endif
