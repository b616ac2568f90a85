#include "load/load.h"

#include <limits.h>
#include <stdlib.h>

#include "base/file.h"
#include "load/finite_priv.h"
#include "load/gguf_texts_priv.h"
#include "load/hf_config_priv.h"
#include "load/norm_offset_priv.h"
#include "load/sidecar_priv.h"
#include "load/weights_priv.h"

enum { CONFIG_MOST = 4 << 20 };

static status fail_memory(const char *path, err *e)
{
    return err_set(e, ERR_NOMEM, safetensors_where(path), -1, "out of memory");
}

/* "OWNER/REPO" for a snapshot of the hub's cache, "…/models--OWNER--REPO/snapshots/<commit>", whose
 * last component says nothing to a person; NULL for another path. */
static const char *take_repository(arena *mem, const char *path)
{
    str s = str_from(path), mark = STR("models--"), dir = STR("/snapshots/");
    while (s.len > 1 && s.ptr[s.len - 1] == '/') s.len--;
    if (s.len < 40 + dir.len || memchr(s.ptr + s.len - 40, '/', 40)) return NULL;
    str folder = str_slice(s, 0, s.len - 40);
    if (!str_ends(folder, dir)) return NULL;
    folder.len -= dir.len;
    size_t from = folder.len;
    while (from > 0 && folder.ptr[from - 1] != '/') from--;
    folder = str_skip(folder, from);
    int64_t dashes = str_starts(folder, mark) ? str_find(folder, STR("--"), mark.len) : -1;
    if (dashes < 0) return NULL;
    char *name = arena_copy(mem, folder.ptr + mark.len, folder.len - mark.len);
    if (!name) return NULL;
    size_t n_owner = (size_t)dashes - mark.len;
    name[n_owner] = '/';
    memmove(name + n_owner + 1, name + n_owner + 2, strlen(name + n_owner + 2) + 1);
    return name;
}

/* The last component, looked up when the path ends in one that says nothing ("." or ".."). */
static const char *take_name(arena *mem, const char *path)
{
    char real[PATH_MAX];
    const char *repository = take_repository(mem, path);
    if (repository) return repository;
    for (int pass = 0; pass < 2; pass++) {
        size_t end = strlen(path);
        while (end > 1 && path[end - 1] == '/') end--;
        size_t from = end;
        while (from > 0 && path[from - 1] != '/') from--;
        str last = {path + from, end - from};
        bool is_name = last.len > 0 && !str_is(last, ".") && !str_is(last, "..");
        if (is_name || !realpath(path, real)) return arena_copy(mem, last.ptr, last.len);
        path = real;
    }
    return arena_copy(mem, "model", 5);
}

/* A GGUF file is known by its first bytes: Ollama keeps such files under a digest. */
static status find_path(load_model *m, const char *path, bool *is_gguf, err *e)
{
    str end = STR(".gguf");
    m->path = arena_copy(&m->mem, path, strlen(path));
    m->name = m->path ? take_name(&m->mem, m->path) : NULL;
    if (!m->name) return fail_memory(path, e);
    const char *where = safetensors_where(path);
    if (file_is_dir(path)) return ERR_OK;
    if (!file_exists(path)) return err_set(e, ERR_IO, where, -1, "there is no such model");
    *is_gguf = str_ends(str_from(path), end) || gguf_has_magic(path);
    if (!*is_gguf)
        return err_set(
            e, ERR_UNSUPPORTED, where, -1,
            "is a file, and no GGUF file: a model is one, or a directory with config.json "
            "and model.safetensors");
    str name = str_from(m->name);
    if (str_ends(name, end)) m->name = arena_copy(&m->mem, name.ptr, name.len - end.len);
    return m->name ? ERR_OK : fail_memory(path, e);
}

static status read_gguf(load_model *m, gguf_set *parts, bool wants_weights, err *e)
{
    gguf_config c;
    TRY(gguf_config_parse(&c, parts, e));
    m->is_draft = c.is_draft;
    m->target = c.target;
    m->draft = c.draft;
    m->sampling = c.sampling;
    m->format = "gguf";
    TRY(gguf_texts_read(m, parts->files[0], e));
    if (!m->is_draft && m->tokenizer.n_pieces > m->target.V)
        return err_set(e, ERR_FORMAT, safetensors_where(m->path), -1,
                       "key 'tokenizer.ggml.tokens' has %d entries, the embedding %d rows",
                       m->tokenizer.n_pieces, m->target.V);
    if (!wants_weights) return ERR_OK;
    TRY(gguf_weights_open(&m->weights, parts, &c, e));
    TRY(finite_check(m->weights, e));
    if (m->is_draft) return norm_offset_check_draft(m->weights, &m->draft, e);
    return norm_offset_find(m->weights, &m->target, &m->target.has_norm_offset, e);
}

static status open_gguf(load_model *m, bool wants_weights, err *e)
{
    gguf_set parts;
    TRY(gguf_set_open(&parts, m->path, e));
    status s = read_gguf(m, &parts, wants_weights, e);
    gguf_set_close(&parts); /* empty when the weights took them over */
    return s;
}

static status read_config(load_model *m, arena *scratch, hf_config *c, err *e)
{
    const char *path = file_join(&m->mem, m->path, "config.json");
    str text;
    if (!path) return fail_memory(m->path, e);
    TRY(file_read(scratch, path, CONFIG_MOST, &text, e));
    scratch->limit = scratch->n_bytes + 16 * text.len + (1 << 20);
    TRY(hf_config_parse(c, scratch, text, path, e));
    m->is_draft = c->is_draft;
    m->target = c->target;
    m->draft = c->draft;
    m->format = c->quant.is_present ? "mlx" : "hf";
    m->target.has_norm_offset = !c->is_draft && !c->quant.is_present;
    return sidecar_read_all(m, e);
}

static status read_weights(load_model *m, hf_config *c, err *e)
{
    TRY(weights_open(&m->weights, m->path, c, e));
    TRY(finite_check(m->weights, e));
    if (m->is_draft) return norm_offset_check_draft(m->weights, &m->draft, e);
    m->target.is_tied = c->target.is_tied;
    TRY(norm_offset_find(m->weights, &m->target, &m->target.has_norm_offset, e));
    /* An unquantised MLX conversion has no other mark in its configuration. */
    if (m->weights->layout == WEIGHTS_LAYOUT_MLX) m->format = "mlx";
    return ERR_OK;
}

static status open_directory(load_model *m, bool wants_weights, err *e)
{
    hf_config c;
    arena scratch;
    arena_init(&scratch, 0);
    status s = read_config(m, &scratch, &c, e);
    if (s == ERR_OK && wants_weights) s = read_weights(m, &c, e);
    arena_fini(&scratch);
    return s;
}

static void init_model(load_model *m)
{
    *m = (load_model){0};
    arena_init(&m->mem, 0);
    m->tokenizer_json = m->chat_template = m->bos_token = m->eos_token = STR("");
    m->tokenizer.pretokenizer = STR("");
}

static status open_model(load_model *out, const char *path, bool wants_weights, err *e)
{
    load_model m;
    bool is_gguf = false;
    init_model(&m);
    status s = find_path(&m, path, &is_gguf, e);
    if (s == ERR_OK && is_gguf)
        s = open_gguf(&m, wants_weights, e);
    else if (s == ERR_OK)
        s = open_directory(&m, wants_weights, e);
    if (s != ERR_OK) {
        load_model_close(&m);
        *out = (load_model){0};
        return s;
    }
    *out = m;
    return ERR_OK;
}

status load_model_open(load_model *m, const char *path, err *e)
{
    return open_model(m, path, true, e);
}

status load_model_peek(load_model *m, const char *path, err *e)
{
    return open_model(m, path, false, e);
}

static status check_types(const gguf_set *parts, err *e)
{
    const gguf *g = parts->files[0];
    for (int i = 0; i < gguf_count(g); i++) {
        const gguf_item *it = gguf_at(g, i);
        /* A vision tower's tensors are not read. */
        bool is_read = strncmp(it->name, "v.", 2) != 0 && strncmp(it->name, "mm.", 3) != 0;
        if (it->t.type == DTYPE_NONE && is_read)
            return err_set(e, ERR_UNSUPPORTED, safetensors_where(gguf_path(g)), -1,
                           "tensor '%.80s' has ggml type %u, which is not known", it->name,
                           (unsigned)it->type_id);
    }
    return ERR_OK;
}

static status peek_head(load_model *m, const char *name, const uint8_t *bytes, int64_t n_bytes,
                        int64_t n_file, bool *is_short, err *e)
{
    gguf_set parts;
    m->path = m->name = arena_copy(&m->mem, name, strlen(name));
    if (!m->path) return fail_memory(name, e);
    TRY(gguf_set_open_head(&parts, name, bytes, n_bytes, n_file, is_short, e));
    status s = check_types(&parts, e);
    if (s == ERR_OK) s = read_gguf(m, &parts, false, e);
    gguf_set_close(&parts);
    return s;
}

status load_model_peek_head(load_model *out, const char *name, const uint8_t *bytes,
                            int64_t n_bytes, int64_t n_file, bool *is_short, err *e)
{
    load_model m;
    init_model(&m);
    status s = peek_head(&m, name, bytes, n_bytes, n_file, is_short, e);
    if (s != ERR_OK) load_model_close(&m);
    *out = m;
    return s;
}

void load_model_close(load_model *m)
{
    if (!m) return;
    weights_close(m->weights);
    arena_fini(&m->mem);
    *m = (load_model){0};
}
