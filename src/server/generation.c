#include "server/scores_priv.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

enum {
    WAITING_MAX = 8 << 20,     /* bytes of events for a loop that is far behind */
    FLUSH_BYTES = 64 << 10,    /* of a client leave before all events are taken */
    SCRATCH_BASE = 64 << 20,   /* a request may take so much memory to read … */
    SCRATCH_PER_BODY_BYTE = 6, /* … and so much more */
};

static void take_gone(void *ctx);
static void take_tick(void *ctx);
static const conn_owner owner = {take_gone, take_tick};

/* --- life --------------------------------------------------------------------------------------
 */

/* What only reading the request needed. */
static void drop_input(generation *g)
{
    listener_drop_body(&g->server->listener, g->body.len);
    buf_fini(&g->body);
    arena_fini(&g->scratch);
    token_ids_fini(&g->ids);
}

static void generation_free(generation *g)
{
    server *s = g->server;
    if (g->is_unflushed) {
        generation **at = &s->unflushed;
        while (*at != g) at = &(*at)->next_unflushed;
        *at = g->next_unflushed;
    }
    drop_input(g);
    for (int i = 0; g->answers && i < g->request.n; i++) answer_close(&g->answers[i]);
    mem_free(g->answers);
    mem_free(g->reserved);
    grammar_close(g->grammar);
    arena_fini(&g->mem);
    buf_fini(&g->out);
    if (g->prev)
        g->prev->next = g->next;
    else
        s->generations = g->next;
    if (g->next) g->next->prev = g->prev;
    s->n_generations--;
    mem_free(g);
    server_on_idle(s);
}

/* The connection, which is on its own from here on. */
static conn *let_go(generation *g)
{
    conn *c = g->conn;
    g->conn = NULL;
    return c;
}

/* Nobody wants the answer any more: stop the work, wherever it is. */
static void stop_work(generation *g)
{
    if (g->is_running)
        engine_cancel(g->server->engine, g->engine_id);
    else
        uv_cancel((uv_req_t *)&g->work);
}

static void take_gone(void *ctx)
{
    generation *g = ctx;
    g->conn = NULL;
    stop_work(g);
}

/* --- output ------------------------------------------------------------------------------------
 */

static void reply_error(generation *g, const api_error *a)
{
    api_error own = *a;
    if (g->dialect->adapt) g->dialect->adapt(&own);
    conn_reply_error(let_go(g), &own, NULL);
}

/* What several events say to one client leaves together, when all are taken. */
static void flush_later(generation *g)
{
    if (g->is_unflushed) return;
    g->is_unflushed = true;
    g->next_unflushed = g->server->unflushed;
    g->server->unflushed = g;
}

static void flush_all(server *s)
{
    for (generation *g = s->unflushed; g; g = g->next_unflushed) {
        g->is_unflushed = false;
        if (g->conn) conn_flush(g->conn);
    }
    s->unflushed = NULL;
}

/* Pass on what the dialect wrote. A client that does not keep up is cut off. */
static void send_out(generation *g)
{
    if (!g->conn || (g->out.len == 0 && !g->out.failed)) return;
    bool fits = !g->out.failed && conn_stream_put(g->conn, buf_str(&g->out));
    bool has_memory = !g->out.failed && !g->conn->out.failed;
    buf_clear(&g->out);
    g->put_ms = uv_now(&g->server->loop);
    if (fits) {
        if (!g->server->is_taking_events || conn_unsent(g->conn) > FLUSH_BYTES)
            conn_flush(g->conn);
        else
            flush_later(g);
        return;
    }
    log_event(LOG_INFO, has_memory ? "slow_reader" : "out_of_memory", "request=%s",
              g->conn->request_id);
    conn_abort(let_go(g));
    stop_work(g);
}

static void fail(generation *g, const api_error *a);

static bool is_too_late(const generation *g)
{
    return g->is_running && g->request.timeout_ms > 0 &&
           uv_now(&g->server->loop) - g->begin_ms >= (uint64_t)g->request.timeout_ms;
}

static void take_tick(void *ctx)
{
    generation *g = ctx;
    if (is_too_late(g)) {
        api_error a;
        api_error_set(&a, 504, "request_timeout", "timeout", "the answer took longer than %.3f s",
                      (double)g->request.timeout_ms / 1000);
        fail(g, &a);
        return;
    }
    if (!g->has_begun ||
        uv_now(&g->server->loop) - g->put_ms < (uint64_t)g->server->opt.keep_alive_ms)
        return;
    g->dialect->keep_alive(g);
    send_out(g);
}

/* End the answer with an error, at whatever point it is. */
static void fail(generation *g, const api_error *a)
{
    if (!g->conn) return;
    if (!g->has_begun) {
        reply_error(g, a);
    } else {
        buf_clear(&g->out);
        snprintf(g->conn->note, sizeof g->conn->note, "code=%s", a->code);
        g->dialect->fail(g, a);
        send_out(g);
        if (g->conn) conn_stream_end(let_go(g));
    }
    stop_work(g);
}

static void fail_from(generation *g, const err *e)
{
    api_error a;
    api_error_from(&a, e);
    fail(g, &a);
}

/* For the log. */
static void note_usage(const generation *g)
{
    const engine_usage *u = &g->answers[0].usage;
    long long n_new = 0;
    for (int i = 0; i < g->request.n; i++) n_new += g->answers[i].usage.completion_tokens;
    snprintf(g->conn->note, sizeof g->conn->note, "prompt=%lld cached=%lld completion=%lld",
             (long long)u->prompt_tokens, (long long)u->cached_tokens, n_new);
}

static void end_answer(generation *g)
{
    if (!g->conn) return;
    if (g->answers) note_usage(g);
    g->dialect->end(g);
    if (!g->conn) return; /* it found that it cannot be said */
    if (g->request.streams) {
        send_out(g);
        if (g->conn) conn_stream_end(let_go(g));
    } else {
        conn_reply_buf(let_go(g), 200, NULL, &g->out);
    }
}

/* --- events ------------------------------------------------------------------------------------
 */

/* On the engine thread. */
static void push_event(void *ctx, const engine_event *ev)
{
    generation *g = ctx;
    if (ev->kind == ENGINE_PREFILL && !g->request.shows_progress) return;
    if (ev->kind == ENGINE_FINISH) {
        /* Once the last one is pushed g may be gone, so nothing comes after it. */
        bridge_push(&g->server->bridge, g, ev, &g->reserved[ev->choice]);
        return;
    }
    int64_t n = -1;
    if (atomic_load(&g->n_waiting) < WAITING_MAX) n = bridge_push(&g->server->bridge, g, ev, NULL);
    if (n >= 0) {
        atomic_fetch_add(&g->n_waiting, n);
        return;
    }
    atomic_store(&g->is_starved, true);
    engine_cancel(g->server->engine, ev->request);
}

/* False, and the request has failed, when an answer is not what its schema asks for. */
static bool keeps_promise(generation *g, const answer *c)
{
    err e = {0};
    api_error a;
    bool valid;
    if (answer_check(c, &valid, &e) != ERR_OK) {
        fail_from(g, &e);
        return false;
    }
    if (valid) return true;
    api_error_set(&a, 500, "invalid_model_output", NULL,
                  "the finished answer does not satisfy its schema");
    fail(g, &a);
    return false;
}

static void finish_answer(generation *g, answer *c, const engine_event *ev, bool is_cut)
{
    err e = {.code = ERR_CANCELED};
    if (is_cut || atomic_load(&g->is_starved)) e.code = ERR_NOMEM;
    bool has_failed = ev->reason == ENGINE_FAILED || ev->reason == ENGINE_CANCELED;
    if ((has_failed && !c->is_cut) || e.code == ERR_NOMEM)
        fail_from(g, ev->error ? ev->error : &e);
    else if (g->conn && g->is_checked && !keeps_promise(g, c))
        return;
    else if (g->conn && g->request.streams)
        g->dialect->finish(g, c);
}

/* Whether stop strings have ended all answers that the engine still works on. */
static bool is_cut_off(const generation *g)
{
    for (int i = 0; i < g->request.n; i++)
        if (!g->answers[i].is_cut && !g->answers[i].is_done) return false;
    return true;
}

/* ---- questions ---- */

void generation_fail_score(generation *g)
{
    api_error a;
    api_error_set(&a, 500, "model_result_invalid", NULL, "a logit is no number");
    fail(g, &a);
}

static status open_answers(generation *g, err *e);

/* The logits of the next question. False, and the request has failed, when it cannot be asked. */
static bool ask_question(generation *g)
{
    err e = {0};
    const generation_request *r = &g->request;
    score_question *q = &r->questions[g->at_question];
    engine_request ask = {
        .ids = q->ids,
        .n_ids = q->n_ids,
        .policy = policy_neutral(),
        .n = 1,
        .score_ids = q->label_ids,
        .n_scores = q->n_options,
        .scores = q->logits,
        .priority = r->priority,
        .on_event = push_event,
        .ctx = g,
    };
    if (g->answers) answer_close(&g->answers[0]);
    status st = g->answers ? answer_open(&g->answers[0], g, 0, &e) : open_answers(g, &e);
    if (st == ERR_OK) st = engine_submit(g->server->engine, &ask, &g->engine_id, &e);
    if (st != ERR_OK) {
        fail_from(g, &e);
        return false;
    }
    g->is_running = true;
    g->n_left = 1;
    return true;
}

/* A question was answered, if the request has not failed: on to the next one, or to the end. */
static void take_scores(generation *g, const engine_event *ev)
{
    score_question *q = &g->request.questions[g->at_question];
    q->n_cached = ev->usage.cached_tokens;
    q->forward_ms = ev->usage.prefill_ms + ev->usage.decode_ms;
    g->at_question++;
    if (g->conn && g->at_question < g->request.n_questions && ask_question(g)) return;
    end_answer(g);
    generation_free(g);
}

static void take_event(generation *g, const engine_event *ev, bool is_cut)
{
    err e = {0};
    answer *c = &g->answers[ev->choice];
    bool was_cut = c->is_cut;
    if (g->conn && answer_take(c, ev, &e) != ERR_OK) fail_from(g, &e);
    if (c->is_cut && !was_cut && is_cut_off(g)) stop_work(g);
    if (ev->kind == ENGINE_PREFILL && g->conn && g->request.streams && g->dialect->progress)
        g->dialect->progress(g, c, ev);
    if (ev->kind == ENGINE_FINISH) {
        finish_answer(g, c, ev, is_cut);
        g->n_left--;
    }
    if (g->n_left == 0 && g->request.is_scored) {
        take_scores(g, ev);
    } else if (g->n_left == 0) {
        end_answer(g);
        generation_free(g);
    } else if (g->request.streams) {
        send_out(g);
    }
}

void server_take_events(uv_async_t *wake)
{
    server *s = wake->data;
    s->is_taking_events = true;
    for (bridge_event *ev = bridge_take(&s->bridge), *next; ev; ev = next) {
        generation *g = ev->target;
        next = ev->next;
        bool is_cut = ev->n_bytes == 0; /* then ev lies in g, which may go */
        if (ev->ev.kind != ENGINE_FINISH) atomic_fetch_sub(&g->n_waiting, (long long)ev->n_bytes);
        take_event(g, &ev->ev, is_cut);
        if (!is_cut) bridge_free(ev);
    }
    s->is_taking_events = false;
    flush_all(s);
}

/* --- from the body to the engine ---------------------------------------------------------------
 */

static status open_answers(generation *g, err *e)
{
    int n = g->request.n;
    g->answers = mem_new_array((size_t)n, sizeof *g->answers);
    g->reserved = mem_new_array((size_t)n, sizeof *g->reserved);
    if (!g->answers || !g->reserved) return err_set(e, ERR_NOMEM, "n", -1, "%d choices", n);
    for (int i = 0; i < n; i++) TRY(answer_open(&g->answers[i], g, i, e));
    return ERR_OK;
}

static status submit(generation *g, err *e)
{
    const generation_request *r = &g->request;
    TRY(open_answers(g, e));
    engine_request q = {
        .ids = g->ids.ptr,
        .n_ids = g->ids.n,
        .max_tokens = r->max_tokens,
        .policy = r->policy,
        .stop = r->stop,
        .n_stop = r->prompt == PROMPT_CHAT ? 0 : r->n_stop, /* see answer.has_stops */
        .n = r->n,
        .wants_logprobs = r->wants_logprobs,
        .grammar = g->grammar,
        .starts_in_reasoning = g->starts_in_reasoning,
        .has_reasoning_limit = r->has_reasoning_limit,
        .reasoning_most = r->reasoning_most,
        .ends_loops = r->ends_loops,
        .priority = r->priority,
        .on_event = push_event,
        .ctx = g,
    };
    return engine_submit(g->server->engine, &q, &g->engine_id, e);
}

static void start_scores(generation *g)
{
    drop_input(g);
    if (g->request.n_questions > 0 && ask_question(g)) return;
    end_answer(g);
    generation_free(g);
}

static void start(generation *g)
{
    err e = {0};
    if (g->request.is_scored) {
        start_scores(g);
        return;
    }
    status st = submit(g, &e);
    drop_input(g);
    if (st != ERR_OK) {
        api_error a;
        api_error_from(&a, &e);
        reply_error(g, &a);
        generation_free(g);
        return;
    }
    g->is_running = true;
    g->n_left = g->request.n;
    if (!g->request.streams) return;
    g->has_begun = true;
    conn_stream_begin(g->conn, "text/event-stream; charset=utf-8",
                      "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    g->dialect->begin(g);
    send_out(g);
    if (g->conn) conn_flush(g->conn); /* a dialect may have nothing to say yet, but the head goes */
}

static void prepare(uv_work_t *work)
{
    generation_prepare(work->data);
}

static void take_prepared(uv_work_t *work, int r)
{
    generation *g = work->data;
    api_error a;
    if (!g->conn) {
        generation_free(g);
    } else if (r != 0 || g->server->n_stops > 1) {
        api_error_from(&a, &(err){.code = ERR_CANCELED});
        reply_error(g, &a);
        generation_free(g);
    } else if (g->error.http) {
        a = g->error;
        reply_error(g, &a);
        generation_free(g);
    } else if (g->dialect->prepared) {
        conn_reply_buf(let_go(g), 200, NULL, &g->out);
        generation_free(g);
    } else {
        start(g);
    }
}

void generation_begin(server *s, conn *c, const dialect *d)
{
    generation *g = s->n_stops == 0 ? mem_new(sizeof *g) : NULL;
    if (!g) {
        api_error a;
        api_error_from(&a, &(err){.code = s->n_stops == 0 ? ERR_NOMEM : ERR_CANCELED});
        conn_reply_error(c, &a, NULL);
        return;
    }
    g->server = s;
    g->dialect = d;
    g->conn = c;
    g->body = conn_take_body(c);
    g->created_s = clock_unix_s();
    g->begin_ms = uv_now(&s->loop);
    g->seed = rng_mix64(++s->id_state);
    server_new_id(s, d->id_prefix, g->id);
    arena_init(&g->scratch, SCRATCH_BASE + SCRATCH_PER_BODY_BYTE * g->body.len);
    arena_init(&g->mem, 0);
    buf_init(&g->out);
    g->next = s->generations;
    if (g->next) g->next->prev = g;
    s->generations = g;
    s->n_generations++;
    conn_own(c, &owner, g);
    g->work.data = g;
    uv_queue_work(&s->loop, &g->work, prepare, take_prepared);
}

void generation_cancel_all(server *s)
{
    for (generation *g = s->generations; g; g = g->next) stop_work(g);
}
