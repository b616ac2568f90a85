/* http_probe: what the HTTP side costs without a model. links: server
 *
 * An engine that only counts stands in for the real one: from engine_submit on, each running
 * request gets one token every TICK_MS until its max_tokens. Everything else is the server as it
 * is: sockets, JSON, chat template, tokenizer, output parser, chunks. A child process has the
 * connections:
 *
 *   idle     N connections that have had an answer and are kept: growth of the server's memory
 *   streams  M chat streams at a time: CPU time of the loop's thread for the events that left
 *   floor    as many bytes, event by event, by plain send() to as many connections: what the kernel
 *            itself takes of that, on this machine at this time
 *
 * Usage: http_probe [idle connections = 5000] [streams = 256] [tokens of each = 500] */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "server/server_priv.h"

enum { TICK_MS = 10, RUNS_MAX = 4096 };
#define MODEL "models/mini-dense/"

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void must(status s, const err *e)
{
    if (s == ERR_OK) return;
    fprintf(stderr, "%s: %s\n", e->where, e->msg);
    exit(1);
}

/* --- an engine that only counts ----------------------------------------------------------------
 */

typedef struct {
    engine_request r;
    uint64_t id;
    int64_t left, n_prompt, n_said;
    bool is_canceled;
} counted_run;

struct engine {
    engine_info about;
    tokenizer *tokens;
    int32_t word;
    str text;
    pthread_t thread;
    pthread_mutex_t lock; /* protects what follows */
    counted_run runs[RUNS_MAX];
    int n_runs;
    uint64_t last_id;
    bool ends;
    atomic_llong n_events, cpu_ns;
};

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

const engine_info *engine_about(const engine *e)
{
    return &e->about;
}

const tokenizer *engine_tokenizer(const engine *e)
{
    return e->tokens;
}

turn_memory *engine_turns(const engine *e)
{
    (void)e;
    return NULL;
}

status engine_prepare_grammars(engine *e, err *err_out)
{
    (void)e;
    (void)err_out;
    return ERR_OK;
}

engine_counters engine_stats(engine *e)
{
    (void)e;
    return (engine_counters){0};
}

status engine_submit(engine *e, const engine_request *r, uint64_t *id, err *err_out)
{
    pthread_mutex_lock(&e->lock);
    bool fits = e->n_runs < RUNS_MAX;
    if (fits) {
        *id = ++e->last_id;
        e->runs[e->n_runs++] = (counted_run){
            .r = *r, .id = *id, .left = r->max_tokens, .n_prompt = r->n_ids};
    }
    pthread_mutex_unlock(&e->lock);
    return fits ? ERR_OK : err_set(err_out, ERR_LIMIT, "queue", -1, "full");
}

void engine_cancel(engine *e, uint64_t id)
{
    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < e->n_runs; i++) e->runs[i].is_canceled |= e->runs[i].id == id;
    pthread_mutex_unlock(&e->lock);
}

/* One event of a run; true when it was the last. */
static bool say(engine *e, counted_run *run)
{
    engine_event ev = {.request = run->id, .kind = ENGINE_TOKENS, .stop_string = -1};
    bool is_last = run->is_canceled || run->left == 0;
    ev.usage.prompt_tokens = run->n_prompt;
    if (is_last) {
        ev.kind = ENGINE_FINISH;
        ev.reason = run->is_canceled ? ENGINE_CANCELED : ENGINE_LENGTH;
    } else {
        ev.ids = &e->word;
        ev.n_ids = 1;
        ev.text = e->text;
        run->left--;
        run->n_said++;
    }
    ev.usage.completion_tokens = run->n_said;
    run->r.on_event(run->r.ctx, &ev);
    atomic_fetch_add(&e->n_events, 1);
    return is_last;
}

static void *count(void *arg)
{
    engine *e = arg;
    for (bool ends = false; !ends;) {
        pthread_mutex_lock(&e->lock);
        for (int i = 0; i < e->n_runs;) {
            if (say(e, &e->runs[i]))
                e->runs[i] = e->runs[--e->n_runs];
            else
                i++;
        }
        ends = e->ends;
        pthread_mutex_unlock(&e->lock);
        atomic_store(&e->cpu_ns, thread_cpu_ns());
        usleep(TICK_MS * 1000);
    }
    return NULL;
}

status engine_start(engine *e, err *err_out)
{
    if (pthread_create(&e->thread, NULL, count, e) == 0) return ERR_OK;
    return err_set(err_out, ERR_NOMEM, "engine", -1, "thread");
}

void engine_stop(engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->ends = true;
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
}

static void open_counting(engine *e, arena *a)
{
    err x = {0};
    str tokens, source;
    token_ids ids = {0};
    static const int32_t eos[] = {2069};
    must(file_read(a, MODEL "tokenizer.json", 1 << 24, &tokens, &x), &x);
    must(file_read(a, MODEL "chat_template.jinja", 1 << 20, &source, &x), &x);
    must(tokenizer_open(&e->tokens, tokens, "tokenizer.json", &x), &x);
    must(tokenizer_encode(e->tokens, STR(" lantern"), false, 0, &ids, &x), &x);
    e->word = ids.ptr[ids.n - 1];
    e->text = STR(" lantern");
    token_ids_fini(&ids);
    e->about = (engine_info){.model_name = "counted",
                             .backend = "none",
                             .V = 4096,
                             .n_lanes = 1,
                             .max_context = 1 << 20,
                             .eos = eos,
                             .n_eos = 1,
                             .chat_template = source};
    e->about.defaults = policy_neutral();
    pthread_mutex_init(&e->lock, NULL);
}

/* --- the child with the connections ------------------------------------------------------------
 */

static int dial(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0) die("connect");
    return fd;
}

static void ask(int fd, const char *bytes)
{
    size_t n = strlen(bytes);
    if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n) die("send");
}

/* The parent looks at its memory, then says how to go on. */
static void wait_for_parent(int control)
{
    char c = 0;
    if (write(control, &c, 1) != 1 || read(control, &c, 1) != 1) die("control");
}

static void hold_idle(int port, int n)
{
    char in[4096];
    for (int i = 0; i < n; i++) {
        int fd = dial(port);
        ask(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if (recv(fd, in, sizeof in, 0) <= 0) die("recv");
    }
}

/* M connections that have asked with `head`, read to their ends; their bytes. */
static int64_t read_all(int port, int m, const char *head)
{
    static char in[1 << 16];
    int64_t n_bytes = 0;
    struct pollfd *list = calloc((size_t)m, sizeof *list);
    for (int i = 0; i < m; i++) {
        list[i] = (struct pollfd){.fd = dial(port), .events = POLLIN};
        ask(list[i].fd, head);
    }
    for (int open = m; open > 0;) {
        if (poll(list, (nfds_t)m, -1) < 0) die("poll");
        for (int i = 0; i < m; i++) {
            if (list[i].fd < 0 || !list[i].revents) continue;
            ssize_t n = recv(list[i].fd, in, sizeof in, 0);
            if (n > 0) {
                n_bytes += n;
                continue;
            }
            close(list[i].fd);
            list[i].fd = -1;
            open--;
        }
    }
    free(list);
    return n_bytes;
}

static int64_t read_streams(int port, int m, int n_tokens)
{
    char body[300], head[500];
    snprintf(
        body, sizeof body,
        "{\"stream\":true,\"max_tokens\":%d,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
        ",\"enable_thinking\":false}",
        n_tokens);
    snprintf(head, sizeof head,
             "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    return read_all(port, m, head);
}

static void run_child(int control, int port, int floor_port, int n_idle, int m, int n_tokens)
{
    int64_t n_bytes;
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    hold_idle(port, 1); /* what the first one brings in is not counted */
    wait_for_parent(control);
    hold_idle(port, n_idle);
    wait_for_parent(control);
    n_bytes = read_streams(port, m, n_tokens);
    if (write(control, &n_bytes, sizeof n_bytes) != sizeof n_bytes) die("control");
    read_all(floor_port, m, "x");
    _exit(0);
}

/* --- the server --------------------------------------------------------------------------------
 */

static int64_t resident_bytes(void)
{
    long pages[2] = {0};
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages[0], &pages[1]) != 2) die("statm");
    fclose(f);
    return pages[1] * sysconf(_SC_PAGESIZE);
}

static server *s;

static void *serve(void *arg)
{
    err e = {0};
    (void)arg;
    must(server_run(s, &e), &e);

    return NULL;
}

static int64_t cpu_of(pthread_t of)
{
    clockid_t clock;
    struct timespec t;
    if (pthread_getcpuclockid(of, &clock) != 0 || clock_gettime(clock, &t) != 0) die("clock");
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static int listen_plain(int *port, int backlog)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, backlog) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        die("listen");
    *port = ntohs(a.sin_port);
    return fd;
}

/* CPU seconds of sending n_bytes to each of m connections, n_events times each. */
static double send_plainly(int listening, int m, int n_events, size_t n_bytes)
{
    int *fds = calloc((size_t)m, sizeof *fds), one = 1;
    char *bytes = calloc(1, n_bytes);
    for (int i = 0; i < m; i++) {
        fds[i] = accept(listening, NULL, NULL);
        if (fds[i] < 0) die("accept");
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    int64_t start_ns = thread_cpu_ns();
    for (int k = 0; k < n_events; k++) {
        for (int i = 0; i < m; i++)
            if (send(fds[i], bytes, n_bytes, MSG_NOSIGNAL) != (ssize_t)n_bytes) die("send");
        usleep(TICK_MS * 1000);
    }
    double s_of_cpu = (double)(thread_cpu_ns() - start_ns) / 1e9;
    for (int i = 0; i < m; i++) close(fds[i]);
    free(fds);
    free(bytes);
    return s_of_cpu;
}

static void hear(int control)
{
    char c;
    if (read(control, &c, 1) != 1) die("the child");
}

int main(int argc, char **argv)
{
    int n_idle = argc > 1 ? atoi(argv[1]) : 5000, m = argc > 2 ? atoi(argv[2]) : 256;
    int n_tokens = argc > 3 ? atoi(argv[3]) : 500, ends[2];
    err e = {0};
    arena a;
    static engine counting;
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    arena_init(&a, 0);
    open_counting(&counting, &a);
    server_options o = server_options_default();
    o.port = 0;
    must(server_open(&s, &o, &e), &e);
    must(server_attach(s, &counting, &e), &e);
    must(server_listen(s, &e), &e);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) die("socketpair");
    int floor_port, plain = listen_plain(&floor_port, m);
    pid_t child = fork(); /* before there are threads */
    if (child == 0) run_child(ends[1], server_port(s), floor_port, n_idle, m, n_tokens);
    close(ends[1]);
    pthread_t loop;
    if (pthread_create(&loop, NULL, serve, NULL) != 0) die("thread");

    hear(ends[0]);
    int64_t before = resident_bytes();
    if (write(ends[0], "", 1) != 1) die("control");
    hear(ends[0]);
    printf("idle: %d kept connections take %.1f MB, %.0f bytes each\n", n_idle,
           (double)(resident_bytes() - before) / 1e6,
           (double)(resident_bytes() - before) / (n_idle ? n_idle : 1));

    int64_t start_ns = clock_ns(), cpu_ns = cpu_of(loop), engine_ns = atomic_load(&counting.cpu_ns),
            n_bytes = 0;
    if (write(ends[0], "", 1) != 1) die("control");
    if (read(ends[0], &n_bytes, sizeof n_bytes) != sizeof n_bytes) die("the child");
    double wall_s = (double)(clock_ns() - start_ns) / 1e9,
           n = (double)atomic_load(&counting.n_events);
    double cpu_s = (double)(cpu_of(loop) - cpu_ns) / 1e9,
           engine_s = (double)(atomic_load(&counting.cpu_ns) - engine_ns) / 1e9;
    printf("streams: %d at a time, %.0f events in %.2f s (%.0f a second), %.1f MB\n", m, n, wall_s,
           n / wall_s, (double)n_bytes / 1e6);
    printf(
        "loop thread: %.2f s of CPU, %.2f %% of a core for each 10,000 events a second; the thread "
        "that makes them %.2f %%\n",
        cpu_s, cpu_s / n * 1e6, engine_s / n * 1e6);
    double plain_s = send_plainly(plain, m, n_tokens, (size_t)((double)n_bytes / n));
    printf("floor: %.2f s by plain send(), %.2f %% of a core for each 10,000 events a second\n",
           plain_s, plain_s / ((double)m * n_tokens) * 1e6);
    server_stop(s);
    server_stop(s);
    pthread_join(loop, NULL);
    waitpid(child, NULL, 0);
    server_close(s);
    tokenizer_close(counting.tokens);
    arena_fini(&a);
    return 0;
}
