/* regex_rewrite: a pre-tokeniser's pattern, written for Oniguruma and Unicode 16, in PCRE2's terms.
 *
 * Debian 12's PCRE2 knows Unicode 14 and reads some escapes differently. Every construct is read
 * and written anew; one whose meaning is not known to be the same in both is refused, never passed
 * on. Compile the result with PCRE2_UTF | PCRE2_UCP.
 *
 * Taken: literals, \r \n \t \f \v \xHH \x{H} \uHHHH and escaped punctuation, \s \S \d \D, \p \P
 * with general categories, classes with ranges, (?: ) (?i: ) (?= ) (?! ) (?<= ) (?<! ) (?> ),
 * plain groups (nothing can refer to them), |, and * + ? {n,m} with ? or + behind.
 * Not taken: anchors, \w, \b, references, scripts, class set operations and all else. */
#ifndef RIPTIDE_TOKEN_REGEX_REWRITE_PRIV_H
#define RIPTIDE_TOKEN_REGEX_REWRITE_PRIV_H

#include "base/buf.h"
#include "base/err.h"

/* Longest pattern, in bytes. Known ones have about 200, the longest seen 1,100. */
enum { REGEX_PATTERN_CAP = 4096 };

/* Append the rewritten pattern to `out`.
 *
 * Returns  UNSUPPORTED with err.pos = byte of the pattern; FORMAT when it breaks off; NOMEM */
status regex_rewrite(str pattern, const char *name, buf *out, err *e);

#endif
