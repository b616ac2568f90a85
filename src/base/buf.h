/* buf: a growable buffer of bytes that it owns.
 *
 * A failed growth sets `failed`, keeps the old content and makes later puts do nothing, so that
 * a caller may check once at the end. Thread: one at a time. */
#ifndef RIPTIDE_BASE_BUF_H
#define RIPTIDE_BASE_BUF_H

#include "base/str.h"

typedef struct {
    char *ptr; /* owned; NULL when empty; always terminated when not NULL */
    size_t len, cap;
    size_t limit; /* most bytes of content, 0 = no limit; set after buf_init */
    bool failed;
} buf;

void buf_init(buf *b);
void buf_fini(buf *b);              /* leaves zeros; twice is harmless */
void buf_clear(buf *b);             /* length 0, memory and limit kept, failed reset */
bool buf_grow(buf *b, size_t more); /* for buf_reserve, when there is no room */
static inline bool buf_reserve(buf *b, size_t more)
{
    if (b->failed) return false;
    return b->cap - b->len > more || buf_grow(b, more);
}
void buf_put(buf *b, const void *bytes, size_t n);
void buf_put_str(buf *b, str s);
void buf_put_c(buf *b, const char *c_string);
static inline void buf_put_byte(buf *b, char c)
{
    if (!buf_reserve(b, 1)) return;
    b->ptr[b->len++] = c;
    b->ptr[b->len] = '\0';
}
void buf_printf(buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Remove the first n bytes. */
void buf_consume(buf *b, size_t n);
static inline str buf_str(const buf *b)
{
    return (str){b->ptr ? b->ptr : "", b->len};
}

#endif
