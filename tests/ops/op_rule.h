/* op_rule: the delta rule as a whole, prep and scan behind each other: its buffers and arguments.
 */
#ifndef RIPTIDE_TESTS_OP_RULE_H
#define RIPTIDE_TESTS_OP_RULE_H

#include "ops/op_gdn.h"

enum {
    RULE_P = OP_ROWS_N,
    RULE_A,
    RULE_B,
    RULE_Z,
    RULE_CONV_W,
    RULE_NEG_A,
    RULE_DT,
    RULE_NORM,
    RULE_QKV,
    RULE_G,
    RULE_BETA,
    RULE_OUT,
    RULE_STATE,
    RULE_CONV,
    RULE_N
};

/* Behind the rows. The convolution's window begins as noise or as zeros, the state as zeros. */
static inline void rule_add(op_call *c, const gdn_case *p, bool has_window)
{
    int C = gdn_channels(p), Hv = p->Hv, n_out = Hv * p->dv;
    op_add_noise(c, "p", OP_IN, OP_ACT, OP_ROW, 0, C, 1, 0);
    op_add_noise(c, "a", OP_IN, OP_ACT, OP_ROW, 0, Hv, 1, -2);
    op_add_noise(c, "b", OP_IN, OP_ACT, OP_ROW, 0, Hv, 1.5, 0);
    op_add_noise(c, "z", OP_IN, OP_ACT, OP_ROW, 0, n_out, 1, 0);
    op_add_noise(c, "conv_w", OP_IN, OP_F32, OP_WHOLE, 0, (int64_t)C * 4, 0.6, 0);
    op_add_noise(c, "neg_A", OP_IN, OP_F32, OP_WHOLE, 0, Hv, 0.2, -1);
    op_add_noise(c, "dt_bias", OP_IN, OP_F32, OP_WHOLE, 0, Hv, 0.5, 0);
    op_add_noise(c, "norm_w", OP_IN, OP_F32, OP_WHOLE, 0, p->dv, 0.3, 1);
    op_add(c, "qkv", OP_OUT, OP_ACT, OP_ROW, 0, C);
    op_add(c, "g", OP_OUT, OP_F32, OP_ROW, 0, Hv);
    op_add(c, "beta", OP_OUT, OP_F32, OP_ROW, 0, Hv);
    op_add(c, "out", OP_OUT, OP_ACT, OP_ROW, 0, n_out);
    op_add(c, "state", OP_INOUT, OP_F32, OP_SLOT, 0, (int64_t)Hv * p->dk * p->dv);
    if (has_window)
        op_add_noise(c, "conv_state", OP_INOUT, OP_ACT, OP_SLOT, 0, 3 * (int64_t)C, 1, 0);
    else
        op_add(c, "conv_state", OP_INOUT, OP_ACT, OP_SLOT, 0, 3 * (int64_t)C);
}

/* The view of a row-wise buffer from row `from` on. */
static inline dev_buf rule_rows_from(const backend *b, const op_call *c, const dev_buf *d, int i,
                                     int from)
{
    return dev_buf_at(d[i], from * c->buf[i].unit * op_dev_size(c->buf[i].type, b->act));
}

/* Of a call of `rows`, the first of which is row `from` of the buffers. */
static inline gdn_prep_args rule_prep_args(const backend *b, const op_call *c, const dev_buf *d,
                                           const gdn_case *p, int from, ops_rows rows)
{
    return (gdn_prep_args){.p = rule_rows_from(b, c, d, RULE_P, from),
                           .a = rule_rows_from(b, c, d, RULE_A, from),
                           .b = rule_rows_from(b, c, d, RULE_B, from),
                           .conv_w = d[RULE_CONV_W],
                           .neg_A = d[RULE_NEG_A],
                           .dt_bias = d[RULE_DT],
                           .conv_state = d[RULE_CONV],
                           .rows = rows,
                           .qkv = rule_rows_from(b, c, d, RULE_QKV, from),
                           .g = rule_rows_from(b, c, d, RULE_G, from),
                           .beta = rule_rows_from(b, c, d, RULE_BETA, from),
                           .Hk = p->Hk,
                           .Hv = p->Hv,
                           .dk = p->dk,
                           .dv = p->dv};
}

/* The scan of what that prep prepares. */
static inline gdn_scan_args rule_scan_args(const backend *b, const op_call *c, const dev_buf *d,
                                           const gdn_prep_args *p, int from, bool advance)
{
    return (gdn_scan_args){.qkv = p->qkv,
                           .g = p->g,
                           .beta = p->beta,
                           .p = p->p,
                           .z = rule_rows_from(b, c, d, RULE_Z, from),
                           .norm_w = d[RULE_NORM],
                           .state = d[RULE_STATE],
                           .conv_state = d[RULE_CONV],
                           .rows = p->rows,
                           .out = rule_rows_from(b, c, d, RULE_OUT, from),
                           .eps = 1e-6f,
                           .Hk = p->Hk,
                           .Hv = p->Hv,
                           .dk = p->dk,
                           .dv = p->dv,
                           .advance = advance};
}

#endif
