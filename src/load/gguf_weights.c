/* The tensors of GGUF files to the table of weights.h: names, shapes, and the order of the delta
 * rule's value heads (model-spec 4.3, "V-head reorder").
 *
 * Plain types whose heads lie in the file's order are copied into the program's order. Tensors of
 * blocks stay where they are and say so in tensor.heads: a block may hold columns of two heads. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "load/gguf_config_priv.h"
#include "load/gguf_names_priv.h"
#include "load/weights_priv.h"

typedef struct {
    weights *w;
    const gguf_config *c;
} builder;

static status fail_item(const gguf *file, const gguf_item *it, status s, const char *what, err *e)
{
    return err_set(e, s, safetensors_where(gguf_path(file)), -1, "tensor '%.80s' %s", it->name,
                   what);
}

/* Equal but for dimensions of 1, which converters drop. */
static bool is_same_shape(const tensor *t, const arch_tensor *want)
{
    int i = 0;
    for (int d = 0; d < t->n_dims; d++) {
        if (t->shape[d] == 1) continue;
        while (i < want->n_dims && want->shape[i] == 1) i++;
        if (i == want->n_dims || want->shape[i++] != t->shape[d]) return false;
    }
    while (i < want->n_dims && want->shape[i] == 1) i++;
    return i == want->n_dims;
}

static status check_item(const gguf *file, const gguf_item *it, const arch_tensor *want, err *e)
{
    char has[96], wants[96], text[240];
    tensor shape = {.type = it->t.type, .n_dims = want->n_dims};
    memcpy(shape.shape, want->shape, sizeof shape.shape);
    if (it->t.type == DTYPE_NONE) {
        snprintf(text, sizeof text, "has ggml type %u, which is not known", (unsigned)it->type_id);
        return fail_item(file, it, ERR_UNSUPPORTED, text, e);
    }
    if (!dtype_is_float(it->t.type) && !dtype_is_block(it->t.type)) {
        snprintf(text, sizeof text, "is of type %s, which is no weight's", dtype_name(it->t.type));
        return fail_item(file, it, ERR_FORMAT, text, e);
    }
    if (is_same_shape(&it->t, want)) return ERR_OK;
    snprintf(text, sizeof text, "is %s, want %s", tensor_format(&it->t, has, sizeof has),
             tensor_format(&shape, wants, sizeof wants));
    return fail_item(file, it, ERR_FORMAT, text, e);
}

tensor_heads gguf_heads_of(const arch_target *a, const char *name)
{
    static const char *const parts[] = {
        "in_proj_qkv.weight", "conv1d.weight", "in_proj_z.weight", "in_proj_b.weight",
        "in_proj_a.weight",   "A_log",         "dt_bias",          "out_proj.weight"};
    const char *part = strstr(name, ".linear_attn.");
    int i = 0;
    while (part && i < 8 && strcmp(part + strlen(".linear_attn."), parts[i]) != 0) i++;
    if (!part || i == 8 || a->gdn_Hk == 1 || a->gdn_Hv == a->gdn_Hk) return (tensor_heads){0};
    bool has_keys = i < 2, is_one = i >= 3 && i < 7;
    return (tensor_heads){.n = a->gdn_Hv,
                          .n_groups = a->gdn_Hk,
                          .size = is_one ? 1 : a->gdn_dv,
                          .from = has_keys ? 2 * (int64_t)a->gdn_Hk * a->gdn_dk : 0,
                          .in_columns = i == 7};
}

/* A plain [N, K], or [K] taken as [K, 1], with its heads moved. */
static status copy_heads(weights *w, tensor *t, tensor_heads heads, err *e)
{
    int64_t size = dtype_bits(t->type) / 8;
    int64_t N = t->shape[0], K = t->n_dims == 2 ? t->shape[1] : 1;
    uint8_t *out = arena_new(&w->files.mem, (size_t)t->n_bytes);
    if (!out)
        return err_set(e, ERR_NOMEM, safetensors_where(w->files.dir), -1,
                       "out of memory for %lld bytes", (long long)t->n_bytes);
    /* A head's columns of a row, or its rows: the piece that is moved as a whole. */
    int64_t piece = heads.in_columns ? heads.size * size : K * size;
    tensor order = {.heads = heads};
    order.heads.in_columns = false;
    if (heads.in_columns) order.heads.size = 1;
    int64_t n_pieces = heads.in_columns ? heads.n : N, n_rows = heads.in_columns ? N : 1;
    for (int64_t row = 0; row < n_rows; row++) {
        const uint8_t *from = (const uint8_t *)t->data + row * K * size;
        for (int64_t i = 0; i < n_pieces; i++)
            memcpy(out + row * K * size + i * piece, from + tensor_file_row(&order, i) * piece,
                   (size_t)piece);
    }
    gguf_set_forget(&w->parts, t->data, t->n_bytes);
    t->data = out;
    return ERR_OK;
}

static status build(void *ctx, const arch_tensor *want, err *e)
{
    const builder *b = ctx;
    weights *w = b->w;
    gguf_spellings names = gguf_names_find(want->name);
    const gguf_item *it = NULL;
    const gguf *file = NULL;
    for (int i = 0; i < names.n && !it; i++) it = gguf_set_find(&w->parts, names.name[i], &file);
    if (!it)
        return err_set(e, ERR_FORMAT, safetensors_where(w->files.dir), -1,
                       "tensor '%.90s' is missing", names.n ? names.name[0] : want->name);
    TRY(check_item(file, it, want, e));
    tensor t = it->t;
    t.n_dims = want->n_dims;
    memcpy(t.shape, want->shape, sizeof t.shape);
    tensor_heads heads = {0};
    if (!b->c->is_draft) heads = gguf_heads_of(&b->c->target, want->name);
    if (heads.n > 0 && dtype_is_float(t.type))
        TRY(copy_heads(w, &t, heads, e));
    else
        t.heads = heads;
    char *name = arena_copy(&w->files.mem, want->name, strlen(want->name));
    if (!name || w->n == w->cap)
        return err_set(e, ERR_NOMEM, safetensors_where(w->files.dir), -1, "out of memory");
    w->items[w->n++] = (weights_item){name, gguf_path(file), t};
    return ERR_OK;
}

/* A decay is -exp(A_log), so it is negative; a converter that left A_log would go unnoticed. */
static status check_decay(const weights *w, const arch_target *a, err *e)
{
    float *row = mem_new_array((size_t)a->gdn_Hv, sizeof *row);
    status s = row ? ERR_OK : err_set(e, ERR_NOMEM, safetensors_where(w->files.dir), -1, "a row");
    for (int i = 0; i < w->n && s == ERR_OK; i++) {
        const weights_item *it = &w->items[i];
        if (!strstr(it->name, ".A_log")) continue;
        tensor_row_f32(&it->t, 0, row);
        for (int h = 0; h < a->gdn_Hv && s == ERR_OK; h++)
            if (!(row[h] < 0))
                s = err_set(e, ERR_FORMAT, safetensors_where(it->path), -1,
                            "tensor '%.60s' holds %g at head %d, where -exp(A) is negative: was it "
                            "not converted?",
                            gguf_names_find(it->name).name[0], (double)row[h], h);
    }
    mem_free(row);
    return s;
}

status gguf_weights_open(weights **out, gguf_set *parts, const gguf_config *c, err *e)
{
    const char *path = gguf_path(parts->files[0]);
    weights *w = mem_new(sizeof *w);
    if (!w) return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "out of memory");
    arena_init(&w->files.mem, 0);
    w->files.dir = path;
    w->parts = *parts;
    w->layout = WEIGHTS_LAYOUT_GGUF;
    *parts = (gguf_set){0};
    builder b = {w, c};
    status s = weights_build_all(w, c->is_draft ? NULL : &c->target, &c->draft, build, &b, e);
    if (s == ERR_OK && !c->is_draft) s = check_decay(w, &c->target, e);
    if (s == ERR_OK)
        *out = w;
    else
        weights_close(w);
    return s;
}
