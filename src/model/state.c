/* The device memory of a model beside its weights: KV pages, recurrent cells, scratch, and the
 * index arrays of a step. Sizes are planned in full before anything is allocated. */
#include "base/mem.h"
#include "model/model_priv.h"

static void plan_kv(model *m)
{
    const arch_target *a = &m->arch;
    int64_t rows = m->opt.n_blocks * a->G * OPS_BLOCK;
    int64_t elem = m->opt.kv == KV_INT8 ? 1 : m->opt.kv == KV_BF16 ? 2 : 4;
    for (int i = 0; i < m->n_attn; i++) {
        kv_layer *kv = &m->kv[i];
        kv->format = m->opt.kv;
        kv->k = dev_arena_take(&m->cache, rows * a->D * elem);
        kv->v = dev_arena_take(&m->cache, rows * a->D * elem);
        if (kv->format != KV_INT8) continue;
        kv->k_scale = dev_arena_take(&m->cache, rows * 4);
        kv->v_scale = dev_arena_take(&m->cache, rows * 4);
    }
    m->bytes.kv = m->cache.used;
}

static void plan_states(model *m)
{
    const arch_target *a = &m->arch;
    int64_t S = m->opt.n_slots, act = model_act_bytes(m), T = S * m->opt.verify_rows;
    for (int i = 0; i < m->n_gdn; i++) {
        m->state[i] = dev_arena_take(&m->cache, S * a->gdn_Hv * a->gdn_dk * a->gdn_dv * 4);
        m->conv[i] = dev_arena_take(&m->cache, S * m->C * 3 * act);
        gdn_inputs *v = &m->verify[i];
        v->p = dev_arena_take(&m->cache, T * m->C * act);
        v->qkv = dev_arena_take(&m->cache, T * m->C * act);
        v->g = dev_arena_take(&m->cache, T * a->gdn_Hv * 4);
        v->beta = dev_arena_take(&m->cache, T * a->gdn_Hv * 4);
    }
    m->table = dev_arena_take(&m->cache, S * m->table_stride * 4);
    m->counts = (dev_buf){0};
    if (m->opt.has_penalties) m->counts = dev_arena_take(&m->cache, S * a->V * 4);
    m->bytes.states = m->cache.used - m->bytes.kv;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void plan_scratch(model *m)
{
    const arch_target *a = &m->arch;
    dev_arena *at = &m->scratch_mem;
    model_scratch *s = &m->s;
    int64_t T = m->opt.max_rows, M = m->opt.logit_rows, act = model_act_bytes(m);
    int64_t v_dim = (int64_t)a->gdn_Hv * a->gdn_dv, q_dim = (int64_t)a->H * a->D;
    s->h = dev_arena_take(at, T * a->E * 4);
    s->x = dev_arena_take(at, T * a->E * act);
    s->cs = dev_arena_take(at, T * a->n_rot * 4);
    s->qg = dev_arena_take(at, T * q_dim * (a->has_output_gate ? 2 : 1) * act);
    s->k = dev_arena_take(at, T * a->G * a->D * act);
    s->v = dev_arena_take(at, T * a->G * a->D * act);
    s->q = dev_arena_take(at, T * q_dim * act);
    s->mixed = dev_arena_take(at, T * max_of(q_dim, v_dim) * act);
    s->z = dev_arena_take(at, T * v_dim * act);
    s->a = dev_arena_take(at, T * a->gdn_Hv * act);
    s->b = dev_arena_take(at, T * a->gdn_Hv * act);
    s->gdn.p = dev_arena_take(at, T * m->C * act);
    s->gdn.qkv = dev_arena_take(at, T * m->C * act);
    s->gdn.g = dev_arena_take(at, T * a->gdn_Hv * 4);
    s->gdn.beta = dev_arena_take(at, T * a->gdn_Hv * 4);
    if (a->F > 0) s->f = dev_arena_take(at, T * a->F * act);
    if (a->X > 0) {
        s->router = dev_arena_take(at, T * a->X * 4);
        s->expert_ids = dev_arena_take(at, T * a->K * 4);
        s->expert_w = dev_arena_take(at, T * a->K * 4);
    }
    s->hm = dev_arena_take(at, M * a->E * 4);
    s->xm = dev_arena_take(at, M * a->E * act);
    s->logits = dev_arena_take(at, M * a->V * 4);
    if (m->opt.n_taps > 0) s->taps = dev_arena_take(at, T * m->opt.n_taps * a->E * act);
    if (m->opt.keeps_layers) s->layers = dev_arena_take(at, a->n_layers * T * a->E * 4);
    m->step.mem = dev_arena_take(at, m->step.n_bytes);
    m->bytes.scratch = at->used;
}

static int64_t step_field(model_step *s, int64_t n)
{
    int64_t at = s->n_bytes;
    s->n_bytes += (n * 4 + 15) / 16 * 16;
    return at;
}

static void plan_step(model *m)
{
    model_step *s = &m->step;
    int64_t T = m->opt.max_rows, L = m->opt.n_slots;
    s->n_bytes = 0;
    s->ids = step_field(s, T);
    s->row_lane = step_field(s, T);
    s->row_pos = step_field(s, T);
    s->pos3 = step_field(s, 3 * T);
    s->lane_row = step_field(s, L + 1);
    s->lane_slot = step_field(s, L);
    s->logit_row = step_field(s, m->opt.logit_rows);
}

backend_limits model_limits(const model *m)
{
    const arch_target *a = &m->arch;
    int64_t q_rows = (int64_t)a->H * a->D, v_dim = (int64_t)a->gdn_Hv * a->gdn_dv;
    int64_t K = max_of(max_of(a->E, q_rows), max_of(v_dim, a->F));
    int64_t N = max_of(max_of(2 * q_rows, m->C), max_of(a->F, a->E));
    return (backend_limits){
        .T = m->opt.max_rows,
        .L = m->opt.n_slots,
        .rows_per_lane = m->opt.verify_rows,
        .E = a->E,
        .K = K,
        .N = N,
        .F = a->F,
        .moe_F = a->moe_F,
        .shared_F = a->shared_F,
        .X = a->X,
        .K_experts = a->K,
        .V = a->V,
        .M = m->opt.logit_rows,
        .H = a->H,
        .G = a->G,
        .D = a->D,
        .gdn_Hk = a->gdn_Hk,
        .gdn_Hv = a->gdn_Hv,
        .gdn_dk = a->gdn_dk,
        .gdn_dv = a->gdn_dv,
        .max_position = m->opt.max_context,
    };
}

/* Sizes of everything but the weights into m->bytes and the two arenas. */
static status plan_all(model *m, err *e)
{
    size_t n_attn = (size_t)m->n_attn, n_gdn = (size_t)m->n_gdn;
    if (!(m->kv = mem_new_array(n_attn, sizeof *m->kv)) ||
        !(m->state = mem_new_array(n_gdn, sizeof *m->state)) ||
        !(m->conv = mem_new_array(n_gdn, sizeof *m->conv)) ||
        !(m->verify = mem_new_array(n_gdn, sizeof *m->verify)))
        return err_set(e, ERR_NOMEM, "model", -1, "cache tables");
    plan_step(m);
    plan_kv(m);
    plan_states(m);
    plan_scratch(m);
    return ERR_OK;
}

status model_plan_bytes(model *m, err *e)
{
    status s = plan_all(m, e);
    mem_free(m->kv);
    mem_free(m->state);
    mem_free(m->conv);
    mem_free(m->verify);
    return s;
}

status model_open_state(model *m, err *e)
{
    TRY(plan_all(m, e));
    if (!(m->step.host = mem_new((size_t)m->step.n_bytes)))
        return err_set(e, ERR_NOMEM, "model", -1, "step arrays");

    status s = dev_arena_open(&m->cache, m->be, e);
    if (s == ERR_OK) s = dev_arena_open(&m->scratch_mem, m->be, e);
    if (s != ERR_OK)
        return err_set(e, s, "memory", -1,
                       "does not fit: weights %.1f MiB, KV %.1f MiB (%lld blocks of 64), states "
                       "%.1f MiB, scratch %.1f MiB",
                       (double)m->bytes.weights / 0x1p20, (double)m->bytes.kv / 0x1p20,
                       (long long)m->opt.n_blocks, (double)m->bytes.states / 0x1p20,
                       (double)m->bytes.scratch / 0x1p20);
    plan_kv(m);
    plan_states(m);
    plan_scratch(m);
    return ERR_OK;
}

void model_close_state(model *m)
{
    dev_arena_close(&m->cache, m->be);
    dev_arena_close(&m->scratch_mem, m->be);
    mem_free(m->kv);
    mem_free(m->state);
    mem_free(m->conv);
    mem_free(m->verify);
    mem_free(m->step.host);
    m->kv = NULL;
    m->state = m->conv = NULL;
    m->verify = NULL;
    m->step.host = NULL;
}
