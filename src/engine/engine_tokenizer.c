#include "engine/engine_tokenizer.h"

#include "base/buf.h"

/* Words, numbers, white space, code, several scripts, a pictograph: what comes back other than it
 * went in would come back so in every answer. All of it is NFC. */
static const char sample[] =
    "It's 3.14 or 0x1F;\n\tif (a[i] != b) { return -1; } // gr\xc3\xb6\xc3\x9f"
    "er\r\n\n  \xe6\x9d\xb1\xe4\xba\xac \xd0\x94\xd0\xb0 \xf0\x9f"
    "\x99\x82 \"q\" <tag attr='1'/> \\n %s\n";

static status check_round_trip(const tokenizer *t, const load_model *m, err *e)
{
    token_ids ids = {0};
    buf back;
    const vocab *v = tokenizer_vocab(t);
    buf_init(&back);
    status s = tokenizer_encode(t, STR(sample), false, 0, &ids, e);
    for (int64_t i = 0; s == ERR_OK && i < ids.n; i++) {
        buf_put_str(&back, vocab_bytes(v, ids.ptr[i]));
        if (m->target.V > 0 && ids.ptr[i] >= m->target.V)
            s = err_set(e, ERR_FORMAT, m->path, -1,
                        "the tokenizer makes id %d, the embedding has %d rows", (int)ids.ptr[i],
                        m->target.V);
    }
    if (s == ERR_OK && back.failed) s = err_set(e, ERR_NOMEM, m->path, -1, "a text");
    if (s == ERR_OK && !str_equal(buf_str(&back), STR(sample)))
        s = err_set(e, ERR_FORMAT, m->path, -1,
                    "the tokenizer's ids of a text give another text back: is it this model's?");
    buf_fini(&back);
    token_ids_fini(&ids);
    return s;
}

static status open_either(tokenizer **t, const load_model *m, err *e)
{
    const load_tokenizer *g = &m->tokenizer;
    if (m->tokenizer_json.len > 0) return tokenizer_open(t, m->tokenizer_json, "tokenizer.json", e);
    if (g->n_pieces == 0)
        return err_set(e, ERR_FORMAT, m->path, -1,
                       "has no tokenizer.json and no tokens of its own");
    tokenizer_pieces p = {.pieces = g->pieces,
                          .types = g->types,
                          .n_pieces = g->n_pieces,
                          .merges = g->merges,
                          .n_merges = g->n_merges,
                          .pretokenizer = g->pretokenizer};
    return tokenizer_open_pieces(t, &p, m->name, e);
}

status engine_tokenizer_open(tokenizer **t, const load_model *m, err *e)
{
    tokenizer *opened = NULL;
    TRY(open_either(&opened, m, e));
    status s = check_round_trip(opened, m, e);
    if (s == ERR_OK)
        *t = opened;
    else
        tokenizer_close(opened);
    return s;
}
