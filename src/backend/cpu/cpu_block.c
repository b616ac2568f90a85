/* Weights of GGUF's block types as what the kernels already know, without a change of value: types
 * that are affine groups of 32 become such groups with f32 scales, in memory of their own until
 * they are packed; the others are decoded into f32 panels, which costs 4 bytes an element. */
#include <string.h>

#include "backend/cpu/cpu_priv.h"
#include "base/mem.h"
#include "tensor/block.h"

enum { GROUP = 32 };

typedef struct {
    const tensor *from;
    tensor to; /* affine */
    int64_t K;
    void *data, *scales, *biases; /* owned, of all rows */
    uint8_t *codes;               /* owned [n_workers][K] */
    float *groups;                /* owned [n_workers][2][K / 32] */
} affine_job;

/* A row of the file as codes and groups, then each group to where our columns have it. */
static void affine_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const affine_job *j = ctx;
    int64_t K = j->K, n_groups = K / GROUP, row_bytes = block_row_bytes(j->from->type, K);
    uint8_t *codes = j->codes + worker * K;
    float *scales = j->groups + worker * 2 * n_groups, *biases = scales + n_groups;
    for (int64_t i = begin; i < end; i++) {
        const uint8_t *row = j->from->data;
        block_affine_row(j->from->type, row + tensor_file_row(j->from, i) * row_bytes, K, codes,
                         scales, biases);
        for (int64_t g = 0; g < n_groups; g++) {
            const uint8_t *q = codes + g * GROUP;
            int64_t to = i * n_groups + tensor_our_column(j->from, g * GROUP) / GROUP;
            uint8_t *out = (uint8_t *)j->data + to * GROUP * j->to.bits / 8;
            ((float *)j->scales)[to] = scales[g];
            ((float *)j->biases)[to] = biases[g];
            if (j->to.bits == 8) memcpy(out, q, GROUP);
            for (int k = 0; k < GROUP / 2 && j->to.bits == 4; k++)
                out[k] = (uint8_t)(q[2 * k] | q[2 * k + 1] << 4);
        }
    }
}

static bool is_affine(const tensor *t)
{
    const tensor_heads *v = &t->heads;
    bool keeps_groups = v->n == 0 || !v->in_columns || v->size % GROUP == 0;
    return block_affine_bits(t->type) != 0 && keeps_groups;
}

static status fail_memory(const tensor *t, err *e)
{
    char text[80];
    return err_set(e, ERR_NOMEM, "cpu weight", -1, "unpacking %s",
                   tensor_format(t, text, sizeof text));
}

static bool take_memory(affine_job *j, int64_t n_rows, int n_workers)
{
    size_t n = (size_t)n_rows, n_groups = (size_t)(j->K / GROUP), K = (size_t)j->K;
    j->data = mem_new_array(n, K * (size_t)j->to.bits / 8);
    j->scales = mem_new_array(n, n_groups * 4);
    j->biases = mem_new_array(n, n_groups * 4);
    j->codes = mem_new_array((size_t)n_workers, K);
    j->groups = mem_new_array((size_t)n_workers, 2 * n_groups * 4);
    return j->data && j->scales && j->biases && j->codes && j->groups;
}

static status open_affine(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e)
{
    cpu_backend *c = cpu_of(b);
    int64_t K = t->shape[t->n_dims - 1], n_rows = 1;
    for (int d = 0; d < t->n_dims - 1; d++) n_rows *= t->shape[d];
    affine_job j = {.from = t, .to = *t, .K = K};
    j.to.heads = (tensor_heads){0};
    j.to.type = DTYPE_AFFINE;
    j.to.bits = block_affine_bits(t->type);
    j.to.group = GROUP;
    j.to.scale_type = DTYPE_F32;
    j.to.n_bytes = n_rows * K * j.to.bits / 8;
    status s;
    if (take_memory(&j, n_rows, c->n_workers)) {
        j.to.data = j.data;
        j.to.scales = j.scales;
        j.to.biases = j.biases;
        workers_for(c->pool, n_rows, 8, affine_rows, &j);
        s = cpu_weight_open(b, &j.to, use, out, e);
    } else {
        s = fail_memory(t, e);
    }
    mem_free(j.data);
    mem_free(j.scales);
    mem_free(j.biases);
    mem_free(j.codes);
    mem_free(j.groups);
    return s;
}

typedef struct {
    const tensor *from;
    const dev_weight *w;
    float *row; /* owned [n_workers][K] */
} f32_job;

/* Panels of 16 rows, [K][16]. */
static void f32_panels(void *ctx, int64_t begin, int64_t end, int worker)
{
    const f32_job *j = ctx;
    int64_t K = j->w->K, N = j->w->N, n_panels = cpu_weight_panels(j->w);
    int64_t n_bytes = panel_bytes(cpu_weight_format(j->w), K);
    float *row = j->row + worker * K;
    for (int64_t i = begin; i < end; i++) {
        float *out = (float *)((char *)j->w->data.ptr + i * n_bytes);
        tensor t = j->from->n_dims == 3 ? tensor_slice(j->from, i / n_panels) : *j->from;
        int64_t n0 = i % n_panels * PANEL_N;
        for (int64_t n = 0; n < PANEL_N && n0 + n < N; n++) {
            tensor_row_f32(&t, n0 + n, row);
            for (int64_t k = 0; k < K; k++) out[k * PANEL_N + n] = row[k];
        }
    }
}

static status open_f32(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e)
{
    cpu_backend *c = cpu_of(b);
    cpu_chunk *chunk;
    int n_dims = t->n_dims;
    dev_weight w = {.type = DTYPE_F32, .use = use, .X = 1, .layout = PANEL_F32};
    if (n_dims == 3) w.X = (int)t->shape[0];
    w.N = t->shape[n_dims - 2];
    w.K = t->shape[n_dims - 1];
    w.n_bytes = w.X * cpu_weight_panels(&w) * panel_bytes(cpu_weight_format(&w), w.K);
    f32_job j = {t, &w, mem_new_array((size_t)c->n_workers, (size_t)w.K * sizeof(float))};
    void *panels = j.row ? cpu_pool_take(&c->weights, w.n_bytes, &chunk) : NULL;
    if (!panels) {
        mem_free(j.row);
        return fail_memory(t, e);
    }
    w.owned = chunk;
    w.data = (dev_buf){panels, w.n_bytes};
    workers_for(c->pool, w.X * cpu_weight_panels(&w), 1, f32_panels, &j);
    mem_free(j.row);
    *out = w;
    return ERR_OK;
}

status cpu_block_weight_open(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e)
{
    return is_affine(t) ? open_affine(b, t, use, out, e) : open_f32(b, t, use, out, e);
}
