#include "backend/cost.h"

enum {
    F32_BYTES = 4,
    I32_BYTES = 4,
    NORM_OPS = 4,    /* square, sum, scale, weight */
    ROTATE_OPS = 3,  /* a value: two products and a sum */
    SOFTMAX_OPS = 4, /* a score: scale, maximum, exponential, sum */
    SILU_OPS = 4,
};

static int64_t act_bytes(const backend *b)
{
    return b->act == DTYPE_BF16 ? 2 : 4;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

cost cost_add(cost a, cost b)
{
    return (cost){a.n_bytes + b.n_bytes, a.n_ops + b.n_ops};
}

/* Bytes of n rows of a weight, in the share that its memory has. */
static int64_t rows_bytes(const dev_weight *w, int64_t n)
{
    int64_t n_rows = w->N * w->X;
    return n >= n_rows ? w->n_bytes : w->n_bytes / n_rows * n;
}

/* ---- dense -------------------------------------------------------------------------------- */

cost cost_embed(const backend *b, const embed_args *a)
{
    (void)b;
    int64_t n = a->T * a->table->K;
    return (cost){rows_bytes(a->table, a->T) + a->T * I32_BYTES + n * F32_BYTES, n};
}

cost cost_rmsnorm(const backend *b, const rmsnorm_args *a)
{
    int64_t n = (int64_t)a->T * a->E;
    return (cost){n * (F32_BYTES + act_bytes(b)) + a->E * F32_BYTES, n * NORM_OPS};
}

cost cost_linear(const backend *b, const linear_args *a)
{
    cost c = {0, 0};
    for (int i = 0; i < a->n_parts; i++) {
        const dev_weight *w = a->part[i].w;
        int64_t n = a->T * w->N, y_bytes = F32_BYTES;
        if (a->part[i].out == LINEAR_ACT) y_bytes = act_bytes(b);
        if (a->part[i].out == LINEAR_ADD) y_bytes = 2 * F32_BYTES;
        c.n_bytes += w->n_bytes + n * y_bytes;
        c.n_ops += 2 * n * w->K;
    }
    if (a->n_parts > 0) c.n_bytes += a->T * a->part[0].w->K * act_bytes(b);
    return c;
}

cost cost_linear_swiglu(const backend *b, const linear_swiglu_args *a)
{
    int64_t F = a->gate->N, K = a->gate->K;
    return (cost){a->gate->n_bytes + a->up->n_bytes + a->T * (K + F) * act_bytes(b),
                  a->T * F * (4 * K + SILU_OPS + 1)};
}

cost cost_gather_rows(const backend *b, const gather_rows_args *a)
{
    (void)b;
    return (cost){a->M * ((int64_t)a->E * 2 * F32_BYTES + I32_BYTES), 0};
}

cost cost_tap_store(const backend *b, const tap_store_args *a)
{
    return (cost){(int64_t)a->T * a->E * (F32_BYTES + act_bytes(b)), 0};
}

cost cost_rope_table(const backend *b, const rope_table_args *a)
{
    (void)b;
    int64_t n = (int64_t)a->T * a->n_pairs, n_axes = a->section[1] > 0 ? 3 : 1;
    return (cost){n * 2 * F32_BYTES + n_axes * a->T * I32_BYTES, n * 3};
}

/* ---- attention ---------------------------------------------------------------------------- */

/* One position of K and V of all KV heads, scales included. */
static int64_t kv_bytes(kv_format format, int G, int D)
{
    int64_t n = 2 * (int64_t)G * D;
    switch (format) {
    case KV_INT8: return n + 2 * (int64_t)G * F32_BYTES;
    case KV_BF16: return n * 2;
    default: return n * F32_BYTES;
    }
}

cost cost_attn_prep(const backend *b, const attn_prep_args *a)
{
    int64_t T = a->rows.T, D = a->D, act = act_bytes(b);
    /* the gate half of qg is not read here */
    int64_t row = (2 * a->H + 2 * a->G) * D * act + kv_bytes(a->kv.format, a->G, a->D) +
                  a->n_pairs * 2 * F32_BYTES;
    int64_t n_ops = (a->H + a->G) * (D * NORM_OPS + 2 * a->n_pairs * ROTATE_OPS);
    return (cost){T * row + 2 * D * F32_BYTES, T * n_ops};
}

cost cost_attn(const backend *b, const attn_args *a, const cost_rows *r)
{
    int64_t n = (int64_t)a->rows.T * a->H * a->D; /* q in, out, and the gate */
    return (cost){
        r->n_read * kv_bytes(a->kv.format, a->G, a->D) + n * (a->has_gate ? 3 : 2) * act_bytes(b),
        r->n_seen * a->H * (4 * (int64_t)a->D + SOFTMAX_OPS) + n * (a->has_gate ? SILU_OPS : 1)};
}

/* ---- gated delta rule --------------------------------------------------------------------- */

static int64_t gdn_channels(int Hk, int Hv, int dk, int dv)
{
    return 2 * (int64_t)Hk * dk + (int64_t)Hv * dv;
}

cost cost_gdn_prep(const backend *b, const gdn_prep_args *a)
{
    int64_t C = gdn_channels(a->Hk, a->Hv, a->dk, a->dv), act = act_bytes(b);
    int64_t row = (2 * C + 2 * a->Hv) * act + 2 * a->Hv * F32_BYTES;
    int64_t once = (4 * C + 2 * a->Hv) * F32_BYTES + a->rows.L * 3 * C * act;
    return (cost){a->rows.T * row + once, a->rows.T * (C * (8 + SILU_OPS) + a->Hv * 8)};
}

/* The rule itself: decay, S^T k, S + k d^T, S^T q over the state, a multiply and an add each but
 * for the decay; T rows, L states read and written. */
static cost rule(int64_t T, int64_t L, int Hv, int dk, int dv, bool has_out, bool advance)
{
    int64_t n_state = (int64_t)Hv * dk * dv;
    return (cost){L * n_state * F32_BYTES * (advance ? 2 : 1), T * n_state * (has_out ? 7 : 5)};
}

cost cost_gdn_scan(const backend *b, const gdn_scan_args *a)
{
    int64_t C = gdn_channels(a->Hk, a->Hv, a->dk, a->dv), act = act_bytes(b);
    int64_t n_out = (int64_t)a->Hv * a->dv, T = a->rows.T, L = a->rows.L;
    cost c = rule(T, L, a->Hv, a->dk, a->dv, true, a->advance);
    c.n_bytes += T * ((C + 2 * n_out) * act + 2 * a->Hv * F32_BYTES) + a->dv * F32_BYTES;
    if (a->advance) c.n_bytes += L * 6 * C * act; /* three columns from p or before, to the state */
    c.n_ops += T * n_out * (NORM_OPS + SILU_OPS + 1);
    return c;
}

/* As if every row were committed: n_commit is on the device. */
cost cost_gdn_commit(const backend *b, const gdn_commit_args *a)
{
    int64_t C = gdn_channels(a->Hk, a->Hv, a->dk, a->dv), act = act_bytes(b);
    int64_t n_q = (int64_t)a->Hk * a->dk, T = a->rows.T, L = a->rows.L;
    cost c = rule(T, L, a->Hv, a->dk, a->dv, false, true);
    c.n_bytes += T * ((C - n_q) * act + 2 * a->Hv * F32_BYTES) + L * (6 * C * act + I32_BYTES);
    return c;
}

/* ---- experts ------------------------------------------------------------------------------ */

cost cost_moe_route(const backend *b, const moe_route_args *a)
{
    (void)b;
    return (cost){(int64_t)a->T * (a->X * F32_BYTES + a->K * (I32_BYTES + F32_BYTES)),
                  (int64_t)a->T * (a->X + a->K * SOFTMAX_OPS)};
}

cost cost_moe_ffn(const backend *b, const moe_ffn_args *a, const cost_rows *r)
{
    int64_t T = a->T, E = a->E, n_uses = T * a->K;
    int64_t n_experts = r->n_experts > 0 ? r->n_experts : min64(n_uses, a->X);
    int64_t experts = (a->gate->n_bytes + a->up->n_bytes + a->down->n_bytes) / a->X * n_experts;
    cost c = {experts + T * (E * (act_bytes(b) + 2 * F32_BYTES)) + n_uses * (I32_BYTES + F32_BYTES),
              n_uses * (6 * E * a->F + (SILU_OPS + 1) * a->F + 2 * E)};
    if (a->s_gate) {
        c.n_bytes += a->s_gate->n_bytes + a->s_up->n_bytes + a->s_down->n_bytes +
                     a->s_sigmoid->n_bytes;
        c.n_ops += T * (6 * E * a->shared_F + (SILU_OPS + 1) * a->shared_F + 4 * E);
    }
    return c;
}

/* ---- draft -------------------------------------------------------------------------------- */

cost cost_draft_kv_write(const backend *b, const draft_kv_write_args *a)
{
    int64_t n = (int64_t)a->n_layers * a->rows.T * a->G * a->D;
    return (cost){4 * n * act_bytes(b) + ((int64_t)a->rows.T + a->n_layers) * a->D * F32_BYTES,
                  n * (NORM_OPS + ROTATE_OPS)};
}

cost cost_draft_attn_prep(const backend *b, const draft_attn_prep_args *a)
{
    int64_t n = (int64_t)a->M * (a->H + a->G) * a->D;
    return (cost){2 * n * act_bytes(b) + ((int64_t)a->M + 2) * a->D * F32_BYTES,
                  n * (NORM_OPS + ROTATE_OPS)};
}

cost cost_draft_attn(const backend *b, const draft_attn_args *a, const cost_rows *r)
{
    int64_t n_rows = (int64_t)a->L * a->B, act = act_bytes(b);
    int64_t n_kv = 2 * (r->n_read + n_rows) * a->G * a->D; /* context and the block's own */
    return (cost){(n_kv + 2 * n_rows * a->H * a->D) * act,
                  r->n_seen * a->H * (4 * (int64_t)a->D + SOFTMAX_OPS)};
}

cost cost_draft_attend(const backend *b, const draft_attend_args *a, const cost_rows *r)
{
    const draft_attn_args *t = &a->attn;
    int64_t M = a->prep.M, act = act_bytes(b);
    int64_t own = M * (t->H + 2 * t->G) * t->D; /* q, k and v need not leave the chip */
    cost attn = cost_draft_attn(b, t, r), prep = cost_draft_attn_prep(b, &a->prep);
    return (cost){a->q->n_bytes + a->k->n_bytes + a->v->n_bytes + attn.n_bytes +
                      (M * a->q->K - own) * act,
                  2 * M * a->q->K * (a->q->N + a->k->N + a->v->N) + prep.n_ops + attn.n_ops};
}

cost cost_draft_conv(const backend *b, const draft_conv_args *a)
{
    int64_t n = (int64_t)a->L * a->B * a->E, n_delta = n / a->group * 2;
    int64_t out = a->adds ? 2 * F32_BYTES : act_bytes(b);
    return (cost){(n + n_delta) * act_bytes(b) + n * out + 2 * (int64_t)a->E * F32_BYTES,
                  n * (a->adds ? 7 : 6)};
}

cost cost_draft_enter(const backend *b, const draft_enter_args *a)
{
    int64_t n = (int64_t)a->L * a->B * a->E;
    return (cost){a->kernel->n_bytes + n * (F32_BYTES + 2 * act_bytes(b)) +
                      n / a->group * 4 * act_bytes(b) + 3 * (int64_t)a->E * F32_BYTES,
                  n * (NORM_OPS + 6) + 2 * n * a->kernel->N};
}

cost cost_draft_leave(const backend *b, const draft_leave_args *a)
{
    int64_t M = (int64_t)a->L * a->B, n = M * a->E;
    return (cost){a->w->n_bytes + (M * a->w->K + n + n / a->group * 2) * act_bytes(b) +
                      2 * (n + a->E) * F32_BYTES,
                  2 * n * a->w->K + 7 * n};
}

cost cost_topk(const backend *b, const topk_args *a)
{
    (void)b;
    int64_t n = (int64_t)a->M * a->V;
    return (cost){n * F32_BYTES + (int64_t)a->M * a->k * (I32_BYTES + F32_BYTES),
                  n * (a->softcap > 0 ? 4 : 2)};
}

/* ---- sampling ----------------------------------------------------------------------------- */

/* Every proposal wanted: n_draft is on the device. */
cost cost_draft_select(const backend *b, const draft_select_args *a)
{
    int64_t n = (int64_t)a->L * (a->B - 1);
    int64_t n_bytes = n * (a->k * (I32_BYTES + F32_BYTES) + 2 * I32_BYTES);
    if (a->pred) {
        n_bytes += rows_bytes(a->pred, n) + rows_bytes(a->succ, n * a->k) + n * a->R * act_bytes(b);
    }
    return (cost){n_bytes, n * a->k * (3 * (int64_t)a->R + 8)};
}

/* Logits once; counts and mask when they are there; five operations a token: adjust, scale,
 * compare, noise, compare. */
cost cost_sample(const backend *b, const sample_args *a)
{
    (void)b;
    int64_t n = (int64_t)a->M * a->V, row = 2 * I32_BYTES;
    if (a->logprob.ptr) row += F32_BYTES;
    if (a->top_ids.ptr) row += OPS_TOP_LOGPROBS * (I32_BYTES + F32_BYTES);
    int64_t n_bytes = n * F32_BYTES + a->M * row;
    if (a->mask.ptr) n_bytes += (int64_t)a->M * ((a->V + 31) / 32) * 4;
    if (a->lanes.counts.ptr) n_bytes += min64(a->M, a->rows.L) * a->V * 4;
    return (cost){n_bytes, n * 5};
}

cost cost_accept(const backend *b, const accept_args *a)
{
    (void)b;
    int64_t lane = (int64_t)sizeof(sample_policy) + (OPS_ROWS_MAX + 2) * I32_BYTES;
    return (cost){a->rows.T * 2 * I32_BYTES + a->rows.L * lane, a->rows.T};
}

cost cost_count_prompt(const backend *b, const count_prompt_args *a)
{
    (void)b;
    return (cost){a->rows.T * (I32_BYTES + 2 * 4), a->rows.T};
}
