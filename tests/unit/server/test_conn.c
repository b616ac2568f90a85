/* tags: timeout=120 */
#include <stdatomic.h>

#include "base/mem.h"
#include "base/thread.h"
#include "client.h"
#include "hostile.h"
#include "server/listen_priv.h"
#include "support/guard.h"

/* A server without an engine: what it does is in the path.
 *
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

static void on_gone(void *ctx)
{
    held *h = ctx;
    atomic_fetch_add(&h->s->n_gone, 1);
    mem_free(h);
}

static void on_tick(void *ctx)
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

static const conn_owner owner = {on_gone, on_tick};

static held *hold(echo_server *s, conn *c)
{
    held *h = mem_new(sizeof *h);
    *h = (held){.s = s, .c = c};
    conn_own(c, &owner, h);
    atomic_fetch_add(&s->n_held, 1);
    return h;
}

static int64_t on_head(void *ctx, conn *c)
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

static void flood(echo_server *s, conn *c)
{
    static char block[65536];
    memset(block, 'x', sizeof block);
    conn_stream_begin(c, "text/plain", NULL);
    conn_flush(c);
    while (conn_stream_put(c, (str){block, sizeof block})) atomic_fetch_add(&s->n_flooded, 1);
    conn_abort(c);
}

static void on_request(void *ctx, conn *c)
{
    echo_server *s = ctx;
    str path = http_head_path(conn_head(c));
    atomic_fetch_add(&s->n_requests, 1);
    if (str_is(path, "/hold")) {
        hold(s, c)->n_ticks = -1;
    } else if (str_is(path, "/tick")) {
        hold(s, c);
    } else if (str_is(path, "/stream")) {
        hold(s, c)->is_stream = true;
        conn_stream_begin(c, "text/plain", NULL);
        conn_flush(c);
    } else if (str_is(path, "/flood")) {
        flood(s, c);
    } else {
        conn_reply(c, 200, "text/plain", conn_body(c), NULL);
    }
}

static void put_error(void *ctx, conn *c, const api_error *a, buf *out)
{
    (void)ctx;
    (void)c;
    api_error_put_openai(out, a);
}

static void on_sample(uv_timer_t *t)
{
    echo_server *s = t->data;
    atomic_store(&s->n_conns, s->l.n_conns);
}

static void on_stop(uv_async_t *a)
{
    echo_server *s = a->data;
    listener_close(&s->l);
    uv_close((uv_handle_t *)&s->stop, NULL);
    uv_close((uv_handle_t *)&s->sample, NULL);
}

static void *run(void *arg)
{
    echo_server *s = arg;
    uv_run(&s->loop, UV_RUN_DEFAULT);
    return NULL;
}

static http_limits quick(void)
{
    http_limits m = http_limits_default();
    m.tick_ms = 20;
    return m;
}

static echo_server *serve(http_limits limits)
{
    err e = {0};
    echo_server *s = mem_new(sizeof *s);
    uv_loop_init(&s->loop);
    uv_async_init(&s->loop, &s->stop, on_stop);
    uv_timer_init(&s->loop, &s->sample);
    s->stop.data = s->sample.data = s;
    uv_timer_start(&s->sample, on_sample, 5, 5);
    http_service service = {on_head, on_request, put_error, s};
    CHECK_OK(listener_open(&s->l, &s->loop, "127.0.0.1", 0, &limits, &service, &e), &e);
    CHECK_OK(listener_start(&s->l, &e), &e);
    CHECK_OK(thread_start(&s->worker, "loop", run, s, &e), &e);
    return s;
}

/* Everything must be given back. */
static void end(echo_server *s)
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

TEST(a_connection_is_kept_for_many_requests)
{
    int64_t before = mem_count().n_live;
    echo_server *s = serve(quick());
    buf in;
    buf_init(&in);
    int fd = client_open(s->l.port);
    for (int i = 0; i < 5; i++) {
        buf_clear(&in);
        client_ask(fd, STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"), &in,
                   "hello");
        assert_int_equal(client_status(&in), 200);
        assert_true(
            str_find(buf_str(&in), STR("Content-Length: 5\r\nConnection: keep-alive\r\n"), 0) > 0);
    }
    close(fd);
    end(s);
    buf_fini(&in);
    assert_int_equal(mem_count().n_live, before);
}

TEST(every_byte_may_come_alone)
{
    echo_server *s = serve(quick());
    buf in;
    buf_init(&in);
    int fd = client_open(s->l.port);
    str q = STR("POST /echo HTTP/1.1\r\n" HOST
                "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    for (size_t i = 0; i < q.len; i++) {
        assert_true(client_send(fd, str_slice(q, i, i + 1)));
        usleep(200);
    }
    assert_true(client_read(fd, &in, 0, "abcde", CLIENT_WAIT_MS));
    close(fd);
    end(s);
    buf_fini(&in);
}

TEST(pipelined_requests_are_answered_in_order)
{
    echo_server *s = serve(quick());
    buf in;
    buf_init(&in);
    client_fetch(s->l.port,
                 STR("POST /tick HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"
                     "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\none"
                     "GET /stream HTTP/1.1\r\n" HOST "\r\n"
                     "POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 3\r\n\r\ntwo"),
                 &in);
    static const char *const order[] = {"ticked", "one", "8\r\npiece 0\n\r\n",
                                        "8\r\npiece 2\n\r\n0\r\n\r\n", "two"};
    int64_t at = 0;
    for (int i = 0; i < 5; i++) {
        at = str_find(buf_str(&in), str_from(order[i]), (size_t)at);
        if (at < 0) fail_msg("no \"%s\" in its place: %.*s", order[i], STR_ARG(buf_str(&in)));
    }
    assert_int_equal(atomic_load(&s->n_requests), 4);
    end(s);
    buf_fini(&in);
}

/* More requests at once than may wait, and answers that nobody reads at first. */
TEST(a_flood_of_pipelined_requests_is_bounded_and_answered)
{
    enum { N = 20000 };
    echo_server *s = serve(quick());
    buf in, q;
    buf_init(&in);
    buf_init(&q);
    for (int i = 0; i < N; i++) buf_put_c(&q, "GET /echo HTTP/1.1\r\n" HOST "\r\n");
    buf_put_c(&q, "POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 4\r\n\r\nlast");
    int fd = client_open(s->l.port);
    size_t at = 0;
    /* One thread plays both sides of the client: it sends what it can and reads what there is. */
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN | (at < q.len ? POLLOUT : 0)};
        assert_true(poll(&p, 1, CLIENT_WAIT_MS) > 0);
        if (p.revents & POLLOUT) {
            size_t n = q.len - at < 65536 ? q.len - at : 65536;
            ssize_t sent = send(fd, q.ptr + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent > 0) at += (size_t)sent;
        }
        if (p.revents & (POLLIN | POLLHUP)) {
            char bytes[65536];
            ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
            if (n == 0) break;
            if (n > 0) buf_put(&in, bytes, (size_t)n);
        }
    }
    int n = 0;
    for (int64_t found = 0;
         (found = str_find(buf_str(&in), STR("HTTP/1.1 200 OK"), (size_t)found)) >= 0; found++)
        n++;
    assert_int_equal(n, N + 1);
    assert_true(str_ends(buf_str(&in), STR("last")));
    close(fd);
    end(s);
    buf_fini(&in);
    buf_fini(&q);
}

TEST(each_hostile_request_is_refused_and_the_connection_closed)
{
    echo_server *s = serve(quick());
    static char big[HOSTILE_MEGABYTE];
    str megabyte = {big, hostile_megabyte(big)};
    buf in;
    buf_init(&in);
    for (int i = 0; i < N_HOSTILE; i++) {
        const hostile_request *r = &hostile_requests[i];
        client_fetch(s->l.port, r->bytes.ptr ? r->bytes : megabyte, &in);
        if (client_status(&in) != r->status) fail_msg("%s: %.*s", r->name, STR_ARG(buf_str(&in)));
        assert_true(str_find(buf_str(&in), STR("Connection: close"), 0) > 0);
        assert_true(str_find(buf_str(&in), STR("\"error\":{\"message\":"), 0) > 0);
    }
    assert_int_equal(atomic_load(&s->n_requests), 0);
    end(s);
    buf_fini(&in);
}

TEST(a_request_is_refused_before_its_body_is_sent)
{
    echo_server *s = serve(quick());
    buf in;
    buf_init(&in);
    client_fetch(s->l.port, STR("POST /refuse HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n"),
                 &in);
    assert_int_equal(client_status(&in), 401);
    assert_true(str_find(buf_str(&in), STR("WWW-Authenticate: Bearer\r\n"), 0) > 0);
    client_fetch(s->l.port, STR("POST /small HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n"), &in);
    assert_int_equal(client_status(&in), 413);
    client_fetch(
        s->l.port,
        STR("POST /small HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890"),
        &in);
    assert_int_equal(client_status(&in), 413);
    assert_int_equal(atomic_load(&s->n_requests), 0);
    /* Without a body the connection lives on. */
    int fd = client_open(s->l.port);
    buf_clear(&in);
    client_ask(fd, STR("GET /refuse HTTP/1.1\r\n" HOST "\r\nGET /echo HTTP/1.1\r\n" HOST "\r\n"),
               &in, "200 OK");
    close(fd);
    end(s);
    buf_fini(&in);
}

TEST(a_client_that_waits_for_100_gets_it)
{
    echo_server *s = serve(quick());
    buf in;
    buf_init(&in);
    int fd = client_open(s->l.port);
    client_ask(
        fd, STR("POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n"),
        &in, "HTTP/1.1 100 Continue\r\n\r\n");
    client_ask(fd, STR("body"), &in, "\r\n\r\nbody");
    buf_clear(&in);
    client_ask(
        fd,
        STR("POST /small HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 11\r\n\r\n"),
        &in, "413 ");
    close(fd);
    client_fetch(
        s->l.port,
        STR("POST /echo HTTP/1.1\r\n" HOST "Expect: cake\r\nContent-Length: 4\r\n\r\nbody"), &in);
    assert_int_equal(client_status(&in), 417);
    end(s);
    buf_fini(&in);
}

TEST(head_gets_the_head_alone)
{
    echo_server *s = serve(quick());
    buf in;
    buf_init(&in);
    client_fetch(s->l.port,
                 STR("HEAD /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 4\r\n\r\nbody"), &in);
    assert_int_equal(client_status(&in), 200);
    assert_true(str_find(buf_str(&in), STR("Content-Length: 4\r\n"), 0) > 0);
    assert_true(str_ends(buf_str(&in), STR("\r\n\r\n")));
    end(s);
    buf_fini(&in);
}

TEST(http_1_0_gets_a_stream_without_chunks)
{
    echo_server *s = serve(quick());
    buf in;
    buf_init(&in);
    client_fetch(s->l.port, STR("GET /stream HTTP/1.0\r\n\r\n"), &in);
    assert_true(str_ends(buf_str(&in), STR("\r\n\r\npiece 0\npiece 1\npiece 2\n")));
    assert_true(str_find(buf_str(&in), STR("chunked"), 0) < 0);
    end(s);
    buf_fini(&in);
}

TEST(a_client_that_leaves_is_noticed_at_once)
{
    http_limits m = quick();
    m.tick_ms = 100000; /* not by looking now and then */
    echo_server *s = serve(m);
    for (int how = 0; how < 3; how++) {
        int fd = client_open(s->l.port);
        assert_true(client_send(fd, STR("GET /hold HTTP/1.1\r\n" HOST "\r\n")));
        CLIENT_WAIT_FOR(atomic_load(&s->n_held) == how + 1);
        struct linger reset = {1, 0};
        if (how == 1) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        int64_t start = clock_ns();
        if (how == 2)
            shutdown(fd, SHUT_WR);
        else
            close(fd);
        CLIENT_WAIT_FOR(atomic_load(&s->n_gone) == how + 1);
        assert_true(clock_ms_since(start) < 1000);
        if (how == 2) close(fd);
    }
    end(s);
}

TEST(an_answer_reaches_a_client_that_has_closed_its_side)
{
    echo_server *s = serve(quick());
    buf in;
    buf_init(&in);
    int fd = client_open(s->l.port);
    assert_true(
        client_send(fd, STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc")));
    shutdown(fd, SHUT_WR);
    assert_true(client_read(fd, &in, 0, NULL, CLIENT_WAIT_MS));
    assert_true(str_ends(buf_str(&in), STR("abc")));
    close(fd);
    end(s);
    buf_fini(&in);
}

TEST(a_slow_head_and_a_slow_body_end_with_408)
{
    http_limits m = quick();
    m.head_ms = 100;
    m.body_idle_ms = 150;
    echo_server *s = serve(m);
    buf in;
    buf_init(&in);
    client_fetch(s->l.port, STR("GET /echo HTTP/1.1\r\nHost: lo"), &in);
    assert_int_equal(client_status(&in), 408);
    client_fetch(s->l.port, STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nabc"),
                 &in);
    assert_int_equal(client_status(&in), 408);
    /* A byte now and then is no way out: a body has a time as a whole. */
    int fd = client_open(s->l.port);
    buf_clear(&in);
    assert_true(
        client_send(fd, STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n")));
    for (int i = 0; i < 1000 && client_status(&in) != 408; i++) {
        client_send(fd, STR("x"));
        client_read(fd, &in, 0, "408", 20);
    }
    assert_int_equal(client_status(&in), 408);
    close(fd);
    end(s);
    buf_fini(&in);
}

TEST(an_idle_connection_is_closed_without_a_word)
{
    http_limits m = quick();
    m.idle_ms = 60;
    echo_server *s = serve(m);
    buf in;
    buf_init(&in);
    int fd = client_open(s->l.port);
    assert_true(client_read(fd, &in, 0, NULL, CLIENT_WAIT_MS));
    assert_int_equal(in.len, 0);
    close(fd);
    fd = client_open(s->l.port);
    client_ask(fd, STR("GET /echo HTTP/1.1\r\n" HOST "\r\n"), &in, "\r\n\r\n");
    size_t before = in.len;
    assert_true(client_read(fd, &in, 0, NULL, CLIENT_WAIT_MS));
    assert_int_equal(in.len, before);
    close(fd);
    end(s);
    buf_fini(&in);
}

TEST(a_reader_that_stops_is_cut_off_at_the_bound)
{
    http_limits m = quick();
    m.stream_cap = 1 << 20;
    m.send_buffer = 16 << 10;
    echo_server *s = serve(m);
    int fd = client_open(s->l.port);
    assert_true(client_send(fd, STR("GET /flood HTTP/1.1\r\n" HOST "\r\n")));
    CLIENT_WAIT_FOR(atomic_load(&s->n_requests) == 1);
    CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 0);
    assert_in_range(atomic_load(&s->n_flooded), 8, 20);
    close(fd);
    end(s);
}

TEST(a_large_answer_that_nobody_reads_stalls_and_ends)
{
    http_limits m = quick();
    m.stall_ms = 200;
    m.send_buffer = 16 << 10;
    echo_server *s = serve(m);
    static char body[8 << 20];
    memset(body, 'b', sizeof body);
    char head[128];
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
             sizeof body);
    int fd = client_open(s->l.port);
    assert_true(client_send(fd, str_from(head)));
    assert_true(client_send(fd, (str){body, sizeof body}));
    CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 1 && atomic_load(&s->n_requests) == 1);
    CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 0);
    close(fd);
    end(s);
}

TEST(bodies_share_one_budget)
{
    http_limits m = quick();
    m.body_budget = 1 << 20;
    echo_server *s = serve(m);
    buf in;
    buf_init(&in);
    static char body[700000];
    int a = client_open(s->l.port);
    assert_true(
        client_send(a, STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 700001\r\n\r\n")));
    assert_true(client_send(a, (str){body, sizeof body}));
    usleep(50000);
    int b = client_open(s->l.port);
    client_send(b, STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 700000\r\n\r\n"));
    client_send(b, (str){body, sizeof body});
    assert_true(client_read(b, &in, 0, NULL, CLIENT_WAIT_MS));
    assert_int_equal(client_status(&in), 503);
    assert_true(str_find(buf_str(&in), STR("Retry-After: 1\r\n"), 0) > 0);
    close(b);
    buf_clear(&in);
    client_ask(a, STR("x"), &in, "Content-Length: 700001");
    close(a);
    end(s);
    buf_fini(&in);
}

TEST(connections_beyond_the_limit_are_told_so)
{
    http_limits m = quick();
    m.max_conns = 3;
    echo_server *s = serve(m);
    int fds[3];
    buf in;
    buf_init(&in);
    for (int i = 0; i < 3; i++) {
        fds[i] = client_open(s->l.port);
        buf_clear(&in);
        client_ask(fds[i], STR("GET /echo HTTP/1.1\r\n" HOST "\r\n"), &in, "200 OK");
    }
    client_fetch(s->l.port, STR(""), &in);
    assert_int_equal(client_status(&in), 503);
    close(fds[0]);
    CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 2);
    int fd = client_open(s->l.port);
    buf_clear(&in);
    client_ask(fd, STR("GET /echo HTTP/1.1\r\n" HOST "\r\n"), &in, "200 OK");
    for (int i = 1; i < 3; i++) close(fds[i]);
    close(fd);
    end(s);
    buf_fini(&in);
}

TEST(a_taken_port_is_an_error_before_listening)
{
    echo_server *s = serve(quick());
    err e = {0};
    uv_loop_t loop;
    listener l;
    http_limits m = quick();
    http_service service = {on_head, on_request, put_error, NULL};
    uv_loop_init(&loop);
    CHECK_STATUS(listener_open(&l, &loop, "127.0.0.1", s->l.port, &m, &service, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "address already in use"));
    listener_close(&l);
    uv_run(&loop, UV_RUN_DEFAULT);
    listener_fini(&l);
    assert_int_equal(uv_loop_close(&loop), 0);
    end(s);
}

TEST(a_name_that_does_not_resolve_is_an_error)
{
    err e = {0};
    uv_loop_t loop;
    listener l;
    http_limits m = quick();
    http_service service = {on_head, on_request, put_error, NULL};
    uv_loop_init(&loop);
    CHECK_STATUS(listener_open(&l, &loop, "no such host", 0, &m, &service, &e), ERR_IO);
    listener_close(&l);
    uv_run(&loop, UV_RUN_DEFAULT);
    listener_fini(&l);
    assert_int_equal(uv_loop_close(&loop), 0);
}

TEST(stopping_cuts_what_is_open)
{
    echo_server *s = serve(quick());
    int fd = client_open(s->l.port);
    assert_true(client_send(fd, STR("GET /hold HTTP/1.1\r\n" HOST "\r\n")));
    CLIENT_WAIT_FOR(atomic_load(&s->n_held) == 1);
    uv_async_send(&s->stop);
    buf in;
    buf_init(&in);
    assert_true(client_read(fd, &in, 0, NULL, CLIENT_WAIT_MS));
    close(fd);
    CLIENT_WAIT_FOR(atomic_load(&s->n_gone) == 1);
    thread_join(&s->worker);
    listener_fini(&s->l);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    mem_free(s);
    buf_fini(&in);
}
