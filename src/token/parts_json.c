/* tokenizer.json to tokenizer_parts. Only what is known to mean what this tokenizer does is let
 * through. `post_processor`, `truncation` and `padding` say how texts become training rows; they
 * are not looked at. */
#include "base/json.h"
#include "token/pretok_priv.h"
#include "token/tokenizer_parts_priv.h"
#include "token/vocab_priv.h"

enum { DEPTH_MOST = 32 };

typedef struct {
    tokenizer_parts *p;
    arena *a;
    const char *name;
    err *e;
    str *texts;     /* [n_ids] */
    uint8_t *flags; /* [n_ids] */
} reader;

#define FAIL(r, code, v, ...) \
    err_set((r)->e, code, (r)->name, (v) ? (long)(v)->pos : -1, __VA_ARGS__)

static bool is_null(const json *v)
{
    return !v || v->kind == JSON_NULL;
}

static bool is_type(const json *object, const char *type)
{
    const json *v = json_get(object, "type");
    return json_is(v, JSON_STRING) && str_is(v->text, type);
}

/* "X of type T is not supported", or whatever stands there instead. */
static status refuse_type(reader *r, const json *v, const char *what)
{
    const json *type = json_get(v, "type");
    str t = json_is(type, JSON_STRING) ? type->text : STR("?");
    if (is_null(v)) return FAIL(r, ERR_UNSUPPORTED, v, "without %s: not supported", what);
    return FAIL(r, ERR_UNSUPPORTED, v, "%s of type \"%.*s\" is not supported", what,
                t.len < 60 ? (int)t.len : 60, t.ptr);
}

static status read_bool(reader *r, const json *object, const char *key, bool *out)
{
    const json *v = json_get(object, key);
    if (json_to_bool(v, out)) return ERR_OK;
    return FAIL(r, ERR_FORMAT, v ? v : object, "\"%s\" must be true or false", key);
}

static status read_id(reader *r, const json *v, const json *parent, int *out)
{
    int64_t id;
    if (json_to_int64(v, &id) && id >= 0 && id < VOCAB_CAP) {
        *out = (int)id;
        return ERR_OK;
    }
    return FAIL(r, ERR_FORMAT, v ? v : parent, "a token id must be a whole number from 0 to %d",
                VOCAB_CAP - 1);
}

/* The largest id, so that the tables can be made. */
static status count_ids(reader *r, const json *pieces, const json *added)
{
    int id, most = -1;
    int64_t n = pieces->n;
    for (const json *v = pieces->first; v; v = v->next) {
        TRY(read_id(r, v, pieces, &id));
        if (id > most) most = id;
    }
    for (const json *v = is_null(added) ? NULL : added->first; v; v = v->next, n++) {
        TRY(read_id(r, json_get(v, "id"), v, &id));
        if (id > most) most = id;
    }
    if (most < 0) return FAIL(r, ERR_FORMAT, pieces, "the vocabulary is empty");
    if (most > 2 * n + 65536)
        return FAIL(r, ERR_FORMAT, pieces, "ids up to %d for only %d tokens", most, (int)n);
    r->p->n_ids = most + 1;
    r->p->texts = r->texts = arena_new_array(r->a, (size_t)most + 1, sizeof *r->texts);
    r->p->flags = r->flags = arena_new_array(r->a, (size_t)most + 1, sizeof *r->flags);
    if (!r->texts || !r->flags) return FAIL(r, ERR_NOMEM, pieces, "no memory for %d ids", most + 1);
    return ERR_OK;
}

static status read_vocab(reader *r, const json *pieces)
{
    int id;
    for (const json *v = pieces->first; v; v = v->next) {
        TRY(read_id(r, v, pieces, &id));
        if (r->flags[id]) return FAIL(r, ERR_FORMAT, v, "two tokens have the id %d", id);
        r->texts[id] = v->key;
        r->flags[id] = VOCAB_MODEL;
    }
    return ERR_OK;
}

/* "a b" or ["a", "b"]. */
static bool read_merge(const json *v, json_kind kind, bpe_merge *m)
{
    if (v->kind != kind) return false;
    if (kind == JSON_STRING) {
        int64_t space = str_find(v->text, STR(" "), 0);
        if (space < 0) return false;
        m->left = str_slice(v->text, 0, (size_t)space);
        m->right = str_skip(v->text, (size_t)space + 1);
        return str_find(m->right, STR(" "), 0) < 0;
    }
    return v->n == 2 && json_to_str(v->first, &m->left) && json_to_str(v->first->next, &m->right);
}

static status read_merges(reader *r, const json *merges)
{
    if (!json_is(merges, JSON_ARRAY))
        return FAIL(r, ERR_FORMAT, merges, "\"merges\" must be a list");
    bpe_merge *list = arena_new_array(r->a, (size_t)merges->n, sizeof *list);
    if (!list) return FAIL(r, ERR_NOMEM, merges, "no memory for %d merges", merges->n);
    json_kind kind = json_is(merges->first, JSON_ARRAY) ? JSON_ARRAY : JSON_STRING;
    int n = 0;
    for (const json *v = merges->first; v; v = v->next) {
        /* Old files begin with the head line of a merges.txt. */
        if (v->kind == JSON_STRING && str_starts(v->text, STR("#version"))) continue;
        if (!read_merge(v, kind, &list[n++]))
            return FAIL(r, ERR_FORMAT, v, "a merge must be %s like the first one",
                        kind == JSON_ARRAY ? "a pair" : "two pieces with a space between,");
    }
    r->p->merges = list;
    r->p->n_merges = n;
    return ERR_OK;
}

/* unk_token, fuse_unk and byte_fallback are about bytes that have no token; all have one. */
static status read_model(reader *r, const json *model, const json *added)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json *pieces = json_get(model, "vocab"), *keeps = json_get(model, "ignore_merges");
    bool is_untyped = json_is(model, JSON_OBJECT) && !json_get(model, "type");
    if (!is_type(model, "BPE") && !is_untyped) return refuse_type(r, model, "a model");
    if (!json_is(pieces, JSON_OBJECT))
        return FAIL(r, ERR_FORMAT, model, "the model's \"vocab\" must be an object");
    for (int i = 0; i < 2; i++) {
        const json *v = json_get(model, affixes[i]);
        if (!is_null(v) && !(json_is(v, JSON_STRING) && v->text.len == 0))
            return FAIL(r, ERR_UNSUPPORTED, v, "\"%s\" is not supported", affixes[i]);
    }
    double dropout = 0;
    const json *v = json_get(model, "dropout");
    if (!is_null(v) && !(json_to_double(v, &dropout) && dropout == 0))
        return FAIL(r, ERR_UNSUPPORTED, v, "\"dropout\" (random merges) is not supported");
    if (!is_null(keeps)) TRY(read_bool(r, model, "ignore_merges", &r->p->keeps_pieces));
    TRY(count_ids(r, pieces, added));
    TRY(read_vocab(r, pieces));
    return read_merges(r, json_get(model, "merges"));
}

static status read_added_token(reader *r, const json *v, added_token *t)
{
    int id;
    TRY(read_id(r, json_get(v, "id"), v, &id));
    t->id = id;
    if (!json_to_str(json_get(v, "content"), &t->content))
        return FAIL(r, ERR_FORMAT, v, "an added token must have a \"content\"");
    TRY(read_bool(r, v, "single_word", &t->single_word));
    TRY(read_bool(r, v, "lstrip", &t->lstrip));
    TRY(read_bool(r, v, "rstrip", &t->rstrip));
    TRY(read_bool(r, v, "normalized", &t->normalized));
    TRY(read_bool(r, v, "special", &t->special));
    str there = r->texts[id];
    if ((r->flags[id] & VOCAB_ADDED) || (r->flags[id] && !str_equal(there, t->content)))
        return FAIL(r, ERR_FORMAT, v, "added token: the id %d is taken by \"%.*s\"", id,
                    there.len < 60 ? (int)there.len : 60, there.ptr);
    r->texts[id] = t->content;
    r->flags[id] |= VOCAB_ADDED | (t->special ? VOCAB_SPECIAL : 0);
    return ERR_OK;
}

static status read_added(reader *r, const json *added)
{
    if (is_null(added)) return ERR_OK;
    added_token *list = arena_new_array(r->a, (size_t)added->n, sizeof *list);
    if (!list) return FAIL(r, ERR_NOMEM, added, "no memory for %d added tokens", added->n);
    for (const json *v = added->first; v; v = v->next) {
        TRY(read_added_token(r, v, &list[r->p->n_added]));
        if (list[r->p->n_added].content.len > 0) r->p->n_added++;
    }
    r->p->added = list;
    return ERR_OK;
}

static status read_normalizer(reader *r, const json *v)
{
    if (is_null(v)) return ERR_OK;
    if (is_type(v, "NFC")) {
        r->p->normalises = true;
        return ERR_OK;
    }
    const json *list = json_get(v, "normalizers");
    if (!is_type(v, "Sequence") || !json_is(list, JSON_ARRAY))
        return refuse_type(r, v, "a normalizer");
    for (const json *item = list->first; item; item = item->next) {
        if (!is_type(item, "NFC")) return refuse_type(r, item, "a normalizer");
        r->p->normalises = true;
    }
    return ERR_OK;
}

static status add_split(reader *r, const json *v, str pattern)
{
    if (r->p->n_splits == SPLITS_CAP)
        return FAIL(r, ERR_UNSUPPORTED, v, "more than %d splits", SPLITS_CAP);
    r->p->splits[r->p->n_splits++] = pattern;
    return ERR_OK;
}

/* "invert" swaps matches and what lies between; isolated, both become words alike. */
static status read_split(reader *r, const json *v)
{
    const json *pattern = json_get(json_get(v, "pattern"), "Regex");
    const json *behavior = json_get(v, "behavior");
    if (!json_is(pattern, JSON_STRING))
        return FAIL(r, ERR_UNSUPPORTED, v, "a split by anything but a Regex is not supported");
    if (!json_is(behavior, JSON_STRING) || !str_is(behavior->text, "Isolated"))
        return FAIL(r, ERR_UNSUPPORTED, v, "a split that is not Isolated is not supported");
    return add_split(r, pattern, pattern->text);
}

static status read_byte_level(reader *r, const json *v)
{
    bool uses_regex = true;
    TRY(read_bool(r, v, "add_prefix_space", &r->p->adds_space));
    if (json_get(v, "use_regex")) TRY(read_bool(r, v, "use_regex", &uses_regex));
    if (r->p->adds_space && r->p->n_splits > 0)
        return FAIL(r, ERR_UNSUPPORTED, v, "a prefix space for each word is not supported");
    return uses_regex ? add_split(r, v, str_from(pretok_gpt2)) : ERR_OK;
}

/* Any number of splits, then ByteLevel. */
static status read_pre_tokenizer(reader *r, const json *v)
{
    if (is_type(v, "ByteLevel")) return read_byte_level(r, v);
    const json *list = json_get(v, "pretokenizers");
    if (!is_type(v, "Sequence") || !json_is(list, JSON_ARRAY))
        return refuse_type(r, v, "a pre_tokenizer");
    for (const json *item = list->first; item; item = item->next) {
        if (is_type(item, "ByteLevel") && !item->next) return read_byte_level(r, item);
        if (!is_type(item, "Split")) return refuse_type(r, item, "a pre_tokenizer");
        TRY(read_split(r, item));
    }
    return FAIL(r, ERR_UNSUPPORTED, v, "a pre_tokenizer that does not end in ByteLevel");
}

status tokenizer_parts_from_json(tokenizer_parts *p, arena *a, str json_text, const char *name,
                                 err *e)
{
    const json *root = NULL;
    tokenizer_parts parts = {0};
    reader r = {.p = &parts, .a = a, .name = name, .e = e};
    TRY(json_parse(a, json_text, name, DEPTH_MOST, 0, &root, e));
    if (!json_is(root, JSON_OBJECT)) return FAIL(&r, ERR_FORMAT, root, "not an object");
    const json *added = json_get(root, "added_tokens"), *decoder = json_get(root, "decoder");
    if (!is_null(added) && !json_is(added, JSON_ARRAY))
        return FAIL(&r, ERR_FORMAT, added, "\"added_tokens\" must be a list");
    TRY(read_model(&r, json_get(root, "model"), added));
    TRY(read_added(&r, added));
    TRY(read_normalizer(&r, json_get(root, "normalizer")));
    TRY(read_pre_tokenizer(&r, json_get(root, "pre_tokenizer")));
    if (!is_type(decoder, "ByteLevel")) return refuse_type(&r, decoder, "a decoder");
    *p = parts;
    return ERR_OK;
}
