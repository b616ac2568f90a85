#include "engine/engine_tokenizer.h"

status engine_tokenizer_open(tokenizer **t, const load_model *m, err *e)
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
