/* tags: slow, timeout=240 */
#include "serve_fixture.h"

#define ASK(text) "'messages':[{'role':'user','content':'" text "'}]"
#define SUM ASK("What is 12 + 30?")
#define STORY ASK("Tell a story of 12 days about Zane in Turin.")
/* Goes on until it is stopped or the context is full. */
#define ENDLESS "'ignore_eos':true,'temperature':1,"
#define STREAM "'stream':true,"

static serve_fixture fixture, *const f = &fixture;

/* A chat request as bytes, on its way; the connection is returned. */
static int begin_chat(const char *body)
{
    buf q;
    char copy[65536];
    size_t n = strlen(body) + 1;
    assert_true(n <= sizeof copy);
    for (size_t i = 0; i < n; i++) copy[i] = body[i] == '\'' ? '"' : body[i];
    buf_init(&q);
    serve_put_request(&q, "POST", "/v1/chat/completions", "", copy);
    int fd = client_open(f->port);
    assert_true(client_send(fd, buf_str(&q)));
    buf_fini(&q);
    return fd;
}

static void put_long_ask(char *out, size_t cap, int n_words, const char *rest)
{
    size_t at = (size_t)snprintf(out, cap, "{%s'messages':[{'role':'user','content':'", rest);
    for (int i = 0; i < n_words; i++) at += (size_t)snprintf(out + at, cap - at, "kettle ");
    snprintf(out + at, cap - at, "'}]}");
}

static void wait_for_text(int fd, const char *text)
{
    buf_clear(&f->in);
    if (!client_read(fd, &f->in, 0, text, CLIENT_WAIT_MS))
        fail_msg("no \"%s\" in %.*s", text, STR_ARG(buf_str(&f->in)));
}

static void expect_canceled(int64_t n)
{
    CLIENT_WAIT_FOR(engine_stats(f->en).canceled == n);
    CLIENT_WAIT_FOR(engine_stats(f->en).n_running == 0);
}

TEST(a_client_that_leaves_while_its_answer_is_made_stops_the_work)
{
    static const char *const how[] = {"{" ENDLESS STREAM STORY "}", "{" ENDLESS STORY "}"};
    serve_open(f, serve_options(), 2, 8, 4096);
    for (int i = 0; i < 2; i++) {
        int fd = begin_chat(how[i]);
        CLIENT_WAIT_FOR(engine_stats(f->en).n_running == 1);
        if (i == 0) wait_for_text(fd, "content\":\"");
        usleep(100000);
        close(fd);
        expect_canceled(i + 1);
    }
    assert_int_equal(serve_chat(f, "{" SUM "}"), 200);
    serve_close(f);
}

TEST(a_client_that_leaves_while_its_prompt_is_read_stops_the_work)
{
    static char body[60000];
    serve_open(f, serve_options(), 1, 8, 8192);
    put_long_ask(body, sizeof body, SERVE_IS_SLOW ? 400 : 7000, STREAM);
    int fd = begin_chat(body);
    CLIENT_WAIT_FOR(engine_stats(f->en).n_running == 1);
    wait_for_text(fd, "\"role\":\"assistant\"");
    close(fd);
    expect_canceled(1);
    assert_int_equal(engine_stats(f->en).completion_tokens, 0);
    serve_close(f);
}

TEST(a_client_that_leaves_the_queue_frees_its_place)
{
    serve_open(f, serve_options(), 1, 1, 4096);
    int running = begin_chat("{" ENDLESS STREAM STORY "}");
    CLIENT_WAIT_FOR(engine_stats(f->en).n_running == 1);
    int waiting[2];
    for (int i = 0; i < 2; i++) {
        waiting[i] = begin_chat(i ? "{" STREAM SUM "}" : "{" SUM "}");
        CLIENT_WAIT_FOR(engine_stats(f->en).n_waiting == i + 1);
    }
    /* One lane and one place: a third in the queue is too many. */
    assert_int_equal(serve_chat(f, "{" SUM "}"), 503);
    assert_true(str_find(buf_str(&f->in), STR("Retry-After: 1\r\n"), 0) > 0);
    serve_expect_text(serve_json(f), "error/code", "frontend_overloaded");
    for (int i = 0; i < 2; i++) {
        close(waiting[i]);
        CLIENT_WAIT_FOR(engine_stats(f->en).canceled == i + 1);
    }
    assert_int_equal(engine_stats(f->en).n_running, 1);
    close(running);
    CLIENT_WAIT_FOR(engine_stats(f->en).n_running == 0);
    serve_close(f);
}

TEST(a_silent_stream_is_kept_alive)
{
    static char body[60000];
    server_options o = serve_options();
    o.keep_alive_ms = 100;
    serve_open(f, o, 1, 8, 8192);
    put_long_ask(body, sizeof body, SERVE_IS_SLOW ? 60 : 2000, STREAM "'max_tokens':2,");
    int fd = begin_chat(body);
    wait_for_text(fd, ": keep-alive\n\n");
    assert_true(str_find(buf_str(&f->in), STR("\"role\":\"assistant\""), 0) > 0);
    assert_true(client_read(fd, &f->in, 0, "data: [DONE]\n\n", CLIENT_WAIT_MS));
    close(fd);
    serve_close(f);
}

/* One that stops reading is cancelled when the bound is reached; the others do not notice. */
TEST(a_reader_that_stops_is_cancelled_alone)
{
    server_options o = serve_options();
    o.limits.stream_cap = 64 << 10;
    o.limits.send_buffer = 8 << 10;
    serve_open(f, o, 2, 8, 4096);
    int fd = client_open(f->port), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    buf q;
    buf_init(&q);
    serve_put_request(&q, "POST", "/v1/chat/completions", "",
                      "{\"stream\":true,\"ignore_eos\":true,\"logprobs\":true,"
                      "\"top_logprobs\":20,\"messages\":"
                      "[{\"role\":\"user\",\"content\":\"Tell a story of 12 days about Zane in "
                      "Turin.\"}]}");
    assert_true(client_send(fd, buf_str(&q)));
    CLIENT_WAIT_FOR(engine_stats(f->en).n_running == 1);
    serve_stream s;
    serve_chat_stream(f, "{" STREAM "'temperature':0," SUM "}", &s);
    assert_true(s.is_done && !s.has_error && s.content.len > 0);
    serve_stream_fini(&s);
    CLIENT_WAIT_FOR(engine_stats(f->en).canceled == 1);
    close(fd);
    buf_fini(&q);
    serve_close(f);
}

TEST(a_request_may_come_byte_by_byte_and_two_in_one)
{
    serve_open(f, serve_options(), 2, 8, 2048);
    buf one, two;
    buf_init(&one);
    buf_init(&two);
    static const char body[] = "{\"temperature\":0,\"messages\":[{\"role\":\"user\","
                               "\"content\":\"What is 12 + 30?\"}]}";
    static const char streamed[] = "{\"temperature\":0,\"stream\":true,"
                                   "\"messages\":[{\"role\":\"user\",\"content\":\"What "
                                   "is 17 + 58?\"}]}";
    serve_put_request(&one, "POST", "/v1/chat/completions", "", body);
    int fd = client_open(f->port);
    for (size_t i = 0; i < one.len; i++) {
        assert_true(client_send(fd, str_slice(buf_str(&one), i, i + 1)));
        usleep(100);
    }
    wait_for_text(fd, "42.\"");
    serve_put_request(&two, "POST", "/v1/chat/completions", "", streamed);
    serve_put_request(&two, "POST", "/v1/chat/completions", "Connection: close\r\n", body);
    buf_clear(&f->in);
    assert_true(client_send(fd, buf_str(&two)));
    assert_true(client_read(fd, &f->in, 0, NULL, CLIENT_WAIT_MS));
    int64_t done = str_find(buf_str(&f->in),
                            STR("data: [DONE]\n\n\r\n0\r\n\r\nHTTP/1.1 200 "
                                "OK\r\n"),
                            0);
    assert_true(done > 0 && str_find(buf_str(&f->in), STR("chat.completion.chunk"), 0) < done);
    assert_true(str_find(buf_str(&f->in), STR("42.\""), (size_t)done) > 0);
    close(fd);
    buf_fini(&one);
    buf_fini(&two);
    serve_close(f);
}

TEST(many_clients_at_a_time_each_get_their_own_answer)
{
    enum { N = SERVE_IS_SLOW ? 6 : 12 };
    int fds[N];
    serve_open(f, serve_options(), 4, 32, 2048);
    for (int i = 0; i < N; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{%s'temperature':0,'max_tokens':40,"
                 "'enable_thinking':false," ASK("Repeat exactly: violin mirror %s") "}",
                 i % 2 ? STREAM : "",
                 i % 3 == 0   ? "teal"
                 : i % 3 == 1 ? "hollow"
                              : "orchard");
        fds[i] = begin_chat(body);
    }
    char first[3][2][4096] = {{{0}}};
    for (int i = 0; i < N; i++) {
        wait_for_text(fds[i], i % 2 ? "data: [DONE]" : "\"timings\"");
        int64_t at = str_find(buf_str(&f->in), STR("\"choices\""), 0);
        int64_t to = str_find(buf_str(&f->in), i % 2 ? STR("\"timings\"") : STR("\"usage\""),
                              (size_t)at);
        assert_true(at > 0 && to > at);
        assert_true(str_find(buf_str(&f->in), STR("HTTP/1.1 200 OK\r\n"), 0) == 0);
        if (i % 2 == 0) { /* the same question has the same answer, whatever runs beside it */
            char *want = first[i % 3][0], text[4096];
            snprintf(text, sizeof text, "%.*s", (int)(to - at), f->in.ptr + at);
            if (!want[0]) strcpy(want, text);
            assert_string_equal(text, want);
        }
        close(fds[i]);
    }
    assert_string_not_equal(first[0][0], first[1][0]);
    assert_int_equal(engine_stats(f->en).finished, N);
    serve_close(f);
}

TEST(the_first_stop_lets_answers_end)
{
    server_options o = serve_options();
    o.grace_ms = CLIENT_WAIT_MS;
    serve_open(f, o, 2, 8, 2048);
    int stream = begin_chat("{" STREAM "'temperature':0," SUM "}");
    int whole = begin_chat("{'temperature':0," SUM "}");
    CLIENT_WAIT_FOR(engine_stats(f->en).n_running == 2);
    int idle = client_open(f->port);
    server_stop(f->s);
    wait_for_text(stream, "data: [DONE]\n\n\r\n0\r\n\r\n");
    assert_true(str_find(buf_str(&f->in), STR("\"error\""), 0) < 0);
    wait_for_text(whole, "\"timings\"");
    assert_int_equal(client_status(&f->in), 200);
    buf_clear(&f->in);
    assert_true(client_read(idle, &f->in, 0, NULL, CLIENT_WAIT_MS));
    assert_int_equal(f->in.len, 0);
    serve_join(f);
    close(idle);
    close(stream);
    close(whole);
}

TEST(the_second_stop_ends_them_with_an_error)
{
    server_options o = serve_options();
    o.grace_ms = 1000000; /* longer than the test waits: not because the time is over */
    serve_open(f, o, 1, 8, 8192);
    int stream = begin_chat("{" ENDLESS STREAM STORY "}");
    CLIENT_WAIT_FOR(engine_stats(f->en).n_running == 1);
    wait_for_text(stream, "content\":\"");
    int waiting = begin_chat("{" SUM "}");
    CLIENT_WAIT_FOR(engine_stats(f->en).n_waiting == 1);
    server_stop(f->s);
    usleep(50000); /* two stops, not one */
    server_stop(f->s);
    wait_for_text(stream, "data: [DONE]\n\n\r\n0\r\n\r\n");
    assert_true(str_find(buf_str(&f->in), STR("\"code\":\"server_shutdown\""), 0) > 0);
    wait_for_text(waiting, "server_shutdown");
    assert_int_equal(client_status(&f->in), 503);
    serve_join(f);
    close(stream);
    close(waiting);
}

TEST(the_grace_has_an_end)
{
    server_options o = serve_options();
    o.grace_ms = 200;
    serve_open(f, o, 1, 8, 8192);
    int stream = begin_chat("{" ENDLESS STREAM STORY "}");
    CLIENT_WAIT_FOR(engine_stats(f->en).n_running == 1);
    server_stop(f->s);
    wait_for_text(stream, "server_shutdown");
    serve_join(f);
    close(stream);
}

/* The n-th allocation of a request and all after it fail. What comes back is an answer, an error or
 * the end of the connection; the next request is answered as ever. */
TEST(memory_may_run_out_at_any_point_of_a_request)
{
    static const char *const bodies[] = {"{\"max_tokens\":2,\"messages\":[{\"role\":\"user\","
                                         "\"content\":\"Hi\"}]}",
                                         "{\"max_tokens\":2,\"stream\":true,"
                                         "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"};
    int n_200 = 0, n_503 = 0, n_cut = 0;
    serve_open(f, serve_options(), 1, 8, 512);
    buf q;
    buf_init(&q);
    for (int64_t n = 1; n < 700; n += 1 + n / (SERVE_IS_SLOW ? 4 : 16)) {
        buf_clear(&q);
        serve_put_request(&q, "POST", "/v1/chat/completions",
                          "Connection: "
                          "close\r\n",
                          bodies[n % 2]);
        int fd = client_open(f->port);
        char in[65536];
        size_t len = 0;
        ssize_t got;
        mem_fail_at(n);
        client_send(fd, buf_str(&q));
        while (len < sizeof in - 1 && (got = recv(fd, in + len, sizeof in - 1 - len, 0)) > 0)
            len += (size_t)got;
        mem_fail_at(0);
        in[len] = 0;
        close(fd);
        bool is_error = strstr(in, "runtime_unavailable") != NULL;
        bool is_whole = strstr(in, "\"finish_reason\":\"length\"") != NULL;
        n_200 += is_whole;
        n_503 += is_error;
        n_cut += !is_whole && !is_error;
        assert_false(is_error && is_whole);
        CLIENT_WAIT_FOR(engine_stats(f->en).n_running + engine_stats(f->en).n_waiting == 0);
    }
    print_message("%d whole, %d errors, %d cut\n", n_200, n_503, n_cut);
    assert_true(n_200 > 0 && n_503 > 0);
    assert_int_equal(serve_chat(f, "{" SUM "}"), 200);
    buf_fini(&q);
    serve_close(f);
}
