/* regex_parse: the text of a regular expression to an expr.
 *
 * The language is ECMAScript's without what is not regular or depends on surroundings: no
 * back references, no look-around, no \b. Lazy quantifiers match the same texts as greedy ones.
 * \p{...} takes general categories (L, Lu, Nd, ...), \p{Any}, \p{Alphabetic} is refused. */
#ifndef RIPTIDE_GRAMMAR_REGEX_PARSE_PRIV_H
#define RIPTIDE_GRAMMAR_REGEX_PARSE_PRIV_H

#include "grammar/expr_priv.h"

/* Most groups inside each other, largest bound of a repetition, longest pattern. */
enum { REGEX_DEPTH = 100, REGEX_COUNT_MOST = 20000, REGEX_BYTES_MOST = 65536 };

/* Parse the whole text, which need not outlive the tree.
 *
 * where    for err.where; err.pos is the byte in the text
 * Returns  FORMAT (it is no regular expression), UNSUPPORTED (it is, but not one we take), LIMIT,
 *          NOMEM */
status regex_parse(arena *a, str text, const char *where, expr **out, err *e);

/* What may stand for a character set behind a backslash: adds to the set and returns the bytes
 * read, 0 when there is no such escape, -1 when it is refused. s[at] is behind the backslash. */
int regex_class_escape(expr_set *set, str s, size_t at);

#endif
