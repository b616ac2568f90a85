/* riptide serve: flags, the model, the socket, and what a person sees of it. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "engine/engine_check.h"
#include "server/notify_priv.h"
#include "server/restart_priv.h"
#include "server/serve_flags_priv.h"
#include "server/server.h"

static int fail(const char *command, const err *e)
{
    char text[512];
    err_format(e, text, sizeof text);
    fprintf(stderr, "riptide %s: %s\n", command, text);
    return 1;
}

/* --- a word now and then while the model is being opened
 * ------------------------------------------ */

typedef struct {
    mutex lock; /* protects the next four */
    cond over;
    bool is_over;
    int n_done, n_layers;
    const char *what;
    int64_t start_ns;
    thread worker;
} progress;

static void *show_progress(void *arg)
{
    progress *p = arg;
    int64_t wait_ns = 1000000000;
    mutex_lock(&p->lock);
    while (!p->is_over) {
        if (cond_wait_ns(&p->over, &p->lock, wait_ns)) continue;
        if (p->is_over) break;
        fprintf(stderr, "loading %s … ", p->what);
        if (p->n_layers > 0) fprintf(stderr, "%d of %d layers, ", p->n_done, p->n_layers);
        fprintf(stderr, "%.0f s\n", clock_ms_since(p->start_ns) / 1000);
        wait_ns = 2000000000;
    }
    mutex_unlock(&p->lock);
    return NULL;
}

static void take_progress(void *ctx, int n_done, int n_layers)
{
    progress *p = ctx;
    mutex_lock(&p->lock);
    p->n_done = n_done;
    p->n_layers = n_layers;
    mutex_unlock(&p->lock);
}

static void progress_begin(progress *p, const char *what)
{
    *p = (progress){.what = what, .start_ns = clock_ns()};
    mutex_init(&p->lock);
    cond_init(&p->over);
    thread_start(&p->worker, "progress", show_progress, p, NULL); /* without it nothing is shown */
}

static void progress_end(progress *p)
{
    mutex_lock(&p->lock);
    p->is_over = true;
    cond_signal(&p->over);
    mutex_unlock(&p->lock);
    thread_join(&p->worker);
    cond_fini(&p->over);
    mutex_fini(&p->lock);
}

/* --- start
 * ----------------------------------------------------------------------------------------- */

static double mib(int64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* engine_options.on_check: what the exercise says of the model, some time after it is ready. */
static void print_check(void *ctx, const engine_check *k)
{
    char text[400];
    (void)ctx;
    engine_check_format(k, text, sizeof text);
    fprintf(stderr, "%s\n", text);
}

static void print_plan(const engine_info *about, double load_ms)
{
    double read_ms = about->load_ms > 0 ? about->load_ms : 1;
    fprintf(stderr,
            "%s (%s) on %s%s%s in %.1f s (%.2f GB of files at %.2f GB/s): weights %.0f MiB and "
            "%.0f of the draft, KV %.0f and %.0f of the draft, states %.0f, scratch %.0f, "
            "prompt cache %.0f and %.0f of answers, together %.0f",
            about->model_name, about->format, about->backend,
            about->isa && about->isa[0] ? " " : "", about->isa ? about->isa : "", load_ms / 1000,
            (double)about->load_bytes * 1e-9, (double)about->load_bytes / read_ms * 1e-6,
            mib(about->weight_bytes), mib(about->draft_bytes), mib(about->kv_bytes),
            mib(about->draft_kv_bytes), mib(about->state_bytes), mib(about->scratch_bytes),
            mib(about->cache_bytes), mib(about->turn_bytes),
            mib(about->weight_bytes + about->draft_bytes + about->kv_bytes + about->draft_kv_bytes +
                about->state_bytes + about->scratch_bytes + about->cache_bytes +
                about->turn_bytes));
    if (about->memory_limit > 0) fprintf(stderr, " of %.0f", mib(about->memory_limit));
    fprintf(stderr, "; %lld tokens in KV\n", (long long)about->kv_tokens);
}

/* The line that scripts wait for, and one to try. */
static void print_ready(const server *s)
{
    const engine_info *about = s->about;
    bool is_v6 = strchr(s->opt.host, ':') != NULL;
    bool is_any = strcmp(s->opt.host, "0.0.0.0") == 0 || strcmp(s->opt.host, "::") == 0;
    char url[320];
    snprintf(url, sizeof url, "http://%s%s%s:%d", is_v6 && !is_any ? "[" : "",
             is_any ? "127.0.0.1" : s->opt.host, is_v6 && !is_any ? "]" : "", server_port(s));
    printf("Ready at %s/v1 (model %s, context %lld, %d at a time)\n", url, about->model_name,
           (long long)about->max_context, about->n_lanes);
    printf("Try: curl %s/v1/chat/completions%s -H 'Content-Type: application/json' "
           "-d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is 12 + 30?\"}]}'\n",
           url, s->opt.access.key.len ? " -H \"Authorization: Bearer $RIPTIDE_API_KEY\"" : "");
    fflush(stdout);
    notify_send("READY=1");
}

/* Every connection is a file: take as many as the system lets us, and no more connections. */
static void fit_connections(http_limits *limits)
{
    enum { OTHER_FILES = 128, MORE_CONNS = 1024 };
    struct rlimit r;
    rlim_t want = (rlim_t)limits->max_conns + MORE_CONNS + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= want)
        return;
    rlim_t had = r.rlim_cur;
    r.rlim_cur = r.rlim_max == RLIM_INFINITY || r.rlim_max > want ? want : r.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &r) != 0) r.rlim_cur = had;
    if (r.rlim_cur < want)
        limits->max_conns = r.rlim_cur > 2 * OTHER_FILES ? (int)r.rlim_cur - OTHER_FILES
                                                         : OTHER_FILES;
}

static void set_log_level(const char *name)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) log_set_level((log_level)i);
}

static status run(const serve_flags *f, arena *a, server **s, engine **en, err *e)
{
    server_options so;
    engine_options eo;
    progress p;
    set_log_level(f->log_level);
    TRY(serve_flags_resolve(f, a, &so, &eo, e));
    TRY(restart_find_socket(&so.listen_fd, e));
    so.ends_broken = true;
    TRY(server_open(s, &so, e)); /* a port that is taken is known before the model is loaded */
    eo.on_broken = server_take_failure;
    eo.broken_ctx = *s;
    if (!f->no_self_test) eo.on_check = print_check;
    TRY(serve_flags_check_bind(f, (*s)->listener.is_loopback, e));
    progress_begin(&p, eo.model);
    eo.on_progress = take_progress;
    eo.progress_ctx = &p;
    int64_t start_ns = clock_ns();
    status st = engine_open(en, &eo, e);
    progress_end(&p);
    TRY(st);
    TRY(server_attach(*s, *en, e));
    fit_connections(&(*s)->listener.limits);
    TRY(server_listen(*s, e));
    print_plan(engine_about(*en), clock_ms_since(start_ns));
    print_ready(*s);
    return server_run(*s, e);
}

/* Whether a failed device has done anything before: if not, it would fail again. */
static bool has_worked(engine *en)
{
    engine_counters c = engine_stats(en);
    return c.completion_tokens > 0 || c.finished > c.failed + c.canceled;
}

/* The server has run to its end. Returns its socket, for a restart, or -1 with *st. */
static int take_end(server *s, engine *en, status *st, err *e)
{
    if (*st != ERR_OK || !s->is_broken) return -1;
    int fd = server_take_socket(s);
    *st = ERR_DEVICE;
    *e = s->failure;
    if (fd < 0 || has_worked(en)) return fd;
    close(fd);
    return -1;
}

int server_command(int argc, char **argv)
{
    serve_flags f;
    option_row rows[SERVE_FLAG_ROWS + 1];
    bool wants_help = false;
    err e = {0};
    serve_flags_init(&f);
    serve_flags_rows(&f, rows);
    status st = option_parse(rows, argc, argv, NULL, 0, NULL, &wants_help, &e);
    if (wants_help) {
        option_print_help(rows, "riptide serve");
        return 0;
    }
    if (st != ERR_OK) {
        fail(argv[0], &e);
        return 2;
    }
    arena a;
    server *s = NULL;
    engine *en = NULL;
    arena_init(&a, 0);
    st = run(&f, &a, &s, &en, &e);
    int fd = take_end(s, en, &st, &e);
    server_close(s);
    engine_close(en);
    arena_fini(&a);
    if (fd >= 0) {
        fail(argv[0], &e);
        fprintf(stderr, "riptide %s: starts again\n", argv[0]);
        st = restart_exec(fd, argc, argv, &e);
    }
    return st == ERR_OK ? 0 : fail(argv[0], &e);
}
