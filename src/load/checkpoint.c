#include "load/checkpoint_priv.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "load/names_priv.h"

/* An index with one tensor an expert has 11 MB and makes a tree of 25; a hostile one must not make
 * us take 100. */
enum { INDEX_BYTES_MOST = 16 << 20, TREE_BYTES_MOST = 48 << 20 };
enum { FILES_MOST = 4096, NAME_MOST = 255, TENSORS_MOST = 1 << 18 };

static status fail_memory(const char *path, err *e)
{
    return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "out of memory");
}

static status open_file(checkpoint *c, const char *name, err *e)
{
    const char *path = file_join(&c->mem, c->dir, name);
    if (!path) return fail_memory(name, e);
    TRY(safetensors_open(&c->files[c->n_files], path, e));
    c->n_tensors += safetensors_count(c->files[c->n_files++]);
    if (c->n_tensors <= TENSORS_MOST) return ERR_OK;
    return err_set(e, ERR_FORMAT, safetensors_where(path), -1,
                   "with it there are %lld tensors, more "
                   "than %d",
                   (long long)c->n_tensors, TENSORS_MOST);
}

static status open_single(checkpoint *c, err *e)
{
    c->files = arena_new_array(&c->mem, 1, sizeof *c->files);
    if (!c->files) return fail_memory(c->dir, e);
    return open_file(c, "model.safetensors", e);
}

/* A shard's name must stay inside the directory. */
static bool is_shard_name(str s)
{
    return s.len > 0 && s.len <= NAME_MOST && s.ptr[0] != '.' && !memchr(s.ptr, '/', s.len) &&
           !memchr(s.ptr, 0, s.len) && str_ends(s, STR(".safetensors"));
}

typedef struct {
    const char *path; /* of the index */
    const json *map;  /* weight_map */
    str *shards;      /* distinct file names in order of appearance */
    int n;
} shard_list;

static int find_shard(const shard_list *l, str name)
{
    /* Neighbours in the map mostly lie in one file: look at the newest first. */
    for (int i = l->n - 1; i >= 0; i--)
        if (str_equal(l->shards[i], name)) return i;
    return -1;
}

static status list_shards(shard_list *l, arena *scratch, err *e)
{
    const char *where = safetensors_where(l->path);
    l->shards = arena_new_array(scratch, FILES_MOST, sizeof *l->shards);
    if (!l->shards) return fail_memory(l->path, e);
    for (const json *v = l->map->first; v; v = v->next) {
        str name;
        if (!json_to_str(v, &name) || !is_shard_name(name))
            return err_set(e, ERR_FORMAT, where, (long)v->pos,
                           "tensor '%.*s' lies in '%.*s', which is not the name of a shard",
                           v->key.len > 80 ? 80 : (int)v->key.len, v->key.ptr,
                           v->text.len > 80 ? 80 : (int)v->text.len,
                           v->text.len ? v->text.ptr : "");
        if (find_shard(l, name) >= 0) continue;
        if (l->n == FILES_MOST)
            return err_set(e, ERR_FORMAT, where, -1, "more than %d shards", FILES_MOST);
        l->shards[l->n++] = name;
    }
    if (l->n == 0) return err_set(e, ERR_FORMAT, where, -1, "weight_map is empty");
    return ERR_OK;
}

static status open_shards(checkpoint *c, const shard_list *l, err *e)
{
    c->files = arena_new_array(&c->mem, (size_t)l->n, sizeof *c->files);
    if (!c->files) return fail_memory(l->path, e);
    for (int i = 0; i < l->n; i++) {
        char name[NAME_MOST + 1] = {0};
        memcpy(name, l->shards[i].ptr, l->shards[i].len);
        const char *path = file_join(&c->mem, c->dir, name);
        if (!path) return fail_memory(l->path, e);
        if (!file_exists(path))
            return err_set(e, ERR_FORMAT, safetensors_where(l->path), -1,
                           "shard '%.150s' is named here but missing", name);
        TRY(open_file(c, name, e));
    }
    return ERR_OK;
}

/* Every tensor of the index must lie where the index says. */
static status check_index(const checkpoint *c, const shard_list *l, err *e)
{
    for (const json *v = l->map->first; v; v = v->next) {
        char name[1025];
        size_t n = v->key.len;
        int i = find_shard(l, v->text);
        bool is_there = n < sizeof name;
        if (is_there) {
            memcpy(name, v->key.ptr, n);
            name[n] = '\0';
            is_there = safetensors_find(c->files[i], name) != NULL;
        }
        if (!is_there)
            return err_set(e, ERR_FORMAT, safetensors_where(l->path), (long)v->pos,
                           "tensor '%.*s' is not in shard '%.*s'", n > 100 ? 100 : (int)n,
                           v->key.ptr, v->text.len > 80 ? 80 : (int)v->text.len, v->text.ptr);
    }
    return ERR_OK;
}

static status read_index(checkpoint *c, arena *scratch, const char *path, err *e)
{
    str text;
    const json *root;
    shard_list l = {.path = path};
    const char *where = safetensors_where(path);
    TRY(file_read(scratch, path, INDEX_BYTES_MOST, &text, e));
    /* A name and its shard cost one tree node and some 80 bytes of text; a hostile text of many
     * small values must not make a tree much larger than itself. */
    size_t tree = 8 * text.len + (1 << 20);
    scratch->limit = scratch->n_bytes + (tree < TREE_BYTES_MOST ? tree : TREE_BYTES_MOST);
    TRY(json_parse(scratch, text, where, 4, JSON_UNIQUE_KEYS, &root, e));
    l.map = json_get(root, "weight_map");
    if (!json_is(l.map, JSON_OBJECT))
        return err_set(e, ERR_FORMAT, where, -1, "weight_map is missing or not an object");
    TRY(list_shards(&l, scratch, e));
    TRY(open_shards(c, &l, e));
    return check_index(c, &l, e);
}

static int compare_item(const void *a, const void *b)
{
    return strcmp(((const checkpoint_item *)a)->canonical, ((const checkpoint_item *)b)->canonical);
}

static status index_items(checkpoint *c, err *e)
{
    c->items = mem_new_array((size_t)c->n_tensors, sizeof *c->items);
    if (!c->items) return fail_memory(c->dir, e);
    for (int i = 0; i < c->n_files; i++) {
        for (int j = 0; j < safetensors_count(c->files[i]); j++) {
            const tensor *t;
            const char *name = safetensors_name(c->files[i], j, &t);
            const char *canonical = names_canonical(name);
            if (names_is_extra(canonical)) continue;
            c->items[c->n++] = (checkpoint_item){canonical, name, c->files[i], *t};
        }
    }
    qsort(c->items, (size_t)c->n, sizeof *c->items, compare_item);
    for (int i = 1; i < c->n; i++) {
        const checkpoint_item *a = &c->items[i - 1], *b = &c->items[i];
        if (strcmp(a->canonical, b->canonical) == 0)
            return err_set(e, ERR_FORMAT, safetensors_where(safetensors_path(b->file)), -1,
                           "tensor '%.90s' stands twice, also as '%.90s'", b->name, a->name);
    }
    return ERR_OK;
}

static status open_files(checkpoint *c, err *e)
{
    const char *index = file_join(&c->mem, c->dir, "model.safetensors.index.json");
    if (!index) return fail_memory(c->dir, e);
    if (!file_exists(index)) return open_single(c, e);
    arena scratch;
    arena_init(&scratch, 0);
    status s = read_index(c, &scratch, index, e);
    arena_fini(&scratch);
    return s;
}

status checkpoint_open(checkpoint *c, const char *dir, err *e)
{
    *c = (checkpoint){0};
    arena_init(&c->mem, 0);
    c->dir = arena_copy(&c->mem, dir, strlen(dir));
    status s = c->dir ? open_files(c, e) : fail_memory(dir, e);
    if (s == ERR_OK) s = index_items(c, e);
    if (s != ERR_OK) checkpoint_close(c);
    return s;
}

void checkpoint_close(checkpoint *c)
{
    if (!c) return;
    for (int i = 0; i < c->n_files; i++) safetensors_close(c->files[i]);
    mem_free(c->items);
    arena_fini(&c->mem);
    *c = (checkpoint){0};
}

const checkpoint_item *checkpoint_find(const checkpoint *c, const char *canonical)
{
    checkpoint_item key = {.canonical = canonical};
    return c->n ? bsearch(&key, c->items, (size_t)c->n, sizeof key, compare_item) : NULL;
}
