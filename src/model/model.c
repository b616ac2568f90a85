#include "model/model.h"

#include <string.h>

#include "base/mem.h"
#include "model/model_priv.h"

static status check_options(const load_model *files, const model_options *o, err *e)
{
    const arch_target *a = &files->target;
    if (o->n_slots < 1 || o->n_slots > 64)
        return err_set(e, ERR_INVALID, "lanes", -1, "%d, want 1 to 64", o->n_slots);
    if (o->verify_rows < 1 || o->verify_rows > OPS_ROWS_MAX)
        return err_set(e, ERR_INVALID, "draft-rows", -1, "%d verify rows, want 1 to %d",
                       o->verify_rows, OPS_ROWS_MAX);
    if (o->max_rows < o->n_slots * o->verify_rows || o->logit_rows < 1)
        return err_set(e, ERR_INVALID, "prefill-rows", -1, "%d rows, %d with logits, for %d lanes",
                       o->max_rows, o->logit_rows, o->n_slots);
    if (o->max_context < 1 || o->max_context > a->max_position)
        return err_set(e, ERR_INVALID, "max-context", -1, "%lld, the model has 1 to %lld",
                       (long long)o->max_context, (long long)a->max_position);
    if (o->n_taps < 0 || o->n_taps > ARCH_TAPS_MAX)
        return err_set(e, ERR_INVALID, "taps", -1, "%d", o->n_taps);
    return ERR_OK;
}

/* Fill in what follows from architecture and options alone. */
static void set_sizes(model *m, const load_model *files, const model_options *o)
{
    m->files = files;
    m->arch = files->target;
    m->opt = *o;
    for (int i = 0; i < o->n_taps; i++) m->taps[i] = o->taps[i];
    m->opt.taps = m->taps;
    const arch_target *a = &m->arch;
    m->C = 2 * a->gdn_Hk * a->gdn_dk + a->gdn_Hv * a->gdn_dv;
    m->table_stride = (int)((o->max_context + OPS_BLOCK - 1) / OPS_BLOCK);
    m->opt.max_context = (int64_t)m->table_stride * OPS_BLOCK;
    if (m->opt.n_blocks == 0) m->opt.n_blocks = (int64_t)o->n_slots * m->table_stride;
    for (int i = 0; i < a->n_layers; i++) {
        if (a->layer_type[i] == ARCH_LAYER_ATTN)
            m->n_attn++;
        else
            m->n_gdn++;
    }
}

status model_plan(const load_model *files, const model_options *o, dtype act, model_memory *out,
                  err *e)
{
    TRY(check_options(files, o, e));
    backend be = {.act = act};
    model *m = mem_new(sizeof *m);
    if (!m) return err_set(e, ERR_NOMEM, "model", -1, "plan");
    set_sizes(m, files, o);
    m->be = &be;
    status s = model_plan_bytes(m, e);
    m->bytes.weights = files->weights ? weights_bytes(files->weights) : 0;
    *out = m->bytes;
    mem_free(m);
    return s;
}

status model_open(model **out, backend *be, const load_model *files, const model_options *o, err *e)
{
    TRY(check_options(files, o, e));
    model *m = mem_new(sizeof *m);
    if (!m) return err_set(e, ERR_NOMEM, "model", -1, "model");
    m->be = be;
    set_sizes(m, files, o);
    status s = model_load_layers(m, e);
    if (s == ERR_OK) s = model_open_state(m, e);
    if (s != ERR_OK) {
        model_close(m);
        return s;
    }
    *out = m;
    return ERR_OK;
}

void model_close(model *m)
{
    if (!m) return;
    model_close_state(m);
    model_close_layers(m);
    mem_free(m);
}

status model_set_table(model *m, int slot, int from, const int32_t *blocks, int n)
{
    int64_t at = ((int64_t)slot * m->table_stride + from) * 4;
    return m->be->ops->upload(m->be, dev_buf_at(m->table, at), blocks, (int64_t)n * 4);
}

static status zero_slot(model *m, dev_buf cells, int slot)
{
    int64_t n = cells.n_bytes / m->opt.n_slots;
    return m->be->ops->fill(m->be, dev_buf_at(cells, slot * n), 0, n);
}

status model_reset_slot(model *m, int slot)
{
    for (int i = 0; i < m->n_gdn; i++) {
        TRY(zero_slot(m, m->state[i], slot));
        TRY(zero_slot(m, m->conv[i], slot));
    }
    return m->counts.ptr ? zero_slot(m, m->counts, slot) : ERR_OK;
}

const arch_target *model_arch(const model *m)
{
    return &m->arch;
}

const model_options *model_settings(const model *m)
{
    return &m->opt;
}

model_memory model_bytes(const model *m)
{
    return m->bytes;
}

dev_buf model_counts(const model *m)
{
    return m->counts;
}

const dev_weight *model_embedding(const model *m)
{
    return &m->embed;
}

const dev_weight *model_head(const model *m)
{
    return &m->head;
}
