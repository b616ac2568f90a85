/* The draft's tensors: model-spec 1.5, 3.6. */
#include <math.h>

#include "bench/make_priv.h"

enum { DRAFT_HEAD = 128, CONV_GROUP = 16, RANK = 256 };

static void add_matrix(plan *p, const char *name, int layer, int64_t N, int64_t K, double gain)
{
    double most = gain * sqrt(3.0 / (double)K); /* of a uniform number with that deviation */
    plan_tensor *t = layer < 0 ? plan_add(p, DTYPE_BF16, (int64_t[2]){N, K}, 2, "%s", name)
                               : plan_add(p, DTYPE_BF16, (int64_t[2]){N, K}, 2, "layers.%d.%s",
                                          layer, name);
    t->levels = plan_levels(p, -most, most);
}

static void add_norm(plan *p, const char *name, int layer, int64_t n)
{
    plan_tensor *t = layer < 0 ? plan_add(p, DTYPE_BF16, &n, 1, "%s", name)
                               : plan_add(p, DTYPE_BF16, &n, 1, "layers.%d.%s", layer, name);
    t->levels = layer < 0 ? plan_levels(p, 1, 1) : plan_levels(p, 0.9, 1.1);
}

static void add_conv(plan *p, const char *name, int layer, int64_t E)
{
    plan_tensor *t = plan_add(p, DTYPE_BF16, (int64_t[3]){2, 2, E}, 3, "layers.%d.%s.base_kernel",
                              layer, name);
    t->levels = plan_levels(p, 0.4, 0.6);
    int64_t rows = 4 * E / CONV_GROUP;
    t = plan_add(p, DTYPE_BF16, (int64_t[2]){rows, E}, 2, "layers.%d.%s.kernel_projection.weight",
                 layer, name);
    double most = 0.1 * sqrt(3.0 / (double)E);
    t->levels = plan_levels(p, -most, most);
}

static void add_layer(plan *p, const shape *s, int i, double block)
{
    const shape_draft *d = &s->draft;
    int64_t E = s->E, q = d->H * DRAFT_HEAD, kv = d->G * DRAFT_HEAD;
    add_norm(p, "input_layernorm.weight", i, E);
    add_norm(p, "post_attention_layernorm.weight", i, E);
    add_matrix(p, "self_attn.q_proj.weight", i, q, E, 1);
    add_matrix(p, "self_attn.k_proj.weight", i, kv, E, 1);
    add_matrix(p, "self_attn.v_proj.weight", i, kv, E, 1);
    add_matrix(p, "self_attn.o_proj.weight", i, E, q, block);
    add_norm(p, "self_attn.q_norm.weight", i, DRAFT_HEAD);
    add_norm(p, "self_attn.k_norm.weight", i, DRAFT_HEAD);
    add_matrix(p, "mlp.gate_proj.weight", i, d->F, E, 1);
    add_matrix(p, "mlp.up_proj.weight", i, d->F, E, 1);
    add_matrix(p, "mlp.down_proj.weight", i, E, d->F, block);
    add_conv(p, "attention_conv", i, E);
    add_conv(p, "mlp_conv", i, E);
}

void make_draft_plan(plan *p, const make_request *r)
{
    const shape *s = &r->s;
    const shape_draft *d = &s->draft;
    double block = make_block_scale(r, d->n_layers);
    add_matrix(p, "fc.weight", -1, s->E, (int64_t)d->n_taps * s->E, 1);
    add_norm(p, "hidden_norm.weight", -1, s->E);
    for (int i = 0; i < d->n_layers; i++) add_layer(p, s, i, block);
    add_norm(p, "norm.weight", -1, s->E);
    /* Edge scores are a sum over the rank of products of three: kept below one. */
    add_matrix(p, "candidate_selector.hidden_projection.weight", -1, RANK, s->E, 1);
    add_matrix(p, "candidate_selector.predecessor_codebook", -1, s->V, RANK, 0.3);
    add_matrix(p, "candidate_selector.successor_codebook", -1, s->V, RANK, 0.3);
}
