/* utf8: decode, validate, and measure the unfinished tail of UTF-8 text (Unicode 16, RFC 3629). */
#ifndef RIPTIDE_BASE_UTF8_H
#define RIPTIDE_BASE_UTF8_H

#include "base/str.h"

/* Decode one code point at s[pos]; returns its byte length, or 0 when the bytes there are not
 * well formed (overlong, surrogate, above U+10FFFF, cut short). pos < s.len. */
int utf8_decode(str s, size_t pos, uint32_t *cp);

/* Write cp (not a surrogate, <= U+10FFFF) to out[4]; returns 1..4. */
int utf8_encode(uint32_t cp, char *out);

/* Offset of the first ill-formed byte, or -1 when all is well formed. */
int64_t utf8_check(str s);

/* How many bytes at the end of s are a proper prefix of a well-formed sequence (0..3). */
int utf8_tail(str s);

#endif
