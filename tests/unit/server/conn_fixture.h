/* conn_fixture: a server without an engine on a loop of its own; what it does is in the path. */
#ifndef RIPTIDE_TESTS_CONN_FIXTURE_H
#define RIPTIDE_TESTS_CONN_FIXTURE_H

#include <stdatomic.h>

#include "base/mem.h"
#include "base/thread.h"
#include "client.h"
#include "server/listen_priv.h"

/*   /lazy    as /stream, flushed only at the first tick
 *   /echo    the body back            /refuse  401 at the head
 *   /hold    never answers            /tick    answers at the next tick
 *   /stream  three pieces, one a tick /flood   sends until it may not
 *   /small   a body of at most 10 bytes */
typedef struct {
    uv_loop_t loop;
    uv_async_t stop;
    listener l;
    thread worker;
    atomic_int n_gone, n_held, n_requests, n_flooded, n_conns;
    uv_timer_t sample;
} echo_server;

typedef struct {
    echo_server *s;
    conn *c;
    int n_ticks;
    bool is_stream;
} held;

static inline void echo_on_gone(void *ctx)
{
    held *h = ctx;
    atomic_fetch_add(&h->s->n_gone, 1);
    mem_free(h);
}

static inline void echo_on_tick(void *ctx)
{
    held *h = ctx;
    if (!h->is_stream) {
        if (h->n_ticks < 0) return;
        conn_reply(h->c, 200, "text/plain", STR("ticked"), NULL);
        mem_free(h);
        return;
    }
    char text[32];
    snprintf(text, sizeof text, "piece %d\n", h->n_ticks++);
    assert_true(conn_stream_put(h->c, str_from(text)));
    if (h->n_ticks < 3) {
        conn_flush(h->c);
        return;
    }
    conn_stream_end(h->c);
    mem_free(h);
}

static const conn_owner echo_owner = {echo_on_gone, echo_on_tick};

static inline held *echo_hold(echo_server *s, conn *c)
{
    held *h = mem_new(sizeof *h);
    *h = (held){.s = s, .c = c};
    conn_own(c, &echo_owner, h);
    atomic_fetch_add(&s->n_held, 1);
    return h;
}

static inline int64_t echo_on_head(void *ctx, conn *c)
{
    (void)ctx;
    str path = http_head_path(conn_head(c));
    api_error a;
    if (str_is(path, "/refuse")) {
        api_error_set(&a, 401, "authentication_error", NULL, "no");
        conn_reply_error(c, &a, NULL);
    }
    return str_is(path, "/small") ? 10 : 8 << 20;
}

static inline void echo_flood(echo_server *s, conn *c)
{
    static char block[65536];
    memset(block, 'x', sizeof block);
    conn_stream_begin(c, "text/plain", NULL);
    conn_flush(c);
    while (conn_stream_put(c, (str){block, sizeof block})) atomic_fetch_add(&s->n_flooded, 1);
    conn_abort(c);
}

static inline void echo_on_request(void *ctx, conn *c)
{
    echo_server *s = ctx;
    str path = http_head_path(conn_head(c));
    atomic_fetch_add(&s->n_requests, 1);
    if (str_is(path, "/hold")) {
        echo_hold(s, c)->n_ticks = -1;
    } else if (str_is(path, "/tick")) {
        echo_hold(s, c);
    } else if (str_is(path, "/stream") || str_is(path, "/lazy")) {
        echo_hold(s, c)->is_stream = true;
        conn_stream_begin(c, "text/plain", NULL);
        if (str_is(path, "/stream")) conn_flush(c);
    } else if (str_is(path, "/flood")) {
        echo_flood(s, c);
    } else {
        conn_reply(c, 200, "text/plain", conn_body(c), NULL);
    }
}

static inline void echo_put_error(void *ctx, conn *c, const api_error *a, buf *out)
{
    (void)ctx;
    (void)c;
    api_error_put_openai(out, a);
}

static inline void echo_on_sample(uv_timer_t *t)
{
    echo_server *s = t->data;
    atomic_store(&s->n_conns, s->l.n_conns);
}

static inline void echo_on_stop(uv_async_t *a)
{
    echo_server *s = a->data;
    listener_close(&s->l);
    uv_close((uv_handle_t *)&s->stop, NULL);
    uv_close((uv_handle_t *)&s->sample, NULL);
}

static inline void *echo_run(void *arg)
{
    echo_server *s = arg;
    listener_mask_signals();
    uv_run(&s->loop, UV_RUN_DEFAULT);
    return NULL;
}

static inline http_limits echo_limits(void)
{
    http_limits m = http_limits_default();
    m.tick_ms = 20;
    return m;
}

static inline echo_server *echo_open(http_limits limits)
{
    err e = {0};
    echo_server *s = mem_new(sizeof *s);
    uv_loop_init(&s->loop);
    uv_async_init(&s->loop, &s->stop, echo_on_stop);
    uv_timer_init(&s->loop, &s->sample);
    s->stop.data = s->sample.data = s;
    uv_timer_start(&s->sample, echo_on_sample, 5, 5);
    http_service service = {echo_on_head, echo_on_request, echo_put_error, s, NULL};
    CHECK_OK(listener_open(&s->l, &s->loop, "127.0.0.1", 0, &limits, &service, &e), &e);
    CHECK_OK(listener_start(&s->l, &e), &e);
    CHECK_OK(thread_start(&s->worker, "loop", echo_run, s, &e), &e);
    return s;
}

/* Everything must be given back. */
static inline void echo_close(echo_server *s)
{
    uv_async_send(&s->stop);
    thread_join(&s->worker);
    assert_int_equal(s->l.n_conns, 0);
    assert_int_equal(s->l.unsent_bytes, 0);
    assert_int_equal(s->l.body_bytes, 0);
    listener_fini(&s->l);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    mem_free(s);
}

#define HOST "Host: localhost\r\n"
#define CLOSE "Connection: close\r\n"

#endif
