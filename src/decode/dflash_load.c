/* Weights of a draft (model-spec 3.6) onto the backend.
 *
 * Where the backend wants it, projections are quantised here to affine 4-bit groups of 64; norms,
 * base kernels and both codebooks stay as they are. */
#include <stdio.h>

#include "base/mem.h"
#include "base/workers.h"
#include "decode/dflash_priv.h"
#include "tensor/half.h"
#include "tensor/quant.h"

enum { NAME_CAP = 128, DRAFT_BITS = 4, DRAFT_GROUP = 64 };

typedef struct {
    draft *d;
    const weights *files;
    workers *pool; /* owned */
    int64_t widest;
    float *row; /* owned [workers][widest] */
    err *e;
} draft_loader;

/* A matrix being quantised. */
typedef struct {
    const draft_loader *ld;
    const tensor *from;
    uint8_t *codes;
    uint16_t *scales, *biases;
} quantising;

static void quantise_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const quantising *q = ctx;
    int64_t K = q->from->shape[1], n_groups = K / DRAFT_GROUP;
    float *row = q->ld->row + worker * q->ld->widest;
    for (int64_t i = begin; i < end; i++) {
        tensor_row_f32(q->from, i, row);
        quant_affine_encode_row(row, K, DRAFT_BITS, DRAFT_GROUP,
                                q->codes + i * quant_affine_row_bytes(K, DRAFT_BITS),
                                q->scales + i * n_groups, q->biases + i * n_groups);
    }
}

/* Quantise a plain [N, K] into host memory, let the backend copy it, and drop it again. */
static status open_quantised(draft_loader *ld, const tensor *t, dev_weight *out)
{
    int64_t N = t->shape[0], K = t->shape[1];
    int64_t row_bytes = quant_affine_row_bytes(K, DRAFT_BITS), n_groups = K / DRAFT_GROUP;
    uint8_t *codes = mem_new_array((size_t)N, (size_t)row_bytes);
    uint16_t *scales = mem_new_array((size_t)(N * n_groups), 2);
    uint16_t *biases = mem_new_array((size_t)(N * n_groups), 2);
    status s = ERR_OK;
    if (!codes || !scales || !biases) {
        s = err_set(ld->e, ERR_NOMEM, "draft", -1, "quantising [%lld, %lld]", (long long)N,
                    (long long)K);
    } else {
        quantising job = {ld, t, codes, scales, biases};
        workers_for(ld->pool, N, 1, quantise_rows, &job);
        tensor q = {.type = DTYPE_AFFINE,
                    .n_dims = 2,
                    .shape = {N, K},
                    .data = codes,
                    .n_bytes = N * row_bytes,
                    .scales = scales,
                    .biases = biases,
                    .scale_type = DTYPE_BF16,
                    .bits = DRAFT_BITS,
                    .group = DRAFT_GROUP};
        s = ld->d->be->ops->weight_open(ld->d->be, &q, WEIGHT_LINEAR, out, ld->e);
    }
    mem_free(codes);
    mem_free(scales);
    mem_free(biases);
    return s;
}

static status open_weight(draft_loader *ld, const char *name, weight_use use, int64_t N, int64_t K,
                          dev_weight *out)
{
    tensor t;
    TRY(weights_get(ld->files, name, 2, (int64_t[]){N, K}, &t, ld->e));
    if (use != WEIGHT_TABLE) weights_expect(&t);
    bool quantise = ld->d->be->quantises_drafts && use == WEIGHT_LINEAR && dtype_is_float(t.type) &&
                    K % DRAFT_GROUP == 0;
    if (quantise)
        TRY(open_quantised(ld, &t, out));
    else
        TRY(ld->d->be->ops->weight_open(ld->d->be, &t, use, out, ld->e));
    ld->d->weight_bytes += out->n_bytes;
    if (out->view.data == NULL || quantise) weights_forget(ld->files, &t);
    return ERR_OK;
}

static status open_linear(draft_loader *ld, int layer, const char *name, int64_t N, int64_t K,
                          dev_weight *out)
{
    char full[NAME_CAP];
    snprintf(full, sizeof full, "layers.%d.%s", layer, name);
    return open_weight(ld, full, WEIGHT_LINEAR, N, K, out);
}

static status open_vector(draft_loader *ld, const char *name, int n_dims, const int64_t *shape,
                          dev_buf *out)
{
    draft *d = ld->d;
    int64_t n = 1, width = shape[n_dims - 1];
    for (int i = 0; i < n_dims; i++) n *= shape[i];
    *out = dev_arena_take(&d->vectors, n * 4);
    if (!d->vectors.is_open) return ERR_OK;
    tensor t;
    TRY(weights_get(ld->files, name, n_dims, shape, &t, ld->e));
    tensor flat = t;
    flat.n_dims = 2;
    flat.shape[0] = n / width;
    flat.shape[1] = width;
    for (int64_t i = 0; i < n / width; i++) tensor_row_f32(&flat, i, ld->row + i * width);
    return d->be->ops->upload(d->be, *out, ld->row, n * 4);
}

static status open_layer_vector(draft_loader *ld, int layer, const char *name, int64_t n,
                                dev_buf *out)
{
    char full[NAME_CAP];
    snprintf(full, sizeof full, "layers.%d.%s", layer, name);
    return open_vector(ld, full, 1, &n, out);
}

static status open_base_kernel(draft_loader *ld, int layer, const char *wrap, dev_buf *out)
{
    char full[NAME_CAP];
    snprintf(full, sizeof full, "layers.%d.%s.base_kernel", layer, wrap);
    return open_vector(ld, full, 3, (int64_t[]){2, 2, ld->d->arch.E}, out);
}

static status open_vectors(draft_loader *ld)
{
    const arch_draft *a = &ld->d->arch;
    int64_t E = a->E;
    TRY(open_vector(ld, "hidden_norm.weight", 1, &E, &ld->d->hidden_norm));
    TRY(open_vector(ld, "norm.weight", 1, &E, &ld->d->norm));
    for (int i = 0; i < a->n_layers; i++) {
        draft_layer *w = &ld->d->layers[i];
        TRY(open_layer_vector(ld, i, "input_layernorm.weight", E, &w->in_norm));
        TRY(open_layer_vector(ld, i, "post_attention_layernorm.weight", E, &w->post_norm));
        TRY(open_layer_vector(ld, i, "self_attn.q_norm.weight", a->D, &w->q_norm));
        TRY(open_layer_vector(ld, i, "self_attn.k_norm.weight", a->D, &w->k_norm));
        if (!a->is_v2) continue;
        TRY(open_base_kernel(ld, i, "attention_conv", &w->attn_conv.base));
        TRY(open_base_kernel(ld, i, "mlp_conv", &w->mlp_conv.base));
    }
    return ERR_OK;
}

static status open_layer(draft_loader *ld, int i)
{
    const arch_draft *a = &ld->d->arch;
    draft_layer *w = &ld->d->layers[i];
    int64_t q = (int64_t)a->H * a->D, kv = (int64_t)a->G * a->D;
    TRY(open_linear(ld, i, "self_attn.q_proj.weight", q, a->E, &w->q));
    TRY(open_linear(ld, i, "self_attn.k_proj.weight", kv, a->E, &w->k));
    TRY(open_linear(ld, i, "self_attn.v_proj.weight", kv, a->E, &w->v));
    TRY(open_linear(ld, i, "self_attn.o_proj.weight", a->E, q, &w->o));
    TRY(open_linear(ld, i, "mlp.gate_proj.weight", a->F, a->E, &w->gate));
    TRY(open_linear(ld, i, "mlp.up_proj.weight", a->F, a->E, &w->up));
    TRY(open_linear(ld, i, "mlp.down_proj.weight", a->E, a->F, &w->down));
    if (!a->is_v2) return ERR_OK;
    int64_t taps = 4 * (int64_t)a->E / a->conv_group;
    TRY(open_linear(ld, i, "attention_conv.kernel_projection.weight", taps, a->E,
                    &w->attn_conv.kernel));
    return open_linear(ld, i, "mlp_conv.kernel_projection.weight", taps, a->E, &w->mlp_conv.kernel);
}

static status open_all(draft_loader *ld)
{
    draft *d = ld->d;
    const arch_draft *a = &d->arch;
    TRY(open_vectors(ld));
    TRY(dev_arena_open(&d->vectors, d->be, ld->e));
    TRY(open_vectors(ld));
    d->weight_bytes += d->vectors.mem.n_bytes;
    TRY(open_weight(ld, "fc.weight", WEIGHT_LINEAR, a->E, (int64_t)a->n_taps * a->E, &d->fc));
    for (int i = 0; i < a->n_layers; i++) TRY(open_layer(ld, i));
    if (!a->is_v2) return ERR_OK;
    TRY(open_weight(ld, "candidate_selector.predecessor_codebook", WEIGHT_TABLE, a->V,
                    a->select_rank, &d->pred));
    TRY(open_weight(ld, "candidate_selector.successor_codebook", WEIGHT_TABLE, a->V, a->select_rank,
                    &d->succ));
    return open_weight(ld, "candidate_selector.hidden_projection.weight", WEIGHT_LINEAR,
                       a->select_rank, a->E, &d->hid);
}

status dflash_load(draft *d, const load_model *files, err *e)
{
    const arch_draft *a = &d->arch;
    int64_t widest = 4 * (int64_t)a->E;
    int64_t candidates[] = {(int64_t)a->n_taps * a->E, a->F, (int64_t)a->H * a->D, a->D};
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
        if (candidates[i] > widest) widest = candidates[i];
    draft_loader ld = {.d = d, .files = files->weights, .widest = widest, .e = e};
    TRY(workers_open(&ld.pool, 0, e));
    ld.row = mem_new_array((size_t)workers_count(ld.pool), (size_t)widest * sizeof(float));
    status s = ld.row ? open_all(&ld)
                      : err_set(e, ERR_NOMEM, "draft", -1, "row of %lld", (long long)widest);
    mem_free(ld.row);
    workers_close(ld.pool);
    return s;
}

void dflash_unload(draft *d)
{
    const backend_ops *op = d->be->ops;
    for (int i = 0; d->layers && i < d->n_layers; i++) {
        draft_layer *w = &d->layers[i];
        dev_weight *all[] = {&w->q,
                             &w->k,
                             &w->v,
                             &w->o,
                             &w->gate,
                             &w->up,
                             &w->down,
                             &w->attn_conv.kernel,
                             &w->mlp_conv.kernel};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) op->weight_close(d->be, all[j]);
    }
    op->weight_close(d->be, &d->fc);
    op->weight_close(d->be, &d->pred);
    op->weight_close(d->be, &d->succ);
    op->weight_close(d->be, &d->hid);
    dev_arena_close(&d->vectors, d->be);
}
