#include "load/arch_tensors_priv.h"

#include <stdio.h>

typedef struct {
    arch_tensor_visit *visit;
    void *ctx;
    err *e;
    int layer; /* whose names are made, or -1 outside the layers */
    status s;  /* the first failure; later calls then do nothing */
} walk;

/* Dimensions beyond n_dims are not read. */
static void visit(walk *w, const char *name, arch_tensor_kind kind, int n_dims, int64_t d0,
                  int64_t d1, int64_t d2)
{
    if (w->s != ERR_OK) return;
    char full[96];
    if (w->layer >= 0)
        snprintf(full, sizeof full, "layers.%d.%s", w->layer, name);
    else
        snprintf(full, sizeof full, "%s", name);
    arch_tensor t = {full, kind, n_dims, {d0, d1, d2}};
    w->s = w->visit(w->ctx, &t, w->e);
}

static void plain(walk *w, const char *name, int64_t n)
{
    visit(w, name, ARCH_TENSOR_PLAIN, 1, n, 0, 0);
}

static void linear(walk *w, const char *name, int64_t n, int64_t k)
{
    visit(w, name, ARCH_TENSOR_LINEAR, 2, n, k, 0);
}

static void experts(walk *w, const char *name, int64_t x, int64_t n, int64_t k)
{
    visit(w, name, ARCH_TENSOR_EXPERTS, 3, x, n, k);
}

static void visit_attention(walk *w, const arch_target *a)
{
    int64_t width = (int64_t)a->H * a->D;
    linear(w, "self_attn.q_proj.weight", a->has_output_gate ? 2 * width : width, a->E);
    linear(w, "self_attn.k_proj.weight", (int64_t)a->G * a->D, a->E);
    linear(w, "self_attn.v_proj.weight", (int64_t)a->G * a->D, a->E);
    linear(w, "self_attn.o_proj.weight", a->E, width);
    plain(w, "self_attn.q_norm.weight", a->D);
    plain(w, "self_attn.k_norm.weight", a->D);
}

static void visit_delta_rule(walk *w, const arch_target *a)
{
    int64_t keys = (int64_t)a->gdn_Hk * a->gdn_dk, values = (int64_t)a->gdn_Hv * a->gdn_dv;
    linear(w, "linear_attn.in_proj_qkv.weight", 2 * keys + values, a->E);
    linear(w, "linear_attn.in_proj_z.weight", values, a->E);
    linear(w, "linear_attn.in_proj_b.weight", a->gdn_Hv, a->E);
    linear(w, "linear_attn.in_proj_a.weight", a->gdn_Hv, a->E);
    visit(w, "linear_attn.conv1d.weight", ARCH_TENSOR_CONV, 2, 2 * keys + values, a->gdn_conv, 0);
    plain(w, "linear_attn.A_log", a->gdn_Hv);
    plain(w, "linear_attn.dt_bias", a->gdn_Hv);
    plain(w, "linear_attn.norm.weight", a->gdn_dv);
    linear(w, "linear_attn.out_proj.weight", a->E, values);
}

static void visit_ffn(walk *w, const char *path, int64_t F, int64_t E)
{
    char name[64];
    snprintf(name, sizeof name, "%s.gate_proj.weight", path);
    linear(w, name, F, E);
    snprintf(name, sizeof name, "%s.up_proj.weight", path);
    linear(w, name, F, E);
    snprintf(name, sizeof name, "%s.down_proj.weight", path);
    linear(w, name, E, F);
}

static void visit_moe(walk *w, const arch_target *a)
{
    linear(w, "mlp.gate.weight", a->X, a->E);
    experts(w, "mlp.experts.gate_proj.weight", a->X, a->moe_F, a->E);
    experts(w, "mlp.experts.up_proj.weight", a->X, a->moe_F, a->E);
    experts(w, "mlp.experts.down_proj.weight", a->X, a->E, a->moe_F);
    visit_ffn(w, "mlp.shared_expert", a->shared_F, a->E);
    linear(w, "mlp.shared_expert_gate.weight", 1, a->E);
}

status arch_tensors_target(const arch_target *a, arch_tensor_visit *each, void *ctx, err *e)
{
    walk w = {each, ctx, e, -1, ERR_OK};
    linear(&w, "embed_tokens.weight", a->V, a->E);
    for (w.layer = 0; w.layer < a->n_layers; w.layer++) {
        plain(&w, "input_layernorm.weight", a->E);
        if (a->layer_type[w.layer] == ARCH_LAYER_ATTN)
            visit_attention(&w, a);
        else
            visit_delta_rule(&w, a);
        plain(&w, "post_attention_layernorm.weight", a->E);
        if (a->family == ARCH_QWEN35_MOE)
            visit_moe(&w, a);
        else
            visit_ffn(&w, "mlp", a->F, a->E);
    }
    w.layer = -1;
    plain(&w, "norm.weight", a->E);
    if (!a->is_tied) linear(&w, "lm_head.weight", a->V, a->E);
    return w.s;
}

static void visit_convolution(walk *w, const char *path, const arch_draft *d)
{
    char name[64];
    snprintf(name, sizeof name, "%s.base_kernel", path);
    visit(w, name, ARCH_TENSOR_PLAIN, 3, 2, d->conv_taps, d->E);
    snprintf(name, sizeof name, "%s.kernel_projection.weight", path);
    linear(w, name, 2 * (int64_t)d->conv_taps * (d->E / d->conv_group), d->E);
}

static void visit_draft_layer(walk *w, const arch_draft *d)
{
    int64_t queries = (int64_t)d->H * d->D, kv = (int64_t)d->G * d->D;
    plain(w, "input_layernorm.weight", d->E);
    linear(w, "self_attn.q_proj.weight", queries, d->E);
    linear(w, "self_attn.k_proj.weight", kv, d->E);
    linear(w, "self_attn.v_proj.weight", kv, d->E);
    linear(w, "self_attn.o_proj.weight", d->E, queries);
    plain(w, "self_attn.q_norm.weight", d->D);
    plain(w, "self_attn.k_norm.weight", d->D);
    plain(w, "post_attention_layernorm.weight", d->E);
    visit_ffn(w, "mlp", d->F, d->E);
    if (!d->is_v2) return;
    visit_convolution(w, "attention_conv", d);
    visit_convolution(w, "mlp_conv", d);
}

status arch_tensors_draft(const arch_draft *d, arch_tensor_visit *each, void *ctx, err *e)
{
    walk w = {each, ctx, e, -1, ERR_OK};
    linear(&w, "fc.weight", d->E, (int64_t)d->n_taps * d->E);
    plain(&w, "hidden_norm.weight", d->E);
    for (w.layer = 0; w.layer < d->n_layers; w.layer++) visit_draft_layer(&w, d);
    w.layer = -1;
    plain(&w, "norm.weight", d->E);
    if (!d->is_v2) return w.s;
    linear(&w, "candidate_selector.hidden_projection.weight", d->select_rank, d->E);
    visit(&w, "candidate_selector.predecessor_codebook", ARCH_TENSOR_PLAIN, 2, d->V, d->select_rank,
          0);
    visit(&w, "candidate_selector.successor_codebook", ARCH_TENSOR_PLAIN, 2, d->V, d->select_rank,
          0);
    return w.s;
}
