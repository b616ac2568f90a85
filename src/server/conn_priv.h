/* conn: one connection: it reads requests one at a time, hands each to the service and sends what
 * comes back. Keeps the limits: deadlines, body size, bytes waiting to be sent.
 *
 * A request goes head → body → busy → answered. Its service may refuse at the head, before a byte
 * of the body is read. While it is busy the connection goes on reading, so that a client that
 * leaves is noticed at once; what it sends meanwhile (pipelining) waits, up to a bound.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_CONN_PRIV_H
#define RIPTIDE_SERVER_CONN_PRIV_H

#include <uv.h>

#include "server/api_error_priv.h"
#include "server/http_parse_priv.h"

typedef struct conn conn;
typedef struct listener listener;

/* What answers requests. */
typedef struct {
    /* The head is complete. Reply (then the body is never read), or return the most bytes that the
     * body may have. */
    int64_t (*on_head)(void *ctx, conn *c);
    /* The body is complete, in conn_body(). Reply now, or conn_own() and reply later. */
    void (*on_request)(void *ctx, conn *c);
    /* The body of an error answer, in the shape of the API that was asked. */
    void (*put_error)(void *ctx, conn *c, const api_error *a, buf *out);
    void *ctx;
    /* A request is over, its head and status still there; NULL: nobody asks. is_whole: answered to
     * the end, else the client left or was cut off. */
    void (*on_done)(void *ctx, conn *c, bool is_whole);
} http_service;

/* Who answers a request later. */
typedef struct {
    /* The client is gone, or was cut off. The connection is not to be used any more. */
    void (*on_gone)(void *ctx);
    /* Now and then (http_limits.tick_ms) until the answer is complete. */
    void (*on_tick)(void *ctx);
} conn_owner;

typedef enum {
    CONN_IDLE, /* nothing of a request has come yet */
    CONN_HEAD,
    CONN_BODY,
    CONN_BUSY,   /* the service has the request */
    CONN_LINGER, /* answered, closing: what still comes is thrown away until the client closes */
    CONN_CLOSING
} conn_phase;

struct conn {
    listener *l;
    conn *next, *prev;
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;
    int n_handles; /* of uv not yet closed */
    http_parser parser;
    conn_phase phase;
    buf body;         /* counted in l->body_bytes */
    buf pending;      /* came while busy */
    buf out, sending; /* counted in l->unsent_bytes */
    int64_t body_cap;
    uint64_t phase_ms, read_ms, progress_ms; /* when the phase began, bytes came, bytes left */
    size_t queue_seen;
    const conn_owner *owner; /* NULL: answered by the service at once */
    void *owner_ctx;
    str allow_origin;  /* for CORS; borrows parser.head */
    const void *route; /* the service's own note of what was asked for */
    int stop_code;     /* why on_body stopped */
    char request_id[32];
    uint64_t request_ms; /* when its head was complete */
    int status;          /* of the answer, once it has begun */
    char note[80];       /* for the log, by who answers */
    bool is_reading, is_processing, is_sending, is_ticking;
    bool is_eof;     /* the client sends no more */
    bool is_broken;  /* a write failed; closed at the next turn of the loop */
    bool closes;     /* after this answer */
    bool is_chunked; /* how the stream is framed */
    bool was_shut;
    bool has_last_words; /* a fixed answer goes out behind `out` */
};

/* Take over the connection that waits at the listener; it owns itself. NULL without memory: then it
 * still waits. */
conn *conn_accept(listener *l);

/* --- for services ------------------------------------------------------------------------------
 */

static inline const http_head *conn_head(const conn *c)
{
    return &c->parser.head;
}
static inline str conn_body(const conn *c)
{
    return buf_str(&c->body);
}

/* The body becomes the caller's; listener_drop_body() when it is freed. */
buf conn_take_body(conn *c);

/* Answer later. `owner` must outlive the answer. */
void conn_own(conn *c, const conn_owner *owner, void *ctx);

/* A complete answer. content_type NULL is JSON; extra may be NULL, else complete field lines. */
void conn_reply(conn *c, int code, const char *content_type, str body, const char *extra);

/* The same; without memory for the body it is an error. */
void conn_reply_buf(conn *c, int code, const char *content_type, const buf *body);

/* An answer without a body (204). */
void conn_reply_empty(conn *c, int code, const char *extra);

/* The error in the service's shape, with the fields that belong to it (Retry-After,
 * WWW-Authenticate). `extra` as above. */
void conn_reply_error(conn *c, const api_error *a, const char *extra);

/* An answer in pieces. put returns false when more than the bound is waiting to be sent, or there
 * is no memory: the caller should conn_abort(). Nothing leaves before conn_flush() or
 * conn_stream_end(). */
void conn_stream_begin(conn *c, const char *content_type, const char *extra);
bool conn_stream_put(conn *c, str bytes);
void conn_stream_end(conn *c);
void conn_flush(conn *c);

/* Close without an answer, or within one. The owner is not told. */
void conn_abort(conn *c);

/* --- between conn.c, conn_write.c and listen.c -------------------------------------------------
 */

/* The client left or must go: tell the owner, close. */
void conn_cut(conn *c);
void conn_close(conn *c);
/* The answer is complete in `out`: on to the next request, or close. */
void conn_end_exchange(conn *c);
/* Read on after waiting for an answer or for bytes to leave. */
void conn_resume(conn *c);
/* Run the timer that fits the phase. */
void conn_set_timer(conn *c);
/* Bytes that have not left. */
size_t conn_unsent(const conn *c);
/* Everything written so far has left. */
void conn_on_sent(conn *c);
/* For a server that stops: closes when idle, else after the answer. */
void conn_drain(conn *c);

#endif
