/* http_probe: what the HTTP side costs without a model. links: server
 *
 * An engine that only counts stands in for the real one: from engine_submit on, each running
 * request gets one token every LOAD_TICK_MS until its max_tokens. Everything else is the server as
 * it is: sockets, JSON, chat template, tokenizer, output parser, chunks. http_load.h says what is
 * measured; http_peer_*.c put the same load on other servers.
 *
 * Usage: http_probe [idle connections = 5000] [streams = 256] [tokens of each = 500] */
#include <pthread.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "http_load.h"
#include "server/server_priv.h"

enum { RUNS_MAX = 4096 };
#define MODEL "models/mini-dense/"

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
    http_load load;
};

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
    return is_last;
}

static void *count(void *arg)
{
    engine *e = arg;
    for (bool ends = false; !ends;) {
        pthread_mutex_lock(&e->lock);
        int n = e->n_runs;
        for (int i = 0; i < e->n_runs;) {
            if (say(e, &e->runs[i]))
                e->runs[i] = e->runs[--e->n_runs];
            else
                i++;
        }
        ends = e->ends;
        pthread_mutex_unlock(&e->lock);
        load_note_events(&e->load, n);
        usleep(LOAD_TICK_MS * 1000);
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

/* --- the server --------------------------------------------------------------------------------
 */

static server *s;

static void *serve(void *arg)
{
    err e = {0};
    (void)arg;
    must(server_run(s, &e), &e);

    return NULL;
}

int main(int argc, char **argv)
{
    err e = {0};
    arena a;
    static engine counting;
    arena_init(&a, 0);
    log_set_level(LOG_WARN);
    load_init(&counting.load, argc, argv);
    open_counting(&counting, &a);
    server_options o = server_options_default();
    o.port = 0;
    must(server_open(&s, &o, &e), &e);
    must(server_attach(s, &counting, &e), &e);
    must(server_listen(s, &e), &e);
    load_fork(&counting.load, server_port(s));
    pthread_t loop;
    if (pthread_create(&loop, NULL, serve, NULL) != 0) load_die("thread");
    load_measure(&counting.load);
    server_stop(s);
    server_stop(s);
    pthread_join(loop, NULL);
    server_close(s);
    tokenizer_close(counting.tokens);
    arena_fini(&a);
    return 0;
}
