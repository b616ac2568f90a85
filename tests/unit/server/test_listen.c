/* tags: threads */
#include "conn_fixture.h"

TEST(bodies_share_one_budget)
{
    http_limits m = echo_limits();
    m.body_budget = 1 << 20;
    echo_server *s = echo_open(m);
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
    echo_close(s);
    buf_fini(&in);
}

TEST(connections_beyond_the_limit_are_told_so)
{
    http_limits m = echo_limits();
    m.max_conns = 3;
    echo_server *s = echo_open(m);
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
    CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 3); /* or the next line sees a count from before */
    close(fds[0]);
    CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 2);
    int fd = client_open(s->l.port);
    buf_clear(&in);
    client_ask(fd, STR("GET /echo HTTP/1.1\r\n" HOST "\r\n"), &in, "200 OK");
    for (int i = 1; i < 3; i++) close(fds[i]);
    close(fd);
    echo_close(s);
    buf_fini(&in);
}

TEST(a_taken_port_is_an_error_before_listening)
{
    echo_server *s = echo_open(echo_limits());
    err e = {0};
    uv_loop_t loop;
    listener l;
    http_limits m = echo_limits();
    http_service service = {echo_on_head, echo_on_request, echo_put_error, NULL, NULL};
    uv_loop_init(&loop);
    CHECK_STATUS(listener_open(&l, &loop, "127.0.0.1", s->l.port, &m, &service, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "address already in use"));
    listener_close(&l);
    uv_run(&loop, UV_RUN_DEFAULT);
    listener_fini(&l);
    assert_int_equal(uv_loop_close(&loop), 0);
    echo_close(s);
}

TEST(a_name_that_does_not_resolve_is_an_error)
{
    err e = {0};
    uv_loop_t loop;
    listener l;
    http_limits m = echo_limits();
    http_service service = {echo_on_head, echo_on_request, echo_put_error, NULL, NULL};
    uv_loop_init(&loop);
    CHECK_STATUS(listener_open(&l, &loop, "no such host", 0, &m, &service, &e), ERR_IO);
    listener_close(&l);
    uv_run(&loop, UV_RUN_DEFAULT);
    listener_fini(&l);
    assert_int_equal(uv_loop_close(&loop), 0);
}

TEST(stopping_cuts_what_is_open)
{
    echo_server *s = echo_open(echo_limits());
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
