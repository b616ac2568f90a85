/* outparse_priv: tags and typed values of outparse. */
#ifndef RIPTIDE_CHAT_OUTPARSE_PRIV_H
#define RIPTIDE_CHAT_OUTPARSE_PRIV_H

#include "chat/outparse.h"

/* ---- outparse_tag.c: looking ahead ---- */

/* MORE: what is there fits so far, but the text ends. */
typedef enum { TAG_NO, TAG_YES, TAG_MORE } tag_match;

typedef struct {
    str s;         /* everything not yet consumed */
    bool is_final; /* nothing will follow */
} tag_text;

/* Does `literal` stand at `at`? */
tag_match tag_literal(tag_text t, size_t at, const char *literal);
/* The offset of the next byte that is not white space. */
size_t tag_skip_space(tag_text t, size_t at);
/* "<function=NAME>" or "<parameter=KEY>": its name and where it ends. */
tag_match tag_named(tag_text t, size_t at, const char *opening, str *name, size_t *end);
/* "<tool_call>", white space and "<function=NAME>", or the latter alone when `bare_ok`. */
tag_match tag_call(tag_text t, size_t at, bool bare_ok, str *name, size_t *end);
/* Is the '<' at `at` where a value ends: closing tags that lead out of it? A parameter that was
 * not closed also ends where the next one opens on a line of its own; `is_key` tells what is a
 * parameter. */
typedef bool tag_is_key_fn(const void *ctx, str key);
tag_match tag_value_end(tag_text t, size_t at, bool at_line_start, tag_is_key_fn *is_key,
                        const void *ctx);

/* ---- outparse_schema.c: types of parameters ---- */

enum {
    SCHEMA_STRING = 1,
    SCHEMA_INTEGER = 2,
    SCHEMA_NUMBER = 4,
    SCHEMA_BOOLEAN = 8,
    SCHEMA_OBJECT = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_NULL = 64,
    SCHEMA_ANY = 127
};

/* The schema of its arguments, or NULL. */
const json *schema_of_tool(const json *function);
/* The schema of the property `key` as `root` declares it, or NULL. */
const json *schema_property(const json *root, const json *schema, str key);
/* The types a schema admits; SCHEMA_ANY when it does not say. */
unsigned schema_types(const json *root, const json *schema);
/* Append the JSON for a value that was written as `text`: read by its schema, else a string. */
status schema_put_value(buf *out, const json *root, const json *schema, str text);
/* Does `text` begin an array or object that is not finished? */
bool schema_is_unfinished(str text);
/* Could `text` be the beginning of a value of one of these types other than a string? */
bool schema_may_be_json(unsigned types, str text);

#endif
