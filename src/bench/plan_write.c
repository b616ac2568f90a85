/* Writing a plan: headers, then every tensor in pieces by all cores, then the index. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/workers.h"
#include "bench/plan_priv.h"

enum { PIECE = 1 << 20, SHARDS_MAX = 64 };

static void shard_name(const plan *p, int shard, char *out, size_t cap)
{
    if (p->n_shards == 1)
        snprintf(out, cap, "model.safetensors");
    else
        snprintf(out, cap, "model-%05d-of-%05d.safetensors", shard + 1, p->n_shards);
}

static void put_tensor(json_writer *w, const plan_tensor *t)
{
    json_key(w, t->name);
    json_open_object(w);
    json_key(w, "dtype");
    json_c_string(w, dtype_name(t->type));
    json_key(w, "shape");
    json_open_array(w);
    for (int d = 0; d < t->n_dims; d++) json_int(w, t->shape[d]);
    json_close_array(w);
    json_key(w, "data_offsets");
    json_open_array(w);
    json_int(w, t->offset);
    json_int(w, t->offset + t->n_bytes);
    json_close_array(w);
    json_close_object(w);
}

static void put_head(const plan *p, int shard, const char *format, buf *out)
{
    json_writer w;
    buf_put(out, "\0\0\0\0\0\0\0\0", 8);
    json_writer_init(&w, out);
    json_open_object(&w);
    if (format) {
        json_key(&w, "__metadata__");
        json_open_object(&w);
        json_key(&w, "format");
        json_c_string(&w, format);
        json_close_object(&w);
    }
    for (int i = 0; i < p->n; i++)
        if (p->list[i].shard == shard) put_tensor(&w, &p->list[i]);
    json_close_object(&w);
    while (!out->failed && out->len % 64 != 0) buf_put_byte(out, ' ');
    uint64_t n = out->len - 8;
    if (!out->failed) memcpy(out->ptr, &n, 8);
}

static bool put_at(int fd, const void *bytes, int64_t n, int64_t at)
{
    const char *from = bytes;
    while (n > 0) {
        ssize_t done = pwrite(fd, from, (size_t)n, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        from += done;
        at += done;
        n -= done;
    }
    return true;
}

/* ---- pieces ------------------------------------------------------------------------------- */

typedef struct {
    int tensor;
    int64_t at, n;
} piece;

typedef struct {
    const plan *p;
    const piece *pieces;
    int fd[SHARDS_MAX];
    int64_t data_at[SHARDS_MAX];
    uint8_t *room; /* PIECE a worker */
    int reason;    /* errno of some worker that failed, else 0 */
} writing;

static void write_pieces(void *ctx, int64_t begin, int64_t end, int worker)
{
    writing *w = ctx;
    uint8_t *room = w->room + (int64_t)worker * PIECE;
    for (int64_t i = begin; i < end; i++) {
        if (__atomic_load_n(&w->reason, __ATOMIC_RELAXED)) return;
        const piece *c = &w->pieces[i];
        const plan_tensor *t = &w->p->list[c->tensor];
        plan_fill(t, c->at, c->n, room);
        if (!put_at(w->fd[t->shard], room, c->n, w->data_at[t->shard] + t->offset + c->at))
            __atomic_store_n(&w->reason, errno ? errno : EIO, __ATOMIC_RELAXED);
    }
}

static piece *cut_pieces(const plan *p, int64_t *count)
{
    int64_t n = 0;
    for (int i = 0; i < p->n; i++) n += (p->list[i].n_bytes + PIECE - 1) / PIECE;
    piece *list = mem_new_array((size_t)n + 1, sizeof *list);
    *count = 0;
    for (int i = 0; list && i < p->n; i++)
        for (int64_t at = 0; at < p->list[i].n_bytes; at += PIECE) {
            int64_t left = p->list[i].n_bytes - at;
            list[(*count)++] = (piece){i, at, left < PIECE ? left : PIECE};
        }
    return list;
}

static status write_data(writing *w, const char *dir, err *e)
{
    workers *pool = NULL;
    int64_t n;
    TRY(workers_open(&pool, 0, e));
    piece *pieces = cut_pieces(w->p, &n);
    w->room = mem_new((size_t)workers_count(pool) * PIECE);
    w->pieces = pieces;
    status s = ERR_OK;
    if (!pieces || !w->room)
        s = err_set(e, ERR_NOMEM, dir, -1, "out of memory for %ld pieces", (long)n);
    else
        workers_for(pool, n, 1, write_pieces, w);
    if (s == ERR_OK && w->reason)
        s = err_set(e, ERR_IO, dir, -1, "cannot write: %s", strerror(w->reason));
    mem_free(w->room);
    mem_free(pieces);
    workers_close(pool);
    return s;
}

/* ---- files -------------------------------------------------------------------------------- */

static status open_shard(writing *w, int shard, const char *dir, const char *format, err *e)
{
    char name[64], path[4096];
    buf head;
    shard_name(w->p, shard, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    w->fd[shard] = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (w->fd[shard] < 0) return err_set(e, ERR_IO, path, -1, "cannot create: %s", strerror(errno));
    buf_init(&head);
    put_head(w->p, shard, format, &head);
    status s = ERR_OK;
    if (head.failed)
        s = err_set(e, ERR_NOMEM, path, -1, "out of memory for the header");
    else if (!put_at(w->fd[shard], head.ptr, (int64_t)head.len, 0))
        s = err_set(e, ERR_IO, path, -1, "cannot write: %s", strerror(errno));
    w->data_at[shard] = (int64_t)head.len;
    buf_fini(&head);
    return s;
}

static void remove_shard(const plan *p, int shard, const char *dir)
{
    char name[64], path[4096];
    shard_name(p, shard, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
}

static status write_index(const plan *p, const char *dir, err *e)
{
    char name[64], path[4096];
    buf out;
    json_writer w;
    if (p->n_shards == 1) return ERR_OK;
    buf_init(&out);
    json_writer_init(&w, &out);
    json_open_object(&w);
    json_key(&w, "metadata");
    json_open_object(&w);
    json_key(&w, "total_size");
    json_int(&w, p->n_bytes);
    json_close_object(&w);
    json_key(&w, "weight_map");
    json_open_object(&w);
    for (int i = 0; i < p->n; i++) {
        shard_name(p, p->list[i].shard, name, sizeof name);
        json_key(&w, p->list[i].name);
        json_c_string(&w, name);
    }
    json_close_object(&w);
    json_close_object(&w);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
    status s = out.failed ? err_set(e, ERR_NOMEM, path, -1, "out of memory for the index")
                          : file_write(path, buf_str(&out), e);
    buf_fini(&out);
    return s;
}

status plan_write(const plan *p, const char *dir, const char *format, err *e)
{
    if (p->failed) return err_set(e, ERR_NOMEM, dir, -1, "out of memory for the list of tensors");
    if (p->n_shards > SHARDS_MAX)
        return err_set(e, ERR_INVALID, dir, -1, "%d files, at most %d", p->n_shards, SHARDS_MAX);
    writing w = {.p = p};
    for (int i = 0; i < p->n_shards; i++) w.fd[i] = -1;
    status s = ERR_OK;
    for (int i = 0; i < p->n_shards && s == ERR_OK; i++) s = open_shard(&w, i, dir, format, e);
    if (s == ERR_OK) s = write_data(&w, dir, e);
    for (int i = 0; i < p->n_shards; i++)
        if (w.fd[i] >= 0 && close(w.fd[i]) != 0 && s == ERR_OK)
            s = err_set(e, ERR_IO, dir, -1, "cannot write: %s", strerror(errno));
    if (s == ERR_OK) s = write_index(p, dir, e);
    for (int i = 0; i < p->n_shards && s != ERR_OK; i++)
        if (w.fd[i] >= 0) remove_shard(p, i, dir);
    return s;
}
