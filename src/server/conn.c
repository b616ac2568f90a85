/* The receiving side of a connection: its phases, its deadlines and its end. */
#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "server/listen_priv.h"

enum {
    PENDING_MAX = 64 << 10,  /* bytes of later requests kept while one is busy */
    REPLIES_MAX = 256 << 10, /* unsent answers to pipelined requests before reading stops */
    READ_BYTES = 64 << 10,
    REFUSED_MAX = 1024, /* connections above the limit that are told so */
};

/* --- life --------------------------------------------------------------------------------------
 */

static void on_closed(uv_handle_t *handle)
{
    conn *c = handle->data;
    listener *l = c->l;
    if (--c->n_handles > 0) return;
    if (c->prev)
        c->prev->next = c->next;
    else
        l->first = c->next;
    if (c->next) c->next->prev = c->prev;
    l->n_conns--;
    l->unsent_bytes -= c->out.len + c->sending.len;
    l->body_bytes -= c->body.len;
    http_parser_fini(&c->parser);
    buf_fini(&c->body);
    buf_fini(&c->pending);
    buf_fini(&c->out);
    buf_fini(&c->sending);
    mem_free(c);
}

/* The request is over, if there is one. */
static void tell_done(conn *c, bool is_whole)
{
    const http_service *service = &c->l->service;
    if (service->on_done) service->on_done(service->ctx, c, is_whole);
    c->request_id[0] = c->note[0] = 0;
    c->status = 0;
}

void conn_close(conn *c)
{
    if (c->phase == CONN_CLOSING) return;
    if (c->request_id[0]) tell_done(c, false);
    c->phase = CONN_CLOSING;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
    uv_close((uv_handle_t *)&c->timer, on_closed);
}

void conn_cut(conn *c)
{
    const conn_owner *owner = c->owner;
    if (c->phase == CONN_CLOSING) return;
    c->owner = NULL;
    conn_close(c);
    if (owner) owner->on_gone(c->owner_ctx);
}

void conn_abort(conn *c)
{
    c->owner = NULL;
    conn_close(c);
}

void conn_drain(conn *c)
{
    if (c->phase == CONN_IDLE && conn_unsent(c) == 0)
        conn_close(c);
    else
        c->closes = true;
}

/* --- deadlines ---------------------------------------------------------------------------------
 */

static void set_phase(conn *c, conn_phase phase)
{
    c->phase = phase;
    c->phase_ms = c->read_ms = uv_now(c->l->loop);
    conn_set_timer(c);
}

static void refuse(conn *c, int http, const char *code, const char *message)
{
    api_error a;
    api_error_set(&a, http, code, NULL, "%s", message);
    conn_reply_error(c, &a, NULL);
}

/* Bytes are on their way and none has left for too long. Those that nobody has flushed yet are no
 * fault of the reader. */
static bool is_stalled(conn *c, int64_t now)
{
    if (!c->is_sending) return false;
    size_t queue = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);
    if (queue < c->queue_seen) c->progress_ms = (uint64_t)now;
    c->queue_seen = queue;
    return now - (int64_t)c->progress_ms >= c->l->limits.stall_ms;
}

static bool is_body_late(const conn *c, int64_t now)
{
    const http_limits *m = &c->l->limits;
    int64_t allowed = m->body_idle_ms + (int64_t)c->body.len * 1000 / m->body_rate;
    return now - (int64_t)c->read_ms >= m->body_idle_ms || now - (int64_t)c->phase_ms >= allowed;
}

static void on_timer(uv_timer_t *timer)
{
    conn *c = timer->data;
    const http_limits *m = &c->l->limits;
    int64_t now = (int64_t)uv_now(c->l->loop), in_phase = now - (int64_t)c->phase_ms;
    if (c->is_broken || is_stalled(c, now)) {
        conn_cut(c);
        return;
    }
    switch (c->phase) {
    case CONN_IDLE:
        if (conn_unsent(c) == 0 && in_phase >= m->idle_ms) conn_close(c);
        break;
    case CONN_HEAD:
        if (in_phase >= m->head_ms)
            refuse(c, 408, "request_timeout", "the head of the request took too long");
        break;
    case CONN_BODY:
        if (is_body_late(c, now))
            refuse(c, 408, "request_timeout", "the body of the request took too long");
        break;
    case CONN_BUSY:
        if (c->owner) c->owner->on_tick(c->owner_ctx);
        break;
    case CONN_LINGER:
        if (in_phase >= m->linger_ms && conn_unsent(c) == 0) conn_close(c);
        break;
    case CONN_CLOSING: break;
    }
}

/* An idle connection wakes the loop once, at its end; all others look at the clock regularly. */
void conn_set_timer(conn *c)
{
    const http_limits *m = &c->l->limits;
    if (c->phase == CONN_CLOSING) return;
    if (c->is_broken) {
        uv_timer_start(&c->timer, on_timer, 0, (uint64_t)m->tick_ms);
        return;
    }
    bool ticks = c->phase != CONN_IDLE || conn_unsent(c) > 0;
    if (ticks && !c->is_ticking)
        uv_timer_start(&c->timer, on_timer, (uint64_t)m->tick_ms, (uint64_t)m->tick_ms);
    if (!ticks) uv_timer_start(&c->timer, on_timer, (uint64_t)m->idle_ms, (uint64_t)m->idle_ms);
    c->is_ticking = ticks;
}

/* --- requests ----------------------------------------------------------------------------------
 */

static bool keep_body(void *ctx, str bytes)
{
    conn *c = ctx;
    listener *l = c->l;
    if ((int64_t)(c->body.len + bytes.len) > c->body_cap) {
        c->stop_code = 413;
        return false;
    }
    size_t before = c->body.len;
    if (l->body_bytes + bytes.len <= l->limits.body_budget) buf_put_str(&c->body, bytes);
    if (c->body.len == before) {
        c->stop_code = 503;
        return false;
    }
    l->body_bytes += bytes.len;
    return true;
}

static void refuse_body(conn *c)
{
    if (c->stop_code == 413)
        refuse(c, 413, "request_too_large", "the body is larger than --max-request-size");
    else
        refuse(c, 503, "frontend_overloaded", "too many large requests at a time");
}

/* "Expect: 100-continue": the client waits for a word before it sends the body. */
static bool answer_expect(conn *c, bool has_bytes)
{
    str expect = http_head_get(conn_head(c), "expect");
    if (!expect.ptr || conn_head(c)->minor == 0) return true;
    if (expect.len != 12 || strncasecmp(expect.ptr, "100-continue", 12) != 0) {
        refuse(c, 417, "invalid_request_error", "the only expectation met here is 100-continue");
        return false;
    }
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!has_bytes && conn_head(c)->body_bytes != 0) {
        buf_put(&c->out, go_on, sizeof go_on - 1);
        c->l->unsent_bytes += c->out.failed ? 0 : sizeof go_on - 1;
        c->is_broken |= c->out.failed;
    }
    return true;
}

static void take_head(conn *c, bool has_bytes)
{
    listener *l = c->l;
    snprintf(c->request_id, sizeof c->request_id, "req_%08x%08llx", l->boot_id,
             (unsigned long long)++l->n_requests);
    set_phase(c, CONN_BODY);
    c->request_ms = c->phase_ms;
    c->body_cap = l->service.on_head(l->service.ctx, c);
    if (c->phase != CONN_BODY) return; /* refused */
    c->stop_code = 413;
    if (conn_head(c)->body_bytes > c->body_cap)
        refuse_body(c);
    else
        answer_expect(c, has_bytes);
}

static void take_request(conn *c)
{
    set_phase(c, CONN_BUSY);
    c->l->service.on_request(c->l->service.ctx, c);
}

static bool may_parse(const conn *c)
{
    return (c->phase == CONN_IDLE || c->phase == CONN_HEAD || c->phase == CONN_BODY) &&
           !c->is_broken && conn_unsent(c) < REPLIES_MAX;
}

/* Work through bytes until they are used up or a request is busy; the rest waits in `pending`. */
static void take_bytes(conn *c, str in)
{
    c->is_processing = true;
    for (http_step step = HTTP_DONE; step != HTTP_MORE && may_parse(c);) {
        size_t n_used;
        step = http_parse(&c->parser, in, &n_used);
        in = str_skip(in, n_used);
        switch (step) {
        case HTTP_MORE:
            if (c->phase == CONN_IDLE && http_parser_has_begun(&c->parser)) set_phase(c, CONN_HEAD);
            break;
        case HTTP_HEAD_DONE: take_head(c, in.len > 0); break;
        case HTTP_DONE: take_request(c); break;
        case HTTP_STOPPED: refuse_body(c); break;
        case HTTP_BAD:
            refuse(c, c->parser.status,
                   c->parser.status == 503 ? "runtime_unavailable" : "invalid_request_error",
                   c->parser.reason);
            break;
        }
    }
    c->is_processing = false;
    if (in.len > 0 && c->phase != CONN_LINGER && c->phase != CONN_CLOSING) {
        buf_put_str(&c->pending, in);
        c->is_broken |= c->pending.failed;
    }
    conn_flush(c);
    conn_set_timer(c);
}

buf conn_take_body(conn *c)
{
    buf b = c->body;
    buf_init(&c->body);
    return b;
}

void conn_own(conn *c, const conn_owner *owner, void *ctx)
{
    c->owner = owner;
    c->owner_ctx = ctx;
}

void conn_end_exchange(conn *c)
{
    tell_done(c, true);
    c->owner = NULL;
    c->allow_origin = (str){NULL, 0};
    c->route = NULL;
    c->l->body_bytes -= c->body.len;
    buf_fini(&c->body);
    http_parser_reset(&c->parser);
    if (c->closes) {
        buf_fini(&c->pending);
        set_phase(c, CONN_LINGER);
        if (!c->is_processing) conn_flush(c);
        if (conn_unsent(c) == 0) conn_on_sent(c);
        return;
    }
    set_phase(c, CONN_IDLE);
    if (!c->is_processing) conn_resume(c);
}

/* --- reading -----------------------------------------------------------------------------------
 */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    conn *c = handle->data;
    *out = (uv_buf_t){.base = c->l->read_buffer, .len = READ_BYTES};
}

static void stop_reading(conn *c)
{
    if (c->is_reading) uv_read_stop((uv_stream_t *)&c->tcp);
    c->is_reading = false;
}

/* The client has closed its side. While it waits for an answer that means it has left; answers that
 * are complete still reach it. */
static void take_eof(conn *c)
{
    c->is_eof = true;
    stop_reading(c);
    if (c->phase == CONN_BUSY || c->phase == CONN_HEAD || c->phase == CONN_BODY ||
        conn_unsent(c) == 0)
        conn_cut(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    conn *c = stream->data;
    if (n == 0 || c->phase == CONN_CLOSING) return;
    if (n == UV_EOF) {
        take_eof(c);
    } else if (n < 0) {
        conn_cut(c);
    } else if (c->phase == CONN_LINGER) {
        return; /* thrown away */
    } else if (may_parse(c) && c->pending.len == 0) {
        c->read_ms = uv_now(c->l->loop);
        take_bytes(c, (str){bytes->base, (size_t)n});
    } else {
        buf_put(&c->pending, bytes->base, (size_t)n);
        c->is_broken |= c->pending.failed;
    }
    if (c->phase != CONN_CLOSING && c->pending.len >= PENDING_MAX) stop_reading(c);
}

static void start_reading(conn *c)
{
    if (c->is_reading || c->is_eof) return;
    c->is_reading = true;
    uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

void conn_resume(conn *c)
{
    if (c->pending.len > 0 && may_parse(c)) {
        buf in = c->pending;
        buf_init(&c->pending);
        take_bytes(c, buf_str(&in));
        buf_fini(&in);
    } else {
        conn_flush(c);
    }
    if (c->phase != CONN_CLOSING && c->pending.len < PENDING_MAX) start_reading(c);
}

static void on_shut(uv_shutdown_t *req, int r)
{
    (void)req;
    (void)r; /* the linger timer or the client's own close ends it */
}

void conn_on_sent(conn *c)
{
    if (c->phase == CONN_LINGER) {
        if (c->is_eof) {
            conn_close(c);
            return;
        }
        if (!c->was_shut) uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shut);
        c->was_shut = true;
        set_phase(c, CONN_LINGER); /* its time starts now */
        return;
    }
    if (c->phase == CONN_IDLE) {
        if (c->is_eof && c->pending.len == 0) {
            conn_close(c);
            return;
        }
        buf_fini(&c->out);
        buf_fini(&c->sending);
        c->phase_ms = uv_now(c->l->loop);
    }
    if (c->phase != CONN_BUSY) conn_resume(c);
    conn_set_timer(c);
}

conn *conn_accept(listener *l)
{
    conn *c = mem_new(sizeof *c);
    if (!c) return NULL;
    c->l = l;
    uv_tcp_init(l->loop, &c->tcp);
    uv_timer_init(l->loop, &c->timer);
    c->tcp.data = c->timer.data = c;
    c->n_handles = 2;
    http_parser_init(&c->parser);
    c->parser.on_body = keep_body;
    c->parser.ctx = c;
    c->next = l->first;
    if (l->first) l->first->prev = c;
    l->first = c;
    l->n_conns++;
    if (uv_accept((uv_stream_t *)&l->tcp, (uv_stream_t *)&c->tcp) != 0 ||
        l->n_conns > l->limits.max_conns + REFUSED_MAX) {
        conn_close(c);
        return c;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    int send_buffer = l->limits.send_buffer;
    if (send_buffer > 0) uv_send_buffer_size((uv_handle_t *)&c->tcp, &send_buffer);
    set_phase(c, CONN_IDLE);
    if (l->n_conns > l->limits.max_conns)
        refuse(c, 503, "frontend_overloaded", "too many connections");
    start_reading(c);
    return c;
}
