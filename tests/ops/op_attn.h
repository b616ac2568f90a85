/* op_attn: cases and readings of full attention over the paged cache. */
#ifndef RIPTIDE_TESTS_OP_ATTN_H
#define RIPTIDE_TESTS_OP_ATTN_H

#include "ops/op_cases.h"
#include "ops/op_check.h"
#include "ops/op_read.h"

/* ---- a cache ------------------------------------------------------------------------------ */

enum { KV_K, KV_V, KV_K_SCALE, KV_V_SCALE, KV_N };

/* The value at element i of a K or V buffer before the call; scale i / D belongs to it. */
static inline double kv_value(const op_call *c, int i_data, int i_scale, int64_t i, int D)
{
    const op_buf *b = &c->buf[i_data];
    if (b->type == OP_F32) return (double)((const float *)b->host)[i];
    if (b->type == OP_BF16) return (double)half_from_bf16(((const uint16_t *)b->host)[i]);
    return (double)(op_f32(c, i_scale)[i / D] * (float)((const int8_t *)b->host)[i]);
}

/* Make every cell that no lane has reached yet large: reading it would show. */
static inline void kv_spoil(op_call *c, int at, int G, int D)
{
    const op_lanes *s = &c->lanes[0];
    const int32_t *table = op_i32(c, c->rows_at[0] + OP_TABLE);
    for (int i = 0; i < s->n_blocks; i++) {
        int l = op_lane_of_slot(s, i / s->stride), from = i % s->stride * OPS_BLOCK;
        int end = l < 0 ? 0 : s->lane[l].start + s->lane[l].first + s->lane[l].n_rows;
        for (int64_t cell = 0; cell < G * OPS_BLOCK; cell++) {
            if (from + cell % OPS_BLOCK < end) continue;
            int64_t to = table[i] * (int64_t)G * OPS_BLOCK + cell;
            for (int k = KV_K; k <= KV_V; k++) {
                op_buf *b = &c->buf[at + k];
                if (b->type == OP_I8) op_f32(c, at + KV_K_SCALE + k)[to] *= 1e4f;
                for (int64_t d = to * D; b->type != OP_I8 && d < (to + 1) * D; d++) {
                    if (b->type == OP_F32) ((float *)b->host)[d] *= 1e4f;
                    uint16_t *h = (uint16_t *)b->host + d;
                    if (b->type == OP_BF16) *h = half_to_bf16(1e4f * half_from_bf16(*h));
                }
            }
        }
    }
}

/* The four buffers of a kv_layer with random content. */
static inline int kv_add(op_call *c, op_role role, kv_format format, int G, int D)
{
    int64_t unit = (int64_t)G * OPS_BLOCK;
    int at = c->n_bufs;
    op_type type = format == KV_INT8 ? OP_I8 : format == KV_BF16 ? OP_BF16 : OP_F32;
    for (int k = KV_K; k <= KV_V; k++) {
        const char *name = k == KV_K ? "cache k" : "cache v";
        if (type != OP_I8) {
            op_add_noise(c, name, role, type, OP_BLOCK, 0, unit * D, 1, 0);
            continue;
        }
        int i = op_add(c, name, role, type, OP_BLOCK, 0, unit * D);
        for (int64_t u = 0; u < c->lanes[0].n_blocks; u++) {
            uint64_t s = op_stream(c, i, u);
            int8_t *q = (int8_t *)c->buf[i].host + u * unit * D;
            for (int64_t d = 0; d < unit * D; d += 8) {
                uint64_t x = test_random(&s);
                memcpy(q + d, &x, 8);
            }
        }
    }
    for (int k = KV_K_SCALE; k <= KV_V_SCALE; k++) {
        if (format == KV_INT8) {
            op_add_noise(c, "cache scale", role, OP_F32, OP_BLOCK, 0, unit, 0.002, 0.015);
        } else {
            op_add_empty(c, "no scale");
        }
    }
    return at;
}

static inline kv_layer kv_of(const dev_buf *d, kv_format format)
{
    return (kv_layer){format, d[KV_K], d[KV_V], d[KV_K_SCALE], d[KV_V_SCALE]};
}

/* ---- attn_prep ---------------------------------------------------------------------------- */

enum { PREP_QG = OP_ROWS_N, PREP_K, PREP_V, PREP_Q_NORM, PREP_K_NORM, PREP_CS, PREP_Q, PREP_KV };

static inline status attn_prep_run(backend *b, const op_call *c, const dev_buf *d,
                                   const dev_weight *w)
{
    (void)w;
    const attn_case *p = c->param;
    attn_prep_args a = {.qg = d[PREP_QG],
                        .k = d[PREP_K],
                        .v = d[PREP_V],
                        .q_norm = d[PREP_Q_NORM],
                        .k_norm = d[PREP_K_NORM],
                        .cs = d[PREP_CS],
                        .q = d[PREP_Q],
                        .kv = kv_of(d + PREP_KV, p->kv),
                        .rows = op_rows(c, 0, d),
                        .eps = 1e-6f,
                        .H = p->H,
                        .G = p->G,
                        .D = p->D,
                        .n_pairs = p->n_pairs,
                        .has_gate = p->has_gate};
    return b->ops->attn_prep(b, &a);
}

static inline void attn_prep_build(op_call *c, int i, const op_lanes *lanes)
{
    const attn_case *p = c->param = &attn_cases[i];
    op_lanes own = op_lanes_parse(p->lanes);
    c->run = attn_prep_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    int D = p->D;
    op_add_noise(c, "qg", OP_IN, OP_ACT, OP_ROW, 0, p->H * D * (p->has_gate ? 2 : 1), 2, 0);
    op_add_noise(c, "k", OP_IN, OP_ACT, OP_ROW, 0, p->G * D, 0.5, 0);
    op_add_noise(c, "v", OP_IN, OP_ACT, OP_ROW, 0, p->G * D, 1, 0);
    op_add_noise(c, "q_norm", OP_IN, OP_F32, OP_WHOLE, 0, D, 0.3, 1);
    op_add_noise(c, "k_norm", OP_IN, OP_F32, OP_WHOLE, 0, D, 0.3, 1);
    op_add(c, "cs", OP_IN, OP_F32, OP_ROW, 0, 2 * p->n_pairs);
    op_add(c, "q", OP_OUT, OP_ACT, OP_ROW, 0, p->H * D);
    kv_add(c, OP_INOUT, p->kv, p->G, D);
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        read_angles(op_f32(c, PREP_CS) + t * 2 * p->n_pairs, 1e7, op_i32(c, OP_ROW_POS)[t],
                    p->n_pairs);
    }
}

/* One vector into a cache's reading, in the cache's format (quant.h). */
static inline void kv_read_store(op_call *c, int i_data, int i_scale, int64_t at, const double *x,
                                 int D)
{
    op_buf *b = &c->buf[i_data];
    double max = 0;
    for (int d = 0; d < D; d++) max = fmax(max, fabs((double)(float)x[d]));
    float scale = (float)max / 127.0f;
    if (b->type == OP_I8) c->buf[i_scale].want[at / D] = (double)scale;
    for (int d = 0; d < D; d++) {
        b->want[at + d] = b->type == OP_F32    ? x[d]
                          : b->type == OP_BF16 ? (double)op_round_bf16(x[d])
                          : max == 0           ? 0
                                               : rint(x[d] / (double)scale);
    }
}

static inline void attn_prep_read(op_call *c)
{
    const attn_case *p = c->param;
    int D = p->D, q_stride = p->has_gate ? 2 * D : D;
    double *x = op_new(c, D, sizeof *x);
    for (int k = KV_K; k <= KV_V_SCALE; k++) {
        op_buf *b = &c->buf[PREP_KV + k];
        for (int64_t i = 0; i < b->n; i++) {
            b->want[i] = b->type == OP_I8 ? (double)((int8_t *)b->host)[i]
                                          : kv_value(c, PREP_KV + k, 0, i, D);
        }
    }
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        int index, l = op_row_lane(&c->lanes[0], t, &index);
        const float *cs = op_f32(c, PREP_CS) + t * 2 * p->n_pairs;
        for (int64_t h = t * p->H; l >= 0 && h < (t + 1) * p->H; h++) {
            double *q = c->buf[PREP_Q].want + h * D;
            for (int d = 0; d < D; d++) q[d] = (double)op_f32(c, PREP_QG)[h * q_stride + d];
            read_rmsnorm(q, op_f32(c, PREP_Q_NORM), 1e-6, D);
            read_rotate(q, cs, p->n_pairs);
        }
        for (int g = 0; l >= 0 && g < p->G; g++) {
            const op_lane *lane = &c->lanes[0].lane[l];
            int64_t at = op_cell(c, 0, lane->slot, lane->start + index, p->G, g, D);
            for (int d = 0; d < D; d++) x[d] = (double)op_f32(c, PREP_K)[(t * p->G + g) * D + d];
            read_rmsnorm(x, op_f32(c, PREP_K_NORM), 1e-6, D);
            read_rotate(x, cs, p->n_pairs);
            kv_read_store(c, PREP_KV + KV_K, PREP_KV + KV_K_SCALE, at, x, D);
            for (int d = 0; d < D; d++) x[d] = (double)op_f32(c, PREP_V)[(t * p->G + g) * D + d];
            kv_read_store(c, PREP_KV + KV_V, PREP_KV + KV_V_SCALE, at, x, D);
        }
    }
}

/* ---- attn --------------------------------------------------------------------------------- */

enum { ATTN_Q = OP_ROWS_N, ATTN_QG, ATTN_OUT, ATTN_KV };

static inline status attn_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const attn_case *p = c->param;
    attn_args a = {.q = d[ATTN_Q],
                   .qg = d[ATTN_QG],
                   .kv = kv_of(d + ATTN_KV, p->kv),
                   .rows = op_rows(c, 0, d),
                   .out = d[ATTN_OUT],
                   .scale = 1.0f / sqrtf((float)p->D),
                   .H = p->H,
                   .G = p->G,
                   .D = p->D,
                   .has_gate = p->has_gate};
    return b->ops->attn(b, &a);
}

static inline void attn_build(op_call *c, int i, const op_lanes *lanes)
{
    const attn_case *p = c->param = &attn_cases[i];
    op_lanes own = op_lanes_parse(p->lanes);
    c->run = attn_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    op_add_noise(c, "q", OP_IN, OP_ACT, OP_ROW, 0, p->H * p->D, 2.5, 0);
    if (p->has_gate) {
        op_add_noise(c, "qg", OP_IN, OP_ACT, OP_ROW, 0, 2 * p->H * p->D, 2, 0);
    } else {
        op_add_empty(c, "qg");
    }
    op_add(c, "out", OP_OUT, OP_ACT, OP_ROW, 0, p->H * p->D);
    kv_add(c, OP_IN, p->kv, p->G, p->D);
    kv_spoil(c, ATTN_KV, p->G, p->D);
}

/* One head of one row over its n positions: out = softmax(q K^T scale) V, gated. */
static inline void attn_read_head(op_call *c, int64_t t, int h, int slot, int n, double *score)
{
    const attn_case *p = c->param;
    int D = p->D, g = h / (p->H / p->G);
    double max = -INFINITY, sum = 0, scale = (double)(1.0f / sqrtf((float)D));
    double *out = c->buf[ATTN_OUT].want + (t * p->H + h) * D;
    const float *q = op_f32(c, ATTN_Q) + (t * p->H + h) * D;
    for (int s = 0; s < n; s++) {
        int64_t at = op_cell(c, 0, slot, s, p->G, g, D);
        score[s] = 0;
        for (int d = 0; d < D; d++) {
            score[s] += (double)q[d] * kv_value(c, ATTN_KV + KV_K, ATTN_KV + KV_K_SCALE, at + d, D);
        }
        score[s] *= scale;
        max = fmax(max, score[s]);
    }
    for (int s = 0; s < n; s++) sum += exp(score[s] - max);
    for (int s = 0; s < n; s++) {
        int64_t at = op_cell(c, 0, slot, s, p->G, g, D);
        double weight = exp(score[s] - max) / sum;
        for (int d = 0; d < D; d++) {
            out[d] += weight * kv_value(c, ATTN_KV + KV_V, ATTN_KV + KV_V_SCALE, at + d, D);
        }
    }
    for (int d = 0; p->has_gate && d < D; d++) {
        out[d] *= read_sigmoid((double)op_f32(c, ATTN_QG)[(t * p->H + h) * 2 * D + D + d]);
    }
}

static inline void attn_read(op_call *c)
{
    const attn_case *p = c->param;
    double *score = op_new(c, 4096, sizeof *score);
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        int index, l = op_row_lane(&c->lanes[0], t, &index);
        if (l < 0) continue;
        const op_lane *lane = &c->lanes[0].lane[l];
        for (int h = 0; h < p->H; h++) {
            attn_read_head(c, t, h, lane->slot, lane->start + index + 1, score);
        }
    }
}

static const op_entry op_attn[] = {
    {"attn_prep", N_CASES(attn_cases), attn_prep_build, attn_prep_read, true, false},
    {"attn", N_CASES(attn_cases), attn_build, attn_read, true, false},
};

#endif
