/* The pass: a loop over layers that reads like model-spec 2.2. */
#include <string.h>

#include "base/asserts.h"
#include "model/model_priv.h"

static dev_buf step_view(const model *m, int64_t offset, int64_t n)
{
    return (dev_buf){(char *)m->step.mem.ptr + offset, n * 4};
}

static void step_put(model *m, int64_t offset, const int32_t *values, int64_t n)
{
    memcpy(m->step.host + offset, values, (size_t)n * 4);
}

/* An upper bound on the lengths that changes rarely, so that a captured graph serves many steps. */
static int64_t length_class(const model *m, const batch *b)
{
    int64_t longest = 0, bound = 8 * OPS_BLOCK;
    for (int t = 0; t < b->T; t++)
        if (b->row_pos[t] >= longest) longest = b->row_pos[t] + 1;
    while (bound < longest) bound *= 2;
    return bound < m->opt.max_context ? bound : m->opt.max_context;
}

status model_upload(model *m, const batch *b)
{
    const model_step *s = &m->step;
    DASSERT(b->T >= 1 && b->T <= m->opt.max_rows && b->L >= 1 && b->L <= m->opt.n_slots);
    DASSERT(b->M >= 0 && b->M <= m->opt.logit_rows);
    step_put(m, s->ids, b->ids, b->T);
    step_put(m, s->row_lane, b->row_lane, b->T);
    step_put(m, s->row_pos, b->row_pos, b->T);
    for (int64_t axis = 0; axis < 3; axis++)
        step_put(m, s->pos3 + axis * b->T * 4, b->row_pos, b->T);
    step_put(m, s->lane_row, b->lane_row, b->L + 1);
    step_put(m, s->lane_slot, b->lane_slot, b->L);
    step_put(m, s->logit_row, b->logit_row, b->M);

    int max_rows = b->max_rows;
    for (int l = 0; l < b->L; l++) {
        int n = b->lane_row[l + 1] - b->lane_row[l];
        DASSERT(b->max_rows == 0 || n <= b->max_rows);
        if (n > max_rows) max_rows = n;
    }
    int64_t max_len = length_class(m, b);
    m->rows = (ops_rows){
        .T = b->T,
        .L = b->L,
        .max_rows = max_rows,
        .max_len = max_len,
        .ids = step_view(m, s->ids, b->T),
        .row_lane = step_view(m, s->row_lane, b->T),
        .row_pos = step_view(m, s->row_pos, b->T),
        .lane_row = step_view(m, s->lane_row, b->L + 1),
        .lane_slot = step_view(m, s->lane_slot, b->L),
        .table = m->table,
        .table_stride = m->table_stride,
    };
    m->M = b->M;
    m->advance = b->advance;
    return m->be->ops->upload(m->be, m->step.mem, m->step.host, s->n_bytes);
}

static status normalise(model *m, dev_buf x, dev_buf w, dev_buf y, int T)
{
    return m->be->ops->rmsnorm(
        m->be,
        &(rmsnorm_args){.x = x, .w = w, .y = y, .T = T, .E = m->arch.E, .eps = m->arch.rms_eps});
}

static int tap_index(const model *m, int layer)
{
    for (int i = 0; i < m->opt.n_taps; i++)
        if (m->taps[i] == layer) return i;
    return -1;
}

static status keep_output(model *m, int layer)
{
    const backend_ops *op = m->be->ops;
    int T = m->rows.T, E = m->arch.E, tap = tap_index(m, layer);
    if (tap >= 0)
        TRY(op->tap_store(m->be, &(tap_store_args){.h = m->s.h,
                                                   .taps = m->s.taps,
                                                   .T = T,
                                                   .E = E,
                                                   .col = tap * E,
                                                   .n_cols = m->opt.n_taps * E}));
    if (m->opt.keeps_layers)
        TRY(op->copy(m->be, model_layer_out(m, layer), m->s.h, (int64_t)T * E * 4));
    return ERR_OK;
}

static status run_head(model *m)
{
    const backend_ops *op = m->be->ops;
    TRY(op->gather_rows(
        m->be,
        &(gather_rows_args){
            .x = m->s.h, .index = model_logit_row(m), .y = m->s.hm, .M = m->M, .E = m->arch.E}));
    TRY(normalise(m, m->s.hm, m->final_norm, m->s.xm, m->M));
    return op->linear(m->be, &(linear_args){.x = m->s.xm,
                                            .T = m->M,
                                            .n_parts = 1,
                                            .part = {{&m->head, m->s.logits, LINEAR_F32}}});
}

status model_forward(model *m)
{
    const backend_ops *op = m->be->ops;
    const arch_target *a = &m->arch;
    int T = m->rows.T;
    TRY(op->embed(
        m->be,
        &(embed_args){.table = &m->embed, .ids = m->rows.ids, .out = m->s.h, .scale = 1, .T = T}));
    rope_table_args rope = {.pos = step_view(m, m->step.pos3, 3 * (int64_t)T),
                            .cs = m->s.cs,
                            .theta = a->rope_theta,
                            .n_pairs = a->n_rot / 2,
                            .T = T};
    memcpy(rope.section, a->mrope_section, sizeof rope.section);
    TRY(op->rope_table(m->be, &rope));
    for (int i = 0; i < a->n_layers; i++) {
        const layer_weights *w = &m->layers[i];
        TRY(normalise(m, m->s.h, w->in_norm, m->s.x, T));
        if (w->type == ARCH_LAYER_ATTN)
            TRY(layer_attn_run(m, w));
        else
            TRY(layer_gdn_run(m, w));
        TRY(normalise(m, m->s.h, w->post_norm, m->s.x, T));
        TRY(layer_ffn_run(m, w));
        TRY(keep_output(m, i));
    }
    return m->M > 0 ? run_head(m) : ERR_OK;
}

const ops_rows *model_rows(const model *m)
{
    return &m->rows;
}

dev_buf model_logits(const model *m)
{
    return m->s.logits;
}

dev_buf model_logit_row(const model *m)
{
    return step_view(m, m->step.logit_row, m->M);
}

dev_buf model_taps(const model *m)
{
    return m->s.taps;
}

dev_buf model_layer_out(const model *m, int layer)
{
    ASSERT(m->opt.keeps_layers);
    return dev_buf_at(m->s.layers, (int64_t)layer * m->opt.max_rows * m->arch.E * 4);
}
