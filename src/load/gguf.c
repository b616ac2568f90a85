#include <stdlib.h>

#include "base/asserts.h"
#include "base/file.h"
#include "base/mem.h"
#include "load/gguf_priv.h"
#include "load/safetensors_priv.h"

struct gguf {
    arena mem; /* names and path */
    file_map map;
    const char *path;
    gguf_tables t;
    const gguf_value **by_key; /* sorted by bytes */
    const gguf_item **by_name; /* sorted */
};

static int compare_key(const void *a, const void *b)
{
    return str_compare((*(const gguf_value *const *)a)->key, (*(const gguf_value *const *)b)->key);
}

static int compare_name(const void *a, const void *b)
{
    return strcmp((*(const gguf_item *const *)a)->name, (*(const gguf_item *const *)b)->name);
}

static int compare_place(const void *a, const void *b)
{
    const gguf_item *x = *(const gguf_item *const *)a, *y = *(const gguf_item *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Tensors of known types, sorted by place in `list`, must not share a byte. */
static status check_overlap(const gguf_item **list, int n, const char *where, err *e)
{
    if (n > 0) qsort(list, (size_t)n, sizeof *list, compare_place);
    const gguf_item *last = NULL;
    for (int i = 0; i < n; i++) {
        if (list[i]->t.type == DTYPE_NONE) continue;
        if (last && list[i]->offset - last->offset < last->t.n_bytes)
            return err_set(e, ERR_FORMAT, where, -1, "tensor '%.80s' overlaps tensor '%.80s'",
                           list[i]->name, last->name);
        last = list[i];
    }
    return ERR_OK;
}

static status index_tables(gguf *g, const char *where, err *e)
{
    int n_values = g->t.n_values, n_items = g->t.n_items;
    g->by_key = mem_new_array((size_t)n_values, sizeof *g->by_key);
    g->by_name = mem_new_array((size_t)n_items, sizeof *g->by_name);
    if (!g->by_key || !g->by_name) return err_set(e, ERR_NOMEM, where, -1, "out of memory");
    for (int i = 0; i < n_values; i++) g->by_key[i] = &g->t.values[i];
    for (int i = 0; i < n_items; i++) g->by_name[i] = &g->t.items[i];
    TRY(check_overlap(g->by_name, n_items, where, e));
    if (n_values > 0) qsort(g->by_key, (size_t)n_values, sizeof *g->by_key, compare_key);
    if (n_items > 0) qsort(g->by_name, (size_t)n_items, sizeof *g->by_name, compare_name);
    for (int i = 1; i < n_values; i++)
        if (str_equal(g->by_key[i - 1]->key, g->by_key[i]->key))
            return err_set(e, ERR_FORMAT, where, -1, "key '%.*s' stands twice",
                           g->by_key[i]->key.len > 100 ? 100 : (int)g->by_key[i]->key.len,
                           g->by_key[i]->key.ptr);
    for (int i = 1; i < n_items; i++)
        if (strcmp(g->by_name[i - 1]->name, g->by_name[i]->name) == 0)
            return err_set(e, ERR_FORMAT, where, -1, "tensor '%.100s' stands twice",
                           g->by_name[i]->name);
    return ERR_OK;
}

static status new_file(gguf **out, const char *path, err *e)
{
    const char *where = safetensors_where(path);
    gguf *g = mem_new(sizeof *g);
    if (!g) return err_set(e, ERR_NOMEM, where, -1, "out of memory");
    arena_init(&g->mem, 0);
    g->path = arena_copy(&g->mem, path, strlen(path));
    if (!g->path) {
        gguf_close(g);
        return err_set(e, ERR_NOMEM, where, -1, "out of memory");
    }
    *out = g;
    return ERR_OK;
}

/* Parse into g; closes it on failure. */
static status read_bytes(gguf **out, gguf *g, const uint8_t *bytes, int64_t n_bytes, int64_t n_file,
                         bool *is_short, err *e)
{
    const char *where = safetensors_where(g->path);
    status s = gguf_parse(&g->t, &g->mem, bytes, n_bytes, n_file, is_short, where, e);
    if (s == ERR_OK) s = index_tables(g, where, e);
    if (s == ERR_OK)
        *out = g;
    else
        gguf_close(g);
    return s;
}

status gguf_open_bytes(gguf **out, const uint8_t *bytes, int64_t n_bytes, const char *name, err *e)
{
    bool is_short;
    return gguf_open_head(out, bytes, n_bytes, n_bytes, &is_short, name, e);
}

status gguf_open_head(gguf **out, const uint8_t *bytes, int64_t n_bytes, int64_t n_file,
                      bool *is_short, const char *name, err *e)
{
    gguf *g = NULL;
    *is_short = false;
    TRY(new_file(&g, name, e));
    return read_bytes(out, g, bytes, n_bytes, n_file, is_short, e);
}

status gguf_open(gguf **out, const char *path, err *e)
{
    gguf *g = NULL;
    bool is_short;
    TRY(new_file(&g, path, e));
    status s = file_map_open(&g->map, path, e);
    if (s == ERR_OK)
        return read_bytes(out, g, g->map.ptr, g->map.n_bytes, g->map.n_bytes, &is_short, e);
    gguf_close(g);
    return s;
}

bool gguf_has_magic(const char *path)
{
    file_map map = {0};
    if (file_map_open(&map, path, NULL) != ERR_OK) return false;
    bool has = map.n_bytes >= 4 && memcmp(map.ptr, "GGUF", 4) == 0;
    file_map_close(&map);
    return has;
}

void gguf_close(gguf *g)
{
    if (!g) return;
    mem_free(g->t.values);
    mem_free(g->t.items);
    mem_free(g->by_key);
    mem_free(g->by_name);
    file_map_close(&g->map);
    arena_fini(&g->mem);
    mem_free(g);
}

const char *gguf_path(const gguf *g)
{
    return g->path;
}

const gguf_value *gguf_find(const gguf *g, const char *key)
{
    gguf_value want = {.key = str_from(key)};
    const gguf_value *p = &want, **found = NULL;
    if (g->t.n_values > 0)
        found = bsearch(&p, g->by_key, (size_t)g->t.n_values, sizeof *g->by_key, compare_key);
    return found ? *found : NULL;
}

const gguf_item *gguf_find_tensor(const gguf *g, const char *name)
{
    gguf_item want = {.name = name};
    const gguf_item *p = &want, **found = NULL;
    if (g->t.n_items > 0)
        found = bsearch(&p, g->by_name, (size_t)g->t.n_items, sizeof *g->by_name, compare_name);
    return found ? *found : NULL;
}

int gguf_count_keys(const gguf *g)
{
    return g->t.n_values;
}

const gguf_value *gguf_key_at(const gguf *g, int i)
{
    return &g->t.values[i];
}

int gguf_count(const gguf *g)
{
    return g->t.n_items;
}

const gguf_item *gguf_at(const gguf *g, int i)
{
    return &g->t.items[i];
}

bool gguf_forget(const gguf *g, const void *p, int64_t n_bytes)
{
    const uint8_t *at = p;
    if (!g->map.ptr || at < g->map.ptr || at >= g->map.ptr + g->map.n_bytes) return false;
    file_map_forget(&g->map, at - g->map.ptr, n_bytes);
    return true;
}

str gguf_next_string(const gguf_value *v, int64_t *at)
{
    uint64_t n;
    ASSERT(v->type == GGUF_STRING && *at >= 0 && *at <= v->n_bytes - 8);
    memcpy(&n, v->data + *at, 8);
    str s = {(const char *)v->data + *at + 8, (size_t)n};
    *at += 8 + (int64_t)n;
    return s;
}

bool gguf_int_at(const gguf_value *v, int64_t i, int64_t *out)
{
    if (i < 0 || i >= v->n || v->type == GGUF_STRING) return false;
    int size = gguf_type_bytes(v->type);
    const uint8_t *p = v->data + i * size;
    uint64_t u = 0;
    memcpy(&u, p, (size_t)size); /* the file and this machine are little-endian */
    switch (v->type) {
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64: *out = (int64_t)(u << (64 - 8 * size)) >> (64 - 8 * size); return true;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
    case GGUF_BOOL:
        if (u > INT64_MAX) return false;
        *out = (int64_t)u;
        return true;
    case GGUF_F32:
    case GGUF_F64:
    case GGUF_STRING:
    case GGUF_ARRAY:
    case GGUF_TYPES: break;
    }
    return false;
}
