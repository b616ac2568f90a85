/* tags: threads, timeout=120 */
#include "conn_fixture.h"
#include "hostile.h"

TEST(a_connection_is_kept_for_many_requests)
{
    int64_t before = mem_count().n_live;
    echo_server *s = echo_open(echo_limits());
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
    echo_close(s);
    buf_fini(&in);
    assert_int_equal(mem_count().n_live, before);
}

TEST(every_byte_may_come_alone)
{
    echo_server *s = echo_open(echo_limits());
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
    echo_close(s);
    buf_fini(&in);
}

TEST(pipelined_requests_are_answered_in_order)
{
    echo_server *s = echo_open(echo_limits());
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
    echo_close(s);
    buf_fini(&in);
}

/* More requests at once than may wait, and answers that nobody reads at first. */
TEST(a_flood_of_pipelined_requests_is_bounded_and_answered)
{
    enum { N = 20000 };
    echo_server *s = echo_open(echo_limits());
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
    /* Each is looked for near the one before: the thread sanitizer reads all that is searched. */
    enum { NEAR = 4096 };
    str all = buf_str(&in);
    int n = 0;
    for (size_t from = 0; from < all.len; n++) {
        size_t to = all.len - from < NEAR ? all.len : from + NEAR;
        int64_t found = str_find(str_slice(all, from, to), STR("HTTP/1.1 200 OK"), 0);
        if (found < 0) break;
        from += (size_t)found + 1;
    }
    assert_int_equal(n, N + 1);
    assert_true(str_ends(buf_str(&in), STR("last")));
    close(fd);
    echo_close(s);
    buf_fini(&in);
    buf_fini(&q);
}

TEST(each_hostile_request_is_refused_and_the_connection_closed)
{
    echo_server *s = echo_open(echo_limits());
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
    echo_close(s);
    buf_fini(&in);
}

TEST(a_request_is_refused_before_its_body_is_sent)
{
    echo_server *s = echo_open(echo_limits());
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
    echo_close(s);
    buf_fini(&in);
}

TEST(a_client_that_waits_for_100_gets_it)
{
    echo_server *s = echo_open(echo_limits());
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
    echo_close(s);
    buf_fini(&in);
}

TEST(a_client_that_leaves_is_noticed_at_once)
{
    http_limits m = echo_limits();
    m.tick_ms = 1000000; /* longer than the test waits: not by looking now and then */
    echo_server *s = echo_open(m);
    for (int how = 0; how < 3; how++) {
        int fd = client_open(s->l.port);
        assert_true(client_send(fd, STR("GET /hold HTTP/1.1\r\n" HOST "\r\n")));
        CLIENT_WAIT_FOR(atomic_load(&s->n_held) == how + 1);
        struct linger reset = {1, 0};
        if (how == 1) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        if (how == 2)
            shutdown(fd, SHUT_WR);
        else
            close(fd);
        CLIENT_WAIT_FOR(atomic_load(&s->n_gone) == how + 1);
        if (how == 2) close(fd);
    }
    echo_close(s);
}

TEST(an_answer_reaches_a_client_that_has_closed_its_side)
{
    echo_server *s = echo_open(echo_limits());
    buf in;
    buf_init(&in);
    int fd = client_open(s->l.port);
    assert_true(
        client_send(fd, STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc")));
    shutdown(fd, SHUT_WR);
    assert_true(client_read(fd, &in, 0, NULL, CLIENT_WAIT_MS));
    assert_true(str_ends(buf_str(&in), STR("abc")));
    close(fd);
    echo_close(s);
    buf_fini(&in);
}

TEST(a_slow_head_and_a_slow_body_end_with_408)
{
    http_limits m = echo_limits();
    m.head_ms = 100;
    m.body_idle_ms = 150;
    echo_server *s = echo_open(m);
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
    echo_close(s);
    buf_fini(&in);
}

TEST(an_idle_connection_is_closed_without_a_word)
{
    http_limits m = echo_limits();
    m.idle_ms = 60;
    echo_server *s = echo_open(m);
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
    echo_close(s);
    buf_fini(&in);
}

/* What bench/http_probe.c weighs for 5,000: between requests nothing is kept but the connection. */
TEST(an_idle_connection_is_one_block_of_memory)
{
    enum { N = 64 };
    int fds[N];
    buf in;
    buf_init(&in);
    echo_server *s = echo_open(echo_limits());
    int64_t before = 0;
    for (int i = 0; i < N; i++) {
        fds[i] = client_open(s->l.port);
        buf_clear(&in);
        client_ask(fds[i], STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"),
                   &in, "hello");
        if (i > 0) continue;
        CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 1);
        before = mem_count().n_live - 1;
    }
    buf_fini(&in);
    CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == N);
    CLIENT_WAIT_FOR(mem_count().n_live <= before + N);
    for (int i = 0; i < N; i++) close(fds[i]);
    echo_close(s);
}

/* Slow heads, slow bodies and slow readers at a time, in the manner of slowhttptest. */
TEST(slow_clients_hold_up_nobody_and_are_ended)
{
    enum { N = 40, ROUNDS = 12 };
    static const char *const begun[] = {
        "GET /echo HTTP/1.1\r\nX-A: ", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 999\r\n\r\n",
        "GET /flood HTTP/1.1\r\n" HOST "\r\n"};
    http_limits m = echo_limits();
    m.head_ms = m.body_idle_ms = m.stall_ms = 400;
    m.body_rate = 1 << 10;
    echo_server *s = echo_open(m);
    int fds[3 * N];
    buf in;
    buf_init(&in);
    for (int i = 0; i < 3 * N; i++) {
        fds[i] = client_open(s->l.port);
        assert_true(client_send(fds[i], str_from(begun[i % 3])));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3 * N; i++)
            if (i % 3 < 2) client_send(fds[i], STR("x")); /* a byte now and then */
        client_fetch(s->l.port,
                     STR("POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 2\r\n\r\nok"), &in);
        assert_int_equal(client_status(&in), 200);
        usleep(20000);
    }
    /* They send on, but not enough: each has an end. */
    CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 0);
    for (int i = 0; i < 3 * N; i++) close(fds[i]);
    echo_close(s);
    buf_fini(&in);
}
