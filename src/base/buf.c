#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/asserts.h"
#include "base/mem.h"

enum { CAP_FIRST = 64 };

void buf_init(buf *b)
{
    *b = (buf){0};
}

void buf_fini(buf *b)
{
    mem_free(b->ptr);
    *b = (buf){0};
}

void buf_clear(buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->ptr) b->ptr[0] = '\0';
}

static bool fail(buf *b)
{
    b->failed = true;
    return false;
}

bool buf_grow(buf *b, size_t more)
{
    size_t need, most = b->limit ? b->limit : SIZE_MAX / 4;
    if (__builtin_add_overflow(b->len, more, &need) || need > most) return fail(b);
    size_t cap = b->cap ? b->cap * 2 : CAP_FIRST;
    if (cap < need + 1) cap = need + 1;
    if (cap > most + 1) cap = most + 1;
    char *ptr = mem_resize(b->ptr, cap);
    if (!ptr) return fail(b);
    ptr[b->len] = '\0';
    b->ptr = ptr;
    b->cap = cap;
    return true;
}

void buf_put(buf *b, const void *bytes, size_t n)
{
    if (!buf_reserve(b, n)) return;
    if (n > 0) memcpy(b->ptr + b->len, bytes, n);
    b->len += n;
    b->ptr[b->len] = '\0';
}

void buf_put_str(buf *b, str s)
{
    buf_put(b, s.ptr, s.len);
}

void buf_put_c(buf *b, const char *c_string)
{
    buf_put_str(b, str_from(c_string));
}

void buf_printf(buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    ASSERT(n >= 0);
    if (!buf_reserve(b, (size_t)n)) return;
    va_start(args, fmt);
    vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
}

void buf_consume(buf *b, size_t n)
{
    ASSERT(n <= b->len);
    if (n == 0) return;
    memmove(b->ptr, b->ptr + n, b->len - n + 1);
    b->len -= n;
}
