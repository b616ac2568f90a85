#include "load/gguf_set_priv.h"

#include <stdio.h>

#include "base/file.h"
#include "load/safetensors_priv.h"

static status fail_memory(const char *path, err *e)
{
    return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "out of memory");
}

/* A count of the file's, or `absent` when it has no such key. */
static status read_count(const gguf *g, const char *key, int64_t most, int64_t absent, int64_t *out,
                         err *e)
{
    const gguf_value *v = gguf_find(g, key);
    *out = absent;
    if (!v) return ERR_OK;
    if (v->is_array || !gguf_int_at(v, 0, out) || *out < 0 || *out > most)
        return err_set(e, ERR_FORMAT, safetensors_where(gguf_path(g)), -1,
                       "key '%s' must be a number from 0 to %lld", key, (long long)most);
    return ERR_OK;
}

/* Where "00002-of-00003.gguf" begins at the end of `path` when it says exactly `n` parts. */
static bool find_number(const char *path, int64_t n, size_t *at)
{
    char end[32];
    size_t len = strlen(path);
    snprintf(end, sizeof end, "-of-%05lld.gguf", (long long)n);
    if (!str_ends((str){path, len}, str_from(end)) || len < strlen(end) + 6) return false;
    *at = len - strlen(end) - 5;
    for (size_t i = *at; i < *at + 5; i++)
        if (path[i] < '0' || path[i] > '9') return false;
    return path[*at - 1] == '-';
}

static status open_part(gguf_set *s, const char *path, int i, int64_t n, err *e)
{
    int64_t no, count;
    if (!file_exists(path))
        return err_set(e, ERR_IO, safetensors_where(path), -1, "part %d of %lld is missing", i + 1,
                       (long long)n);
    TRY(gguf_open(&s->files[i], path, e));
    s->n = i + 1;
    TRY(read_count(s->files[i], "split.no", GGUF_PARTS_MOST, -1, &no, e));
    TRY(read_count(s->files[i], "split.count", GGUF_PARTS_MOST, -1, &count, e));
    if (no != i || count != n)
        return err_set(
            e, ERR_FORMAT, safetensors_where(path), -1,
            "keys 'split.no' and 'split.count' say part %lld of %lld, its name %d of %lld",
            (long long)no + 1, (long long)count, i + 1, (long long)n);
    return ERR_OK;
}

/* No tensor may stand in two parts, and none of those that part 1 counts may be missing. */
static status check_parts(const gguf_set *s, err *e)
{
    int64_t want, sum = 0;
    const char *first = safetensors_where(gguf_path(s->files[0]));
    TRY(read_count(s->files[0], "split.tensors.count", INT32_MAX, -1, &want, e));
    for (int i = 0; i < s->n; i++) {
        sum += gguf_count(s->files[i]);
        for (int k = 0; i > 0 && k < gguf_count(s->files[i]); k++) {
            const char *name = gguf_at(s->files[i], k)->name;
            for (int j = 0; j < i; j++)
                if (gguf_find_tensor(s->files[j], name))
                    return err_set(e, ERR_FORMAT, safetensors_where(gguf_path(s->files[i])), -1,
                                   "tensor '%.100s' also stands in part %d", name, j + 1);
        }
    }
    if (want >= 0 && want != sum)
        return err_set(e, ERR_FORMAT, first, -1,
                       "key 'split.tensors.count' is %lld, but the parts have %lld tensors",
                       (long long)want, (long long)sum);
    return ERR_OK;
}

static status open_parts(gguf_set *s, const char *path, int64_t n, err *e)
{
    size_t at;
    if (!find_number(path, n, &at))
        return err_set(e, ERR_FORMAT, safetensors_where(path), -1,
                       "is one of %lld parts: its name must end in -00001-of-%05lld.gguf",
                       (long long)n, (long long)n);
    gguf_close(s->files[0]);
    s->n = 0;
    s->files = arena_new_array(&s->mem, (size_t)n, sizeof *s->files);
    char *name = arena_copy(&s->mem, path, strlen(path));
    if (!s->files || !name) return fail_memory(path, e);
    for (int i = 0; i < (int)n; i++) {
        char number[16];
        snprintf(number, sizeof number, "%05d", i + 1);
        memcpy(name + at, number, 5);
        TRY(open_part(s, name, i, n, e));
    }
    return check_parts(s, e);
}

static status open_files(gguf_set *s, const char *path, err *e)
{
    int64_t n;
    s->files = arena_new_array(&s->mem, 1, sizeof *s->files);
    if (!s->files) return fail_memory(path, e);
    TRY(gguf_open(&s->files[0], path, e));
    s->n = 1;
    TRY(read_count(s->files[0], "split.count", GGUF_PARTS_MOST, 1, &n, e));
    return n > 1 ? open_parts(s, path, n, e) : ERR_OK;
}

status gguf_set_open(gguf_set *s, const char *path, err *e)
{
    *s = (gguf_set){0};
    arena_init(&s->mem, 0);
    status st = open_files(s, path, e);
    if (st != ERR_OK) gguf_set_close(s);
    return st;
}

status gguf_set_open_head(gguf_set *s, const char *name, const uint8_t *bytes, int64_t n_bytes,
                          int64_t n_file, bool *is_short, err *e)
{
    *s = (gguf_set){.is_head = true};
    *is_short = false;
    arena_init(&s->mem, 0);
    s->files = arena_new_array(&s->mem, 1, sizeof *s->files);
    status st = s->files ? gguf_open_head(&s->files[0], bytes, n_bytes, n_file, is_short, name, e)
                         : fail_memory(name, e);
    if (st == ERR_OK)
        s->n = 1;
    else
        gguf_set_close(s);
    return st;
}

void gguf_set_close(gguf_set *s)
{
    for (int i = 0; i < s->n; i++) gguf_close(s->files[i]);
    arena_fini(&s->mem);
    *s = (gguf_set){0};
}

const gguf_item *gguf_set_find(const gguf_set *s, const char *name, const gguf **file)
{
    for (int i = 0; i < s->n; i++) {
        const gguf_item *it = gguf_find_tensor(s->files[i], name);
        if (!it) continue;
        if (file) *file = s->files[i];
        return it;
    }
    return NULL;
}

bool gguf_set_forget(const gguf_set *s, const void *p, int64_t n_bytes)
{
    for (int i = 0; i < s->n; i++)
        if (gguf_forget(s->files[i], p, n_bytes)) return true;
    return false;
}
