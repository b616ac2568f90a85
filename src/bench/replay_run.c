/* The session of a replay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ops.h"
#include "base/clock.h"
#include "base/hash.h"
#include "bench/bench_priv.h"
#include "bench/client_priv.h"
#include "bench/replay_priv.h"

enum { WARM_TOKENS = 14500, LAST_TOKENS = 31700, OTHER_TOKENS = 2000 };

double replay_curve_at(const replay_curve *c, double pos)
{
    double ms = 0, from = 0;
    for (int i = 0; i < c->n; i++) {
        double at = (double)c->points[i].pos;
        if (at >= pos) return ms + (c->points[i].ms - ms) * (pos - from) / (at - from);
        ms = c->points[i].ms;
        from = at;
    }
    return ms;
}

static void note_progress(replay *p, int64_t pos)
{
    replay_curve *c = p->curve;
    if (!c || c->n == REPLAY_POINTS_MAX) return;
    c->points[c->n].ms = clock_ms_since(p->start_ns);
    c->points[c->n++].pos = pos;
}

static void on_event(void *ctx, const engine_event *ev)
{
    replay *p = ctx;
    replay_row *row = p->row;
    if (ev->kind == ENGINE_PREFILL) note_progress(p, ev->prefilled);
    if (ev->kind == ENGINE_TOKENS && row->n_new == 0) {
        p->first_ns = clock_ns();
        row->first_ms = (double)(p->first_ns - p->start_ns) * 1e-6;
    }
    for (int i = 0; i < ev->n_ids; i++, row->n_new++)
        if (!token_ids_push(&p->answer, ev->ids[i]))
            err_set(&p->failure, ERR_NOMEM, "agent-replay", -1, "an answer");
    if (ev->kind != ENGINE_FINISH) return;
    if (ev->error) p->failure = *ev->error;
    row->n_prompt = ev->usage.prompt_tokens;
    row->n_cached = ev->usage.cached_tokens;
    row->decode_ms = clock_ms_since(p->first_ns);
    if (ev->usage.cycles > 0) row->per_cycle = (double)row->n_new / (double)ev->usage.cycles;
}

status replay_ask(replay *p, const char *name, const token_ids *ids, const engine_request *like,
                  err *e)
{
    engine_request q = *like;
    q.ids = ids->ptr;
    q.n_ids = ids->n;
    q.n = 1;
    q.policy = policy_neutral();
    q.policy.temperature = p->r->temperature;
    q.policy.seed = 1;
    q.policy.ignore_eos = !q.grammar;
    if (!q.grammar) q.max_tokens = p->r->n_new;
    q.on_event = on_event;
    q.ctx = p;
    p->row = &p->out->rows[p->out->n];
    *p->row = (replay_row){0};
    snprintf(p->row->name, sizeof p->row->name, "%s", name);
    p->answer.n = 0;
    uint64_t id;
    p->start_ns = clock_ns();
    TRY(engine_submit(p->en, &q, &id, e));
    while (engine_step(p->en)) continue;
    if (p->failure.code != ERR_OK) {
        *e = p->failure;
        return e->code;
    }
    p->row->output = hash_bytes(p->answer.ptr, (size_t)p->answer.n * sizeof *p->answer.ptr, 0);
    p->out->n++;
    if (p->on_row) p->on_row(p->row);
    return ERR_OK;
}

static status ask(replay *p, const char *name, int32_t *ids, int n_ids, err *e)
{
    return replay_ask(p, name, &(token_ids){.ptr = ids, .n = n_ids}, &(engine_request){0}, e);
}

static status append(token_ids *to, const int32_t *ids, int64_t n, err *e)
{
    for (int64_t i = 0; i < n; i++)
        if (!token_ids_push(to, ids[i])) return err_set(e, ERR_NOMEM, "agent-replay", -1, "prompt");
    return ERR_OK;
}

/* The append-only part; p->prompt is then the last prompt. */
static status run_appends(replay *p, int64_t n_warm, int64_t n_last, err *e)
{
    TRY(append(&p->prompt, p->text.ptr, n_warm, e));
    TRY(ask(p, "warm-up", p->prompt.ptr, p->prompt.n, e));
    for (int i = 1; i <= REPLAY_APPENDS; i++) {
        int64_t want = n_warm + (n_last - n_warm) * i / REPLAY_APPENDS;
        TRY(append(&p->prompt, p->answer.ptr, p->answer.n, e));
        if (p->prompt.n < want)
            TRY(append(&p->prompt, p->text.ptr + p->prompt.n, want - p->prompt.n, e));
        char name[24];
        snprintf(name, sizeof name, "append %d", i);
        TRY(ask(p, name, p->prompt.ptr, p->prompt.n, e));
    }
    return ERR_OK;
}

/* last: of the output of the append-only session's last prompt. */
static status run_session(replay *p, uint64_t *last, err *e)
{
    int64_t n_warm = (int64_t)(WARM_TOKENS * p->r->scale),
            n_last = (int64_t)(LAST_TOKENS * p->r->scale),
            n_other = (int64_t)(OTHER_TOKENS * p->r->scale) + 1;
    TRY(client_text(engine_tokenizer(p->en), n_last + n_other, &p->text, e));
    TRY(run_appends(p, n_warm, n_last, e));
    int32_t *ids = p->prompt.ptr;
    int n = p->prompt.n;
    TRY(ask(p, "repeat", ids, n, e));
    int32_t was = ids[n / 2];
    ids[n / 2] = p->text.ptr[0] == was ? p->text.ptr[1] : p->text.ptr[0];
    TRY(ask(p, "changed half way", ids, n, e));
    ids[n / 2] = was;
    TRY(ask(p, "shortened", ids, n * 2 / 3, e));
    TRY(ask(p, "another agent", p->text.ptr + p->text.n - n_other, (int)n_other, e));
    TRY(ask(p, "repeat again", ids, n, e));
    *last = p->row->output;
    if (engine_about(p->en)->chat_template.len > 0) TRY(replay_chat(p, n_other, e));
    engine_counters c = engine_stats(p->en);
    p->out->cache = c.cache;
    p->out->turns = c.turns;
    return ERR_OK;
}

/* What was asked for after the warm-up, against the cold prompt that it came to. */
static void judge(replay_record *out, const replay_curve *c, double cold_ms)
{
    replay_row *rows = out->rows;
    double ratios[REPLAY_APPENDS] = {0};
    for (int i = 1; i <= REPLAY_APPENDS; i++) {
        double end = (double)rows[i].n_prompt;
        double begin = (double)(rows[i - 1].n_prompt + rows[i - 1].n_new - OPS_BLOCK);
        double ms = replay_curve_at(c, end) - replay_curve_at(c, begin);
        if (ms > 0) ratios[i - 1] = rows[i].cost = rows[i].first_ms / ms;
    }
    qsort(ratios, REPLAY_APPENDS, sizeof *ratios, bench_by_value);
    out->append_median = ratios[REPLAY_APPENDS / 2];
    out->append_worst = ratios[REPLAY_APPENDS - 1];
    if (cold_ms > 0) out->repeat_share = rows[REPLAY_APPENDS + 1].first_ms / cold_ms;
}

static status run_cold(replay *p, uint64_t want, err *e)
{
    static replay_curve curve;
    engine_options o = p->r->engine;
    o.cache_bytes = -1;
    engine_close(p->en);
    p->en = NULL;
    TRY(engine_open(&p->en, &o, e));
    curve.n = 0;
    p->curve = &curve;
    TRY(ask(p, "cold", p->prompt.ptr, p->prompt.n, e));
    p->curve = NULL;
    judge(p->out, &curve, p->row->first_ms);
    p->out->is_same = p->row->output == want;
    if (p->spliced.n == 0) return ERR_OK;
    TRY(ask(p, "cold tool loop", p->spliced.ptr, p->spliced.n, e));
    p->out->is_same &= p->row->output == p->spliced_output;
    return ERR_OK;
}

status replay_run(const replay_request *r, replay_record *out, void (*on_row)(const replay_row *),
                  err *e)
{
    replay p = {.r = r, .out = out, .on_row = on_row};
    *out = (replay_record){0};
    status s = engine_open(&p.en, &r->engine, e);
    uint64_t last = 0;
    if (s == ERR_OK) s = run_session(&p, &last, e);
    if (s == ERR_OK) s = run_cold(&p, last, e);
    engine_close(p.en);
    token_ids_fini(&p.text);
    token_ids_fini(&p.prompt);
    token_ids_fini(&p.spliced);
    token_ids_fini(&p.answer);
    return s;
}
