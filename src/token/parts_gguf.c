/* The arrays of a GGUF file to tokenizer_parts. */
#include "base/utf8.h"
#include "token/pretok_priv.h"
#include "token/tokenizer_parts_priv.h"
#include "token/vocab_priv.h"

enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4, TYPE_UNUSED = 5 };

static status read_pieces(tokenizer_parts *p, arena *a, const tokenizer_pieces *from,
                          const char *name, err *e)
{
    if (from->n_pieces < 1 || from->n_pieces > VOCAB_CAP)
        return err_set(e, ERR_FORMAT, name, -1, "%d tokens, want 1 to %d", from->n_pieces,
                       VOCAB_CAP);
    size_t n = (size_t)from->n_pieces;
    uint8_t *flags = arena_new_array(a, n, sizeof *flags);
    added_token *added = arena_new_array(a, n, sizeof *added);
    if (!flags || !added) return err_set(e, ERR_NOMEM, name, -1, "no memory for %zu tokens", n);
    for (int id = 0; id < from->n_pieces; id++) {
        int type = from->types[id];
        if (type == TYPE_UNUSED) continue;
        if (type == TYPE_NORMAL) {
            flags[id] = VOCAB_MODEL;
            continue;
        }
        if (type != TYPE_CONTROL && type != TYPE_USER_DEFINED)
            return err_set(e, ERR_UNSUPPORTED, name, -1, "token %d is of type %d", id, type);
        if (utf8_check(from->pieces[id]) >= 0)
            return err_set(e, ERR_FORMAT, name, -1, "token %d is ill-formed UTF-8", id);
        flags[id] = VOCAB_ADDED | (type == TYPE_CONTROL ? VOCAB_SPECIAL : 0);
        if (from->pieces[id].len == 0) continue;
        added[p->n_added++] = (added_token){
            .content = from->pieces[id], .id = id, .special = type == TYPE_CONTROL};
    }
    p->n_ids = from->n_pieces;
    p->texts = from->pieces;
    p->flags = flags;
    p->added = added;
    return ERR_OK;
}

static status read_merges(tokenizer_parts *p, arena *a, const tokenizer_pieces *from,
                          const char *name, err *e)
{
    if (from->n_merges < 0) return err_set(e, ERR_FORMAT, name, -1, "%d merges", from->n_merges);
    bpe_merge *list = arena_new_array(a, (size_t)from->n_merges, sizeof *list);
    if (!list) return err_set(e, ERR_NOMEM, name, -1, "no memory for %d merges", from->n_merges);
    for (int i = 0; i < from->n_merges; i++) {
        str text = from->merges[i];
        int64_t space = str_find(text, STR(" "), 0);
        if (space < 0) return err_set(e, ERR_FORMAT, name, -1, "merge %d has no space", i);
        list[i] = (bpe_merge){.left = str_slice(text, 0, (size_t)space),
                              .right = str_skip(text, (size_t)space + 1)};
    }
    p->merges = list;
    p->n_merges = from->n_merges;
    return ERR_OK;
}

status tokenizer_parts_from_pieces(tokenizer_parts *p, arena *a, const tokenizer_pieces *pieces,
                                   const char *name, err *e)
{
    tokenizer_parts parts = {.normalises = true, .n_splits = 1};
    if (str_is(pieces->pretokenizer, "qwen2"))
        parts.splits[0] = pretok_pattern(PRETOK_QWEN2);
    else if (str_is(pieces->pretokenizer, "qwen35"))
        parts.splits[0] = pretok_pattern(PRETOK_QWEN35);
    else
        return err_set(e, ERR_UNSUPPORTED, name, -1, "pre-tokeniser \"%.*s\"",
                       STR_ARG(pieces->pretokenizer));
    TRY(read_pieces(&parts, a, pieces, name, e));
    TRY(read_merges(&parts, a, pieces, name, e));
    *p = parts;
    return ERR_OK;
}
