/* jinja_filter: what filters, tests and string methods share. */
#ifndef RIPTIDE_CHAT_JINJA_FILTER_PRIV_H
#define RIPTIDE_CHAT_JINJA_FILTER_PRIV_H

#include "chat/jinja_builtin_priv.h"
#include "chat/jinja_iter_priv.h"

/* t with & < > ' " escaped for HTML; Markup goes through as it is. */
void jfilter_put_escaped(jbuilder *b, const jtext *t);
/* Set the Markup mark of the text in *out. */
status jfilter_mark(jrt *r, jvalue *out, bool is_safe);

/* An attribute path such as "user.name" or 3, and an item's value at it. Parts that are missing
 * give `fallback` when that is not MISSING or none. */
status jpath_get(jrt *r, jvalue path, jvalue fallback, jvalue item, jvalue *out);
/* item.lower() for a string unless case counts; other values as they are. */
status jfilter_fold(jrt *r, bool is_case_sensitive, jvalue v, jvalue *out);

typedef enum { JCASE_UPPER, JCASE_LOWER, JCASE_CAPITALIZE, JCASE_TITLE, JCASE_SWAP } jcase;
/* The text in another case; keeps the Markup mark. */
status jcase_map(jrt *r, const jtext *t, jcase how, jvalue *out);

/* Byte range of t without characters at its ends that are in `chars` (NULL: white space). */
void jstrip_range(const jtext *t, const jtext *chars, bool at_left, bool at_right, size_t *from,
                  size_t *to);
/* A slice of t as a value, Markup mark kept. */
status jslice_text(jrt *r, const jtext *t, size_t from, size_t to, jvalue *out);
/* str.replace: every `old` becomes `new`, at most `most` times (negative: all). */
status jreplace_text(jrt *r, const jtext *t, const jtext *old, const jtext *new_text, int64_t most,
                     jvalue *out);
/* str.splitlines as ranges: the next line's [from, to) and where the one after it starts. False at
 * the end. */
bool jnext_line(str s, size_t *at, size_t *from, size_t *to);

/* str.islower, or str.isupper. */
bool jtext_is_lower(str s, bool wants_upper);

/* Fill up to `width` characters. */
typedef enum { JPAD_LEFT, JPAD_RIGHT, JPAD_CENTER } jpad; /* where the text stands */
status jpad_text(jrt *r, const jtext *t, int64_t width, uint32_t fill, jpad where, jvalue *out);

/* Stable sort of items by their keys; both arrays are permuted. */
status jsort_by_keys(jrt *r, jvalue *items, jvalue *keys, int64_t n, bool is_reverse);

#endif
