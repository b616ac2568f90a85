/* The DFlash2 pass (model-spec 3.2 to 3.4); without convolutions and selector it is DFlash v1. */
#include <math.h>

#include "base/asserts.h"
#include "base/mem.h"
#include "decode/dflash_priv.h"
#include "decode/draft_window_priv.h"

static dev_buf take(draft *d, int64_t n, int64_t elem)
{
    return dev_arena_take(&d->mem, n * elem);
}

static arch_draft shape_of(const load_model *files, const draft_options *o)
{
    arch_draft a = files->draft;
    if (o->window > 0 && o->window < a.window) a.window = o->window;
    return a;
}

static void plan(draft *d)
{
    const arch_draft *a = &d->arch;
    int64_t act = dtype_bits(d->be->act) / 8, S = d->opt.n_slots;
    int64_t T = d->opt.max_rows, M = S * a->block, M1 = S * (a->block - 1);
    int64_t q = (int64_t)a->H * a->D, kv = (int64_t)a->G * a->D;
    for (int i = 0; i < d->n_layers; i++) {
        draft_ring *ring = &d->layers[i].ring;
        ring->R = (int)d->opt.max_context;
        if (a->layer_is_sliding[i] && a->window < ring->R) ring->R = a->window;
        ring->k = take(d, S * kv * ring->R, act);
        ring->v = take(d, S * kv * ring->R, act);
    }
    d->c32 = take(d, T * a->E, 4);
    d->c = take(d, T * a->E, act);
    d->ctx_cs = take(d, T * a->D, 4);
    d->ctx_k = take(d, T * kv, act);
    d->ctx_v = take(d, T * kv, act);
    d->h = take(d, M * a->E, 4);
    d->x = take(d, M * a->E, act);
    d->u = take(d, M * a->E, act);
    if (a->is_v2) d->delta = take(d, M * 4 * a->E / a->conv_group, act);
    d->cs = take(d, M * a->D, 4);
    d->q = take(d, M * q, act);
    d->k = take(d, M * kv, act);
    d->v = take(d, M * kv, act);
    d->o = take(d, M * q, act);
    d->f = take(d, M * a->F, act);
    d->fh = take(d, M1 * a->E, 4);
    d->fx = take(d, M1 * a->E, act);
    d->logits = take(d, M1 * a->V, 4);
    d->r = (dev_buf){0};
    if (a->is_v2) d->r = take(d, M1 * a->select_rank, act);
    d->top_ids = take(d, M1 * OPS_TOPK_MAX, 4);
    d->top_vals = take(d, M1 * OPS_TOPK_MAX, 4);
}

/* Norms and base kernels, which are kept as f32. */
static int64_t vector_bytes(const arch_draft *a)
{
    int64_t E = a->E, layer = 2 * E + 2 * (int64_t)a->D + (a->is_v2 ? 8 * E : 0);
    return (2 * E + a->n_layers * layer) * 4 + (4 + 6 * (int64_t)a->n_layers) * 256;
}

/* Bytes of the matrices, those that are quantised at 5 bits. */
static int64_t quantised_bytes(const arch_draft *a)
{
    int64_t E = a->E, q = (int64_t)a->H * a->D, kv = (int64_t)a->G * a->D, layers = a->n_layers;
    int64_t linear = a->n_taps * E * E + layers * (2 * q * E + 2 * kv * E + 3 * (int64_t)a->F * E);
    if (!a->is_v2) return linear * 5 / 8;
    linear += layers * 2 * (4 * E / a->conv_group) * E + (int64_t)a->select_rank * E;
    return linear * 5 / 8 + 2 * (int64_t)a->V * a->select_rank * 2;
}

int64_t draft_kv_bytes(const draft *d)
{
    int64_t n = 0;
    for (int i = 0; i < d->n_layers; i++)
        n += d->layers[i].ring.k.n_bytes + d->layers[i].ring.v.n_bytes;
    return n;
}

status draft_plan(const load_model *files, const draft_options *o, const backend *b,
                  draft_sizes *out, err *e)
{
    backend be = {.act = b->act};
    draft d = {.be = &be, .arch = shape_of(files, o), .opt = *o, .n_layers = files->draft.n_layers};
    d.layers = mem_new_array((size_t)d.n_layers, sizeof *d.layers);
    if (!d.layers) return err_set(e, ERR_NOMEM, "draft", -1, "%d layers", d.n_layers);
    plan(&d);
    int64_t matrices = b->quantises_drafts ? quantised_bytes(&d.arch)
                                           : weights_bytes(files->weights);
    *out = (draft_sizes){
        .weights = matrices + vector_bytes(&d.arch),
        .kv = draft_kv_bytes(&d),
        .scratch = d.mem.used - draft_kv_bytes(&d),
        .window = draft_window_bytes(&d),
        .reach = draft_window_reach(&d),
    };
    mem_free(d.layers);
    return ERR_OK;
}

status draft_open(draft **out, backend *be, const load_model *files, const draft_options *o, err *e)
{
    draft *d = mem_new(sizeof *d);
    if (!d) return err_set(e, ERR_NOMEM, "draft", -1, "draft");
    d->be = be;
    d->arch = shape_of(files, o);
    d->opt = *o;
    d->n_layers = d->arch.n_layers;
    status s = ERR_NOMEM;
    d->layers = mem_new_array((size_t)d->n_layers, sizeof *d->layers);
    if (d->layers)
        s = dflash_load(d, files, e);
    else
        err_set(e, ERR_NOMEM, "draft", -1, "%d layers", d->n_layers);
    if (s == ERR_OK) {
        plan(d);
        s = dev_arena_open(&d->mem, be, e);
    }
    if (s != ERR_OK) {
        draft_close(d);
        return s;
    }
    plan(d);
    *out = d;
    return ERR_OK;
}

void draft_close(draft *d)
{
    if (!d) return;
    dflash_unload(d);
    dev_arena_close(&d->mem, d->be);
    mem_free(d->layers);
    mem_free(d);
}

int draft_block(const draft *d)
{
    return d->arch.block;
}

int draft_window(const draft *d)
{
    for (int i = 0; i < d->n_layers; i++)
        if (!d->arch.layer_is_sliding[i]) return 0;
    return d->arch.window;
}

int64_t draft_weight_bytes(const draft *d)
{
    return d->weight_bytes;
}

int64_t draft_scratch_bytes(const draft *d)
{
    return d->mem.mem.n_bytes - draft_kv_bytes(d);
}

backend_limits draft_limits(const draft *d)
{
    const arch_draft *a = &d->arch;
    int64_t q = (int64_t)a->H * a->D, taps = (int64_t)a->n_taps * a->E;
    int64_t conv = a->is_v2 ? 4 * (int64_t)a->E / a->conv_group : 0;
    int64_t N = q > a->F ? q : a->F, K = N > taps ? N : taps;
    int M = d->opt.n_slots * a->block;
    return (backend_limits){.T = d->opt.max_rows > M ? d->opt.max_rows : M,
                            .L = d->opt.n_slots,
                            .E = a->E,
                            .K = K,
                            .N = N > conv ? N : conv,
                            .F = a->F,
                            .V = a->V,
                            .M = M,
                            .H = a->H,
                            .G = a->G,
                            .D = a->D,
                            .max_position = d->opt.max_context};
}

int32_t draft_mask_id(const draft *d)
{
    return d->arch.mask_id;
}

dev_buf draft_logits(const draft *d)
{
    return d->logits;
}

dev_buf draft_hidden(const draft *d)
{
    return d->fx;
}

dev_buf draft_features(const draft *d)
{
    return d->c;
}

static status project(draft *d, dev_buf x, int T, const dev_weight *w, dev_buf y, linear_out out)
{
    return d->be->ops->linear(d->be,
                              &(linear_args){.x = x, .T = T, .n_parts = 1, .part = {{w, y, out}}});
}

static status normalise(draft *d, dev_buf x, dev_buf w, dev_buf y, int T)
{
    return d->be->ops->rmsnorm(
        d->be,
        &(rmsnorm_args){.x = x, .w = w, .y = y, .T = T, .E = d->arch.E, .eps = d->arch.rms_eps});
}

static status rotate_table(draft *d, dev_buf pos, int T, dev_buf cs)
{
    int n_pairs = d->arch.D / 2;
    return d->be->ops->rope_table(d->be, &(rope_table_args){.pos = pos,
                                                            .cs = cs,
                                                            .theta = d->arch.rope_theta,
                                                            .n_pairs = n_pairs,
                                                            .section = {n_pairs, 0, 0},
                                                            .T = T,
                                                            .f32_angles = true});
}

/* Context of n layers from layer `first` on. */
static status write_context(draft *d, int first, int n, const ops_rows *rows, dev_buf n_commit)
{
    const arch_draft *a = &d->arch;
    int64_t each = (int64_t)rows->T * a->G * a->D * dtype_bits(d->be->act) / 8;
    linear_args in = {.x = d->c, .T = rows->T, .n_parts = 2 * n};
    draft_kv_write_args out = {.n_layers = n,
                               .cs = d->ctx_cs,
                               .rows = *rows,
                               .n_commit = n_commit,
                               .eps = a->rms_eps,
                               .G = a->G,
                               .D = a->D};
    for (int i = 0; i < n; i++) {
        const draft_layer *w = &d->layers[first + i];
        out.layer[i].k = dev_buf_at(d->ctx_k, i * each);
        out.layer[i].v = dev_buf_at(d->ctx_v, i * each);
        out.layer[i].k_norm = w->k_norm;
        out.layer[i].ring = w->ring;
        in.part[2 * i].w = &w->k;
        in.part[2 * i].y = out.layer[i].k;
        in.part[2 * i + 1].w = &w->v;
        in.part[2 * i + 1].y = out.layer[i].v;
        in.part[2 * i].out = in.part[2 * i + 1].out = LINEAR_ACT;
    }
    TRY(d->be->ops->linear(d->be, &in));
    return d->be->ops->draft_kv_write(d->be, &out);
}

status draft_context(draft *d, dev_buf taps, const ops_rows *rows, dev_buf n_commit)
{
    TRY(project(d, taps, rows->T, &d->fc, d->c32, LINEAR_F32));
    TRY(normalise(d, d->c32, d->hidden_norm, d->c, rows->T));
    TRY(rotate_table(d, rows->row_pos, rows->T, d->ctx_cs));
    DASSERT(rows->T <= d->opt.max_rows);
    /* A cycle's few rows of all layers fit where a prompt's of one layer do. */
    int at_once = rows->T > 0 ? d->opt.max_rows / rows->T : 1;
    if (at_once > OPS_RINGS_MAX) at_once = OPS_RINGS_MAX;
    for (int i = 0; i < d->n_layers; i += at_once) {
        int n = d->n_layers - i < at_once ? d->n_layers - i : at_once;
        TRY(write_context(d, i, n, rows, n_commit));
    }
    return ERR_OK;
}

/* Norm and side 0 of a convolution wrap: the sublayer's input (E3). */
static status enter_wrap(draft *d, dev_buf norm, const draft_conv_weights *c, int L, dev_buf *input)
{
    *input = d->arch.is_v2 ? d->u : d->x;
    if (!d->arch.is_v2) return normalise(d, d->h, norm, d->x, L * d->arch.block);
    return d->be->ops->draft_enter(d->be, &(draft_enter_args){.h = d->h,
                                                              .norm = norm,
                                                              .kernel = &c->kernel,
                                                              .base = c->base,
                                                              .x = d->x,
                                                              .delta = d->delta,
                                                              .y = d->u,
                                                              .eps = d->arch.rms_eps,
                                                              .L = L,
                                                              .B = d->arch.block,
                                                              .E = d->arch.E,
                                                              .group = d->arch.conv_group});
}

/* The sublayer's last projection, side 1 of the wrap, and the residual. */
static status leave_wrap(draft *d, const draft_conv_weights *c, int L, dev_buf x,
                         const dev_weight *w)
{
    int M = L * d->arch.block;
    if (!d->arch.is_v2) return project(d, x, M, w, d->h, LINEAR_ADD);
    return d->be->ops->draft_leave(d->be, &(draft_leave_args){.x = x,
                                                              .w = w,
                                                              .delta = d->delta,
                                                              .base = c->base,
                                                              .u = d->u,
                                                              .h = d->h,
                                                              .L = L,
                                                              .B = d->arch.block,
                                                              .E = d->arch.E,
                                                              .group = d->arch.conv_group});
}

static status run_attention(draft *d, const draft_layer *w, int layer, const draft_request *r)
{
    const arch_draft *a = &d->arch;
    draft_attend_args attend = {
        .q = &w->q,
        .k = &w->k,
        .v = &w->v,
        .prep = {.q = d->q,
                 .k = d->k,
                 .q_norm = w->q_norm,
                 .k_norm = w->k_norm,
                 .cs = d->cs,
                 .eps = a->rms_eps,
                 .M = r->L * a->block,
                 .H = a->H,
                 .G = a->G,
                 .D = a->D},
        .attn = {.q = d->q,
                 .k = d->k,
                 .v = d->v,
                 .ring = w->ring,
                 .lane_slot = r->lane_slot,
                 .anchor_pos = r->anchor_pos,
                 .ctx_begin = r->ctx_begin,
                 .out = d->o,
                 .scale = (float)(1.0 / sqrt((double)a->D)),
                 .L = r->L,
                 .B = a->block,
                 .H = a->H,
                 .G = a->G,
                 .D = a->D,
                 .window = a->layer_is_sliding[layer] ? a->window : 0,
                 .is_causal = a->layer_is_causal[layer]},
    };
    TRY(enter_wrap(d, w->in_norm, &w->attn_conv, r->L, &attend.x));
    TRY(d->be->ops->draft_attend(d->be, &attend));
    return leave_wrap(d, &w->attn_conv, r->L, d->o, &w->o);
}

static status run_mlp(draft *d, const draft_layer *w, int L)
{
    int M = L * d->arch.block;
    dev_buf input;
    TRY(enter_wrap(d, w->post_norm, &w->mlp_conv, L, &input));
    TRY(d->be->ops->linear_swiglu(
        d->be,
        &(linear_swiglu_args){.x = input, .gate = &w->gate, .up = &w->up, .y = d->f, .T = M}));
    return leave_wrap(d, &w->mlp_conv, L, d->f, &w->down);
}

status draft_propose(draft *d, const model *target, const draft_request *r)
{
    const arch_draft *a = &d->arch;
    const backend_ops *op = d->be->ops;
    int M = r->L * a->block, W = r->n_most, M1 = r->L * W;
    int k = a->is_v2 ? a->select_top_k : OPS_TOPK_MAX;
    TRY(op->embed(d->be, &(embed_args){.table = model_embedding(target),
                                       .ids = r->block_ids,
                                       .out = d->h,
                                       .scale = a->embed_scale,
                                       .T = M}));
    TRY(rotate_table(d, r->block_pos, M, d->cs));
    for (int i = 0; i < d->n_layers; i++) {
        TRY(run_attention(d, &d->layers[i], i, r));
        TRY(run_mlp(d, &d->layers[i], r->L));
    }
    /* Rows 1 .. W of one block stand together: row_index says no more than that. */
    dev_buf last = dev_buf_at(d->h, (int64_t)a->E * 4);
    if (r->L > 1) {
        last = d->fh;
        TRY(op->gather_rows(
            d->be,
            &(gather_rows_args){.x = d->h, .index = r->row_index, .y = last, .M = M1, .E = a->E}));
    }
    TRY(normalise(d, last, d->norm, d->fx, M1));
    if (a->is_v2) /* the small one first: nobody waits for it then */
        TRY(op->linear(d->be,
                       &(linear_args){.x = d->fx,
                                      .T = M1,
                                      .n_parts = 2,
                                      .part = {{&d->hid, d->r, LINEAR_ACT},
                                               {model_head(target), d->logits, LINEAR_F32}}}));
    else
        TRY(project(d, d->fx, M1, model_head(target), d->logits, LINEAR_F32));
    TRY(op->topk(d->be, &(topk_args){.logits = d->logits,
                                     .ids = d->top_ids,
                                     .vals = d->top_vals,
                                     .scale = a->logit_scale,
                                     .softcap = a->logit_softcap,
                                     .M = M1,
                                     .V = a->V,
                                     .k = k}));
    return op->draft_select(d->be, &(draft_select_args){.ids = d->top_ids,
                                                        .vals = d->top_vals,
                                                        .r = d->r,
                                                        .pred = a->is_v2 ? &d->pred : NULL,
                                                        .succ = a->is_v2 ? &d->succ : NULL,
                                                        .anchor = r->anchor,
                                                        .anchor_pos = r->anchor_pos,
                                                        .lane_slot = r->lane_slot,
                                                        .lane_row = r->lane_row,
                                                        .n_draft = r->n_draft,
                                                        .lanes = r->lanes,
                                                        .proposals = r->proposals,
                                                        .verify_ids = r->verify_ids,
                                                        .L = r->L,
                                                        .B = W + 1,
                                                        .k = k,
                                                        .R = a->is_v2 ? a->select_rank : 0,
                                                        .V = a->V});
}
