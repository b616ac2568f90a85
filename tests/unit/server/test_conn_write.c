/* tags: threads, timeout=120 */
#include "conn_fixture.h"

TEST(head_gets_the_head_alone)
{
    echo_server *s = echo_open(echo_limits());
    buf in;
    buf_init(&in);
    client_fetch(s->l.port,
                 STR("HEAD /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 4\r\n\r\nbody"), &in);
    assert_int_equal(client_status(&in), 200);
    assert_true(str_find(buf_str(&in), STR("Content-Length: 4\r\n"), 0) > 0);
    assert_true(str_ends(buf_str(&in), STR("\r\n\r\n")));
    echo_close(s);
    buf_fini(&in);
}

TEST(http_1_0_gets_a_stream_without_chunks)
{
    echo_server *s = echo_open(echo_limits());
    buf in;
    buf_init(&in);
    client_fetch(s->l.port, STR("GET /stream HTTP/1.0\r\n\r\n"), &in);
    assert_true(str_ends(buf_str(&in), STR("\r\n\r\npiece 0\npiece 1\npiece 2\n")));
    assert_true(str_find(buf_str(&in), STR("chunked"), 0) < 0);
    echo_close(s);
    buf_fini(&in);
}

TEST(a_reader_that_stops_is_cut_off_at_the_bound)
{
    http_limits m = echo_limits();
    m.stream_cap = 1 << 20;
    m.send_buffer = 16 << 10;
    echo_server *s = echo_open(m);
    int fd = client_open(s->l.port);
    assert_true(client_send(fd, STR("GET /flood HTTP/1.1\r\n" HOST "\r\n")));
    CLIENT_WAIT_FOR(atomic_load(&s->n_requests) == 1);
    CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 0);
    /* The flooding thread counts what it got rid of a moment after the loop has cut it off. */
    CLIENT_WAIT_FOR(atomic_load(&s->n_flooded) >= 8);
    assert_in_range(atomic_load(&s->n_flooded), 8, 20);
    close(fd);
    echo_close(s);
}

TEST(a_large_answer_that_nobody_reads_stalls_and_ends)
{
    http_limits m = echo_limits();
    m.stall_ms = 200;
    m.send_buffer = 16 << 10;
    echo_server *s = echo_open(m);
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
    echo_close(s);
}

/* It closes its side, which does not end an answer that is complete, and then the other: the next
 * write meets a connection that is gone. */
TEST(a_client_that_goes_in_the_middle_of_an_answer_ends_nothing_else)
{
    http_limits m = echo_limits();
    m.send_buffer = 16 << 10;
    echo_server *s = echo_open(m);
    static char body[4 << 20];
    char head[128];
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
             sizeof body);
    for (int i = 0; i < 20; i++) {
        int fd = client_open(s->l.port);
        assert_true(client_send(fd, str_from(head)));
        assert_true(client_send(fd, (str){body, sizeof body}));
        shutdown(fd, SHUT_WR);
        CLIENT_WAIT_FOR(atomic_load(&s->n_requests) == i + 1);
        usleep(i * 200);
        close(fd);
        CLIENT_WAIT_FOR(atomic_load(&s->n_conns) == 0);
    }
    buf in;
    buf_init(&in);
    client_fetch(s->l.port, STR("GET /echo HTTP/1.1\r\n" HOST CLOSE "\r\n"), &in);
    assert_int_equal(client_status(&in), 200);
    echo_close(s);
    buf_fini(&in);
}

TEST(what_was_not_flushed_yet_is_no_stalled_reader)
{
    echo_server *s = echo_open(echo_limits());
    buf in;
    buf_init(&in);
    client_fetch(s->l.port, STR("GET /lazy HTTP/1.1\r\n" HOST CLOSE "\r\n"), &in);
    assert_int_equal(client_status(&in), 200);
    assert_true(str_find(buf_str(&in), STR("8\r\npiece 2\n\r\n0\r\n\r\n"), 0) > 0);
    echo_close(s);
    buf_fini(&in);
}
