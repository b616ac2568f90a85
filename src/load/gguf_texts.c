#include "load/gguf_texts_priv.h"

#include "load/gguf_keys_priv.h"
#include "load/safetensors_priv.h"

/* Real files have 250,000 of each in 4 MB; a hostile one must not make us take 100 MB, with its own
 * bytes, which are in memory as we read them. */
enum {
    PIECES_MOST = 1 << 19,
    MERGES_MOST = 1 << 19,
    TEXT_MOST = 12 << 20,
    TEMPLATE_MOST = 4 << 20
};

static status fail_memory(const gguf *g, err *e)
{
    return err_set(e, ERR_NOMEM, safetensors_where(gguf_path(g)), -1, "out of memory");
}

/* The strings of an array: one copy of its bytes, and slices of that. */
static status copy_strings(gguf_keys *k, load_model *m, const char *key, int most, const str **out,
                           int *n)
{
    const gguf_value *v = gguf_keys_find(k, key);
    if (!v) return k->s;
    if (!v->is_array || v->type != GGUF_STRING || v->n > most || v->n_bytes > TEXT_MOST) {
        gguf_keys_fail(k, ERR_FORMAT, key, "must be a list of at most %d strings of %d bytes", most,
                       TEXT_MOST);
        return k->s;
    }
    gguf_value copy = *v;
    str *list = arena_new_array(&m->mem, (size_t)v->n, sizeof *list);
    copy.data = (const uint8_t *)arena_copy(&m->mem, v->data, (size_t)v->n_bytes);
    if (!list || !copy.data) return fail_memory(k->g, k->e);
    int64_t at = 0;
    for (int64_t i = 0; i < v->n; i++) list[i] = gguf_next_string(&copy, &at);
    *out = list;
    *n = (int)v->n;
    return ERR_OK;
}

static status copy_types(gguf_keys *k, load_model *m, int n_pieces, const int32_t **out)
{
    int *types = arena_new_array(&m->mem, (size_t)n_pieces, sizeof *types);
    if (!types) return fail_memory(k->g, k->e);
    int n = gguf_keys_ints(k, "token_type", 0, 1000, n_pieces, types);
    if (n != n_pieces)
        gguf_keys_fail(k, ERR_FORMAT, "token_type", "has %d entries for %d tokens", n < 0 ? 0 : n,
                       n_pieces);
    *out = types;
    return k->s;
}

/* The text of the token whose id stands under `key`. */
static void find_token(gguf_keys *k, const char *key, const load_tokenizer *t, str *out)
{
    int id;
    if (gguf_keys_int(k, key, 0, INT32_MAX, &id) && id < t->n_pieces) *out = t->pieces[id];
}

static status copy_text(gguf_keys *k, load_model *m, const char *key, size_t most, str *out)
{
    str text;
    if (!gguf_keys_str(k, key, &text)) return k->s;
    if (text.len > most) gguf_keys_fail(k, ERR_FORMAT, key, "is longer than %zu bytes", most);
    if (k->s != ERR_OK) return k->s;
    const char *p = arena_copy(&m->mem, text.ptr, text.len);
    if (!p) return fail_memory(k->g, k->e);
    *out = (str){p, text.len};
    return ERR_OK;
}

static status read_tokens(gguf_keys *k, load_model *m, load_tokenizer *t)
{
    str model = {"", 0};
    TRY(copy_strings(k, m, "tokens", PIECES_MOST, &t->pieces, &t->n_pieces));
    if (t->n_pieces == 0) return ERR_OK;
    if (!gguf_keys_str(k, "model", &model) || !str_is(model, "gpt2"))
        gguf_keys_fail(k, ERR_UNSUPPORTED, "model",
                       "is '%.*s': only gpt2 (byte-level BPE) is known",
                       model.len > 40 ? 40 : (int)model.len, model.ptr);
    TRY(k->s);
    TRY(copy_types(k, m, t->n_pieces, &t->types));
    TRY(copy_strings(k, m, "merges", MERGES_MOST, &t->merges, &t->n_merges));
    TRY(copy_text(k, m, "pre", 64, &t->pretokenizer));
    find_token(k, "bos_token_id", t, &m->bos_token);
    find_token(k, "eos_token_id", t, &m->eos_token);
    return k->s;
}

status gguf_texts_read(load_model *m, const gguf *g, err *e)
{
    gguf_keys k, top;
    load_tokenizer t = {.pretokenizer = STR("")};
    gguf_keys_init(&k, g, "tokenizer.ggml.", e);
    gguf_keys_init(&top, g, "tokenizer.", e);
    TRY(read_tokens(&k, m, &t));
    TRY(copy_text(&top, m, "chat_template", TEMPLATE_MOST, &m->chat_template));
    m->tokenizer = t;
    return ERR_OK;
}
