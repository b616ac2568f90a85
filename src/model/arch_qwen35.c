/* Tensor names of the Qwen3.5 family (model-spec 4.1) to the layers of layers_priv.h. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "model/model_priv.h"

enum { NAME_CAP = 128 };

/* What to do to a vector's values on the way to the device. */
typedef enum { VECTOR_PLAIN, VECTOR_NORM, VECTOR_NEG_EXP } vector_kind;

/* A walk over all small tensors; the first time only adding up their bytes. */
typedef struct {
    model *m;
    float *row; /* owned, widest vector */
    err *e;
} vector_loader;

static status load_vector(vector_loader *ld, const char *name, int n_dims, const int64_t *shape,
                          vector_kind kind, dev_buf *out)
{
    model *m = ld->m;
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++) n *= shape[i];
    *out = dev_arena_take(&m->vectors, n * 4);
    if (!m->vectors.is_open) return ERR_OK;

    tensor t;
    TRY(weights_get(m->files->weights, name, n_dims, shape, &t, ld->e));
    int64_t width = shape[n_dims - 1];
    for (int64_t i = 0; i < n / width; i++) tensor_row_f32(&t, i, ld->row + i * width);
    for (int64_t i = 0; i < n; i++) {
        if (kind == VECTOR_NORM && m->arch.has_norm_offset) ld->row[i] += 1.0f;
        if (kind == VECTOR_NEG_EXP && !m->arch.has_neg_decay)
            ld->row[i] = (float)-exp((double)ld->row[i]);
    }
    return m->be->ops->upload(m->be, *out, ld->row, n * 4);
}

static status load_vector_1d(vector_loader *ld, int layer, const char *name, int64_t n,
                             vector_kind kind, dev_buf *out)
{
    char full[NAME_CAP];
    snprintf(full, sizeof full, "layers.%d.%s", layer, name);
    return load_vector(ld, full, 1, &n, kind, out);
}

static status load_layer_vectors(vector_loader *ld, int i)
{
    const arch_target *a = &ld->m->arch;
    layer_weights *w = &ld->m->layers[i];
    TRY(load_vector_1d(ld, i, "input_layernorm.weight", a->E, VECTOR_NORM, &w->in_norm));
    TRY(load_vector_1d(ld, i, "post_attention_layernorm.weight", a->E, VECTOR_NORM, &w->post_norm));
    if (w->type == ARCH_LAYER_ATTN) {
        TRY(load_vector_1d(ld, i, "self_attn.q_norm.weight", a->D, VECTOR_NORM, &w->attn.q_norm));
        return load_vector_1d(ld, i, "self_attn.k_norm.weight", a->D, VECTOR_NORM, &w->attn.k_norm);
    }
    layer_gdn_weights *g = &w->gdn;
    TRY(load_vector_1d(ld, i, "linear_attn.A_log", a->gdn_Hv, VECTOR_NEG_EXP, &g->neg_A));
    TRY(load_vector_1d(ld, i, "linear_attn.dt_bias", a->gdn_Hv, VECTOR_PLAIN, &g->dt_bias));
    TRY(load_vector_1d(ld, i, "linear_attn.norm.weight", a->gdn_dv, VECTOR_PLAIN, &g->norm));
    char name[NAME_CAP];
    snprintf(name, sizeof name, "layers.%d.linear_attn.conv1d.weight", i);
    return load_vector(ld, name, 2, (int64_t[]){ld->m->C, a->gdn_conv}, VECTOR_PLAIN, &g->conv_w);
}

static status load_all_vectors(vector_loader *ld)
{
    model *m = ld->m;
    for (int i = 0; i < m->arch.n_layers; i++) TRY(load_layer_vectors(ld, i));
    int64_t E = m->arch.E;
    return load_vector(ld, "norm.weight", 1, &E, VECTOR_NORM, &m->final_norm);
}

static status load_vectors(model *m, err *e)
{
    int64_t widest = (int64_t)m->C * m->arch.gdn_conv;
    if (widest < m->arch.E) widest = m->arch.E;
    if (widest < m->arch.D) widest = m->arch.D;
    vector_loader ld = {m, mem_new_array((size_t)widest, sizeof(float)), e};
    if (!ld.row) return err_set(e, ERR_NOMEM, "model", -1, "norms: %lld floats", (long long)widest);
    status s = load_all_vectors(&ld);
    if (s == ERR_OK) s = dev_arena_open(&m->vectors, m->be, e);
    if (s == ERR_OK) s = load_all_vectors(&ld);
    mem_free(ld.row);
    return s;
}

static status load_weight(model *m, const char *name, weight_use use, int n_dims,
                          const int64_t *shape, dev_weight *out, err *e)
{
    tensor t;
    TRY(weights_get(m->files->weights, name, n_dims, shape, &t, e));
    if (use != WEIGHT_TABLE) weights_expect(&t);
    TRY(m->be->ops->weight_open(m->be, &t, use, out, e));
    m->bytes.weights += out->n_bytes;
    if (out->view.data == NULL) weights_forget(m->files->weights, &t);
    return ERR_OK;
}

static status load_linear(model *m, int layer, const char *name, int64_t N, int64_t K,
                          dev_weight *out, err *e)
{
    char full[NAME_CAP];
    snprintf(full, sizeof full, "layers.%d.%s", layer, name);
    return load_weight(m, full, WEIGHT_LINEAR, 2, (int64_t[]){N, K}, out, e);
}

static status load_experts(model *m, int layer, const char *name, int64_t N, int64_t K,
                           dev_weight *out, err *e)
{
    char full[NAME_CAP];
    snprintf(full, sizeof full, "layers.%d.mlp.experts.%s", layer, name);
    return load_weight(m, full, WEIGHT_EXPERTS, 3, (int64_t[]){m->arch.X, N, K}, out, e);
}

static status load_mixer(model *m, int i, err *e)
{
    const arch_target *a = &m->arch;
    layer_weights *w = &m->layers[i];
    if (w->type == ARCH_LAYER_ATTN) {
        int64_t q_rows = (int64_t)a->H * a->D * (a->has_output_gate ? 2 : 1);
        TRY(load_linear(m, i, "self_attn.q_proj.weight", q_rows, a->E, &w->attn.q, e));
        TRY(load_linear(m, i, "self_attn.k_proj.weight", a->G * a->D, a->E, &w->attn.k, e));
        TRY(load_linear(m, i, "self_attn.v_proj.weight", a->G * a->D, a->E, &w->attn.v, e));
        return load_linear(m, i, "self_attn.o_proj.weight", a->E, a->H * a->D, &w->attn.o, e);
    }
    layer_gdn_weights *g = &w->gdn;
    int64_t v_dim = (int64_t)a->gdn_Hv * a->gdn_dv;
    TRY(load_linear(m, i, "linear_attn.in_proj_qkv.weight", m->C, a->E, &g->qkv, e));
    TRY(load_linear(m, i, "linear_attn.in_proj_z.weight", v_dim, a->E, &g->z, e));
    TRY(load_linear(m, i, "linear_attn.in_proj_a.weight", a->gdn_Hv, a->E, &g->a, e));
    TRY(load_linear(m, i, "linear_attn.in_proj_b.weight", a->gdn_Hv, a->E, &g->b, e));
    return load_linear(m, i, "linear_attn.out_proj.weight", a->E, v_dim, &g->out, e);
}

static status load_ffn(model *m, int i, err *e)
{
    const arch_target *a = &m->arch;
    layer_ffn_weights *f = &m->layers[i].ffn;
    if (a->family == ARCH_QWEN35) {
        TRY(load_linear(m, i, "mlp.gate_proj.weight", a->F, a->E, &f->gate, e));
        TRY(load_linear(m, i, "mlp.up_proj.weight", a->F, a->E, &f->up, e));
        return load_linear(m, i, "mlp.down_proj.weight", a->E, a->F, &f->down, e);
    }
    TRY(load_linear(m, i, "mlp.gate.weight", a->X, a->E, &f->router, e));
    TRY(load_experts(m, i, "gate_proj.weight", a->moe_F, a->E, &f->gate, e));
    TRY(load_experts(m, i, "up_proj.weight", a->moe_F, a->E, &f->up, e));
    TRY(load_experts(m, i, "down_proj.weight", a->E, a->moe_F, &f->down, e));
    if (a->shared_F == 0) return ERR_OK;
    TRY(load_linear(m, i, "mlp.shared_expert.gate_proj.weight", a->shared_F, a->E, &f->s_gate, e));
    TRY(load_linear(m, i, "mlp.shared_expert.up_proj.weight", a->shared_F, a->E, &f->s_up, e));
    TRY(load_linear(m, i, "mlp.shared_expert.down_proj.weight", a->E, a->shared_F, &f->s_down, e));
    return load_linear(m, i, "mlp.shared_expert_gate.weight", 1, a->E, &f->s_sigmoid, e);
}

status model_load_layers(model *m, err *e)
{
    const arch_target *a = &m->arch;
    m->layers = mem_new_array((size_t)a->n_layers, sizeof *m->layers);
    if (!m->layers) return err_set(e, ERR_NOMEM, "model", -1, "%d layers", a->n_layers);
    int n_attn = 0, n_gdn = 0;
    for (int i = 0; i < a->n_layers; i++) {
        layer_weights *w = &m->layers[i];
        w->type = a->layer_type[i];
        w->index = w->type == ARCH_LAYER_ATTN ? n_attn++ : n_gdn++;
    }
    TRY(load_vectors(m, e));
    m->bytes.weights += m->vectors.mem.n_bytes;

    int64_t table[2] = {a->V, a->E};
    const char *head = a->is_tied ? "embed_tokens.weight" : "lm_head.weight";
    TRY(load_weight(m, "embed_tokens.weight", WEIGHT_TABLE, 2, table, &m->embed, e));
    TRY(load_weight(m, head, WEIGHT_LINEAR, 2, table, &m->head, e));
    for (int i = 0; i < a->n_layers; i++) {
        TRY(load_mixer(m, i, e));
        TRY(load_ffn(m, i, e));
        if (m->opt.on_progress) m->opt.on_progress(m->opt.progress_ctx, i + 1, a->n_layers);
    }
    return ERR_OK;
}

static void close_layer(backend *be, layer_weights *w)
{
    dev_weight *all[] = {
        &w->attn.q,     &w->attn.k,        &w->attn.v,     &w->attn.o,     &w->gdn.qkv,
        &w->gdn.z,      &w->gdn.a,         &w->gdn.b,      &w->gdn.out,    &w->ffn.gate,
        &w->ffn.up,     &w->ffn.down,      &w->ffn.router, &w->ffn.s_gate, &w->ffn.s_up,
        &w->ffn.s_down, &w->ffn.s_sigmoid,
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) be->ops->weight_close(be, all[i]);
}

void model_close_layers(model *m)
{
    if (m->layers) {
        for (int i = 0; i < m->arch.n_layers; i++) close_layer(m->be, &m->layers[i]);
    }
    m->be->ops->weight_close(m->be, &m->embed);
    m->be->ops->weight_close(m->be, &m->head);
    dev_arena_close(&m->vectors, m->be);
    mem_free(m->layers);
    m->layers = NULL;
}
