#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "load/safetensors_priv.h"

/* Bytes of a dense tensor, or -1 when the format cannot hold it. */
static int64_t dense_bytes(const tensor *t)
{
    int64_t n, n_bytes;
    if (dtype_bits(t->type) == 0 || t->slice_stride != 0) return -1;
    if (t->n_dims < 0 || t->n_dims > TENSOR_DIMS_MAX || !tensor_count(t, &n)) return -1;
    if (__builtin_mul_overflow(n, dtype_bits(t->type) / 8, &n_bytes)) return -1;
    return n_bytes == 0 || t->data ? n_bytes : -1;
}

static bool is_repeated(const safetensors_entry *list, int i)
{
    for (int j = 0; j < i; j++)
        if (strcmp(list[j].name, list[i].name) == 0) return true;
    return false;
}

static void put_header(json_writer *w, const safetensors_entry *entry, int64_t from, int64_t to)
{
    json_key(w, entry->name);
    json_open_object(w);
    json_key(w, "dtype");
    json_c_string(w, dtype_name(entry->t.type));
    json_key(w, "shape");
    json_open_array(w);
    for (int d = 0; d < entry->t.n_dims; d++) json_int(w, entry->t.shape[d]);
    json_close_array(w);
    json_key(w, "data_offsets");
    json_open_array(w);
    json_int(w, from);
    json_int(w, to);
    json_close_array(w);
    json_close_object(w);
}

/* Length and header, padded with spaces so that the data starts at a multiple of 8. */
static status make_head(const char *path, const safetensors_entry *list, int n, buf *out, err *e)
{
    const char *where = safetensors_where(path);
    json_writer w;
    buf_put(out, "\0\0\0\0\0\0\0\0", 8);
    json_writer_init(&w, out);
    json_open_object(&w);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const char *name = list[i].name;
        int64_t end, n_bytes = dense_bytes(&list[i].t);
        if (n_bytes < 0 || __builtin_add_overflow(at, n_bytes, &end))
            return err_set(e, ERR_INVALID, where, -1, "tensor '%.100s' cannot be written", name);
        if (!name[0] || strcmp(name, "__metadata__") == 0 || is_repeated(list, i))
            return err_set(e, ERR_INVALID, where, -1, "'%.100s' cannot name a tensor here", name);
        put_header(&w, &list[i], at, end);
        at = end;
    }
    json_close_object(&w);
    while (!out->failed && out->len % 8 != 0) buf_put_byte(out, ' ');
    if (out->failed) return err_set(e, ERR_NOMEM, where, -1, "out of memory for the header");
    uint64_t n_header = out->len - 8;
    memcpy(out->ptr, &n_header, 8);
    return ERR_OK;
}

static bool put_all(FILE *f, const buf *head, const safetensors_entry *list, int n)
{
    if (fwrite(head->ptr, 1, head->len, f) != head->len) return false;
    for (int i = 0; i < n; i++) {
        size_t n_bytes = (size_t)dense_bytes(&list[i].t);
        if (n_bytes > 0 && fwrite(list[i].t.data, 1, n_bytes, f) != n_bytes) return false;
    }
    return fflush(f) == 0 && fsync(fileno(f)) == 0;
}

static status write_beside(const char *path, const char *beside, const buf *head,
                           const safetensors_entry *list, int n, err *e)
{
    const char *where = safetensors_where(path);
    FILE *f = fopen(beside, "wb");
    if (!f)
        return err_set(e, ERR_IO, where, -1, "cannot create a file beside it: %s", strerror(errno));
    bool is_ok = put_all(f, head, list, n);
    int reason = errno;
    if (fclose(f) != 0 && is_ok) {
        is_ok = false;
        reason = errno;
    }
    if (is_ok && rename(beside, path) == 0) return ERR_OK;
    if (is_ok) reason = errno;
    unlink(beside);
    return err_set(e, ERR_IO, where, -1, "cannot write: %s", strerror(reason));
}

status safetensors_write(const char *path, const safetensors_entry *list, int n, err *e)
{
    buf head, beside;
    buf_init(&head);
    buf_init(&beside);
    status s = make_head(path, list, n, &head, e);
    if (s == ERR_OK) {
        buf_printf(&beside, "%s.%ld.tmp", path, (long)getpid());
        s = beside.failed ? err_set(e, ERR_NOMEM, safetensors_where(path), -1, "out of memory")
                          : write_beside(path, beside.ptr, &head, list, n, e);
    }
    buf_fini(&head);
    buf_fini(&beside);
    return s;
}
