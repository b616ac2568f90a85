/* op_gdn: cases and readings of the gated delta rule.
 *
 * A backend may order a state its own way, so a case never writes or reads one: states grow from
 * zero by rows of a first scan ("history"), and show in the rows of later scans. */
#ifndef RIPTIDE_TESTS_OP_GDN_H
#define RIPTIDE_TESTS_OP_GDN_H

#include "ops/op_cases.h"
#include "ops/op_check.h"
#include "ops/op_read.h"

static inline int gdn_channels(const gdn_case *p)
{
    return 2 * p->Hk * p->dk + p->Hv * p->dv;
}

/* ---- gdn_prep ----------------------------------------------------------------------------- */

enum {
    GDNP_P = OP_ROWS_N,
    GDNP_A,
    GDNP_B,
    GDNP_CONV_W,
    GDNP_NEG_A,
    GDNP_DT_BIAS,
    GDNP_CONV_STATE,
    GDNP_QKV,
    GDNP_G,
    GDNP_BETA
};

static inline status gdn_prep_run(backend *b, const op_call *c, const dev_buf *d,
                                  const dev_weight *w)
{
    (void)w;
    const gdn_case *p = c->param;
    gdn_prep_args a = {.p = d[GDNP_P],
                       .a = d[GDNP_A],
                       .b = d[GDNP_B],
                       .conv_w = d[GDNP_CONV_W],
                       .neg_A = d[GDNP_NEG_A],
                       .dt_bias = d[GDNP_DT_BIAS],
                       .conv_state = d[GDNP_CONV_STATE],
                       .rows = op_rows(c, 0, d),
                       .qkv = d[GDNP_QKV],
                       .g = d[GDNP_G],
                       .beta = d[GDNP_BETA],
                       .Hk = p->Hk,
                       .Hv = p->Hv,
                       .dk = p->dk,
                       .dv = p->dv};
    return b->ops->gdn_prep(b, &a);
}

static inline void gdn_prep_build(op_call *c, int i, const op_lanes *lanes)
{
    const gdn_case *p = c->param = &gdn_cases[i];
    op_lanes own = op_lanes_parse(p->lanes);
    int C = gdn_channels(p);
    c->run = gdn_prep_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    op_add_noise(c, "p", OP_IN, OP_ACT, OP_ROW, 0, C, 1, 0);
    op_add_noise(c, "a", OP_IN, OP_ACT, OP_ROW, 0, p->Hv, 9, 6);
    op_add_noise(c, "b", OP_IN, OP_ACT, OP_ROW, 0, p->Hv, 3, 0);
    op_add_noise(c, "conv_w", OP_IN, OP_F32, OP_WHOLE, 0, (int64_t)C * 4, 0.6, 0);
    op_add_noise(c, "neg_A", OP_IN, OP_F32, OP_WHOLE, 0, p->Hv, 0.2, -1);
    op_add_noise(c, "dt_bias", OP_IN, OP_F32, OP_WHOLE, 0, p->Hv, 1, 0);
    op_add_noise(c, "conv_state", OP_IN, OP_ACT, OP_SLOT, 0, (int64_t)C * 3, 1, 0);
    op_add(c, "qkv", OP_OUT, OP_ACT, OP_ROW, 0, C);
    op_add(c, "g", OP_OUT, OP_F32, OP_ROW, 0, p->Hv);
    op_add(c, "beta", OP_OUT, OP_F32, OP_ROW, 0, p->Hv);
}

/* y[0..n) /= sqrt(sum y^2 + 1e-6), then times scale */
static inline void gdn_read_unit(double *y, int n, double scale)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += y[i] * y[i];
    for (int i = 0; i < n; i++) y[i] *= scale / sqrt(sum + 1e-6);
}

static inline void gdn_prep_read(op_call *c)
{
    const gdn_case *p = c->param;
    int C = gdn_channels(p);
    const float *rows = op_f32(c, GDNP_P), *w = op_f32(c, GDNP_CONV_W);
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        int index, l = op_row_lane(&c->lanes[0], t, &index);
        if (l < 0) continue;
        const float *old = op_f32(c, GDNP_CONV_STATE) + (int64_t)c->lanes[0].lane[l].slot * C * 3;
        double *y = c->buf[GDNP_QKV].want + t * C;
        for (int ch = 0; ch < C; ch++) {
            for (int j = 0; j < 4; j++) {
                int at = index - 3 + j;
                float x = at < 0 ? old[ch * 3 + at + 3] : rows[(t - 3 + j) * C + ch];
                y[ch] += (double)w[ch * 4 + j] * (double)x;
            }
            y[ch] *= read_sigmoid(y[ch]);
        }
        for (int h = 0; h < p->Hk; h++) {
            gdn_read_unit(y + h * p->dk, p->dk, 1 / sqrt((double)p->dk));
            gdn_read_unit(y + (p->Hk + h) * p->dk, p->dk, 1);
        }
        for (int64_t h = 0; h < p->Hv; h++) {
            double x = (double)op_f32(c, GDNP_A)[t * p->Hv + h] +
                       (double)op_f32(c, GDNP_DT_BIAS)[h];
            double softplus = x > 20 ? x : log(1 + exp(x));
            c->buf[GDNP_G].want[t * p->Hv + h] = (double)op_f32(c, GDNP_NEG_A)[h] * softplus;
            c->buf[GDNP_BETA].want[t * p->Hv + h] = read_sigmoid(
                (double)op_f32(c, GDNP_B)[t * p->Hv + h]);
        }
    }
}

/* ---- gdn_scan and gdn_commit -------------------------------------------------------------- */

/* What one scan reads and writes; the same five inputs and the output for each group of rows. */
enum { GDN_QKV, GDN_G, GDN_BETA, GDN_P, GDN_Z, GDN_OUT, GDN_SCAN_N };
enum { GDN_HISTORY = 1, GDN_PROBE = 2 }; /* groups: rows before, and one row behind */

typedef struct {
    int at[OP_GROUPS_MAX]; /* first buffer of each group's scan */
    int norm_w, state, conv_state, n_commit;
} gdn_layout;

/* Every case adds its buffers in one order: group 0, history, probe, then the rest. */
static inline gdn_layout gdn_layout_of(void)
{
    gdn_layout y;
    for (int g = 0; g < OP_GROUPS_MAX; g++) y.at[g] = g * (OP_ROWS_N + GDN_SCAN_N) + OP_ROWS_N;
    y.norm_w = OP_GROUPS_MAX * (OP_ROWS_N + GDN_SCAN_N);
    y.state = y.norm_w + 1;
    y.conv_state = y.norm_w + 2;
    y.n_commit = y.norm_w + 3;
    return y;
}

static inline void gdn_add_group(op_call *c, int group, const op_lanes *lanes)
{
    const gdn_case *p = c->param;
    int C = gdn_channels(p);
    op_add_rows(c, group, lanes);
    int qkv = op_add_noise(c, "qkv", OP_IN, OP_ACT, OP_ROW, group, C, 1, 0);
    int g = op_add_noise(c, "g", OP_IN, OP_F32, OP_ROW, group, p->Hv, 0.15, 0);
    int beta = op_add_noise(c, "beta", OP_IN, OP_F32, OP_ROW, group, p->Hv, 1.5, 0);
    op_add_noise(c, "p", OP_IN, OP_ACT, OP_ROW, group, C, 1, 0);
    op_add_noise(c, "z", OP_IN, OP_ACT, OP_ROW, group, p->Hv * p->dv, 1, 0);
    op_add(c, "out", OP_OUT, OP_ACT, OP_ROW, group, p->Hv * p->dv);
    for (int64_t i = 0; i < c->buf[g].n; i++) {
        op_f32(c, g)[i] = -fabsf(op_f32(c, g)[i]);
        op_f32(c, beta)[i] = (float)read_sigmoid((double)op_f32(c, beta)[i]);
    }
    /* q and k as gdn_prep leaves them: of unit length, q over sqrt(dk) */
    for (int64_t u = 0; u < lanes->T * (int64_t)(2 * p->Hk); u++) {
        int64_t t = u / (2 * p->Hk), h = u % (2 * p->Hk);
        float *x = op_f32(c, qkv) + t * C + h * p->dk;
        double sum = 0;
        for (int i = 0; i < p->dk; i++) sum += (double)x[i] * (double)x[i];
        double scale = 1 / sqrt(sum) / (h < p->Hk ? sqrt((double)p->dk) : 1);
        for (int i = 0; i < p->dk; i++) x[i] = op_round_bf16((double)x[i] * scale);
    }
}

static inline void gdn_scan_build(op_call *c, int i, const op_lanes *lanes)
{
    const gdn_case *p = c->param = &gdn_cases[i];
    op_lanes own = op_lanes_parse(p->lanes), other = lanes ? *lanes : own;
    /* the first rows' outputs hang on k . q alone, which may all but cancel; the norm then
     * magnifies what rounding left */
    c->bound_read = 2e-6;
    c->bound_f32 = 1e-5;
    gdn_add_group(c, 0, &other);
    other.n_pad = 0;
    for (int l = 0; l < other.L; l++) other.lane[l].n_rows = other.lane[l].start % 4;
    op_lanes_count(&other);
    gdn_add_group(c, GDN_HISTORY, &other);
    for (int l = 0; l < other.L; l++) other.lane[l].n_rows = 1;
    op_lanes_count(&other);
    gdn_add_group(c, GDN_PROBE, &other);
    op_add_noise(c, "norm_w", OP_IN, OP_F32, OP_WHOLE, 0, p->dv, 0.3, 1);
    int64_t n_state = (int64_t)p->Hv * p->dk * p->dv;
    int state = op_add(c, "state", OP_INOUT, OP_F32, OP_SLOT, 0, n_state);
    op_add_noise(c, "conv_state", OP_INOUT, OP_ACT, OP_SLOT, 0, (int64_t)gdn_channels(p) * 3, 1, 0);
    c->buf[state].opaque = true;
    int n_commit = op_add(c, "n_commit", OP_IN, OP_I32, OP_LANE, 0, 1);
    for (int l = 0; l < c->lanes[0].L; l++) { /* all or some of the rows, or none */
        uint64_t s = op_stream(c, n_commit, l);
        int n = c->lanes[0].lane[l].n_rows;
        op_i32(c, n_commit)[l] = (int32_t)(test_random(&s) % (uint64_t)(n + 1));
    }
}

static inline status gdn_scan_group(backend *b, const op_call *c, const dev_buf *d, int group,
                                    bool advance)
{
    const gdn_case *p = c->param;
    gdn_layout y = gdn_layout_of();
    const dev_buf *s = d + y.at[group];
    gdn_scan_args a = {.qkv = s[GDN_QKV],
                       .g = s[GDN_G],
                       .beta = s[GDN_BETA],
                       .p = s[GDN_P],
                       .z = s[GDN_Z],
                       .norm_w = d[y.norm_w],
                       .state = d[y.state],
                       .conv_state = d[y.conv_state],
                       .rows = op_rows(c, group, d),
                       .out = s[GDN_OUT],
                       .eps = 1e-6f,
                       .Hk = p->Hk,
                       .Hv = p->Hv,
                       .dk = p->dk,
                       .dv = p->dv,
                       .advance = advance};
    return a.rows.T > 0 ? b->ops->gdn_scan(b, &a) : ERR_OK;
}

/* History, the case's rows as prompt, a probe row. */
static inline status gdn_scan_run(backend *b, const op_call *c, const dev_buf *d,
                                  const dev_weight *w)
{
    (void)w;
    TRY(gdn_scan_group(b, c, d, GDN_HISTORY, true));
    TRY(gdn_scan_group(b, c, d, 0, true));
    return gdn_scan_group(b, c, d, GDN_PROBE, true);
}

/* History, the case's rows as a verify pass, a commit of some of them, a probe row. */
static inline status gdn_commit_run(backend *b, const op_call *c, const dev_buf *d,
                                    const dev_weight *w)
{
    (void)w;
    const gdn_case *p = c->param;
    gdn_layout y = gdn_layout_of();
    const dev_buf *s = d + y.at[0];
    gdn_commit_args a = {.qkv = s[GDN_QKV],
                         .g = s[GDN_G],
                         .beta = s[GDN_BETA],
                         .p = s[GDN_P],
                         .state = d[y.state],
                         .conv_state = d[y.conv_state],
                         .rows = op_rows(c, 0, d),
                         .n_commit = d[y.n_commit],
                         .Hk = p->Hk,
                         .Hv = p->Hv,
                         .dk = p->dk,
                         .dv = p->dv};
    TRY(gdn_scan_group(b, c, d, GDN_HISTORY, true));
    TRY(gdn_scan_group(b, c, d, 0, false));
    TRY(b->ops->gdn_commit(b, &a));
    return gdn_scan_group(b, c, d, GDN_PROBE, false);
}

/* A verify pass has at most OPS_ROWS_MAX rows a lane; the others stay out of it. */
static inline void gdn_commit_build(op_call *c, int i, const op_lanes *lanes)
{
    op_lanes own = op_lanes_parse(gdn_cases[i].lanes);
    for (int l = 0; !lanes && l < own.L; l++) {
        if (own.lane[l].n_rows > OPS_ROWS_MAX) own.lane[l].n_rows = OPS_ROWS_MAX;
    }
    op_lanes_count(&own);
    gdn_scan_build(c, i, lanes ? lanes : &own);
    c->run = gdn_commit_run;
}

static inline void gdn_advance_build(op_call *c, int i, const op_lanes *lanes)
{
    gdn_scan_build(c, i, lanes);
    c->run = gdn_scan_run;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Rows [0, n) of a lane of a group through the state S of value head h; out may be NULL. G6, N2:
 *   S <- e^g S;  m = S^T k;  d = beta (v - m);  S <- S + k d^T;  o = S^T q */
static inline void gdn_read_rows(op_call *c, int group, int l, int h, int n, double *S,
                                 bool has_out)
{
    const gdn_case *p = c->param;
    gdn_layout y = gdn_layout_of();
    int at = y.at[group], C = gdn_channels(p), dk = p->dk, dv = p->dv, hk = h / (p->Hv / p->Hk);
    int64_t t = op_i32(c, c->rows_at[group] + OP_LANE_ROW)[l];
    double o[128], delta[128];
    for (int64_t end = t + n; t < end; t++) {
        const float *q = op_f32(c, at + GDN_QKV) + t * C + hk * dk, *k = q + p->Hk * dk;
        const float *v = op_f32(c, at + GDN_QKV) + t * C + 2 * p->Hk * dk + h * dv;
        double decay = exp((double)op_f32(c, at + GDN_G)[t * p->Hv + h]);
        double beta = (double)op_f32(c, at + GDN_BETA)[t * p->Hv + h];
        for (int i = 0; i < dk * dv; i++) S[i] *= decay;
        for (int j = 0; j < dv; j++) {
            double m = 0;
            for (int i = 0; i < dk; i++) m += S[i * dv + j] * (double)k[i];
            delta[j] = beta * ((double)v[j] - m);
        }
        for (int i = 0; i < dk * dv; i++) S[i] += (double)k[i / dv] * delta[i % dv];
        if (!has_out) continue;
        double *out = c->buf[at + GDN_OUT].want + (t * p->Hv + h) * dv;
        for (int j = 0; j < dv; j++) {
            o[j] = 0;
            for (int i = 0; i < dk; i++) o[j] += S[i * dv + j] * (double)q[i];
        }
        read_rmsnorm(o, op_f32(c, y.norm_w), 1e-6, dv);
        for (int j = 0; j < dv; j++) {
            double z = (double)op_f32(c, at + GDN_Z)[(t * p->Hv + h) * dv + j];
            out[j] = o[j] * z * read_sigmoid(z);
        }
    }
}

/* The last three columns after n rows of a group. */
static inline void gdn_read_conv(op_call *c, int group, int l, int n)
{
    const gdn_case *p = c->param;
    gdn_layout y = gdn_layout_of();
    int C = gdn_channels(p);
    int64_t t = op_i32(c, c->rows_at[group] + OP_LANE_ROW)[l];
    double *state = c->buf[y.conv_state].want + (int64_t)c->lanes[group].lane[l].slot * C * 3;
    for (int64_t end = t + n; t < end; t++) {
        for (int ch = 0; ch < C; ch++) {
            state[ch * 3] = state[ch * 3 + 1];
            state[ch * 3 + 1] = state[ch * 3 + 2];
            state[ch * 3 + 2] = (double)op_f32(c, y.at[group] + GDN_P)[t * C + ch];
        }
    }
}

static inline void gdn_read(op_call *c, bool is_verify)
{
    const gdn_case *p = c->param;
    gdn_layout y = gdn_layout_of();
    int64_t n_state = (int64_t)p->dk * p->dv;
    double *S = op_new(c, n_state, sizeof *S), *kept = op_new(c, n_state, sizeof *S);
    op_buf *conv = &c->buf[y.conv_state];
    for (int64_t i = 0; i < conv->n; i++) conv->want[i] = (double)((float *)conv->host)[i];
    for (int l = 0; l < c->lanes[0].L; l++) {
        int n = c->lanes[0].lane[l].n_rows;
        int n_stay = is_verify ? op_i32(c, y.n_commit)[l] : n;
        for (int h = 0; h < p->Hv; h++) {
            memset(S, 0, (size_t)n_state * sizeof *S);
            gdn_read_rows(c, GDN_HISTORY, l, h, c->lanes[GDN_HISTORY].lane[l].n_rows, S, true);
            memcpy(kept, S, (size_t)n_state * sizeof *S);
            gdn_read_rows(c, 0, l, h, n, S, true);
            if (is_verify)
                gdn_read_rows(c, 0, l, h, n_stay, memcpy(S, kept, (size_t)n_state * 8), false);
            gdn_read_rows(c, GDN_PROBE, l, h, 1, S, true);
        }
        gdn_read_conv(c, GDN_HISTORY, l, c->lanes[GDN_HISTORY].lane[l].n_rows);
        gdn_read_conv(c, 0, l, n_stay);
        if (!is_verify) gdn_read_conv(c, GDN_PROBE, l, 1);
    }
}

static inline void gdn_scan_read(op_call *c)
{
    gdn_read(c, false);
}
static inline void gdn_commit_read(op_call *c)
{
    gdn_read(c, true);
}

static const op_entry op_gdn[] = {
    {"gdn_prep", N_CASES(gdn_cases), gdn_prep_build, gdn_prep_read, false, false},
    {"gdn_scan", N_CASES(gdn_cases), gdn_advance_build, gdn_scan_read, false, false},
    {"gdn_commit", N_CASES(gdn_cases), gdn_commit_build, gdn_commit_read, false, false},
};

#endif
