#include "chat/jinja_string_priv.h"

#include <stdio.h>

#include "base/utf8.h"
#include "chat/jinja_unicode_priv.h"

typedef struct {
    str raw;
    size_t at;
    char *out;
    size_t n;
} reader;

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *put_code_point(reader *r, uint32_t cp)
{
    if (cp > 0x10ffff) return "illegal Unicode character";
    if (cp >= 0xd800 && cp <= 0xdfff) return "a surrogate is no character";
    r->n += (size_t)utf8_encode(cp, r->out + r->n);
    return NULL;
}

static const char *read_hex(reader *r, int n_digits)
{
    uint32_t cp = 0;
    for (int i = 0; i < n_digits; i++, r->at++) {
        int v = r->at < r->raw.len ? hex_value(r->raw.ptr[r->at]) : -1;
        if (v < 0) return "truncated \\x, \\u or \\U escape";
        cp = cp << 4 | (uint32_t)v;
    }
    return put_code_point(r, cp);
}

static const char *read_octal(reader *r)
{
    uint32_t cp = 0;
    for (int i = 0; i < 3 && r->at < r->raw.len; i++, r->at++) {
        char c = r->raw.ptr[r->at];
        if (c < '0' || c > '7') break;
        cp = cp << 3 | (uint32_t)(c - '0');
    }
    return put_code_point(r, cp);
}

/* A backslash before a character outside ASCII: jinja2 first spells that character as an escape
 * of its own, whose backslash this one then escapes. */
static void put_escaped_foreign(reader *r)
{
    uint32_t cp;
    r->at += (size_t)junicode_at(r->raw, r->at, &cp);
    const char *format = cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x";
    r->n += (size_t)snprintf(r->out + r->n, 12, format, cp);
}

/* After the backslash. */
static const char *read_escape(reader *r)
{
    static const char names[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    if (r->at == r->raw.len) return "\\ at end of string";
    char c = r->raw.ptr[r->at];
    const char *simple = c ? strchr(names, c) : NULL;
    if ((unsigned char)c >= 0x80) {
        put_escaped_foreign(r);
        return NULL;
    }
    if (c >= '0' && c <= '7') return read_octal(r);
    r->at++;
    if (c == '\n') return NULL;
    if (simple) {
        r->out[r->n++] = values[simple - names];
        return NULL;
    }
    if (c == 'x') return read_hex(r, 2);
    if (c == 'u') return read_hex(r, 4);
    if (c == 'U') return read_hex(r, 8);
    if (c == 'N') return "\\N{name} escapes are not supported";
    r->out[r->n++] = '\\';
    r->out[r->n++] = c;
    return NULL;
}

const char *jstring_unescape(arena *a, str raw, str *out)
{
    *out = raw;
    if (!raw.len) out->ptr = "";
    if (!raw.len || !memchr(raw.ptr, '\\', raw.len)) return NULL;
    /* The longest growth: a backslash and two foreign bytes become \uXXXX and a terminator. */
    reader r = {.raw = raw, .out = arena_new(a, raw.len * 4 + 16)};
    *out = (str){r.out, 0};
    if (!r.out) return NULL;
    while (r.at < raw.len) {
        char c = raw.ptr[r.at];
        if (c != '\\') {
            r.out[r.n++] = c;
            r.at++;
            continue;
        }
        r.at++;
        const char *why = read_escape(&r);
        if (why) return why;
    }
    out->len = r.n;
    return NULL;
}
