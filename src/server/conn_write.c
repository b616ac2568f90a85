/* The sending side of a connection: answers, streams, what waits and for how long. */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/http_reply_priv.h"
#include "server/listen_priv.h"

enum { KEEP_BYTES = 16 << 10 }; /* room kept in a buffer of a busy connection */

static const char type_json[] = "application/json; charset=utf-8";

/* What is said when there is no memory to say anything else. */
static const char last_words[] =
    "HTTP/1.1 503 Service Unavailable\r\nServer: riptide\r\nContent-Type: application/json; "
    "charset=utf-8\r\nContent-Length: 101\r\nConnection: close\r\nRetry-After: 1\r\n\r\n"
    "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,"
    "\"code\":\"runtime_unavailable\"}}";

size_t conn_unsent(const conn *c)
{
    return c->out.len + c->sending.len + (c->has_last_words ? sizeof last_words - 1 : 0);
}

/* --- out the door ------------------------------------------------------------------------------
 */

static void on_written(uv_write_t *req, int r)
{
    conn *c = req->data;
    c->is_sending = false;
    if (c->phase == CONN_CLOSING) return;
    c->l->unsent_bytes -= c->sending.len;
    if (c->sending.cap > KEEP_BYTES) buf_fini(&c->sending);
    buf_clear(&c->sending);
    c->progress_ms = uv_now(c->l->loop);
    if (r < 0) {
        conn_cut(c);
    } else if (conn_unsent(c) > 0) {
        conn_flush(c);
    } else {
        conn_on_sent(c);
    }
}

/* A piece of a stream mostly fits into the kernel's buffer: then there is nothing to wait for,
 * which saves uv's bookkeeping and a call of epoll_ctl. True when all has left. */
static bool write_now(conn *c)
{
    uv_buf_t bytes = {.base = c->out.ptr, .len = c->out.len};
    int n = uv_try_write((uv_stream_t *)&c->tcp, &bytes, 1);
    if (n <= 0) return false; /* an error is told by the write that follows */
    c->l->unsent_bytes -= (size_t)n;
    c->progress_ms = uv_now(c->l->loop);
    buf_consume(&c->out, (size_t)n);
    if (c->out.len == 0 && c->out.cap > KEEP_BYTES) buf_fini(&c->out);
    return c->out.len == 0;
}

void conn_flush(conn *c)
{
    if (c->is_sending || conn_unsent(c) == 0 || c->is_broken || c->phase == CONN_CLOSING) return;
    if (c->phase == CONN_BUSY && write_now(c)) return;
    buf swap = c->sending;
    c->sending = c->out;
    c->out = swap;
    uv_buf_t bytes = {.base = c->sending.ptr, .len = c->sending.len};
    if (bytes.len == 0) {
        bytes = (uv_buf_t){.base = (char *)last_words, .len = sizeof last_words - 1};
        c->has_last_words = false;
    }
    c->is_sending = true;
    c->progress_ms = uv_now(c->l->loop);
    c->write.data = c;
    int r = uv_write(&c->write, (uv_stream_t *)&c->tcp, &bytes, 1, on_written);
    c->queue_seen = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);
    if (r < 0) {
        c->is_sending = false;
        c->is_broken = true; /* the caller may still hold the connection; its timer closes it */
    }
    conn_set_timer(c);
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* Count what was put into `out` since it had `before` bytes. */
static bool count_out(conn *c, size_t before)
{
    if (c->out.failed) c->is_broken = true;
    c->l->unsent_bytes += c->out.len - before;
    return !c->out.failed && conn_unsent(c) <= c->l->limits.stream_cap &&
           c->l->unsent_bytes <= c->l->limits.unsent_budget;
}

/* A request that was not read to its end cannot be followed by another. */
static void decide_close(conn *c)
{
    c->closes |= !c->parser.is_done || !conn_head(c)->keeps_alive || c->l->is_draining || c->is_eof;
}

static void put_head(conn *c, int code, const char *content_type, int64_t body_bytes,
                     const char *extra)
{
    c->status = code;
    http_put_head(&c->out, &(http_reply_head){
                               .code = code,
                               .content_type = content_type,
                               .body_bytes = body_bytes,
                               .closes = c->closes,
                               .allow_origin = c->allow_origin,
                               .request_id = c->request_id[0] ? c->request_id : NULL,
                               .extra = extra,
                               .now_s = clock_unix_s(),
                           });
}

/* The answer did not fit in memory: take back what there is of it. */
static void reply_last_words(conn *c, size_t before)
{
    if (c->out.ptr) c->out.ptr[c->out.len = before] = 0;
    c->out.failed = false;
    c->closes = true;
    c->has_last_words = true;
    c->status = 503;
    conn_end_exchange(c);
}

void conn_reply(conn *c, int code, const char *content_type, str body, const char *extra)
{
    size_t before = c->out.len;
    decide_close(c);
    put_head(c, code, content_type ? content_type : type_json, (int64_t)body.len, extra);
    if (conn_head(c)->method != METHOD_HEAD) buf_put_str(&c->out, body);
    if (c->out.failed) {
        reply_last_words(c, before);
        return;
    }
    count_out(c, before); /* one answer may be larger than the bound of a stream */
    conn_end_exchange(c);
}

void conn_reply_buf(conn *c, int code, const char *content_type, const buf *body)
{
    if (body->failed)
        reply_last_words(c, c->out.len);
    else
        conn_reply(c, code, content_type, buf_str(body), NULL);
}

void conn_reply_empty(conn *c, int code, const char *extra)
{
    size_t before = c->out.len;
    decide_close(c);
    put_head(c, code, NULL, HTTP_BODY_NONE, extra);
    if (c->out.failed) {
        reply_last_words(c, before);
        return;
    }
    count_out(c, before);
    conn_end_exchange(c);
}

static const char *fields_of(int code)
{
    switch (code) {
    case 401: return "WWW-Authenticate: Bearer\r\n";
    case 503: return "Retry-After: 1\r\n";
    default: return NULL;
    }
}

void conn_reply_error(conn *c, const api_error *a, const char *extra)
{
    buf body;
    buf_init(&body);
    snprintf(c->note, sizeof c->note, "code=%s", a->code);
    c->l->service.put_error(c->l->service.ctx, c, a, &body);
    if (body.failed)
        reply_last_words(c, c->out.len);
    else
        conn_reply(c, a->http, NULL, buf_str(&body), extra ? extra : fields_of(a->http));
    buf_fini(&body);
}

void conn_stream_begin(conn *c, const char *content_type, const char *extra)
{
    size_t before = c->out.len;
    c->is_chunked = conn_head(c)->minor == 1;
    c->closes |= !c->is_chunked;
    decide_close(c);
    put_head(c, 200, content_type, c->is_chunked ? HTTP_BODY_CHUNKED : HTTP_BODY_UNTIL_CLOSE,
             extra);
    count_out(c, before);
}

bool conn_stream_put(conn *c, str bytes)
{
    size_t before = c->out.len;
    if (c->is_chunked)
        http_put_chunk(&c->out, bytes);
    else
        buf_put_str(&c->out, bytes);
    return count_out(c, before);
}

void conn_stream_end(conn *c)
{
    size_t before = c->out.len;
    if (c->is_chunked) http_put_last_chunk(&c->out);
    count_out(c, before);
    conn_end_exchange(c);
}
