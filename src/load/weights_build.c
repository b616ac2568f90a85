/* From the forms in which checkpoints store a weight to the one that weights.h promises. */
#include <stdio.h>

#include "load/small_float_priv.h"
#include "load/weights_priv.h"

enum { PATH_MOST = 160 };

static status fail_item(const checkpoint_item *it, const tensor *want, err *e)
{
    char has[96], wants[96];
    return err_set(e, ERR_FORMAT, safetensors_where(safetensors_path(it->file)), -1,
                   "tensor '%.80s' is %s, want %s", it->name,
                   tensor_format(&it->t, has, sizeof has),
                   tensor_format(want, wants, sizeof wants));
}

static status fail_missing(const weights *w, const char *name, err *e)
{
    const checkpoint *c = &w->files;
    const char *where = c->n_files == 1 ? safetensors_path(c->files[0]) : c->dir;
    return err_set(e, ERR_FORMAT, safetensors_where(where), -1, "tensor '%.100s' is missing", name);
}

static bool has_shape(const tensor *t, int n_dims, const int64_t *shape)
{
    if (t->n_dims != n_dims) return false;
    for (int i = 0; i < n_dims; i++)
        if (t->shape[i] != shape[i]) return false;
    return true;
}

static tensor shape_of(const arch_tensor *want, dtype type)
{
    tensor t = {.type = type, .n_dims = want->n_dims};
    memcpy(t.shape, want->shape, sizeof t.shape);
    return t;
}

static status take_plain(const checkpoint_item *it, const arch_tensor *want, tensor *out, err *e)
{
    if (!dtype_is_float(it->t.type))
        return err_set(e, ERR_FORMAT, safetensors_where(safetensors_path(it->file)), -1,
                       "tensor '%.100s' has dtype %s: a weight is F32, F16 or BF16%s", it->name,
                       dtype_name(it->t.type),
                       it->t.type == DTYPE_U32 ? " unless .scales stand beside it" : "");
    tensor t = shape_of(want, it->t.type);
    if (!has_shape(&it->t, want->n_dims, want->shape)) return fail_item(it, &t, e);
    *out = it->t;
    return ERR_OK;
}

/* A module's tensors: all three when quantised, one when not. */
typedef struct {
    const checkpoint_item *weight, *scales, *biases;
} triplet;

static const checkpoint_item *find_part(const weights *w, const char *module, const char *part)
{
    char name[PATH_MOST];
    snprintf(name, sizeof name, "%s%s", module, part);
    return checkpoint_find(&w->files, name);
}

/* Experts in Hugging Face's files are parameters without ".weight". */
static triplet find_module(const weights *w, const char *module)
{
    triplet m = {find_part(w, module, ".weight"), find_part(w, module, ".scales"),
                 find_part(w, module, ".biases")};
    if (!m.weight) m.weight = find_part(w, module, "");
    return m;
}

static status fail_module(const triplet *m, status s, const char *module, const char *what, err *e)
{
    return err_set(e, s, safetensors_where(safetensors_path(m->scales->file)), -1,
                   "module '%.100s' has .scales, but %s", module, what);
}

static status check_scales(const triplet *m, const arch_tensor *want, int group, err *e)
{
    tensor t = shape_of(want, m->scales->t.type);
    t.shape[t.n_dims - 1] /= group;
    if (!dtype_is_float(t.type)) t.type = DTYPE_BF16;
    if (m->scales->t.type != t.type || !has_shape(&m->scales->t, t.n_dims, t.shape))
        return fail_item(m->scales, &t, e);
    if (m->biases->t.type != t.type || !has_shape(&m->biases->t, t.n_dims, t.shape))
        return fail_item(m->biases, &t, e);
    return ERR_OK;
}

/* A copy in another form; the file's pages are not looked at again. */
static status take_mode(const weights_builder *b, const char *module, const triplet *m,
                        const char *name, const arch_tensor *want, tensor *out, err *e)
{
    char text[64];
    small_float mode = small_float_find(name);
    if (mode == SMALL_NONE) {
        snprintf(text, sizeof text, "mode '%s' is not known", name);
        return fail_module(m, ERR_UNSUPPORTED, module, text, e);
    }
    if (m->biases) return fail_module(m, ERR_FORMAT, module, "its mode has no .biases", e);
    TRY(small_float_take(&b->w->files.mem, mode, m->weight, m->scales, want, out, e));
    weights_forget(b->w, &m->weight->t);
    return ERR_OK;
}

static status take_fp8(const weights_builder *b, const char *module, const triplet *m,
                       const arch_tensor *want, tensor *out, err *e)
{
    const mlx_quant *q = b->quant;
    const checkpoint_item *scales = find_part(b->w, module, ".weight_scale_inv");
    if (!scales || q->fp8_rows == 0)
        return err_set(e, ERR_FORMAT, safetensors_where(safetensors_path(m->weight->file)), -1,
                       "tensor '%.80s' is of 8-bit floats, but %s", m->weight->name,
                       scales ? "config.json has no quantization_config of fp8"
                              : "has no weight_scale_inv beside it");
    TRY(small_float_take_fp8(&b->w->files.mem, m->weight, scales, q->fp8_rows, q->fp8_columns, want,
                             out, e));
    weights_forget(b->w, &m->weight->t);
    return ERR_OK;
}

static status take_affine(const weights_builder *b, const char *module, const triplet *m,
                          const arch_tensor *want, tensor *out, err *e)
{
    const mlx_quant_row *row = mlx_quant_find(b->quant, module);
    char text[64];
    if (!b->quant->is_present)
        return fail_module(m, ERR_FORMAT, module, "config.json has no quantization", e);
    if (row->is_off) return fail_module(m, ERR_FORMAT, module, "its override is false", e);
    if (!m->weight) return fail_module(m, ERR_FORMAT, module, "no .weight", e);
    if (row->has_mode) return take_mode(b, module, m, row->mode, want, out, e);
    if (!m->biases) return fail_module(m, ERR_FORMAT, module, "no .biases", e);
    int64_t k = want->shape[want->n_dims - 1];
    if (k % row->group != 0) {
        snprintf(text, sizeof text, "groups of %d do not divide its %lld columns", row->group,
                 (long long)k);
        return fail_module(m, ERR_FORMAT, module, text, e);
    }
    tensor codes = shape_of(want, DTYPE_U32);
    codes.shape[codes.n_dims - 1] = k / 32 * row->bits;
    if (m->weight->t.type != DTYPE_U32 || !has_shape(&m->weight->t, codes.n_dims, codes.shape))
        return fail_item(m->weight, &codes, e);
    TRY(check_scales(m, want, row->group, e));
    tensor t = shape_of(want, DTYPE_AFFINE);
    t.data = m->weight->t.data;
    t.n_bytes = m->weight->t.n_bytes;
    t.scales = m->scales->t.data;
    t.biases = m->biases->t.data;
    t.scale_type = m->scales->t.type;
    t.bits = row->bits;
    t.group = row->group;
    *out = t;
    return ERR_OK;
}

/* The module as one tensor, quantised iff its scales exist. */
static status take_module(const weights_builder *b, const char *module, const triplet *m,
                          const arch_tensor *want, tensor *out, err *e)
{
    if (m->scales) return take_affine(b, module, m, want, out, e);
    if (!m->weight) return fail_missing(b->w, want->name, e);
    if (m->weight->t.type == DTYPE_F8_E4M3) return take_fp8(b, module, m, want, out, e);
    return take_plain(m->weight, want, out, e);
}

static const char *path_of(const triplet *m)
{
    return safetensors_path(m->weight->file);
}

static status append(weights *w, const char *name, const char *path, const tensor *t, err *e)
{
    char *copy = arena_copy(&w->files.mem, name, strlen(name));
    if (!copy || w->n == w->cap)
        return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "out of memory");
    w->items[w->n++] = (weights_item){copy, path, *t};
    return ERR_OK;
}

static status build_plain(weights_builder *b, const arch_tensor *want, err *e)
{
    const checkpoint_item *it = checkpoint_find(&b->w->files, want->name);
    tensor t;
    if (!it) return fail_missing(b->w, want->name, e);
    TRY(take_plain(it, want, &t, e));
    return append(b->w, want->name, safetensors_path(it->file), &t, e);
}

/* [C, 1, taps] of Hugging Face and [C, taps, 1] of MLX are the same bytes in the same order. */
static status build_conv(weights_builder *b, const arch_tensor *want, err *e)
{
    const checkpoint_item *it = checkpoint_find(&b->w->files, want->name);
    int64_t C = want->shape[0], taps = want->shape[1];
    arch_tensor hf = {want->name, want->kind, 3, {C, 1, taps}}, mlx = hf;
    mlx.shape[1] = taps;
    mlx.shape[2] = 1;
    tensor t;
    if (!it) return fail_missing(b->w, want->name, e);
    bool is_mlx = has_shape(&it->t, 3, mlx.shape);
    TRY(take_plain(it, is_mlx ? &mlx : &hf, &t, e));
    weights_layout layout = is_mlx ? WEIGHTS_LAYOUT_MLX : WEIGHTS_LAYOUT_HF;
    if (b->w->layout != WEIGHTS_LAYOUT_NONE && b->w->layout != layout)
        return err_set(e, ERR_FORMAT, safetensors_where(safetensors_path(it->file)), -1,
                       "tensor '%.100s' is laid out otherwise than those of earlier layers",
                       it->name);
    b->w->layout = layout;
    t.n_dims = 2;
    t.shape[1] = taps;
    t.shape[2] = 0;
    return append(b->w, want->name, safetensors_path(it->file), &t, e);
}

static status build_linear(weights_builder *b, const arch_tensor *want, err *e)
{
    char module[PATH_MOST];
    snprintf(module, sizeof module, "%.*s", (int)(strlen(want->name) - strlen(".weight")),
             want->name);
    triplet m = find_module(b->w, module);
    tensor t;
    TRY(take_module(b, module, &m, want, &t, e));
    return append(b->w, want->name, path_of(&m), &t, e);
}

/* Copy one expert behind the others; all must be of one kind. */
static bool stack_one(tensor *all, int64_t i, const tensor *one)
{
    bool is_same = all->type == one->type && all->bits == one->bits && all->group == one->group &&
                   all->scale_type == one->scale_type;
    if (!is_same) return false;
    tensor at = tensor_slice(all, i);
    memcpy((void *)(uintptr_t)at.data, one->data, (size_t)one->n_bytes);
    if (one->type != DTYPE_AFFINE) return true;
    size_t n = (size_t)(one->shape[0] * (one->shape[1] / one->group) *
                        (dtype_bits(one->scale_type) / 8));
    memcpy((void *)(uintptr_t)at.scales, one->scales, n);
    memcpy((void *)(uintptr_t)at.biases, one->biases, n);
    return true;
}

/* Room for X experts like `one`. */
static bool new_stack(arena *mem, int64_t X, const tensor *one, tensor *all)
{
    *all = *one;
    all->n_dims = 3;
    all->shape[0] = X;
    all->shape[1] = one->shape[0];
    all->shape[2] = one->shape[1];
    all->n_bytes = X * one->n_bytes;
    all->data = arena_new(mem, (size_t)all->n_bytes);
    if (!all->data) return false;
    if (one->type != DTYPE_AFFINE) return true;
    size_t n = (size_t)(X * one->shape[0] * (one->shape[1] / one->group) *
                        (dtype_bits(one->scale_type) / 8));
    all->scales = arena_new(mem, n);
    all->biases = arena_new(mem, n);
    return all->scales && all->biases;
}

/* A file with a tensor for each expert: the only form that has to be copied. */
static status stack_experts(weights_builder *b, int layer, const char *proj,
                            const arch_tensor *want, err *e)
{
    tensor all = {0};
    const char *path = NULL;
    arch_tensor each = {want->name, ARCH_TENSOR_LINEAR, 2, {want->shape[1], want->shape[2]}};
    for (int64_t i = 0; i < want->shape[0]; i++) {
        char module[PATH_MOST];
        snprintf(module, sizeof module, "layers.%d.mlp.experts.%lld.%s", layer, (long long)i, proj);
        triplet m = find_module(b->w, module);
        tensor one;
        if (!m.weight) return fail_missing(b->w, module, e);
        TRY(take_module(b, module, &m, &each, &one, e));
        if (i == 0) path = path_of(&m);
        if (i == 0 && !new_stack(&b->w->files.mem, want->shape[0], &one, &all))
            return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "out of memory for experts");
        if (!stack_one(&all, i, &one))
            return err_set(e, ERR_FORMAT, safetensors_where(path_of(&m)), -1,
                           "module '%.100s' has another type than expert 0", module);
        weights_forget(b->w, &one);
    }
    return append(b->w, want->name, path, &all, e);
}

/* gate_proj and up_proj are the two halves of the rows of gate_up_proj. */
static status build_fused(weights_builder *b, const char *module, const triplet *m, bool is_up,
                          const arch_tensor *want, err *e)
{
    arch_tensor both = *want;
    tensor t;
    both.shape[1] *= 2;
    TRY(take_module(b, module, m, &both, &t, e));
    int64_t half = want->shape[1];
    t = tensor_slice_rows(&t, is_up ? half : 0, is_up ? 2 * half : half);
    return append(b->w, want->name, path_of(m), &t, e);
}

/* want->name is layers.N.mlp.experts.P_proj.weight. */
static status build_experts(weights_builder *b, const arch_tensor *want, err *e)
{
    int layer = 0;
    char proj[16], module[4][PATH_MOST];
    if (sscanf(want->name, "layers.%d.mlp.experts.%15[a-z_]", &layer, proj) != 2)
        return fail_missing(b->w, want->name, e);
    bool is_up = strcmp(proj, "up_proj") == 0, is_half = is_up || strcmp(proj, "gate_proj") == 0;
    snprintf(module[0], PATH_MOST, "layers.%d.mlp.switch_mlp.%s", layer, proj);
    snprintf(module[1], PATH_MOST, "layers.%d.mlp.experts.%s", layer, proj);
    snprintf(module[2], PATH_MOST, "layers.%d.mlp.experts.gate_up_proj", layer);
    snprintf(module[3], PATH_MOST, "layers.%d.mlp.experts.0.%s", layer, proj);
    int found = -1;
    triplet m = {0};
    for (int i = 0; i < 4; i++) {
        triplet at = find_module(b->w, module[i]);
        if (!at.weight || (i == 2 && !is_half)) continue;
        if (found >= 0)
            return err_set(e, ERR_FORMAT, safetensors_where(path_of(&at)), -1,
                           "'%.100s' and '%.100s' hold the same experts", m.weight->name,
                           at.weight->name);
        found = i;
        m = at;
    }
    if (found < 0) return fail_missing(b->w, want->name, e);
    if (found == 2) return build_fused(b, module[2], &m, is_up, want, e);
    if (found == 3) return stack_experts(b, layer, proj, want, e);
    tensor t;
    TRY(take_module(b, module[found], &m, want, &t, e));
    return append(b->w, want->name, path_of(&m), &t, e);
}

status weights_build(void *builder, const arch_tensor *want, err *e)
{
    weights_builder *b = builder;
    switch (want->kind) {
    case ARCH_TENSOR_LINEAR: return build_linear(b, want, e);
    case ARCH_TENSOR_EXPERTS: return build_experts(b, want, e);
    case ARCH_TENSOR_CONV: return build_conv(b, want, e);
    case ARCH_TENSOR_PLAIN: break;
    }
    return build_plain(b, want, e);
}
