/* The insides of a tokenizer, for the two files that make and use it. */
#ifndef RIPTIDE_TOKEN_TOKENIZER_PRIV_H
#define RIPTIDE_TOKEN_TOKENIZER_PRIV_H

#include "base/thread.h"
#include "token/encode_priv.h"
#include "token/pretok_priv.h"
#include "token/split_regex_priv.h"
#include "token/tokenizer_parts_priv.h"

/* One way of cutting text: a known one, or a pattern. */
typedef struct {
    pretok_kind kind;
    split_regex *regex; /* for PRETOK_REGEX */
} split_stage;

struct tokenizer {
    vocab *v;
    bpe *b;
    arena texts;        /* content of `added` */
    added_token *added; /* [n_added] in texts */
    int n_added;
    added_set all;        /* by content, to find an id */
    added_set plain;      /* those matched in the text as it is */
    added_set normalized; /* those matched after normalising, by normalised content */
    bool has_normalized, has_regex;
    bool normalises, adds_space;
    split_stage stages[SPLITS_CAP];
    int n_stages;
    encode_pool *pool;
};

#endif
