/* Building a vocab, and finding the id of a piece in it. */
#ifndef RIPTIDE_TOKEN_VOCAB_PRIV_H
#define RIPTIDE_TOKEN_VOCAB_PRIV_H

#include "base/err.h"
#include "token/vocab.h"

enum {
    VOCAB_MODEL = 1, /* a piece of the BPE model: text in the byte alphabet */
    VOCAB_ADDED = 2, /* an added token; text as it is unless VOCAB_MODEL is set too */
    VOCAB_SPECIAL = 4
};

/* Most ids, so that a file cannot ask for a table of 2^31 entries by one large id. */
enum { VOCAB_CAP = 1 << 22 };

/* texts    [n] what stands at each id, borrowed during the call
 * flags    [n] VOCAB_*, 0 for a hole
 * Returns  FORMAT when two model pieces are the same bytes; INVALID when n is out of range
 * Owns     the caller closes *v */
status vocab_open(vocab **v, const str *texts, const uint8_t *flags, int n, const char *name,
                  err *e);
void vocab_close(vocab *v);

/* The id of the model piece with these raw bytes, or -1. */
int32_t vocab_find(const vocab *v, str bytes);

/* Whether vocab_find can find this id. */
bool vocab_is_piece(const vocab *v, int32_t id);

#endif
