#include "token/tokenizer.h"

#include "base/mem.h"
#include "token/byte_alphabet_priv.h"
#include "token/nfc_priv.h"
#include "token/tokenizer_priv.h"

/* Copy the added tokens and index them by content. */
static status copy_added(tokenizer *t, const tokenizer_parts *p, str *patterns, const char *name,
                         err *e)
{
    for (int i = 0; i < p->n_added; i++) {
        added_token *a = &t->added[i];
        *a = p->added[i];
        char *text = arena_copy(&t->texts, a->content.ptr, a->content.len);
        if (!text) return err_set(e, ERR_NOMEM, name, -1, "no memory for the added tokens");
        a->content.ptr = text;
        patterns[i] = a->content;
    }
    t->n_added = p->n_added;
    TRY(added_set_init(&t->all, t->added, patterns, t->n_added, e));
    for (int i = 0; i < t->n_added; i++)
        if (added_set_get(&t->all, t->added[i].content) != &t->added[i])
            return err_set(e, ERR_FORMAT, name, -1, "token %d: a second added token \"%.*s\"",
                           (int)t->added[i].id, STR_ARG(t->added[i].content));
    return ERR_OK;
}

/* An added token whose text is also a piece must have the piece's id: Hugging Face takes the
 * piece's then, so a file that says otherwise contradicts itself. */
static status check_added_ids(const tokenizer *t, char *bytes, const char *name, err *e)
{
    for (int i = 0; i < t->n_added; i++) {
        size_t n;
        if (!byte_alphabet_decode(t->added[i].content, bytes, &n)) continue;
        int32_t id = vocab_find(t->v, (str){bytes, n});
        if (id >= 0 && id != t->added[i].id)
            return err_set(e, ERR_FORMAT, name, -1, "\"%.*s\" is token %d and added token %d",
                           STR_ARG(t->added[i].content), (int)id, (int)t->added[i].id);
    }
    return ERR_OK;
}

/* The set of the tokens that are matched before, or after, normalising. */
static status fill_set(tokenizer *t, added_set *set, bool normalized, str *patterns, err *e)
{
    for (int i = 0; i < t->n_added; i++)
        patterns[i] = t->added[i].normalized == normalized ? t->added[i].content : STR("");
    if (!normalized || !t->normalises)
        return added_set_init(set, t->added, patterns, t->n_added, e);

    nfc_work w = {0};
    buf text;
    buf_init(&text);
    status s = ERR_OK;
    for (int i = 0; i < t->n_added && s == ERR_OK; i++) {
        buf_clear(&text);
        s = nfc_write(&w, patterns[i], &text);
        char *copy = s == ERR_OK ? arena_copy(&t->texts, text.ptr, text.len) : NULL;
        if (!copy) s = err_set(e, ERR_NOMEM, "added tokens", -1, "no memory");
        patterns[i] = (str){copy, text.len};
    }
    buf_fini(&text);
    nfc_work_fini(&w);
    return s == ERR_OK ? added_set_init(set, t->added, patterns, t->n_added, e) : s;
}

static status open_added(tokenizer *t, const tokenizer_parts *p, const char *name, err *e)
{
    size_t longest = 0;
    for (int i = 0; i < p->n_added; i++) {
        if (p->added[i].content.len > longest) longest = p->added[i].content.len;
        t->has_normalized |= p->added[i].normalized;
    }
    char *bytes = mem_new(longest);
    str *patterns = mem_new_array((size_t)p->n_added, sizeof *patterns);
    t->added = mem_new_array((size_t)p->n_added, sizeof *t->added);
    status s = err_set(e, ERR_NOMEM, name, -1, "no memory for %d added tokens", p->n_added);
    if (bytes && patterns && t->added) s = copy_added(t, p, patterns, name, e);
    if (s == ERR_OK) s = check_added_ids(t, bytes, name, e);
    if (s == ERR_OK) s = fill_set(t, &t->plain, false, patterns, e);
    if (s == ERR_OK) s = fill_set(t, &t->normalized, true, patterns, e);
    mem_free(bytes);
    mem_free(patterns);
    return s;
}

static status open_stages(tokenizer *t, const tokenizer_parts *p, const char *name, err *e)
{
    for (int i = 0; i < p->n_splits; i++) {
        split_stage *stage = &t->stages[i];
        stage->kind = pretok_find(p->splits[i]);
        if (stage->kind != PRETOK_REGEX) continue;
        TRY(split_regex_open(&stage->regex, p->splits[i], name, e));
        t->has_regex = true;
    }
    t->n_stages = p->n_splits;
    return ERR_OK;
}

static status open_parts(tokenizer **out, const tokenizer_parts *p, const char *name, err *e)
{
    tokenizer *t = mem_new(sizeof *t);
    if (!t) return err_set(e, ERR_NOMEM, name, -1, "no memory for a tokenizer");
    arena_init(&t->texts, 0);
    t->normalises = p->normalises;
    t->adds_space = p->adds_space;
    status s = vocab_open(&t->v, p->texts, p->flags, p->n_ids, name, e);
    if (s == ERR_OK) s = bpe_open(&t->b, t->v, p->merges, p->n_merges, p->keeps_pieces, name, e);
    if (s == ERR_OK) s = open_added(t, p, name, e);
    if (s == ERR_OK) s = open_stages(t, p, name, e);
    if (s == ERR_OK) s = encode_pool_open(&t->pool, e);
    if (s == ERR_OK)
        *out = t;
    else
        tokenizer_close(t);
    return s;
}

status tokenizer_open(tokenizer **t, str json_text, const char *name, err *e)
{
    arena a;
    tokenizer_parts parts;
    arena_init(&a, 0);
    status s = tokenizer_parts_from_json(&parts, &a, json_text, name, e);
    if (s == ERR_OK) s = open_parts(t, &parts, name, e);
    arena_fini(&a);
    return s;
}

status tokenizer_open_pieces(tokenizer **t, const tokenizer_pieces *p, const char *name, err *e)
{
    arena a;
    tokenizer_parts parts;
    arena_init(&a, 0);
    status s = tokenizer_parts_from_pieces(&parts, &a, p, name, e);
    if (s == ERR_OK) s = open_parts(t, &parts, name, e);
    arena_fini(&a);
    return s;
}

void tokenizer_close(tokenizer *t)
{
    if (!t) return;
    encode_pool_close(t->pool);
    for (int i = 0; i < SPLITS_CAP; i++) split_regex_close(t->stages[i].regex);
    added_set_fini(&t->all);
    added_set_fini(&t->plain);
    added_set_fini(&t->normalized);
    mem_free(t->added);
    arena_fini(&t->texts);
    bpe_close(t->b);
    vocab_close(t->v);
    mem_free(t);
}

status tokenizer_encode_segments(const tokenizer *t, const tokenizer_segment *segments, int n,
                                 int64_t max_tokens, token_ids *ids, err *e)
{
    encode_work *w = encode_pool_take(t->pool);
    if (!w) TRY(encode_work_open(&w, t, e));
    status s = encode_segments(w, segments, n, max_tokens, ids, e);
    encode_pool_give(t->pool, w);
    return s;
}

status tokenizer_encode(const tokenizer *t, str text, bool specials, int64_t max_tokens,
                        token_ids *ids, err *e)
{
    tokenizer_segment segment = {.text = text, .specials = specials};
    return tokenizer_encode_segments(t, &segment, 1, max_tokens, ids, e);
}

int32_t tokenizer_find_added(const tokenizer *t, str content)
{
    const added_token *a = added_set_get(&t->all, content);
    return a ? a->id : -1;
}

const vocab *tokenizer_vocab(const tokenizer *t)
{
    return t->v;
}
