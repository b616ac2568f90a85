/* http_head: the head of one request: method, target, fields. What the bytes mean is http_parse's
 * business; this holds them and answers questions.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_HTTP_HEAD_PRIV_H
#define RIPTIDE_SERVER_HTTP_HEAD_PRIV_H

#include "base/buf.h"

typedef enum {
    METHOD_OTHER, /* well formed, but nothing here has it */
    METHOD_GET,
    METHOD_HEAD,
    METHOD_POST,
    METHOD_DELETE,
    METHOD_OPTIONS,
    METHOD_COUNT
} http_method;

/* Most bytes of a head (request line and fields), and most fields. More is 431. */
enum { HTTP_HEAD_BYTES_MAX = 64 << 10, HTTP_FIELDS_MAX = 100 };

typedef struct {
    uint32_t name_at, name_len, value_at, value_len; /* in http_head.text */
} http_field;

typedef struct {
    http_method method;
    int minor; /* HTTP/1.minor */
    buf text;  /* owned: the target, then names (lower case) and values */
    uint32_t target_len;
    http_field *fields; /* owned [HTTP_FIELDS_MAX], NULL before the first */
    int n_fields;
    int64_t body_bytes; /* Content-Length, 0 without a body, -1 when chunked */
    bool keeps_alive;
} http_head;

/* Give the memory back; leaves zeros. */
void http_head_fini(http_head *h);

/* "GET". Never NULL. */
const char *http_method_text(http_method m);

/* Value of the first field called `name` (lower case), trimmed; ptr NULL without one. Borrows h. */
str http_head_get(const http_head *h, const char *name);
int http_head_count(const http_head *h, const char *name);

/* The path of the target, still percent-encoded, without query. "*" for OPTIONS *. Of an absolute
 * target (http://host/path) the part behind the authority. Empty when there is none. Borrows h. */
str http_head_path(const http_head *h);

/* What stands behind the "?" of the target, still percent-encoded; empty without one. Borrows h. */
str http_head_query(const http_head *h);

/* Append the percent-decoded text; false (out as before) when an escape is not two hex digits. */
bool http_decode_path(str path, buf *out);

#endif
