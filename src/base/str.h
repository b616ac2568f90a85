/* str: a borrowed slice of bytes. Not terminated, may hold NUL. Copied freely. */
#ifndef RIPTIDE_BASE_STR_H
#define RIPTIDE_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const char *ptr;
    size_t len;
} str;

#define STR(literal) ((str){(literal), sizeof(literal) - 1})
/* for printf("%.*s", STR_ARG(s)) */
#define STR_ARG(s) (int)(s).len, (s).ptr

static inline str str_from(const char *c_string)
{
    return (str){c_string, c_string ? strlen(c_string) : 0};
}
static inline bool str_equal(str a, str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
static inline bool str_is(str a, const char *c_string)
{
    return str_equal(a, str_from(c_string));
}
bool str_starts(str s, str prefix);
bool str_ends(str s, str suffix);
/* s without its first n bytes (n <= len), and bytes [from, to). */
str str_skip(str s, size_t n);
str str_slice(str s, size_t from, size_t to);
/* Offset of the first occurrence at or after `from`, or -1. */
int64_t str_find(str s, str needle, size_t from);
/* Without ASCII white space at both ends. */
str str_trim(str s);
/* Negative, 0, positive by bytes. */
int str_compare(str a, str b);
/* The whole slice as a decimal number; false when it is anything else or overflows. */
bool str_to_int64(str s, int64_t *out);
bool str_to_uint64(str s, uint64_t *out);
/* Exactly rounded; an exponent is fine, and so is a missing digit on one side of the point. No
 * hex, inf, nan or white space. Does not depend on the locale. */
bool str_to_double(str s, double *out);

#endif
