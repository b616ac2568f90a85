#include "load/weights_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"

static status count_tensor(void *ctx, const arch_tensor *t, err *e)
{
    (void)t;
    (void)e;
    ++*(int *)ctx;
    return ERR_OK;
}

static status walk_tensors(const arch_target *t, const arch_draft *d, arch_tensor_visit *visit,
                           void *ctx, err *e)
{
    return t ? arch_tensors_target(t, visit, ctx, e) : arch_tensors_draft(d, visit, ctx, e);
}

static int compare_name(const void *a, const void *b)
{
    return strcmp((*(const weights_item *const *)a)->name, (*(const weights_item *const *)b)->name);
}

/* Of scales and biases together. */
static int64_t part_bytes(const tensor *t)
{
    if (t->type != DTYPE_AFFINE) return 0;
    int64_t n = 0;
    tensor_count(t, &n);
    return 2 * (n / t->group) * (dtype_bits(t->scale_type) / 8);
}

int64_t weights_tensor_bytes(const tensor *t)
{
    return t->n_bytes + part_bytes(t);
}

status weights_build_all(weights *w, const arch_target *t, const arch_draft *d,
                         arch_tensor_visit *visit, void *ctx, err *e)
{
    walk_tensors(t, d, count_tensor, &w->cap, e);
    w->items = mem_new_array((size_t)w->cap, sizeof *w->items);
    w->by_name = mem_new_array((size_t)w->cap, sizeof *w->by_name);
    if (!w->items || !w->by_name)
        return err_set(e, ERR_NOMEM, safetensors_where(w->files.dir), -1, "out of memory");
    TRY(walk_tensors(t, d, visit, ctx, e));
    for (int i = 0; i < w->n; i++) {
        w->by_name[i] = &w->items[i];
        w->n_bytes += weights_tensor_bytes(&w->items[i].t);
    }
    qsort(w->by_name, (size_t)w->n, sizeof *w->by_name, compare_name);
    return ERR_OK;
}

static status open_tables(weights *w, hf_config *c, err *e)
{
    if (c->is_tie_disputed) c->target.is_tied = !checkpoint_find(&w->files, "lm_head.weight");
    weights_builder b = {w, &c->quant};
    return weights_build_all(w, c->is_draft ? NULL : &c->target, &c->draft, weights_build, &b, e);
}

status weights_open(weights **out, const char *dir, hf_config *c, err *e)
{
    weights *w = mem_new(sizeof *w);
    if (!w) return err_set(e, ERR_NOMEM, safetensors_where(dir), -1, "out of memory");
    status s = checkpoint_open(&w->files, dir, e);
    if (s == ERR_OK) s = open_tables(w, c, e);
    if (s == ERR_OK)
        *out = w;
    else
        weights_close(w);
    return s;
}

void weights_close(weights *w)
{
    if (!w) return;
    mem_free(w->items);
    mem_free(w->by_name);
    checkpoint_close(&w->files);
    gguf_set_close(&w->parts);
    mem_free(w);
}

static const weights_item *find_item(const weights *w, const char *name)
{
    int from = 0, to = w->n;
    while (from < to) {
        int mid = from + (to - from) / 2, order = strcmp(w->by_name[mid]->name, name);
        if (order == 0) return w->by_name[mid];
        if (order < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return NULL;
}

const tensor *weights_find(const weights *w, const char *name)
{
    const weights_item *it = find_item(w, name);
    return it ? &it->t : NULL;
}

status weights_get(const weights *w, const char *name, int n_dims, const int64_t *shape,
                   tensor *out, err *e)
{
    const weights_item *it = find_item(w, name);
    if (!it)
        return err_set(e, ERR_FORMAT, safetensors_where(w->files.dir), -1,
                       "tensor '%.100s' is missing", name);
    bool is_same = it->t.n_dims == n_dims;
    for (int i = 0; is_same && i < n_dims; i++) is_same = it->t.shape[i] == shape[i];
    if (!is_same) {
        char has[96], wants[96];
        tensor want = {.type = it->t.type, .bits = it->t.bits, .group = it->t.group};
        want.n_dims = n_dims < TENSOR_DIMS_MAX ? n_dims : TENSOR_DIMS_MAX;
        for (int i = 0; i < want.n_dims; i++) want.shape[i] = shape[i];
        return err_set(
            e, ERR_FORMAT, safetensors_where(it->path), -1, "tensor '%.80s' is %s, want %s", name,
            tensor_format(&it->t, has, sizeof has), tensor_format(&want, wants, sizeof wants));
    }
    *out = it->t;
    return ERR_OK;
}

int weights_count(const weights *w)
{
    return w->n;
}

const char *weights_name(const weights *w, int i, const tensor **t)
{
    if (t) *t = &w->items[i].t;
    return w->items[i].name;
}

int64_t weights_bytes(const weights *w)
{
    return w->n_bytes;
}

const char *weights_file(const weights *w, const char *name)
{
    const weights_item *it = find_item(w, name);
    return it ? it->path : w->files.dir;
}

void weights_expect(const tensor *t)
{
    if (t->slice_stride) {
        for (int64_t i = 0; i < t->shape[0]; i++) {
            tensor s = tensor_slice(t, i);
            weights_expect(&s);
        }
        return;
    }
    file_expect(t->data, t->n_bytes);
    if (t->type != DTYPE_AFFINE) return;
    file_expect(t->scales, part_bytes(t) / 2);
    file_expect(t->biases, part_bytes(t) / 2);
}

static void forget_range(const weights *w, const void *p, int64_t n_bytes)
{
    for (int i = 0; i < w->files.n_files; i++)
        if (safetensors_forget(w->files.files[i], p, n_bytes)) return;
    gguf_set_forget(&w->parts, p, n_bytes);
}

void weights_forget(const weights *w, const tensor *t)
{
    if (t->slice_stride) {
        for (int64_t i = 0; i < t->shape[0]; i++) {
            tensor s = tensor_slice(t, i);
            weights_forget(w, &s);
        }
        return;
    }
    forget_range(w, t->data, t->n_bytes);
    if (t->type != DTYPE_AFFINE) return;
    forget_range(w, t->scales, part_bytes(t) / 2);
    forget_range(w, t->biases, part_bytes(t) / 2);
}
