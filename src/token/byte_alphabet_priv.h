/* byte_alphabet: the printable spelling of bytes that byte-level BPE files use.
 *
 * Bytes 33-126, 161-172 and 174-255 are the code point of the same number; the other 68, in
 * increasing order, are U+0100 upward (so a space is U+0120). Thread: any. */
#ifndef RIPTIDE_TOKEN_BYTE_ALPHABET_PRIV_H
#define RIPTIDE_TOKEN_BYTE_ALPHABET_PRIV_H

#include "base/str.h"

/* The byte that code point cp stands for, or -1. */
int byte_alphabet_byte(uint32_t cp);

/* Decode a piece to out[piece.len]; false when a character is outside the alphabet (then out is
 * garbage) or the piece is not well-formed UTF-8. */
bool byte_alphabet_decode(str piece, char *out, size_t *n_bytes);

#endif
