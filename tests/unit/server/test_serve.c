/* tags: threads, timeout=120 */
#include "server/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "client.h"

/* The command in a process of its own, with what it wrote. */
typedef struct {
    pid_t pid;
    int out;
    buf text; /* of standard output and standard error */
} serving;

static void start(serving *s, char **argv)
{
    int ends[2], argc = 0;
    while (argv[argc]) argc++;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    buf_init(&s->text);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        exit(server_command(argc, argv));
    }
    close(ends[1]);
    s->out = ends[0];
}

/* Read what it writes until the text is seen; false at its end. */
static bool wait_for(serving *s, const char *text)
{
    while (str_find(buf_str(&s->text), str_from(text), 0) < 0) {
        char bytes[4096];
        struct pollfd p = {.fd = s->out, .events = POLLIN};
        if (poll(&p, 1, CLIENT_WAIT_MS) <= 0) return false;
        ssize_t n = read(s->out, bytes, sizeof bytes);
        if (n <= 0) return false;
        buf_put(&s->text, bytes, (size_t)n);
    }
    return true;
}

static bool has(const serving *s, const char *text)
{
    return str_find(buf_str(&s->text), str_from(text), 0) >= 0;
}

/* Its exit status; all it wrote is in s->text. */
static int finish(serving *s)
{
    int code = -1;
    wait_for(s, "\x01 no such text");
    assert_int_equal(waitpid(s->pid, &code, 0), s->pid);
    close(s->out);
    return WIFEXITED(code) ? WEXITSTATUS(code) : 1000 + WTERMSIG(code);
}

static int run_to_end(serving *s, char **argv)
{
    start(s, argv);
    return finish(s);
}

static int port_of(const serving *s)
{
    int64_t at = str_find(buf_str(&s->text), STR("http://127.0.0.1:"), 0);
    assert_true(at > 0);
    return atoi(s->text.ptr + at + 17);
}

#define MODEL \
    "--model", "models/mini-dense", "--backend", "cpu", "--threads", "1", "--max-context", "512"

TEST(a_signal_ends_it_with_0)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
        serving s;
        buf in;
        buf_init(&in);
        start(&s, (char *[]){"serve", MODEL, "--port", "0", NULL});
        if (!wait_for(&s, "Try: curl ")) fail_msg("it said: %.*s", STR_ARG(buf_str(&s.text)));
        assert_true(has(&s, "Ready at http://127.0.0.1:"));
        assert_true(has(&s, "model mini-dense, context 512, 8 at a time"));
        client_fetch(port_of(&s),
                     STR("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: "
                         "close\r\n\r\n"),
                     &in);
        assert_int_equal(client_status(&in), 200);
        kill(s.pid, numbers[i]);
        assert_int_equal(finish(&s), 0);
        buf_fini(&s.text);
        buf_fini(&in);
    }
}

TEST(a_taken_port_is_told_without_loading_the_model)
{
    serving a, b;
    char port[16];
    start(&a, (char *[]){"serve", MODEL, "--port", "0", NULL});
    assert_true(wait_for(&a, "Try: curl "));
    snprintf(port, sizeof port, "%d", port_of(&a));
    assert_int_equal(run_to_end(&b, (char *[]){"serve", MODEL, "--port", port, NULL}), 1);
    assert_true(has(&b, "address already in use") && has(&b, port) && !has(&b, "weights"));
    kill(a.pid, SIGTERM);
    assert_int_equal(finish(&a), 0);
    buf_fini(&a.text);
    buf_fini(&b.text);
}

static void expect_end(int code, const char *text, char **argv)
{
    serving s;
    int got = run_to_end(&s, argv);
    if (got != code || !has(&s, text))
        fail_msg("status %d, it said: "
                 "%.*s",
                 got, STR_ARG(buf_str(&s.text)));
    buf_fini(&s.text);
}

TEST(wrong_calls_end_at_once_and_say_why)
{
    expect_end(0, "--allowed-origin", (char *[]){"serve", "--help", NULL});
    expect_end(2, "--no-such-flag", (char *[]){"serve", "--no-such-flag", "1", NULL});
    expect_end(2, "port", (char *[]){"serve", "--port", "70000", NULL});
    expect_end(1, "RIPTIDE_API_KEY",
               (char *[]){"serve", MODEL, "--host", "0.0.0.0", "--port", "0", NULL});
    expect_end(1, "models/none",
               (char *[]){"serve", "--model", "models/none", "--port", "0", NULL});
    expect_end(1, "no such host",
               (char *[]){"serve", MODEL, "--host", "no such host", "--port", "0", NULL});
}

TEST(the_curl_line_names_the_key_but_does_not_show_it)
{
    serving s;
    start(&s, (char *[]){"serve", MODEL, "--port", "0", "--api-key", "hush-hush", NULL});
    assert_true(wait_for(&s, "Try: curl ") && wait_for(&s, "\n"));
    kill(s.pid, SIGTERM);
    assert_int_equal(finish(&s), 0);
    assert_true(has(&s, "Authorization: Bearer $RIPTIDE_API_KEY") && !has(&s, "hush-hush"));
    buf_fini(&s.text);
}
