/* http_reply: the bytes of an answer: status line and fields, chunks.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_HTTP_REPLY_PRIV_H
#define RIPTIDE_SERVER_HTTP_REPLY_PRIV_H

#include "base/buf.h"

enum { HTTP_BODY_CHUNKED = -1, HTTP_BODY_UNTIL_CLOSE = -2, HTTP_BODY_NONE = -3 };

/* Everything borrowed. */
typedef struct {
    int code;                 /* the HTTP status */
    const char *content_type; /* NULL with HTTP_BODY_NONE */
    int64_t body_bytes;       /* or one of the above; NONE says that there never is one (204) */
    bool closes;
    str allow_origin;       /* empty: no CORS field */
    const char *request_id; /* or NULL */
    const char *extra;      /* complete field lines, or NULL */
    int64_t now_s;          /* for Date */
} http_reply_head;

void http_put_head(buf *out, const http_reply_head *h);

/* One chunk; none for no bytes, since an empty chunk is the end. */
void http_put_chunk(buf *out, str bytes);
void http_put_last_chunk(buf *out);

/* "Not Found". Never NULL. */
const char *http_status_text(int code);

#endif
