#include "hub/choose_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include "base/buf.h"
#include "base/json.h"
#include "hub/safe_name_priv.h"

/* Taken when a repository has several files and no variant is named. */
#define VARIANT_DEFAULT "Q4_K_M"

enum { PARTS_MOST = 1024, SHARDS_MOST = 4096 };

static const char *const small_names[] = {"config.json",         "generation_config.json",
                                          "tokenizer.json",      "tokenizer_config.json",
                                          "chat_template.jinja", "preprocessor_config.json",
                                          "vocab.json",          "model.safetensors.index.json"};
enum { N_SMALL = sizeof small_names / sizeof *small_names };

/* A GGUF file's name taken apart: "dir/NAME-Q4_K_M-00001-of-00002.gguf". */
typedef struct {
    str dir;     /* "dir", the last folder, or empty */
    str stem;    /* "NAME-Q4_K_M" */
    int part, n; /* 1 of 2; 1 of 1 when it is whole */
} gguf_name;

static status fail_memory(const char *where, err *e)
{
    return err_set(e, ERR_NOMEM, where, -1, "out of memory");
}

static bool equals(str a, str b)
{
    return a.len == b.len && strncasecmp(a.ptr, b.ptr, a.len) == 0;
}

static bool contains(str s, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.len; i++)
        if (strncasecmp(s.ptr + i, word, n) == 0) return true;
    return false;
}

/* "-00001-of-00002" at the end of a stem. */
static void take_part(gguf_name *g)
{
    enum { LEN = 15 };
    int64_t part, n;
    if (g->stem.len <= LEN) return;
    str end = str_skip(g->stem, g->stem.len - LEN);
    if (end.ptr[0] != '-' || !str_equal(str_slice(end, 6, 10), STR("-of-"))) return;
    if (!str_to_int64(str_slice(end, 1, 6), &part) || !str_to_int64(str_skip(end, 10), &n)) return;
    if (part < 1 || part > n || n > PARTS_MOST) return;
    g->part = (int)part;
    g->n = (int)n;
    g->stem.len -= LEN;
}

/* False for what is no model's file. */
static bool parse_gguf(const char *path, gguf_name *g)
{
    str s = str_from(path);
    *g = (gguf_name){.part = 1, .n = 1};
    if (s.len < 6 || !equals(str_skip(s, s.len - 5), STR(".gguf"))) return false;
    s.len -= 5;
    size_t from = s.len;
    while (from > 0 && s.ptr[from - 1] != '/') from--;
    g->stem = str_skip(s, from);
    if (from > 0) {
        size_t end = from - 1, begin = end;
        while (begin > 0 && s.ptr[begin - 1] != '/') begin--;
        g->dir = str_slice(s, begin, end);
    }
    take_part(g);
    return !contains(g->stem, "mmproj") && !contains(g->stem, "imatrix");
}

/* "NAME-Q4_K_M", also "NAME.Q4_K_M" and a folder "Q4_K_M". */
static bool has_variant(const gguf_name *g, str variant)
{
    if (equals(g->stem, variant) || equals(g->dir, variant)) return true;
    if (g->stem.len <= variant.len) return false;
    size_t at = g->stem.len - variant.len;
    char before = g->stem.ptr[at - 1];
    return equals(str_skip(g->stem, at), variant) &&
           (before == '-' || before == '.' || before == '_');
}

/* The first parts that fit, best first: the shortest stem ("NAME-Q4_K_M" before "NAME-UD-Q4_K_M").
 */
static int find_gguf(const listing *l, str variant, int *n_fitting)
{
    int best = -1, n = 0;
    size_t shortest = SIZE_MAX;
    for (int i = 0; i < l->n; i++) {
        gguf_name g;
        if (!parse_gguf(l->files[i].path, &g) || g.part != 1) continue;
        if (variant.len > 0 && !has_variant(&g, variant)) continue;
        if (g.stem.len < shortest) {
            shortest = g.stem.len;
            best = i;
            n = 1;
        } else if (g.stem.len == shortest || variant.len == 0) {
            n++;
        }
    }
    *n_fitting = n;
    return best;
}

static int count_gguf(const listing *l)
{
    gguf_name g;
    int n = 0;
    for (int i = 0; i < l->n; i++) n += parse_gguf(l->files[i].path, &g) && g.part == 1;
    return n;
}

/* What there is to choose from, for the message. */
static status fail_variant(const listing *l, const char *variant, const char *where, err *e)
{
    char names[170] = "";
    size_t at = 0;
    for (int i = 0; i < l->n; i++) {
        gguf_name g;
        if (!parse_gguf(l->files[i].path, &g) || g.part != 1) continue;
        int n = snprintf(names + at, sizeof names - at, "%s%.*s", at ? ", " : "", STR_ARG(g.stem));
        if (n < 0 || (size_t)n >= sizeof names - at - 5) {
            snprintf(names + at, sizeof names - at, ", …");
            break;
        }
        at += (size_t)n;
    }
    if (!names[0])
        return err_set(e, ERR_INVALID, where, -1,
                       variant[0] ? "has no GGUF files, so no variant can be named"
                                  : "has neither config.json with safetensors nor a GGUF file");
    return err_set(e, ERR_INVALID, where, -1, "%s :VARIANT: %s",
                   variant[0] ? "no or more than one file fits" : "say which by", names);
}

static status take_gguf(choice *c, arena *a, const listing *l, int first, const char *where, err *e)
{
    gguf_name want, g;
    parse_gguf(l->files[first].path, &want);
    size_t n_dir = strlen(l->files[first].path) - strlen(want.stem.ptr);
    c->is_gguf = true;
    c->index = -1;
    c->weights = arena_new_array(a, (size_t)want.n, sizeof *c->weights);
    if (!c->weights) return fail_memory(where, e);
    for (int i = 0; i < want.n; i++) c->weights[i] = -1;
    for (int i = 0; i < l->n; i++) {
        const char *path = l->files[i].path;
        if (!parse_gguf(path, &g) || g.n != want.n || !str_equal(g.stem, want.stem)) continue;
        if (strncmp(path, l->files[first].path, n_dir) != 0 ||
            strlen(path) - strlen(g.stem.ptr) != n_dir)
            continue;
        c->weights[g.part - 1] = i;
    }
    for (int i = 0; i < want.n; i++)
        if (c->weights[i] < 0)
            return err_set(e, ERR_IO, where, -1, "part %d of %d of %.*s is missing", i + 1, want.n,
                           STR_ARG(want.stem));
    c->n_weights = want.n;
    return ERR_OK;
}

static bool has_safetensors(const listing *l)
{
    return listing_find(l, "config.json") >= 0 &&
           (listing_find(l, "model.safetensors") >= 0 ||
            listing_find(l, "model.safetensors.index.json") >= 0);
}

static status take_safetensors(choice *c, arena *a, const listing *l, const char *where, err *e)
{
    c->small = arena_new_array(a, N_SMALL, sizeof *c->small);
    c->weights = arena_new_array(a, 1, sizeof *c->weights);
    if (!c->small || !c->weights) return fail_memory(where, e);
    for (int i = 0; i < N_SMALL; i++) {
        int at = listing_find(l, small_names[i]);
        if (at >= 0) c->small[c->n_small++] = at;
    }
    c->index = listing_find(l, "model.safetensors.index.json");
    if (c->index < 0) c->weights[c->n_weights++] = listing_find(l, "model.safetensors");
    return ERR_OK;
}

status choose_files(choice *out, arena *a, const listing *l, const char *variant, const char *where,
                    err *e)
{
    choice c = {.index = -1};
    int n;
    if (!variant[0] && has_safetensors(l)) {
        TRY(take_safetensors(&c, a, l, where, e));
        *out = c;
        return ERR_OK;
    }
    int first = find_gguf(l, str_from(variant), &n);
    if (!variant[0] && count_gguf(l) > 1) first = find_gguf(l, STR(VARIANT_DEFAULT), &n);
    if (first < 0 || n != 1) return fail_variant(l, variant, where, e);
    TRY(take_gguf(&c, a, l, first, where, e));
    *out = c;
    return ERR_OK;
}

static status add_shard(choice *c, const listing *l, str name, const char *where, err *e)
{
    char path[256];
    if (name.len >= sizeof path || !safe_path(name) || memchr(name.ptr, '/', name.len))
        return err_set(e, ERR_FORMAT, where, -1, "names '%.*s', which is not the name of a shard",
                       name.len > 80 ? 80 : (int)name.len, name.ptr);
    memcpy(path, name.ptr, name.len);
    path[name.len] = '\0';
    int at = listing_find(l, path);
    if (at < 0) return err_set(e, ERR_IO, where, -1, "names '%.100s', which is not there", path);
    /* Neighbours in the map mostly lie in one file. */
    for (int i = c->n_weights - 1; i >= 0; i--)
        if (c->weights[i] == at) return ERR_OK;
    if (c->n_weights == SHARDS_MOST)
        return err_set(e, ERR_FORMAT, where, -1, "names more than %d shards", SHARDS_MOST);
    c->weights[c->n_weights++] = at;
    return ERR_OK;
}

status choose_shards(choice *out, arena *a, const listing *l, str index, const char *where, err *e)
{
    choice c = *out;
    const json *root, *map;
    arena scratch;
    c.n_weights = 0;
    c.weights = arena_new_array(a, SHARDS_MOST, sizeof *c.weights);
    if (!c.weights) return fail_memory(where, e);
    arena_init(&scratch, 16 * index.len + (1 << 20));
    status s = json_parse(&scratch, index, where, 8, 0, &root, e);
    if (s == ERR_OK) {
        map = json_get(root, "weight_map");
        if (!json_is(map, JSON_OBJECT) || map->n == 0)
            s = err_set(e, ERR_FORMAT, where, -1, "has no weight_map");
        for (const json *v = map ? map->first : NULL; v && s == ERR_OK; v = v->next) {
            str name = {"", 0};
            json_to_str(v, &name);
            s = add_shard(&c, l, name, where, e);
        }
    }
    arena_fini(&scratch);
    if (s == ERR_OK) *out = c;
    return s;
}
