#include "load/safetensors_priv.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"

/* The limit of the reference implementation. */
enum { LENGTH_BYTES = 8, HEADER_MOST = 100000000 };

typedef struct {
    const char *name;
    tensor t;
} item;

struct safetensors {
    arena mem; /* names and path */
    file_map map;
    const char *path;
    item *items;          /* by place in the data */
    const item **by_name; /* sorted by bytes */
    int n;
};

const char *safetensors_where(const char *path)
{
    size_t len = strlen(path), room = sizeof((err *)0)->where - 1;
    return len > room ? path + len - room : path;
}

static int compare_place(const void *a, const void *b)
{
    const safetensors_row *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return 0;
}

static int compare_name(const void *a, const void *b)
{
    return strcmp((*(const item *const *)a)->name, (*(const item *const *)b)->name);
}

/* The tensors, sorted by place, must cover [0, n_bytes) without a gap or an overlap. */
static status check_cover(const safetensors_row *rows, int n, int64_t n_bytes, const char *where,
                          err *e)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const safetensors_row *r = &rows[i];
        if (r->end > n_bytes)
            return err_set(e, ERR_FORMAT, where, -1,
                           "tensor '%.100s' ends at byte %lld of the data, of which the file holds "
                           "%lld: is it truncated?",
                           r->name, (long long)r->end, (long long)n_bytes);
        if (r->begin < at)
            return err_set(e, ERR_FORMAT, where, -1, "tensor '%.80s' overlaps tensor '%.80s'",
                           r->name, rows[i - 1].name);
        if (r->begin > at)
            return err_set(e, ERR_FORMAT, where, -1,
                           "tensor '%.100s' leaves a gap of %lld bytes before it", r->name,
                           (long long)(r->begin - at));
        at = r->end;
    }
    if (at != n_bytes)
        return err_set(e, ERR_FORMAT, where, -1, "%lld bytes after the last tensor belong to none",
                       (long long)(n_bytes - at));
    return ERR_OK;
}

static status check_names(const safetensors *s, const char *where, err *e)
{
    for (int i = 1; i < s->n; i++)
        if (strcmp(s->by_name[i - 1]->name, s->by_name[i]->name) == 0)
            return err_set(e, ERR_FORMAT, where, -1, "tensor '%.100s' stands twice",
                           s->by_name[i]->name);
    return ERR_OK;
}

/* Sort the rows and make the two tables of them. */
static status index_rows(safetensors *s, safetensors_row *rows, int n, const uint8_t *data,
                         int64_t n_bytes, const char *where, err *e)
{
    if (n > 0) qsort(rows, (size_t)n, sizeof *rows, compare_place);
    TRY(check_cover(rows, n, n_bytes, where, e));
    s->items = mem_new_array((size_t)n, sizeof *s->items);
    s->by_name = mem_new_array((size_t)n, sizeof *s->by_name);
    if (!s->items || !s->by_name)
        return err_set(e, ERR_NOMEM, where, -1, "out of memory for %d tensors", n);
    for (int i = 0; i < n; i++) {
        const safetensors_row *r = &rows[i];
        tensor *t = &s->items[i].t;
        s->items[i].name = r->name;
        *t = (tensor){.type = r->type, .n_dims = r->n_dims, .n_bytes = r->end - r->begin};
        memcpy(t->shape, r->shape, sizeof t->shape);
        t->data = data + r->begin;
        s->by_name[i] = &s->items[i];
    }
    s->n = n;
    qsort(s->by_name, (size_t)n, sizeof *s->by_name, compare_name);
    return check_names(s, where, e);
}

static status check_length(const uint8_t *bytes, int64_t n_bytes, const char *where, uint64_t *n,
                           err *e)
{
    if (n_bytes < LENGTH_BYTES)
        return err_set(e, ERR_FORMAT, where, -1,
                       "%lld bytes are too few for a safetensors file: is it truncated?",
                       (long long)n_bytes);
    memcpy(n, bytes, LENGTH_BYTES);
    if (*n > HEADER_MOST)
        return err_set(e, ERR_FORMAT, where, 0,
                       "a header of %llu bytes is over the limit of %d: not a safetensors file?",
                       (unsigned long long)*n, HEADER_MOST);
    if ((int64_t)*n > n_bytes - LENGTH_BYTES)
        return err_set(e, ERR_FORMAT, where, 0,
                       "the header has %llu bytes, but only %lld follow: is it truncated?",
                       (unsigned long long)*n, (long long)(n_bytes - LENGTH_BYTES));
    return ERR_OK;
}

static status read_tables(safetensors *s, const uint8_t *bytes, int64_t n_bytes, err *e)
{
    const char *where = safetensors_where(s->path);
    uint64_t n_header = 0;
    TRY(check_length(bytes, n_bytes, where, &n_header, e));
    safetensors_row *rows = NULL;
    int n = 0;
    str text = {(const char *)bytes + LENGTH_BYTES, (size_t)n_header};
    /* Names of a well-formed header are a part of its text; four times is room for alignment. */
    s->mem.limit = s->mem.n_bytes + 4 * text.len + 65536;
    TRY(safetensors_parse_header(&s->mem, text, where, &rows, &n, e));
    int64_t begin = LENGTH_BYTES + (int64_t)n_header;
    status st = index_rows(s, rows, n, bytes + begin, n_bytes - begin, where, e);
    mem_free(rows);
    return st;
}

static status new_file(safetensors **out, const char *path, err *e)
{
    safetensors *s = mem_new(sizeof *s);
    if (!s) return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "out of memory");
    arena_init(&s->mem, 0);
    s->path = arena_copy(&s->mem, path, strlen(path));
    if (!s->path) {
        safetensors_close(s);
        return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "out of memory");
    }
    *out = s;
    return ERR_OK;
}

status safetensors_open_bytes(safetensors **out, const uint8_t *bytes, int64_t n_bytes,
                              const char *name, err *e)
{
    safetensors *s = NULL;
    TRY(new_file(&s, name, e));
    status st = read_tables(s, bytes, n_bytes, e);
    if (st == ERR_OK)
        *out = s;
    else
        safetensors_close(s);
    return st;
}

status safetensors_open(safetensors **out, const char *path, err *e)
{
    safetensors *s = NULL;
    TRY(new_file(&s, path, e));
    status st = file_map_open(&s->map, path, e);
    if (st == ERR_OK) st = read_tables(s, s->map.ptr, s->map.n_bytes, e);
    if (st == ERR_OK)
        *out = s;
    else
        safetensors_close(s);
    return st;
}

void safetensors_close(safetensors *s)
{
    if (!s) return;
    mem_free(s->items);
    mem_free(s->by_name);
    file_map_close(&s->map);
    arena_fini(&s->mem);
    mem_free(s);
}

const tensor *safetensors_find(const safetensors *s, const char *name)
{
    int from = 0, to = s->n;
    while (from < to) {
        int mid = from + (to - from) / 2, order = strcmp(s->by_name[mid]->name, name);
        if (order == 0) return &s->by_name[mid]->t;
        if (order < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return NULL;
}

int safetensors_count(const safetensors *s)
{
    return s->n;
}

const char *safetensors_name(const safetensors *s, int i, const tensor **t)
{
    if (t) *t = &s->items[i].t;
    return s->items[i].name;
}

const char *safetensors_path(const safetensors *s)
{
    return s->path;
}

bool safetensors_forget(const safetensors *s, const void *p, int64_t n_bytes)
{
    const uint8_t *at = p;
    if (!s->map.ptr || at < s->map.ptr || at >= s->map.ptr + s->map.n_bytes) return false;
    file_map_forget(&s->map, at - s->map.ptr, n_bytes);
    return true;
}
