/* vocab: which bytes each token id stands for.
 *
 * Ids are [0, vocab_count); some may be holes, which stand for nothing. Bytes are raw: decoded
 * from the byte alphabet of the file, and for an added token its text. One token may be part of a
 * UTF-8 character. Thread: any; never changes. */
#ifndef RIPTIDE_TOKEN_VOCAB_H
#define RIPTIDE_TOKEN_VOCAB_H

#include <stdint.h>

#include "base/str.h"

typedef struct vocab vocab;

/* The largest id plus one. A model may have more logits than that. */
int vocab_count(const vocab *v);

/* Bytes of the longest token. */
int vocab_longest(const vocab *v);

/* The bytes of a token; empty for a hole and for ids outside the vocabulary. Borrows v. */
str vocab_bytes(const vocab *v, int32_t id);

/* False for a hole and for ids outside the vocabulary. */
bool vocab_has(const vocab *v, int32_t id);

/* Special: a control token (turn marker, end of text) that is no part of what is said. */
bool vocab_is_special(const vocab *v, int32_t id);

/* Added: matched in text as a whole before anything else; special tokens are added tokens. */
bool vocab_is_added(const vocab *v, int32_t id);

#endif
