/* utf8_repair: ill-formed UTF-8 becomes U+FFFD, one for each maximal part of a sequence (the
 * practice that the Unicode standard recommends, and Rust's and Python's). Thread: any. */
#ifndef RIPTIDE_TOKEN_UTF8_REPAIR_PRIV_H
#define RIPTIDE_TOKEN_UTF8_REPAIR_PRIV_H

#include "base/str.h"

#define UTF8_REPAIR_SIGN "\xef\xbf\xbd"

/* Bytes of the ill-formed part that begins at s[pos], where utf8_decode fails: 1 to 3. */
size_t utf8_repair_length(str s, size_t pos);

/* Bytes of s after repair. */
size_t utf8_repair_count(str s);

/* Write s repaired to out[utf8_repair_count(s)]. */
void utf8_repair_write(str s, char *out);

#endif
