/* jinja_unicode: what Python's str methods know about characters.
 *
 * Unicode data come from utf8proc and, where Python says more (full case mappings, isnumeric),
 * from jinja_unicode_tables.inc. Thread: any. */
#ifndef RIPTIDE_CHAT_JINJA_UNICODE_PRIV_H
#define RIPTIDE_CHAT_JINJA_UNICODE_PRIV_H

#include "base/str.h"

/* The code point at s[pos] and its length; an ill-formed byte is taken alone as U+FFFD. */
int junicode_at(str s, size_t pos, uint32_t *cp);
/* The offset of the code point that ends at `pos` (pos > 0). */
size_t junicode_before(str s, size_t pos);
/* Code points in s, which is well formed. */
int64_t junicode_count(str s);
/* The offset of code point number `index` (>= 0), at most s.len. */
size_t junicode_offset(str s, int64_t index);

bool junicode_is_space(uint32_t cp);    /* str.isspace, and \s */
bool junicode_is_line_end(uint32_t cp); /* where str.splitlines cuts */
bool junicode_is_word(uint32_t cp);     /* \w */
bool junicode_is_name_start(uint32_t cp);
bool junicode_is_name(uint32_t cp);      /* may continue an identifier */
bool junicode_is_printable(uint32_t cp); /* shown as it is by repr() */
bool junicode_is_alpha(uint32_t cp);
bool junicode_is_decimal(uint32_t cp);
bool junicode_is_digit(uint32_t cp);
bool junicode_is_numeric(uint32_t cp);
bool junicode_is_lower(uint32_t cp);
bool junicode_is_upper(uint32_t cp);
bool junicode_is_title(uint32_t cp);

/* Full case mappings into out[3]; the number of code points. */
int junicode_upper(uint32_t cp, uint32_t out[3]);
int junicode_title(uint32_t cp, uint32_t out[3]);
/* The same for lower case; `pos` tells where cp stands in s, for the final sigma. */
int junicode_lower(str s, size_t pos, uint32_t cp, uint32_t out[3]);

/* The value 0..9 of a decimal digit of any script, or -1. */
int junicode_digit_value(uint32_t cp);

#endif
