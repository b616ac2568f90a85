/* http_fetch: GET of one address, with redirects, a range and checks of what comes; no retries.
 *
 * Only http and https, also behind a redirect, and never from https to http. The token goes to the
 * origin of the first address only. Proxies are taken from the environment, not for loopback.
 * Thread: one at a time for each http_fetch. */
#ifndef RIPTIDE_HUB_HTTP_FETCH_H
#define RIPTIDE_HUB_HTTP_FETCH_H

#include "base/err.h"
#include "base/str.h"

/* What an answer says about itself. Texts are cut to their room. */
typedef struct {
    int code;
    int64_t n_body;                  /* Content-Length, or -1 */
    int64_t range_from, range_total; /* Content-Range of a 206, or -1 */
    int retry_after_s;               /* or -1 */
    bool is_encoded;                 /* compressed, though nobody asked for it */
    char type[64];                   /* Content-Type */
    char etag[80];                   /* of the first answer: X-Linked-Etag, else ETag; unquoted */
    char commit[48];                 /* of the first answer: X-Repo-Commit */
    char problem[48];                /* X-Error-Code: "GatedRepo" */
} http_head;

typedef struct {
    const char *url;
    const char *token; /* NULL: none */
    int64_t from, to;  /* bytes [from, to), or from < 0: everything */
    int timeout_ms;    /* without a connection, and (in whole seconds) without a byte */
    int total_ms;      /* of one answer; 0: no limit */
    bool is_direct;    /* by no proxy */
    /* Called once before the body of a 200 or 206, also when that is empty; a failure ends it. */
    status (*on_head)(void *ctx, const http_head *h, err *e);
    status (*on_bytes)(void *ctx, const uint8_t *bytes, size_t n, err *e);
    void *ctx;
} http_request;

typedef struct http_fetch http_fetch;
/* Returns  NOMEM
 * Owns     the caller closes *h */
status http_fetch_open(http_fetch **h, err *e);
void http_fetch_close(http_fetch *h); /* NULL is fine */

/* Ask. OK means that an answer came whole, whatever its code: the bodies of others than 200 and 206
 * are dropped.
 *
 * is_passing  out: the failure may be gone when tried again (the network)
 * Returns     IO, UNSUPPORTED (of a redirect), FORMAT, NOMEM, or what a callback returned */
status http_fetch_get(http_fetch *h, const http_request *q, http_head *head, bool *is_passing,
                      err *e);

#endif
