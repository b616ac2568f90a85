#include "load/convert.h"

#include <math.h>

#include "base/mem.h"
#include "load/convert_priv.h"
#include "load/gguf_names_priv.h"
#include "load/weights_priv.h"
#include "tensor/block_encode.h"

/* A tensor on its way: where its values come from and what is done to them. */
typedef struct {
    char name[GGUF_SPELLING_CAP];
    tensor from;
    tensor_heads heads; /* as the file has them; in a vector they are columns */
    bool adds_one, negates_exp;
} job;

typedef struct {
    const load_model *m;
    dtype type;
    job *jobs;             /* owned [cap] */
    gguf_out_tensor *list; /* owned [cap] */
    int n, cap;
    int64_t widest;
    float *rows; /* owned [workers][widest] */
    workers *pool;
} converter;

static bool ends(const char *name, const char *end)
{
    return str_ends(str_from(name), str_from(end));
}

/* Small matrices whose error weighs much; files have them in f32. */
static bool is_gate(const char *name)
{
    return ends(name, ".in_proj_a.weight") || ends(name, ".in_proj_b.weight") ||
           ends(name, ".mlp.gate.weight") || ends(name, ".shared_expert_gate.weight");
}

static dtype choose_type(const converter *c, const arch_tensor *want, const tensor *from)
{
    int64_t k = want->shape[want->n_dims - 1];
    bool is_codebook = want->kind == ARCH_TENSOR_PLAIN && want->n_dims == 2;
    if (is_codebook && dtype_is_float(from->type)) return from->type;
    bool is_matrix = want->kind == ARCH_TENSOR_LINEAR || want->kind == ARCH_TENSOR_EXPERTS;
    if (is_gate(want->name) || (!is_matrix && !is_codebook)) return DTYPE_F32;
    if (k % dtype_block(c->type) == 0) return c->type;
    return k % dtype_block(DTYPE_Q8_0) == 0 ? DTYPE_Q8_0 : DTYPE_F16;
}

static bool is_offset_norm(const char *name)
{
    return ends(name, "layernorm.weight") || ends(name, ".q_norm.weight") ||
           ends(name, ".k_norm.weight") || strcmp(name, "norm.weight") == 0;
}

static status count(void *ctx, const arch_tensor *want, err *e)
{
    (void)want;
    (void)e;
    ((converter *)ctx)->cap++;
    return ERR_OK;
}

static status add(void *ctx, const arch_tensor *want, err *e)
{
    converter *c = ctx;
    job *j = &c->jobs[c->n];
    const load_model *m = c->m;
    TRY(weights_get(m->weights, want->name, want->n_dims, want->shape, &j->from, e));
    gguf_spellings names = gguf_names_find(want->name);
    /* A draft's second norm has the other spelling. */
    bool is_other = m->is_draft && ends(want->name, "post_attention_layernorm.weight");
    memcpy(j->name, names.name[is_other ? 1 : 0], sizeof j->name);
    if (!m->is_draft) {
        j->heads = gguf_heads_of(&m->target, want->name);
        if (want->n_dims == 1) j->heads.in_columns = true;
        j->adds_one = m->target.has_norm_offset && is_offset_norm(want->name);
        j->negates_exp = ends(want->name, ".A_log") && !m->target.has_neg_decay;
    }
    gguf_out_tensor *t = &c->list[c->n++];
    *t = (gguf_out_tensor){j->name, choose_type(c, want, &j->from), want->n_dims, {0}};
    memcpy(t->shape, want->shape, sizeof t->shape);
    if (want->n_dims == 2 && want->shape[0] == 1) { /* a single row is a vector there */
        t->n_dims = 1;
        t->shape[0] = want->shape[1];
    }
    return ERR_OK;
}

/* Our row for the file's row i. */
static int64_t our_row(const tensor_heads *v, int64_t i)
{
    if (v->n == 0 || v->in_columns || i < v->from) return i;
    tensor order = {.heads = *v};
    order.heads.in_columns = true;
    return v->from + tensor_our_column(&order, i - v->from);
}

static status read_row(void *ctx, int worker, int i, int64_t row, float *out, err *e)
{
    const converter *c = ctx;
    float *values = c->rows + worker * c->widest;
    const job *j = &c->jobs[i];
    tensor t = j->from, order = {.heads = j->heads};
    int64_t k = t.shape[t.n_dims - 1];
    (void)e;
    while (t.n_dims > 2) {
        int64_t inner = 1;
        for (int d = 1; d < t.n_dims - 1; d++) inner *= t.shape[d];
        t = tensor_slice(&t, row / inner);
        row %= inner;
    }
    bool moves = j->heads.n > 0 && j->heads.in_columns;
    tensor_row_f32(&t, our_row(&j->heads, row), moves ? values : out);
    for (int64_t at = 0; at < k && moves; at++) out[at] = values[tensor_our_column(&order, at)];
    for (int64_t at = 0; at < k && j->adds_one; at++) out[at] += 1.0f;
    for (int64_t at = 0; at < k && j->negates_exp; at++) out[at] = (float)-exp((double)out[at]);
    return ERR_OK;
}

static int file_type_of(dtype t)
{
    static const int numbers[DTYPE_COUNT] = {
        [DTYPE_F16] = 1,     [DTYPE_Q4_0] = 2,  [DTYPE_Q4_1] = 3,  [DTYPE_Q8_0] = 7,
        [DTYPE_Q5_0] = 8,    [DTYPE_Q5_1] = 9,  [DTYPE_Q2_K] = 10, [DTYPE_Q3_K] = 11,
        [DTYPE_Q4_K] = 14,   [DTYPE_Q5_K] = 16, [DTYPE_Q6_K] = 18, [DTYPE_IQ4_NL] = 25,
        [DTYPE_IQ4_XS] = 30, [DTYPE_BF16] = 32, [DTYPE_MXFP4] = 38};
    return t == DTYPE_F32 ? 0 : numbers[t] ? numbers[t] : -1;
}

static status walk(converter *c, arch_tensor_visit *visit, err *e)
{
    const load_model *m = c->m;
    return m->is_draft ? arch_tensors_draft(&m->draft, visit, c, e)
                       : arch_tensors_target(&m->target, visit, c, e);
}

static status convert(converter *c, gguf_out_keys *k, const char *path, err *e)
{
    TRY(walk(c, count, e));
    c->jobs = mem_new_array((size_t)c->cap, sizeof *c->jobs);
    c->list = mem_new_array((size_t)c->cap, sizeof *c->list);
    if (!c->jobs || !c->list) return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "a table");
    TRY(walk(c, add, e));
    for (int i = 0; i < c->n; i++) {
        const tensor *t = &c->jobs[i].from;
        if (t->shape[t->n_dims - 1] > c->widest) c->widest = t->shape[t->n_dims - 1];
    }
    c->rows = mem_new_array((size_t)workers_count(c->pool), (size_t)c->widest * sizeof *c->rows);
    if (!c->rows) return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "a row");
    TRY(convert_put_keys(c->m, file_type_of(c->type), k, e));
    return gguf_write(path, k, c->list, c->n, c->pool, read_row, c, e);
}

status load_convert(const load_model *m, const char *path, dtype type, int n_threads, err *e)
{
    converter c = {.m = m, .type = type, .widest = 1};
    gguf_out_keys k;
    if (!block_can_encode(type))
        return err_set(e, ERR_INVALID, "type", -1, "%s cannot be written", dtype_name(type));
    TRY(workers_open(&c.pool, n_threads, e));
    gguf_out_init(&k);
    status s = convert(&c, &k, path, e);
    gguf_out_fini(&k);
    workers_close(c.pool);
    mem_free(c.jobs);
    mem_free(c.list);
    mem_free(c.rows);
    return s;
}
