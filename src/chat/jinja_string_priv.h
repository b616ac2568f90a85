/* jinja_string: the escapes of a string literal. */
#ifndef RIPTIDE_CHAT_JINJA_STRING_PRIV_H
#define RIPTIDE_CHAT_JINJA_STRING_PRIV_H

#include "base/arena.h"
#include "base/str.h"

/* What the literal `raw` (without its quotes) stands for, with Python's escapes; an unknown escape
 * keeps its backslash. Shares raw's bytes when there is nothing to do.
 *
 * Returns  NULL, or what is wrong; out->ptr is NULL when there was no memory */
const char *jstring_unescape(arena *a, str raw, str *out);

#endif
