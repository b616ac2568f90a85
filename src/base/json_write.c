/* The writer: strings, numbers, whole trees, and a small state that places commas. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/asserts.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

static void put_escape(buf *b, unsigned char c)
{
    switch (c) {
    case '"': buf_put(b, "\\\"", 2); break;
    case '\\': buf_put(b, "\\\\", 2); break;
    case '\b': buf_put(b, "\\b", 2); break;
    case '\f': buf_put(b, "\\f", 2); break;
    case '\n': buf_put(b, "\\n", 2); break;
    case '\r': buf_put(b, "\\r", 2); break;
    case '\t': buf_put(b, "\\t", 2); break;
    default: buf_printf(b, "\\u%04x", c); break;
    }
}

/* Bytes that stand for themselves and begin no longer character. */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

void json_put_escaped(buf *b, str s)
{
    size_t pos = 0;
    while (pos < s.len) {
        size_t from = pos;
        int n_good = 1;
        for (;;) {
            uint32_t cp;
            while (pos < s.len && is_plain((unsigned char)s.ptr[pos])) pos++;
            if (pos == s.len || (unsigned char)s.ptr[pos] < 0x80) break;
            n_good = utf8_decode(s, pos, &cp);
            if (n_good == 0) break;
            pos += (size_t)n_good;
        }
        buf_put(b, s.ptr + from, pos - from);
        if (pos == s.len) break;
        if (n_good == 0)
            buf_put(b, "\xef\xbf\xbd", 3);
        else
            put_escape(b, (unsigned char)s.ptr[pos]);
        pos++;
    }
}

void json_put_string(buf *b, str s)
{
    buf_put_byte(b, '"');
    json_put_escaped(b, s);
    buf_put_byte(b, '"');
}

static void put_scalar(buf *b, const json *v)
{
    switch (v->kind) {
    case JSON_NULL: buf_put_c(b, "null"); break;
    case JSON_FALSE: buf_put_c(b, "false"); break;
    case JSON_TRUE: buf_put_c(b, "true"); break;
    case JSON_NUMBER: buf_put_str(b, v->text); break;
    default: json_put_string(b, v->text); break;
    }
}

/* The open containers of a walk: on the stack of this thread as long as they are few. */
typedef struct {
    const json *near[64];
    const json **more; /* owned, once near is full */
    size_t n, cap;
} path;

static bool path_push(path *p, const json *v)
{
    enum { N_NEAR = sizeof p->near / sizeof p->near[0] };
    if (p->n < N_NEAR) {
        p->near[p->n++] = v;
        return true;
    }
    if (p->n - N_NEAR == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 256;
        const json **more = mem_resize(p->more, cap * sizeof *more);
        if (!more) return false;
        p->more = more;
        p->cap = cap;
    }
    p->more[p->n++ - N_NEAR] = v;
    return true;
}

static const json *path_top(const path *p)
{
    enum { N_NEAR = sizeof p->near / sizeof p->near[0] };
    if (p->n == 0) return NULL;
    return p->n <= N_NEAR ? p->near[p->n - 1] : p->more[p->n - 1 - N_NEAR];
}

void json_put_value(buf *b, const json *v, json_style style)
{
    str comma = style == JSON_PYTHON ? STR(", ") : STR(",");
    str colon = style == JSON_PYTHON ? STR(": ") : STR(":");
    path p = {.n = 0};
    const json *at = v;
    for (;;) {
        bool is_object = at->kind == JSON_OBJECT;
        const json *parent = path_top(&p);
        if (parent && parent->kind == JSON_OBJECT) {
            json_put_string(b, at->key);
            buf_put_str(b, colon);
        }
        if (!is_object && at->kind != JSON_ARRAY) {
            put_scalar(b, at);
        } else if (!at->first) {
            buf_put(b, is_object ? "{}" : "[]", 2);
        } else {
            buf_put_byte(b, is_object ? '{' : '[');
            if (!path_push(&p, at)) {
                b->failed = true;
                break;
            }
            at = at->first;
            continue;
        }
        /* `v` itself may be a member of something: its siblings are not ours. */
        while (p.n > 0 && !at->next) {
            at = path_top(&p);
            p.n--;
            buf_put_byte(b, at->kind == JSON_OBJECT ? '}' : ']');
        }
        if (p.n == 0) break;
        buf_put_str(b, comma);
        at = at->next;
    }
    mem_free(p.more);
}

void json_writer_init(json_writer *w, buf *out)
{
    *w = (json_writer){.out = out};
}

/* The comma before an element or a key; nothing between a key and its value. */
static void separate(json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth == 0) return;
    if (w->has_items[w->depth - 1]) buf_put_byte(w->out, ',');
    w->has_items[w->depth - 1] = true;
}

static void open(json_writer *w, char bracket)
{
    ASSERT(w->depth < (int)(sizeof w->has_items / sizeof w->has_items[0]));
    separate(w);
    buf_put_byte(w->out, bracket);
    w->has_items[w->depth++] = false;
}

static void close(json_writer *w, char bracket)
{
    ASSERT(w->depth > 0 && !w->after_key);
    w->depth--;
    buf_put_byte(w->out, bracket);
}

void json_open_object(json_writer *w)
{
    open(w, '{');
}
void json_close_object(json_writer *w)
{
    close(w, '}');
}
void json_open_array(json_writer *w)
{
    open(w, '[');
}
void json_close_array(json_writer *w)
{
    close(w, ']');
}

void json_key_str(json_writer *w, str key)
{
    ASSERT(!w->after_key);
    separate(w);
    json_put_string(w->out, key);
    buf_put_byte(w->out, ':');
    w->after_key = true;
}

void json_key(json_writer *w, const char *key)
{
    json_key_str(w, str_from(key));
}

void json_string(json_writer *w, str s)
{
    separate(w);
    json_put_string(w->out, s);
}

void json_c_string(json_writer *w, const char *s)
{
    json_string(w, str_from(s));
}

/* Answers are full of them: no printf. */
static void put_digits(buf *b, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    buf_put(b, digits + at, sizeof digits - at);
}

void json_int(json_writer *w, int64_t v)
{
    separate(w);
    if (v < 0) buf_put_byte(w->out, '-');
    put_digits(w->out, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void json_uint(json_writer *w, uint64_t v)
{
    separate(w);
    put_digits(w->out, v);
}

/* d.ddd…e±x with the fewest digits that read back as v. 15 digits always survive a double, so the
 * search starts there, except among the subnormals, which hold fewer. */
static void shortest_scientific(double v, char *out, size_t cap)
{
    for (int n = fabs(v) < 0x1p-1022 ? 1 : 15;; n++) {
        snprintf(out, cap, "%.*e", n - 1, v);
        if (n == 17 || strtod(out, NULL) == v) return;
    }
}

/* printf's decimal point depends on the locale and its %g keeps zeros of the exponent, so only the
 * digits and the exponent are taken from it. */
static void put_double(buf *b, double v)
{
    char text[64], digits[32];
    shortest_scientific(fabs(v), text, sizeof text);
    int n = 0;
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') digits[n++] = *at;
    int exponent = (int)strtol(at + 1, NULL, 10);
    while (n > 1 && digits[n - 1] == '0') n--;
    if (signbit(v)) buf_put_byte(b, '-');
    if (exponent >= 0 && exponent < 17) {
        for (int i = 0; i <= exponent || i < n; i++) {
            if (i == exponent + 1) buf_put_byte(b, '.');
            buf_put_byte(b, i < n ? digits[i] : '0');
        }
    } else if (exponent < 0 && exponent >= -5) {
        buf_put_c(b, "0.");
        for (int i = -1; i > exponent; i--) buf_put_byte(b, '0');
        buf_put(b, digits, (size_t)n);
    } else {
        buf_put_byte(b, digits[0]);
        if (n > 1) buf_put_byte(b, '.');
        buf_put(b, digits + 1, (size_t)n - 1);
        buf_printf(b, "e%d", exponent);
    }
}

void json_double(json_writer *w, double v)
{
    separate(w);
    if (isfinite(v))
        put_double(w->out, v);
    else
        buf_put_c(w->out, "null");
}

void json_bool(json_writer *w, bool v)
{
    separate(w);
    buf_put_c(w->out, v ? "true" : "false");
}

void json_null(json_writer *w)
{
    separate(w);
    buf_put_c(w->out, "null");
}

void json_value(json_writer *w, const json *v)
{
    separate(w);
    json_put_value(w->out, v, JSON_COMPACT);
}

void json_raw(json_writer *w, str text)
{
    separate(w);
    buf_put_str(w->out, text);
}
