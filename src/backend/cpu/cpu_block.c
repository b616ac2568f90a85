/* Weights of GGUF's block types, without a change of value: in their own form where there are
 * panels of it (cpu_block_panel.c), else as affine groups with f32 scales. Only where heads stand
 * in an order that cuts through the groups are rows decoded into f32 panels, which costs 4 bytes an
 * element. */
#include <string.h>

#include "backend/backend_priv.h"
#include "backend/cpu/cpu_priv.h"
#include "base/mem.h"
#include "tensor/block.h"

/* Up to so many outputs keep f32 activations: the gates of the delta rule (cpu_weight.c). */
enum { F32_N = 64 };

typedef struct {
    const tensor *from;
    const dev_weight *w;
    panel_format format;
    uint8_t *codes; /* owned [n_workers][K] */
    float *groups;  /* owned [n_workers][2][K / group] */
} affine_job;

/* A group's codes to lane n of its block (cpu_panel_priv.h). */
static void put_codes(const uint8_t *q, panel_format f, int64_t n, uint8_t *block)
{
    uint8_t *out = block + panel_head_bytes(f) + 4 * n;
    if (!panel_is_4bit(f.kind)) {
        for (int k = 0; k < f.group; k += 4, out += 64) memcpy(out, q + k, 4);
        return;
    }
    /* Four bytes at a time: codes are below 16, so that none is shifted into its neighbour. */
    for (int k = 0; k < f.group; k += 8, out += 64) {
        uint32_t low, high;
        memcpy(&low, q + k, 4);
        memcpy(&high, q + k + 4, 4);
        low |= high << 4;
        memcpy(out, &low, 4);
    }
}

/* A row of the file as codes and groups, then each group to where our columns have it. */
static void affine_row(const affine_job *j, const tensor *t, int64_t row, int64_t n, uint8_t *panel,
                       int worker)
{
    panel_format f = j->format;
    int64_t K = j->w->K, n_groups = K / f.group, row_bytes = block_row_bytes(t->type, K);
    uint8_t *codes = j->codes + worker * K;
    float *scales = j->groups + worker * 2 * n_groups, *biases = scales + n_groups;
    const uint8_t *data = t->data;
    block_affine_row(t->type, data + tensor_file_row(t, row) * row_bytes, K, codes, scales, biases);
    for (int64_t g = 0; g < n_groups; g++) {
        int64_t to = tensor_our_column(t, g * f.group) / f.group;
        uint8_t *block = panel + to * panel_block_bytes(f);
        memcpy(block + 4 * n, &scales[g], 4);
        if (f.zero == 0) memcpy(block + panel_scale_bytes(f) + 4 * n, &biases[g], 4);
        put_codes(codes + g * f.group, f, n, block);
    }
}

static void affine_panels(void *ctx, int64_t begin, int64_t end, int worker)
{
    const affine_job *j = ctx;
    int64_t N = j->w->N, n_panels = cpu_weight_panels(j->w),
            n_bytes = panel_bytes(j->format, j->w->K);
    for (int64_t i = begin; i < end; i++) {
        tensor t = j->from->n_dims == 3 ? tensor_slice(j->from, i / n_panels) : *j->from;
        int64_t n0 = i % n_panels * PANEL_N;
        uint8_t *panel = (uint8_t *)j->w->data.ptr + i * n_bytes;
        for (int64_t n = 0; n < PANEL_N && n0 + n < N; n++) {
            if (panel_is_block(j->format.kind))
                cpu_block_row(&t, j->format.kind, n0 + n, n, j->codes + worker * j->w->K,
                              j->groups + worker * 2 * (j->w->K / j->format.group), panel);
            else
                affine_row(j, &t, n0 + n, n, panel, worker);
        }
    }
}

static bool keeps_groups(const tensor *t)
{
    const tensor_heads *v = &t->heads;
    return v->n == 0 || !v->in_columns || v->size % block_affine_of(t->type).group == 0;
}

static status fail_memory(const tensor *t, err *e)
{
    char text[80];
    return err_set(e, ERR_NOMEM, "cpu weight", -1, "unpacking %s",
                   tensor_format(t, text, sizeof text));
}

static dev_weight weight_of(const tensor *t, weight_use use, panel_format f)
{
    int n_dims = t->n_dims;
    dev_weight w = {.type = DTYPE_F32, .use = use, .X = 1, .layout = cpu_weight_layout(f)};
    if (panel_is_affine(f.kind) || panel_is_block(f.kind)) {
        w.type = DTYPE_AFFINE;
        w.bits = block_affine_of(t->type).bits;
        w.group = f.group;
    }
    if (n_dims == 3) w.X = (int)t->shape[0];
    w.N = t->shape[n_dims - 2];
    w.K = t->shape[n_dims - 1];
    w.n_bytes = w.X * cpu_weight_panels(&w) * panel_bytes(f, w.K);
    return w;
}

static panel_format choose_format(const tensor *t, weight_use use)
{
    if (!keeps_groups(t)) return (panel_format){.kind = PANEL_F32};
    block_affine a = block_affine_of(t->type);
    panel_format f = {.group = a.group, .has_f32_scales = true, .zero = a.zero};
    bool keeps_f32 = use == WEIGHT_LINEAR && t->shape[t->n_dims - 2] <= F32_N;
    if (a.bits == 4)
        f.kind = keeps_f32 ? PANEL_FQ4 : PANEL_Q4;
    else
        f.kind = keeps_f32 ? PANEL_FQ8 : PANEL_Q8;
    if (!keeps_f32 && cpu_block_kind(t, &f.kind)) f.has_f32_scales = false;
    return f;
}

int64_t cpu_block_bytes(const tensor *t, weight_use use)
{
    return use == WEIGHT_TABLE ? 0 : weight_of(t, use, choose_format(t, use)).n_bytes;
}

static status open_affine(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e)
{
    cpu_backend *c = cpu_of(b);
    cpu_chunk *chunk;
    panel_format f = choose_format(t, use);
    dev_weight w = weight_of(t, use, f);
    affine_job j = {.from = t, .w = &w, .format = f};
    size_t n_workers = (size_t)c->n_workers, K = (size_t)w.K;
    j.codes = mem_new_array(n_workers, K);
    j.groups = mem_new_array(n_workers, 2 * (K / (size_t)f.group) * sizeof(float));
    void *panels = j.codes && j.groups ? cpu_pool_take(&c->weights, w.n_bytes, &chunk) : NULL;
    status s = panels ? ERR_OK : fail_memory(t, e);
    if (panels) {
        w.owned = chunk;
        w.data = (dev_buf){panels, w.n_bytes};
        workers_for(c->pool, w.X * cpu_weight_panels(&w), 1, affine_panels, &j);
        *out = w;
    }
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
    dev_weight w = weight_of(t, use, (panel_format){.kind = PANEL_F32});
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
    return keeps_groups(t) ? open_affine(b, t, use, out, e) : open_f32(b, t, use, out, e);
}
