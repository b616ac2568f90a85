#include "load/sidecar_priv.h"

#include "base/file.h"
#include "base/json.h"
#include "load/keys_priv.h"
#include "load/safetensors_priv.h"

enum {
    CONFIG_MOST = 64 << 20, /* tokenizer_config.json may repeat every added token */
    TOKENIZER_MOST = 256 << 20,
    TEMPLATE_MOST = 4 << 20,
    DEPTH_MOST = 64
};

static status fail_memory(const load_model *m, err *e)
{
    return err_set(e, ERR_NOMEM, safetensors_where(m->path), -1, "out of memory");
}

/* Keeps `text` empty when there is no such file. */
static status read_text(load_model *m, const char *name, int64_t most, str *text, err *e)
{
    const char *path = file_join(&m->mem, m->path, name);
    if (!path) return fail_memory(m, e);
    return file_exists(path) ? file_read(&m->mem, path, most, text, e) : ERR_OK;
}

/* *root stays NULL when there is no such file; the tree lives in scratch. */
static status read_json(load_model *m, arena *scratch, const char *name, const char **path,
                        const json **root, err *e)
{
    str text;
    *path = file_join(&m->mem, m->path, name);
    if (!*path) return fail_memory(m, e);
    if (!file_exists(*path)) return ERR_OK;
    TRY(file_read(scratch, *path, CONFIG_MOST, &text, e));
    scratch->limit = scratch->n_bytes + 16 * text.len + (1 << 20);
    TRY(json_parse(scratch, text, safetensors_where(*path), DEPTH_MOST, 0, root, e));
    if ((*root)->kind == JSON_OBJECT) return ERR_OK;
    return err_set(e, ERR_FORMAT, safetensors_where(*path), 0, "must be a JSON object");
}

/* Stop ids of generation_config.json come first, then those already there. */
static void merge_eos(keys *k, arch_target *a)
{
    const json *v = keys_find(k, "eos_token_id");
    int32_t ids[ARCH_EOS_MAX];
    int n = 0;
    const json *item = json_is(v, JSON_ARRAY) ? v->first : v;
    int n_given = json_is(v, JSON_ARRAY) ? v->n : v != NULL;
    for (int i = 0; i < n_given + a->n_eos; i++) {
        int64_t id = i < n_given ? -1 : a->eos[i - n_given];
        bool is_known = false;
        if (i < n_given) {
            if (!json_to_int64(item, &id) || id < 0 || id >= a->V) {
                keys_fail(k, ERR_FORMAT, "eos_token_id", "must be token ids from 0 to %d",
                          a->V - 1);
                return;
            }
            item = item->next;
        }
        for (int j = 0; j < n; j++) is_known |= ids[j] == (int32_t)id;
        if (is_known) continue;
        if (n == ARCH_EOS_MAX) {
            keys_fail(k, ERR_UNSUPPORTED, "eos_token_id",
                      "makes more than %d stop ids with those "
                      "of config.json",
                      ARCH_EOS_MAX);
            return;
        }
        ids[n++] = (int32_t)id;
    }
    memcpy(a->eos, ids, (size_t)n * sizeof *ids);
    a->n_eos = n;
}

static status read_generation(load_model *m, arena *scratch, err *e)
{
    const char *path;
    const json *root = NULL;
    TRY(read_json(m, scratch, "generation_config.json", &path, &root, e));
    if (!root) return ERR_OK;
    keys k;
    arch_sampling s = {0};
    bool samples = true;
    int pad;
    keys_init(&k, root, "", path, e);
    s.has_temperature = keys_double(&k, "temperature", 0, 100, &s.temperature);
    s.has_top_p = keys_double(&k, "top_p", 0, 1, &s.top_p);
    s.has_top_k = keys_int64(&k, "top_k", -1, INT32_MAX, &s.top_k);
    s.has_min_p = keys_double(&k, "min_p", 0, 1, &s.min_p);
    s.has_presence = keys_double(&k, "presence_penalty", -2, 2, &s.presence_penalty);
    s.has_repetition = keys_double(&k, "repetition_penalty", 1e-3, 1e3, &s.repetition_penalty);
    if (s.has_top_k && s.top_k < 0) s.top_k = 0; /* both mean "off" */
    if (keys_bool(&k, "do_sample", &samples) && !samples) {
        s.has_temperature = true;
        s.temperature = 0;
    }
    merge_eos(&k, &m->target);
    if (keys_int(&k, "pad_token_id", -1, m->target.V - 1, &pad) && pad >= 0) m->target.pad_id = pad;
    if (k.s == ERR_OK) m->sampling = s;
    return k.s;
}

static status copy_text(load_model *m, str text, str *out, err *e)
{
    const char *p = arena_copy(&m->mem, text.ptr, text.len);
    if (!p) return fail_memory(m, e);
    *out = (str){p, text.len};
    return ERR_OK;
}

/* A token's text: a string, or an object that has it as `content`. */
static status read_token(load_model *m, const json *root, const char *key, str *out, err *e)
{
    const json *v = json_get(root, key);
    str text;
    if (json_is(v, JSON_OBJECT)) v = json_get(v, "content");
    return json_to_str(v, &text) ? copy_text(m, text, out, e) : ERR_OK;
}

/* chat_template is a string, or a list of {name, template} of which "default" is meant. */
static status read_template(load_model *m, const json *root, err *e)
{
    const json *v = json_get(root, "chat_template");
    str name, text;
    if (json_is(v, JSON_ARRAY)) {
        const json *item = v->first;
        while (item && !(json_to_str(json_get(item, "name"), &name) && str_is(name, "default")))
            item = item->next;
        v = json_get(item, "template");
    }
    return json_to_str(v, &text) ? copy_text(m, text, &m->chat_template, e) : ERR_OK;
}

static status read_tokenizer(load_model *m, arena *scratch, err *e)
{
    const char *path;
    const json *root = NULL;
    TRY(read_text(m, "tokenizer.json", TOKENIZER_MOST, &m->tokenizer_json, e));
    TRY(read_text(m, "chat_template.jinja", TEMPLATE_MOST, &m->chat_template, e));
    TRY(read_json(m, scratch, "tokenizer_config.json", &path, &root, e));
    if (!root) return ERR_OK;
    if (m->chat_template.len == 0) TRY(read_template(m, root, e));
    TRY(read_token(m, root, "bos_token", &m->bos_token, e));
    return read_token(m, root, "eos_token", &m->eos_token, e);
}

status sidecar_read_all(load_model *m, err *e)
{
    arena scratch;
    arena_init(&scratch, 0);
    status s = m->is_draft ? ERR_OK : read_generation(m, &scratch, e);
    arena_fini(&scratch);
    arena_init(&scratch, 0);
    if (s == ERR_OK) s = read_tokenizer(m, &scratch, e);
    arena_fini(&scratch);
    return s;
}
