/* tokenizer_parts: what a tokenizer is made of, whatever file it came from. */
#ifndef RIPTIDE_TOKEN_TOKENIZER_PARTS_PRIV_H
#define RIPTIDE_TOKEN_TOKENIZER_PARTS_PRIV_H

#include "base/arena.h"
#include "token/added_priv.h"
#include "token/bpe_priv.h"
#include "token/tokenizer.h"

/* Most patterns that cut text one after another. */
enum { SPLITS_CAP = 8 };

typedef struct {
    int n_ids;
    const str *texts;     /* [n_ids] */
    const uint8_t *flags; /* [n_ids] VOCAB_*, 0 for a hole */
    const bpe_merge *merges;
    int n_merges;
    bool keeps_pieces; /* `ignore_merges`: a word that is a piece is not merged */
    const added_token *added;
    int n_added;
    bool normalises;        /* NFC */
    bool adds_space;        /* a space before a text that does not begin with one */
    str splits[SPLITS_CAP]; /* patterns, applied in turn */
    int n_splits;
} tokenizer_parts;

/* Both fill *p with slices of their source and of the arena. */
status tokenizer_parts_from_json(tokenizer_parts *p, arena *a, str json_text, const char *name,
                                 err *e);
status tokenizer_parts_from_pieces(tokenizer_parts *p, arena *a, const tokenizer_pieces *pieces,
                                   const char *name, err *e);

#endif
