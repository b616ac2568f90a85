/* json: text to a tree in an arena, and a writer into a buf.
 *
 * Strict RFC 8259: UTF-8 is checked, no comments, no trailing commas, one value. Number text and
 * key order are kept, since a prompt contains both. A lone surrogate escape becomes U+FFFD.
 * Strings are counted: they may hold NUL. A repeated key is kept in place in the tree and
 * json_get finds the last one, unless JSON_UNIQUE_KEYS refuses the text.
 * Not recursive: depth costs arena memory, not stack. */
#ifndef RIPTIDE_BASE_JSON_H
#define RIPTIDE_BASE_JSON_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

typedef enum {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} json_kind;

typedef struct json json;
struct json {
    json_kind kind;
    int n;             /* elements or members */
    int64_t pos;       /* byte offset of the value in the source */
    str text;          /* NUMBER: its source text; STRING: decoded bytes. Borrows source or arena */
    str key;           /* decoded name when this is a member, else empty */
    const json *first; /* first element or member */
    const json *next;  /* next sibling */
};

enum { JSON_UNIQUE_KEYS = 1 };
#define JSON_DEPTH_DEFAULT 128

/* Parse the whole of `src` (which must outlive the tree).
 *
 * name     for err.where (a file path or "request")
 * depth    most nested arrays and objects
 * flags    0 or JSON_UNIQUE_KEYS
 * Returns  FORMAT with err.pos at the offending byte; LIMIT when too deep; NOMEM */
status json_parse(arena *a, str src, const char *name, int depth, int flags, const json **out,
                  err *e);

/* The member `key` of an object (the last if repeated), or NULL; NULL in gives NULL out. */
const json *json_get(const json *object, const char *key);
const json *json_get_str(const json *object, str key);
/* The i-th element, or NULL. O(i). */
const json *json_at(const json *array, int i);

static inline bool json_is(const json *v, json_kind kind)
{
    return v && v->kind == kind;
}
static inline bool json_is_bool(const json *v)
{
    return v && (v->kind == JSON_TRUE || v->kind == JSON_FALSE);
}
/* The value as a number of that type; false when v is NULL, no number, or not exactly that
 * (int64: an integer in range, also written 5.0 or 5e0; double: finite). */
bool json_to_int64(const json *v, int64_t *out);
bool json_to_uint64(const json *v, uint64_t *out);
bool json_to_double(const json *v, double *out);
bool json_to_bool(const json *v, bool *out);
bool json_to_str(const json *v, str *out);

/* Write a value back: compact (",", ":") or as Python's json.dumps (", ", ": "); number text and
 * key order as read, non-ASCII raw. */
typedef enum { JSON_COMPACT, JSON_PYTHON } json_style;
void json_put_value(buf *b, const json *v, json_style style);

/* A quoted, escaped string; ill-formed UTF-8 becomes U+FFFD, so the output is always valid. */
void json_put_string(buf *b, str s);
/* The same without the quotes: for strings sent in pieces. */
void json_put_escaped(buf *b, str s);

/* Writer: keeps track of commas. Nesting up to 64. */
typedef struct {
    buf *out;
    int depth;
    bool has_items[64];
    bool after_key;
} json_writer;
void json_writer_init(json_writer *w, buf *out);
void json_open_object(json_writer *w);
void json_close_object(json_writer *w);
void json_open_array(json_writer *w);
void json_close_array(json_writer *w);
void json_key(json_writer *w, const char *key);
void json_key_str(json_writer *w, str key);
void json_string(json_writer *w, str s);
void json_c_string(json_writer *w, const char *s);
void json_int(json_writer *w, int64_t v);
void json_uint(json_writer *w, uint64_t v);
/* The shortest text that reads back equal; null when not finite. */
void json_double(json_writer *w, double v);
void json_bool(json_writer *w, bool v);
void json_null(json_writer *w);
void json_value(json_writer *w, const json *v); /* compact */
void json_raw(json_writer *w, str text);        /* text that is JSON already */

#endif
