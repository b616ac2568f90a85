/* detok: token ids to text, as they come.
 *
 * The text is always well-formed UTF-8 and never ends inside a character: a token that ends in
 * part of one is held back until the rest comes. Bytes that cannot become a character are
 * U+FFFD. Whatever the split into calls, the text of all calls together is the same.
 * Holes and ids outside the vocabulary stand for nothing.
 * Thread: one at a time; state is the caller's, nothing is allocated but in `out`. */
#ifndef RIPTIDE_TOKEN_DETOK_H
#define RIPTIDE_TOKEN_DETOK_H

#include "base/buf.h"
#include "token/vocab.h"

typedef struct {
    const vocab *v;     /* borrowed */
    bool skips_special; /* special tokens give no text */
    int n_held;         /* bytes of an unfinished character, 0 to 3 */
    char held[4];
} detok;

void detok_init(detok *d, const vocab *v, bool skips_special);

/* Append the text that token `id` completes; out->failed tells when there was no memory. */
void detok_push(detok *d, int32_t id, buf *out);

/* The same for raw bytes. */
void detok_push_bytes(detok *d, str bytes, buf *out);

/* End of the sequence: an unfinished character becomes U+FFFD. The state is as after init. */
void detok_flush(detok *d, buf *out);

#endif
