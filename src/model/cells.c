#include "model/cells.h"

#include "base/mem.h"
#include "model/model_priv.h"

struct cells {
    model *m;
    narrow *narrow; /* NULL: f32 states */
    int n;
    dev_arena mem;
    dev_buf *state, *conv; /* owned [n_gdn] each; as the model's, [n, ...] */
};

static int64_t state_bytes(const model *m, bool is_narrow)
{
    const arch_target *a = &m->arch;
    return (int64_t)a->gdn_Hv * a->gdn_dk * a->gdn_dv * (is_narrow ? 2 : 4);
}

static int64_t conv_bytes(const model *m)
{
    return (int64_t)m->C * 3 * model_act_bytes(m);
}

int64_t cells_bytes(const model *m, bool is_narrow)
{
    return m->n_gdn * (state_bytes(m, is_narrow) + conv_bytes(m));
}

int64_t cells_plan_bytes(const arch_target *a, dtype act, bool is_narrow)
{
    model m = {.arch = *a};
    backend be = {.act = act};
    m.be = &be;
    m.C = 2 * a->gdn_Hk * a->gdn_dk + a->gdn_Hv * a->gdn_dv;
    for (int i = 0; i < a->n_layers; i++) m.n_gdn += a->layer_type[i] != ARCH_LAYER_ATTN;
    return cells_bytes(&m, is_narrow);
}

static void plan(cells *c)
{
    for (int i = 0; i < c->m->n_gdn; i++) {
        c->state[i] = dev_arena_take(&c->mem, c->n * state_bytes(c->m, c->narrow));
        c->conv[i] = dev_arena_take(&c->mem, c->n * conv_bytes(c->m));
    }
}

status cells_open(cells **out, model *m, narrow *w, int n, err *e)
{
    size_t n_gdn = (size_t)m->n_gdn;
    cells *c = mem_new(sizeof *c);
    if (c) {
        *c = (cells){.m = m, .narrow = w, .n = n};
        c->state = mem_new_array(n_gdn, sizeof *c->state);
        c->conv = mem_new_array(n_gdn, sizeof *c->conv);
    }
    status s = c && c->state && c->conv ? ERR_OK
                                        : err_set(e, ERR_NOMEM, "cells", -1, "%d cells", n);
    if (s == ERR_OK) {
        plan(c);
        s = dev_arena_open(&c->mem, m->be, e);
    }
    if (s != ERR_OK) {
        cells_close(c);
        return s;
    }
    plan(c);
    *out = c;
    return ERR_OK;
}

void cells_close(cells *c)
{
    if (!c) return;
    dev_arena_close(&c->mem, c->m->be);
    mem_free(c->state);
    mem_free(c->conv);
    mem_free(c);
}

static status copy_one(model *m, dev_buf to, int to_at, dev_buf from, int from_at, int64_t n)
{
    return m->be->ops->copy(m->be, dev_buf_at(to, to_at * n), dev_buf_at(from, from_at * n), n);
}

status cells_save(cells *c, int slot, int cell)
{
    model *m = c->m;
    int64_t n = state_bytes(m, c->narrow);
    for (int i = 0; i < m->n_gdn; i++) {
        TRY(c->narrow ? narrow_save(c->narrow, slot, i, dev_buf_at(c->state[i], cell * n))
                      : copy_one(m, c->state[i], cell, m->state[i], slot, n));
        TRY(copy_one(m, c->conv[i], cell, m->conv[i], slot, conv_bytes(m)));
    }
    return ERR_OK;
}

status cells_load(cells *c, int cell, int slot)
{
    model *m = c->m;
    int64_t n = state_bytes(m, c->narrow);
    for (int i = 0; i < m->n_gdn; i++) {
        TRY(c->narrow ? narrow_load(c->narrow, dev_buf_at(c->state[i], cell * n), slot, i)
                      : copy_one(m, m->state[i], slot, c->state[i], cell, n));
        TRY(copy_one(m, m->conv[i], slot, c->conv[i], cell, conv_bytes(m)));
    }
    return ERR_OK;
}

bool cells_pass_advanced(const cells *c)
{
    return c->m->advance;
}

status cells_commit(cells *c, const cells_lanes *lanes)
{
    model *m = c->m;
    const arch_target *a = &m->arch;
    ops_rows rows = m->rows;
    rows.L = lanes->L;
    rows.lane_row = lanes->row;
    rows.lane_slot = lanes->cell;
    for (int i = 0; i < m->n_gdn; i++) {
        const gdn_inputs *in = &m->verify[i];
        TRY(m->be->ops->gdn_commit(m->be, &(gdn_commit_args){.qkv = in->qkv,
                                                             .g = in->g,
                                                             .beta = in->beta,
                                                             .p = in->p,
                                                             .state = c->state[i],
                                                             .conv_state = c->conv[i],
                                                             .rows = rows,
                                                             .n_commit = lanes->n_commit,
                                                             .Hk = a->gdn_Hk,
                                                             .Hv = a->gdn_Hv,
                                                             .dk = a->gdn_dk,
                                                             .dv = a->gdn_dv}));
    }
    return ERR_OK;
}
