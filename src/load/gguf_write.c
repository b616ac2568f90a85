#include "load/gguf_write.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "load/gguf_priv.h"
#include "load/safetensors_priv.h"
#include "tensor/block.h"
#include "tensor/block_encode.h"

/* Bytes that are encoded between two writes, where a row is not larger by itself. */
enum { VERSION = 3, ALIGNMENT = 32, BATCH_BYTES = 1 << 20 };

static void put_u32(buf *b, uint32_t v)
{
    buf_put(b, &v, 4);
}

static void put_u64(buf *b, uint64_t v)
{
    buf_put(b, &v, 8);
}

static void put_text(buf *b, str s)
{
    put_u64(b, s.len);
    buf_put(b, s.ptr, s.len);
}

void gguf_out_init(gguf_out_keys *k)
{
    buf_init(&k->bytes);
    k->n = 0;
}

void gguf_out_fini(gguf_out_keys *k)
{
    buf_fini(&k->bytes);
    k->n = 0;
}

static void begin_key(gguf_out_keys *k, const char *key, gguf_type type)
{
    put_text(&k->bytes, str_from(key));
    put_u32(&k->bytes, type);
    k->n++;
}

static void begin_array(gguf_out_keys *k, const char *key, gguf_type type, int64_t n)
{
    begin_key(k, key, GGUF_ARRAY);
    put_u32(&k->bytes, type);
    put_u64(&k->bytes, (uint64_t)n);
}

void gguf_out_u32(gguf_out_keys *k, const char *key, uint32_t v)
{
    begin_key(k, key, GGUF_U32);
    put_u32(&k->bytes, v);
}

void gguf_out_f32(gguf_out_keys *k, const char *key, float v)
{
    begin_key(k, key, GGUF_F32);
    buf_put(&k->bytes, &v, 4);
}

void gguf_out_bool(gguf_out_keys *k, const char *key, bool v)
{
    begin_key(k, key, GGUF_BOOL);
    buf_put_byte(&k->bytes, v ? 1 : 0);
}

void gguf_out_str(gguf_out_keys *k, const char *key, str v)
{
    begin_key(k, key, GGUF_STRING);
    put_text(&k->bytes, v);
}

void gguf_out_ints(gguf_out_keys *k, const char *key, const int32_t *v, int64_t n)
{
    begin_array(k, key, GGUF_I32, n);
    buf_put(&k->bytes, v, (size_t)n * 4);
}

void gguf_out_strs(gguf_out_keys *k, const char *key, const str *v, int64_t n)
{
    begin_array(k, key, GGUF_STRING, n);
    for (int64_t i = 0; i < n; i++) put_text(&k->bytes, v[i]);
}

/* ---- the file ------------------------------------------------------------------------------- */

static int64_t padded(int64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t n_rows_of(const gguf_out_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->n_dims - 1; d++) n *= t->shape[d];
    return n;
}

static int64_t row_length(const gguf_out_tensor *t)
{
    return t->shape[t->n_dims - 1];
}

static bool is_writable(const gguf_out_tensor *t)
{
    tensor shape = {.n_dims = t->n_dims};
    int64_t n;
    if (!t->name[0] || strlen(t->name) > GGUF_NAME_MOST || !block_can_encode(t->type)) return false;
    if (t->n_dims < 1 || t->n_dims > TENSOR_DIMS_MAX) return false;
    memcpy(shape.shape, t->shape, sizeof shape.shape);
    return tensor_count(&shape, &n) && n > 0 && row_length(t) % dtype_block(t->type) == 0;
}

/* Everything before the data. */
static status make_head(const char *where, const gguf_out_keys *k, const gguf_out_tensor *list,
                        int n, buf *head, err *e)
{
    int64_t offset = 0;
    buf_put(head, "GGUF", 4);
    put_u32(head, VERSION);
    put_u64(head, (uint64_t)n);
    put_u64(head, (uint64_t)k->n);
    buf_put(head, k->bytes.ptr, k->bytes.len);
    for (int i = 0; i < n; i++) {
        const gguf_out_tensor *t = &list[i];
        if (!is_writable(t))
            return err_set(e, ERR_INVALID, where, -1, "tensor '%.80s' cannot be written as %s",
                           t->name, dtype_name(t->type));
        put_text(head, str_from(t->name));
        put_u32(head, (uint32_t)t->n_dims);
        for (int d = t->n_dims - 1; d >= 0; d--) put_u64(head, (uint64_t)t->shape[d]);
        put_u32(head, (uint32_t)gguf_type_id(t->type));
        put_u64(head, (uint64_t)offset);
        offset = padded(offset + n_rows_of(t) * block_row_bytes(t->type, row_length(t)));
    }
    while (!head->failed && head->len % ALIGNMENT != 0) buf_put_byte(head, 0);
    if (head->failed || k->bytes.failed) return err_set(e, ERR_NOMEM, where, -1, "out of memory");
    return ERR_OK;
}

/* What went wrong in one worker. */
typedef struct {
    status s;
    err e;
} failure;

typedef struct {
    FILE *f;
    const char *where;
    const gguf_out_tensor *list;
    workers *pool;
    gguf_out_row *row;
    void *ctx;
    int64_t widest;
    float *values;     /* owned [workers][widest] */
    failure *failures; /* owned [workers] */
    uint8_t *bytes;    /* owned, a batch */
} sink;

static status put_bytes(const sink *s, const void *bytes, size_t n, err *e)
{
    if (fwrite(bytes, 1, n, s->f) == n) return ERR_OK;
    return err_set(e, ERR_IO, s->where, -1, "cannot write: %s", strerror(errno));
}

/* Rows [first, first + n) of tensor i. */
typedef struct {
    const sink *s;
    int i;
    int64_t first;
} batch;

static void encode_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const batch *b = ctx;
    const sink *s = b->s;
    const gguf_out_tensor *t = &s->list[b->i];
    int64_t k = row_length(t), row_bytes = block_row_bytes(t->type, k);
    float *values = s->values + worker * s->widest;
    failure *f = &s->failures[worker];
    for (int64_t r = begin; r < end && f->s == ERR_OK; r++) {
        f->s = s->row(s->ctx, worker, b->i, b->first + r, values, &f->e);
        if (f->s == ERR_OK) block_encode_row(t->type, values, k, s->bytes + r * row_bytes);
    }
}

static status find_failure(const sink *s, err *e)
{
    for (int w = 0; w < workers_count(s->pool); w++) {
        if (s->failures[w].s == ERR_OK) continue;
        if (e) *e = s->failures[w].e;
        return s->failures[w].s;
    }
    return ERR_OK;
}

static status put_tensor(const sink *s, int i, err *e)
{
    static const uint8_t zeros[ALIGNMENT];
    const gguf_out_tensor *t = &s->list[i];
    int64_t n_rows = n_rows_of(t), row_bytes = block_row_bytes(t->type, row_length(t));
    int64_t most = BATCH_BYTES > row_bytes ? BATCH_BYTES / row_bytes : 1;
    for (int64_t r = 0; r < n_rows; r += most) {
        int64_t n = n_rows - r < most ? n_rows - r : most;
        batch b = {s, i, r};
        workers_for(s->pool, n, 1, encode_rows, &b);
        TRY(find_failure(s, e));
        TRY(put_bytes(s, s->bytes, (size_t)(n * row_bytes), e));
    }
    int64_t n = n_rows * row_bytes;
    return put_bytes(s, zeros, (size_t)(padded(n) - n), e);
}

static status put_all(sink *s, const buf *head, int n, err *e)
{
    size_t n_workers = (size_t)workers_count(s->pool);
    s->widest = 1;
    for (int i = 0; i < n; i++)
        if (row_length(&s->list[i]) > s->widest) s->widest = row_length(&s->list[i]);
    size_t widest = (size_t)s->widest;
    s->values = mem_new_array(n_workers, widest * sizeof *s->values);
    s->failures = mem_new_array(n_workers, sizeof *s->failures);
    /* No type takes more than f32. */
    s->bytes = mem_new(widest * 4 > BATCH_BYTES ? widest * 4 : BATCH_BYTES);
    if (!s->values || !s->failures || !s->bytes)
        return err_set(e, ERR_NOMEM, s->where, -1, "out of memory");
    TRY(put_bytes(s, head->ptr, head->len, e));
    for (int i = 0; i < n; i++) TRY(put_tensor(s, i, e));
    if (fflush(s->f) == 0 && fsync(fileno(s->f)) == 0) return ERR_OK;
    return err_set(e, ERR_IO, s->where, -1, "cannot write: %s", strerror(errno));
}

static status write_beside(sink *s, const char *path, const char *beside, const buf *head, int n,
                           err *e)
{
    s->f = fopen(beside, "wb");
    if (!s->f)
        return err_set(e, ERR_IO, s->where, -1, "cannot create a file beside it: %s",
                       strerror(errno));
    status st = put_all(s, head, n, e);
    mem_free(s->values);
    mem_free(s->failures);
    mem_free(s->bytes);
    if (fclose(s->f) != 0 && st == ERR_OK)
        st = err_set(e, ERR_IO, s->where, -1, "cannot write: %s", strerror(errno));
    if (st == ERR_OK && rename(beside, path) != 0)
        st = err_set(e, ERR_IO, s->where, -1, "cannot rename: %s", strerror(errno));
    if (st != ERR_OK) unlink(beside);
    return st;
}

status gguf_write(const char *path, const gguf_out_keys *k, const gguf_out_tensor *list, int n,
                  workers *pool, gguf_out_row *row, void *ctx, err *e)
{
    buf head, beside;
    sink to = {
        .where = safetensors_where(path), .list = list, .pool = pool, .row = row, .ctx = ctx};
    buf_init(&head);
    buf_init(&beside);
    status s = make_head(to.where, k, list, n, &head, e);
    if (s == ERR_OK) {
        buf_printf(&beside, "%s.%ld.tmp", path, (long)getpid());
        s = beside.failed ? err_set(e, ERR_NOMEM, to.where, -1, "out of memory")
                          : write_beside(&to, path, beside.ptr, &head, n, e);
    }
    buf_fini(&head);
    buf_fini(&beside);
    return s;
}
