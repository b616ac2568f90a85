#include "load/finite_priv.h"

#include <math.h>

#include "base/mem.h"

/* Of a matrix, evenly over all its rows, the first and the last among them. */
enum { ROWS_READ = 8 };

static int64_t row_length(const tensor *t)
{
    return t->n_dims ? t->shape[t->n_dims - 1] : 1;
}

static int64_t row_count(const tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->n_dims - 1; d++) n *= t->shape[d];
    return n;
}

/* Row i of a vector, a matrix, or a stack of them. */
static void read_row(const tensor *t, int64_t i, float *row)
{
    tensor slice = *t;
    if (t->n_dims == 3) {
        slice = tensor_slice(t, i / t->shape[1]);
        i %= t->shape[1];
    }
    tensor_row_f32(&slice, i, row);
}

static status check_tensor(const weights_item *it, float *row, err *e)
{
    const tensor *t = &it->t;
    int64_t n_rows = row_count(t), n = row_length(t), n_read = ROWS_READ;
    if (n_rows < n_read) n_read = n_rows;
    for (int64_t r = 0; r < n_read; r++) {
        int64_t i = n_read > 1 ? r * (n_rows - 1) / (n_read - 1) : 0;
        read_row(t, i, row);
        for (int64_t k = 0; k < n; k++)
            if (!isfinite(row[k]))
                return err_set(e, ERR_FORMAT, safetensors_where(it->path), -1,
                               "tensor '%.90s' holds %g in row %lld: is the file damaged?",
                               it->name, (double)row[k], (long long)i);
    }
    return ERR_OK;
}

status finite_check(const weights *w, err *e)
{
    int64_t longest = 1;
    for (int i = 0; i < w->n; i++)
        if (row_length(&w->items[i].t) > longest) longest = row_length(&w->items[i].t);
    float *row = mem_new_array((size_t)longest, sizeof *row);
    status s = row ? ERR_OK : err_set(e, ERR_NOMEM, safetensors_where(w->files.dir), -1, "a row");
    for (int i = 0; i < w->n && s == ERR_OK; i++) s = check_tensor(&w->items[i], row, e);
    mem_free(row);
    return s;
}
