/* tags: threads, timeout=120 */
/* A device fault as a whole: the command in a process of its own, on a backend that fails. */
#include "server/restart_priv.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "client.h"
#include "server/server.h"
#include "support/wrap_backend.h"

/* `--backend failing:N` or `failing:N,NAME`: cpu or NAME, until its N-th op. */
static status open_failing(backend **b, const char *isa, const backend_options *o, err *e)
{
    wrap_backend *w = NULL;
    const char *comma = isa ? strchr(isa, ',') : NULL;
    TRY(wrap_open(&w, comma ? comma + 1 : "cpu", o, e));
    w->fail_at = isa ? atoll(isa) : 0;
    *b = &w->base;
    return ERR_OK;
}

/* This program as `riptide`, which is what it executes again. */
int test_as_program(int argc, char **argv)
{
    backend_register("failing", open_failing);
    return server_command(argc, argv);
}

typedef struct {
    pid_t pid;
    int out;
    buf text; /* of standard output and standard error */
} serving;

#define MODEL                                                                                  \
    "--model", "models/mini-dense", "--draft-model", "none", "--threads", "1", "--lanes", "1", \
        "--max-context", "512", "--port", "0", "--no-self-test"
#define START(s, ...) start(s, (char *[]){"riptide", "serve", MODEL, __VA_ARGS__, NULL})

static void start(serving *s, char **argv)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    fflush(NULL);
    buf_init(&s->text);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execv("/proc/self/exe", argv);
        _exit(99);
    }
    close(ends[1]);
    s->out = ends[0];
}

/* Read what it writes until the text is seen behind byte `from`; returns where it begins. */
static size_t wait_for(serving *s, size_t from, const char *text)
{
    if (!client_read(s->out, &s->text, from, text, CLIENT_WAIT_MS))
        fail_msg("no \"%s\" in: %.*s", text, STR_ARG(buf_str(&s->text)));
    return (size_t)str_find(buf_str(&s->text), str_from(text), from);
}

/* Its exit status; all it wrote is in s->text. */
static int finish(serving *s)
{
    int code = -1;
    client_read(s->out, &s->text, 0, NULL, CLIENT_WAIT_MS);
    assert_int_equal(waitpid(s->pid, &code, 0), s->pid);
    close(s->out);
    return WIFEXITED(code) ? WEXITSTATUS(code) : 1000 + WTERMSIG(code);
}

/* Wait for the line behind `from`; returns the port that it names. */
static int ready_port(serving *s, size_t *from)
{
    size_t at = wait_for(s, *from, "Ready at http://127.0.0.1:");
    *from = wait_for(s, at, "/v1 ");
    return atoi(s->text.ptr + at + 26);
}

static void put_completion(buf *out, int n_tokens, const char *more)
{
    char body[200];
    snprintf(body, sizeof body,
             "{\"prompt\":\"The first\",\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":%d%s}",
             n_tokens, more);
    buf_clear(out);
    buf_printf(out,
               "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
               "Content-Length: %zu\r\n\r\n%s",
               strlen(body), body);
}

/* The text of a short answer, copied. */
static void ask_short(int port, char *text, size_t cap)
{
    buf q, in;
    buf_init(&q);
    buf_init(&in);
    put_completion(&q, 4, "");
    client_fetch(port, buf_str(&q), &in);
    if (client_status(&in) != 200) fail_msg("it answered: %.*s", STR_ARG(buf_str(&in)));
    int64_t at = str_find(buf_str(&in), STR("\"text\":"), 0);
    assert_true(at > 0);
    snprintf(text, cap, "%.40s", in.ptr + at);
    buf_fini(&q);
    buf_fini(&in);
}

/* Ask for a long answer and, while it comes, for another one; the device fails below. */
static void ask_into_the_fault(int port)
{
    buf q, stream, late;
    buf_init(&q);
    buf_init(&stream);
    buf_init(&late);
    put_completion(&q, 400, ",\"stream\":true");
    int a = client_open(port);
    client_ask(a, buf_str(&q), &stream, "data: ");
    put_completion(&q, 4, "");
    client_fetch(port, buf_str(&q), &late);
    assert_int_equal(client_status(&late), 503);
    assert_true(str_find(buf_str(&late), STR("\"code\":\"runtime_unavailable\""), 0) > 0);
    assert_true(str_find(buf_str(&late), STR("Retry-After: "), 0) > 0);
    assert_true(client_read(a, &stream, 0, NULL, CLIENT_WAIT_MS));
    assert_int_equal(client_status(&stream), 200);
    int64_t at = str_find(buf_str(&stream), STR("data: {\"error\":"), 0);
    if (at < 0) fail_msg("no error in: %.*s", STR_ARG(buf_str(&stream)));
    assert_true(str_find(buf_str(&stream), STR("op 2000 fails"), (size_t)at) > 0);
    close(a);
    buf_fini(&q);
    buf_fini(&stream);
    buf_fini(&late);
}

static void expect_restart(char *backend_name)
{
    serving s;
    char before[64], behind[64];
    size_t from = 0;
    START(&s, "--backend", backend_name);
    int port = ready_port(&s, &from);
    ask_short(port, before, sizeof before);
    ask_into_the_fault(port);
    /* Connected before it is ready again, and answered then. */
    ask_short(port, behind, sizeof behind);
    assert_string_equal(before, behind);
    wait_for(&s, from, "op 2000 fails");
    assert_int_equal(ready_port(&s, &from), port);
    assert_int_equal(waitpid(s.pid, NULL, WNOHANG), 0); /* the same process */
    kill(s.pid, SIGTERM);
    assert_int_equal(finish(&s), 0);
    buf_fini(&s.text);
}

TEST(a_device_fault_fails_what_runs_and_the_process_goes_on_at_its_socket)
{
    /* A pass is some 75 ops: the fault meets the long answer, and none comes behind it. */
    expect_restart("failing:2000");
}

TEST(the_next_process_finds_a_gpu_that_the_last_one_held)
{
    err e = {0};
    backend *b = NULL;
    status st = backend_open(&b, &(backend_options){.name = "cuda"}, &e);
    if (st == ERR_UNSUPPORTED) TEST_SKIP("cuda: %s", e.msg);
    CHECK_OK(st, &e);
    b->ops->close(b);
    expect_restart("failing:2000,cuda");
}

TEST(a_device_that_never_worked_ends_it_with_1)
{
    serving s;
    buf q, in;
    size_t from = 0;
    buf_init(&q);
    buf_init(&in);
    START(&s, "--backend", "failing:3");
    int port = ready_port(&s, &from);
    put_completion(&q, 4, "");
    client_fetch(port, buf_str(&q), &in);
    assert_int_equal(client_status(&in), 503);
    assert_int_equal(finish(&s), 1);
    assert_true(str_find(buf_str(&s.text), STR("op 3 fails"), 0) > 0);
    assert_true(str_find(buf_str(&s.text), STR("starts again"), 0) < 0);
    buf_fini(&q);
    buf_fini(&in);
    buf_fini(&s.text);
}

/* ---- the socket that a process is started with ---- */

static void set_given(const char *pid, const char *fds)
{
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", fds, 1);
}

TEST(a_given_socket_is_taken_when_it_is_one_that_listens)
{
    char own[24];
    int fd = 0;
    err e = {0};
    int saved = dup(3); /* the runner's, if it has one */
    snprintf(own, sizeof own, "%d", (int)getpid());
    CHECK_OK(restart_find_socket(&fd, &e), &e);
    assert_int_equal(fd, -1);
    set_given("1", "1");
    CHECK_OK(restart_find_socket(&fd, &e), &e);
    assert_int_equal(fd, -1);
    set_given(own, "2");
    CHECK_STATUS(restart_find_socket(&fd, &e), ERR_INVALID);
    set_given(own, "1");
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s != 3) assert_int_equal(dup2(s, 3), 3);
    CHECK_STATUS(restart_find_socket(&fd, &e), ERR_INVALID);
    assert_int_equal(fd, -1);
    assert_int_equal(listen(3, 1), 0);
    CHECK_OK(restart_find_socket(&fd, &e), &e);
    assert_int_equal(fd, 3);
    assert_null(getenv("LISTEN_PID"));
    assert_null(getenv("LISTEN_FDS"));
    if (s != 3) close(s);
    if (saved >= 0) dup2(saved, 3);
}
