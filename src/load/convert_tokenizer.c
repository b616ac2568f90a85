#include <stdio.h>

#include "base/json.h"
#include "load/convert_priv.h"

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, DEPTH_MOST = 32 };

typedef struct {
    arena mem;
    const load_model *m;
    str *pieces;
    int32_t *types;
    int n;
    str *merges;
    int n_merges;
    err *e;
} tokens;

static status fail(const tokens *t, status s, const char *what)
{
    return err_set(t->e, s, "tokenizer.json", -1, "%s", what);
}

/* Every id of the embedding is a token in a GGUF file; those that stand for nothing are unused. */
static status fill_unused(tokens *t)
{
    t->n = t->m->target.V;
    t->pieces = arena_new_array(&t->mem, (size_t)t->n, sizeof *t->pieces);
    t->types = arena_new_array(&t->mem, (size_t)t->n, sizeof *t->types);
    if (!t->pieces || !t->types) return fail(t, ERR_NOMEM, "out of memory");
    for (int i = 0; i < t->n; i++) {
        char text[24];
        int len = snprintf(text, sizeof text, "[PAD%d]", i);
        t->pieces[i] = (str){arena_copy(&t->mem, text, (size_t)len), (size_t)len};
        t->types[i] = UNUSED;
        if (!t->pieces[i].ptr) return fail(t, ERR_NOMEM, "out of memory");
    }
    return ERR_OK;
}

static status set_piece(tokens *t, const json *id, str text, int type)
{
    int64_t i;
    if (!json_to_int64(id, &i) || i < 0 || i >= t->n)
        return fail(t, ERR_FORMAT, "a token's id is past the embedding's rows");
    t->pieces[i] = text;
    t->types[i] = type;
    return ERR_OK;
}

static status read_pieces(tokens *t, const json *root)
{
    const json *vocab = json_get(json_get(root, "model"), "vocab");
    const json *added = json_get(root, "added_tokens");
    if (!json_is(vocab, JSON_OBJECT)) return fail(t, ERR_FORMAT, "has no vocabulary");
    for (const json *v = vocab->first; v; v = v->next) TRY(set_piece(t, v, v->key, NORMAL));
    for (const json *v = added ? added->first : NULL; v; v = v->next) {
        str text;
        bool is_special = false;
        if (!json_to_str(json_get(v, "content"), &text))
            return fail(t, ERR_FORMAT, "an added token has no content");
        json_to_bool(json_get(v, "special"), &is_special);
        TRY(set_piece(t, json_get(v, "id"), text, is_special ? CONTROL : USER_DEFINED));
    }
    return ERR_OK;
}

/* "left right", or a list of the two. */
static status read_merges(tokens *t, const json *root)
{
    const json *list = json_get(json_get(root, "model"), "merges");
    if (!json_is(list, JSON_ARRAY)) return fail(t, ERR_FORMAT, "has no merges");
    t->merges = arena_new_array(&t->mem, (size_t)list->n, sizeof *t->merges);
    if (!t->merges) return fail(t, ERR_NOMEM, "out of memory");
    for (const json *v = list->first; v; v = v->next) {
        str left, right, *out = &t->merges[t->n_merges++];
        if (json_to_str(v, out)) continue;
        if (!json_to_str(json_at(v, 0), &left) || !json_to_str(json_at(v, 1), &right))
            return fail(t, ERR_FORMAT, "a merge is not two pieces");
        char *text = arena_new(&t->mem, left.len + right.len + 2);
        if (!text) return fail(t, ERR_NOMEM, "out of memory");
        memcpy(text, left.ptr, left.len);
        text[left.len] = ' ';
        memcpy(text + left.len + 1, right.ptr, right.len);
        *out = (str){text, left.len + right.len + 1};
    }
    return ERR_OK;
}

/* The two pre-tokenisers of the family differ by the marks in a word (model-spec 4.5). */
static status put_json(tokens *t, gguf_out_keys *k)
{
    const json *root;
    str text = t->m->tokenizer_json;
    TRY(json_parse(&t->mem, text, "tokenizer.json", DEPTH_MOST, 0, &root, t->e));
    TRY(fill_unused(t));
    TRY(read_pieces(t, root));
    TRY(read_merges(t, root));
    bool has_marks = str_find(text, STR("\\\\p{M}"), 0) >= 0;
    gguf_out_str(k, "tokenizer.ggml.model", STR("gpt2"));
    gguf_out_str(k, "tokenizer.ggml.pre", has_marks ? STR("qwen35") : STR("qwen2"));
    gguf_out_strs(k, "tokenizer.ggml.tokens", t->pieces, t->n);
    gguf_out_ints(k, "tokenizer.ggml.token_type", t->types, t->n);
    gguf_out_strs(k, "tokenizer.ggml.merges", t->merges, t->n_merges);
    return ERR_OK;
}

static void put_arrays(const load_tokenizer *from, gguf_out_keys *k)
{
    gguf_out_str(k, "tokenizer.ggml.model", STR("gpt2"));
    gguf_out_str(k, "tokenizer.ggml.pre", from->pretokenizer);
    gguf_out_strs(k, "tokenizer.ggml.tokens", from->pieces, from->n_pieces);
    gguf_out_ints(k, "tokenizer.ggml.token_type", from->types, from->n_pieces);
    gguf_out_strs(k, "tokenizer.ggml.merges", from->merges, from->n_merges);
}

static void put_ids(const load_model *m, gguf_out_keys *k)
{
    const arch_target *a = &m->target;
    if (a->n_eos > 0) gguf_out_u32(k, "tokenizer.ggml.eos_token_id", (uint32_t)a->eos[0]);
    if (a->n_eos > 1) gguf_out_u32(k, "tokenizer.ggml.eot_token_id", (uint32_t)a->eos[1]);
    if (a->pad_id >= 0) gguf_out_u32(k, "tokenizer.ggml.padding_token_id", (uint32_t)a->pad_id);
    gguf_out_bool(k, "tokenizer.ggml.add_bos_token", false);
}

status convert_put_tokenizer(const load_model *m, gguf_out_keys *k, err *e)
{
    tokens t = {.m = m, .e = e};
    status s = ERR_OK;
    arena_init(&t.mem, 0);
    if (m->tokenizer.n_pieces > 0)
        put_arrays(&m->tokenizer, k);
    else if (m->tokenizer_json.len > 0 && !m->is_draft)
        s = put_json(&t, k);
    if (s == ERR_OK && !m->is_draft) put_ids(m, k);
    if (m->chat_template.len > 0) gguf_out_str(k, "tokenizer.chat_template", m->chat_template);
    arena_fini(&t.mem);
    return s;
}
