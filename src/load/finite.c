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

/* The r-th row to be looked at, of n. */
static int64_t row_at(const tensor *t, int64_t r, int64_t n)
{
    return n > 1 ? r * (row_count(t) - 1) / (n - 1) : 0;
}

static int64_t rows_read(const tensor *t)
{
    return row_count(t) < ROWS_READ ? row_count(t) : ROWS_READ;
}

/* The vector or matrix that row i of a vector, a matrix, or a stack of them lies in, and its row.
 */
static tensor slice_of(const tensor *t, int64_t *i)
{
    if (t->n_dims != 3) return *t;
    tensor slice = tensor_slice(t, *i / t->shape[1]);
    *i %= t->shape[1];
    return slice;
}

/* Rows lie far apart: from a disk they come several times as fast when all are asked for first. */
static void expect_rows(const tensor *t)
{
    for (int64_t r = 0; r < rows_read(t); r++) {
        int64_t i = row_at(t, r, rows_read(t));
        tensor slice = slice_of(t, &i);
        if (slice.n_dims == 2) {
            i = tensor_file_row(&slice, i);
            slice.heads = (tensor_heads){0};
            slice = tensor_rows(&slice, i, i + 1);
        }
        weights_expect(&slice);
    }
}

static status check_tensor(const weights_item *it, float *row, err *e)
{
    const tensor *t = &it->t;
    int64_t n = row_length(t), n_read = rows_read(t);
    for (int64_t r = 0; r < n_read; r++) {
        int64_t i = row_at(t, r, n_read), in_slice = i;
        tensor slice = slice_of(t, &in_slice);
        tensor_row_f32(&slice, in_slice, row);
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
    for (int i = 0; i < w->n && s == ERR_OK; i++) expect_rows(&w->items[i].t);
    for (int i = 0; i < w->n && s == ERR_OK; i++) s = check_tensor(&w->items[i], row, e);
    mem_free(row);
    return s;
}
