/* One step: admit, a slice of prompts, a cycle of the decoding lanes. */
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine_admit_priv.h"
#include "engine/engine_cache_priv.h"
#include "engine/engine_check.h"
#include "engine/engine_cycle.h"

static void add_usage(engine_counters *c, const engine_usage *u)
{
    c->prompt_tokens += u->prompt_tokens;
    c->completion_tokens += u->completion_tokens;
    c->cycles += u->cycles;
    c->drafted += u->drafted;
    c->accepted += u->accepted;
}

void engine_stop_clocks(sequence *s)
{
    int64_t now = clock_ns();
    if (s->decode_ns)
        s->usage.decode_ms = (double)(now - s->decode_ns) * 1e-6;
    else if (s->prefill_ns)
        s->usage.prefill_ms = (double)(now - s->prefill_ns) * 1e-6;
    else
        s->usage.queue_ms = (double)(now - s->submitted_ns) * 1e-6;
}

static void free_request(engine *e, request *r)
{
    mutex_lock(&e->lock);
    request **at = &e->requests;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    mutex_unlock(&e->lock);
    request_free(r);
}

void engine_finish_sequence(engine *e, sequence *s, engine_finish reason, const err *error)
{
    bool was_running = s->slot >= 0;
    if (was_running) {
        engine_cache_leave(e, s, reason != ENGINE_FAILED);
        e->lanes[s->slot] = NULL;
        e->n_leaves++;
    }
    engine_stop_clocks(s);
    mutex_lock(&e->lock);
    e->count.finished++;
    if (reason == ENGINE_CANCELED) e->count.canceled++;
    if (reason == ENGINE_FAILED) e->count.failed++;
    if (was_running) e->count.n_running--;
    add_usage(&e->count, &s->usage);
    mutex_unlock(&e->lock);

    request *r = s->req;
    sequence_finish(s, reason, error);
    sequence_free(s);
    if (--r->n_left == 0) free_request(e, r);
}

static err failure_of(const engine *e, status s, const char *what)
{
    err failure = cycle_backend(e->cycle)->last;
    if (failure.code == ERR_OK) err_set(&failure, s, what, -1, "%s", status_text(s));
    return failure;
}

/* From here on nothing is taken; what waits fails with what runs. */
static void give_up(engine *e, const err *failure)
{
    mutex_lock(&e->lock);
    bool is_first = e->broken.code == ERR_OK;
    if (is_first) e->broken = *failure;
    mutex_unlock(&e->lock);
    for (sequence *s; (s = engine_pop_waiting(e)) != NULL;)
        engine_finish_sequence(e, s, ENGINE_FAILED, failure);
    if (is_first && e->opt.on_broken) e->opt.on_broken(e->opt.broken_ctx, failure);
}

static void fail_all(engine *e, status s, const char *what)
{
    err failure = failure_of(e, s, what);
    reuse_clear(e->reuse);
    for (int i = 0; i < e->opt.n_lanes; i++)
        if (e->lanes[i]) engine_finish_sequence(e, e->lanes[i], ENGINE_FAILED, &failure);
    if (s == ERR_DEVICE) give_up(e, &failure);
}

void engine_lanes_failed(engine *e, status st, const char *what, sequence *const *lanes, int n)
{
    if (st == ERR_DEVICE) {
        fail_all(e, st, what);
        return;
    }
    err failure = failure_of(e, st, what);
    sequence *last = lanes[0];
    for (int i = 1; i < n; i++)
        if (sequence_is_older(last, lanes[i])) last = lanes[i];
    for (int i = 0; i < n; i++)
        if (lanes[i] != last) engine_suspend(e, lanes[i], false);
    engine_finish_sequence(e, last, ENGINE_FAILED, &failure);
}

/* ---- prompts ---- */

enum { SLICE_MS = 100, SLICE_ROWS_LEAST = 64 };
static const double SLICE_ALONE = 2;    /* times as long while nobody waits for a token */
static const double RATE_WEIGHT = 0.25; /* of the last slice in what a row takes */

static int n_decoding(const engine *e)
{
    int n = 0;
    for (int i = 0; i < e->opt.n_lanes; i++)
        n += e->lanes[i] && !sequence_is_prefilling(e->lanes[i]);
    return n;
}

/* Rows of prompts that a step may compute while others wait for their next token, or do not. */
static int slice_rows(const engine *e, bool is_awaited)
{
    double ms = e->opt.slice_ms > 0 ? e->opt.slice_ms : SLICE_MS;
    if (e->opt.slice_ms < 0 || e->ms_per_row <= 0) return e->opt.prefill_rows;
    if (!is_awaited) ms *= SLICE_ALONE;
    double rows = ms / e->ms_per_row, least = is_awaited ? SLICE_ROWS_LEAST : 2 * SLICE_ROWS_LEAST;
    if (rows < least) rows = least;
    return rows < e->opt.prefill_rows ? (int)rows : e->opt.prefill_rows;
}

/* Slices of the prompts whose turn it is, with their blocks; returns their number. */
static int plan_slices(engine *e, sequence **lanes)
{
    sequence *order[ENGINE_LANES_MAX];
    int n_order = engine_order_prompts(e, order), rows = 0, n = 0;
    int most = slice_rows(e, n_decoding(e) > 0), awaited = slice_rows(e, true);
    int64_t end[ENGINE_LANES_MAX];
    for (int i = 0; i < n_order && rows < most; i++) {
        sequence *s = order[i];
        if (s->slot < 0) continue; /* suspended for one before it */
        int64_t to = engine_cache_slice_end(e, s, most - rows);
        if (!engine_make_room(e, s, to)) continue;
        end[n] = to;
        lanes[n++] = s;
        rows += (int)(to - s->pos);
        /* Its first token comes behind this slice. */
        if (to == sequence_goal(s) && most > awaited) most = awaited;
    }
    int kept = 0;
    for (int i = 0; i < n; i++) {
        sequence *s = lanes[i];
        if (s->slot < 0) continue;
        e->slices[kept] = (cycle_slice){.slot = s->slot,
                                        .ids = s->ids + s->pos,
                                        .n = (int)(end[i] - s->pos),
                                        .pos = s->pos,
                                        .prompt_end = engine_cache_context_end(s, end[i])};
        lanes[kept++] = s;
    }
    return kept;
}

/* Lanes that wait while later ones go on have that much the more right to be next. */
static void count_overtaking(engine *e, int n)
{
    for (int i = 0; i < e->opt.n_lanes; i++) {
        sequence *s = e->lanes[i];
        bool is_left_out = sequence_is_prefilling(s);
        for (int k = 0; k < n && is_left_out; k++) is_left_out = e->slices[k].slot != i;
        for (int k = 0; k < n && is_left_out; k++)
            if (sequence_is_older(s, e->lanes[e->slices[k].slot])) s->overtaken += e->slices[k].n;
    }
}

static status run_slices(engine *e, int n)
{
    TRY(cycle_prefill(e->cycle, e->slices, n));
    for (int i = 0; i < n; i++) {
        sequence *s = e->lanes[e->slices[i].slot];
        s->pos += e->slices[i].n;
        reuse_advance(e->reuse, e->slices[i].n);
        TRY(engine_cache_after_slice(e, s));
    }
    /* Else the next slice would be queued before this one's time is known. */
    return cycle_sync(e->cycle);
}

/* decodes: lanes were waiting for their next tokens meanwhile. */
static void learn_slice(engine *e, int n, double ms, bool decodes)
{
    int rows = 0;
    for (int i = 0; i < n; i++) rows += e->slices[i].n;
    double rate = ms / rows, weight = e->ms_per_row > 0 ? RATE_WEIGHT : 1;
    /* Few rows cost more each: they say little of a whole slice. */
    if (rows >= SLICE_ROWS_LEAST || e->ms_per_row <= 0)
        e->ms_per_row += weight * (rate - e->ms_per_row);
    if (decodes) e->owed_ms += ms * e->opt.decode_share;
    histogram_add(&e->tally.slice, ms);
}

/* One slice of prompts. */
static bool prefill(engine *e)
{
    sequence *lanes[ENGINE_LANES_MAX];
    bool decodes = n_decoding(e) > 0;
    if (e->owed_ms > 0 && decodes) return false;
    int n = plan_slices(e, lanes);
    if (n == 0) return false;
    count_overtaking(e, n);
    int64_t start_ns = clock_ns();
    if (e->opt.guards_steps) mem_guard_begin("prefill step");
    status st = run_slices(e, n);
    if (e->opt.guards_steps) mem_guard_end();
    if (st != ERR_OK) {
        engine_lanes_failed(e, st, "prefill", lanes, n);
        return true;
    }
    learn_slice(e, n, clock_ms_since(start_ns), decodes);
    for (int i = 0; i < n; i++) sequence_emit_prefill(lanes[i]);
    return true;
}

/* ---- decoding ---- */

static bool is_eos(const engine *e, const sequence *s, int32_t id)
{
    for (int i = 0; i < e->info.n_eos && !s->req->policy.ignore_eos; i++)
        if (e->info.eos[i] == id) return true;
    return false;
}

static void tally_tokens(engine *e, sequence *s, const cycle_result *r)
{
    int64_t now = clock_ns();
    if (s->n_new == 0) {
        histogram_add(&e->tally.first_token, (double)(now - s->submitted_ns) * 1e-6);
    } else {
        double ms = (double)(now - s->last_ns) * 1e-6 / r->n;
        for (int i = 0; i < r->n; i++) histogram_add(&e->tally.token, ms);
    }
    s->last_ns = now;
    e->tally.widths[r->n_drafted < ENGINE_WIDTHS ? r->n_drafted : ENGINE_WIDTHS - 1]++;
}

/* The tokens that the constraint allows; what comes behind them was drawn from a mask that says
 * nothing, or against a bias that leaves nothing. */
static int n_allowed(const sequence *s, const cycle_result *r)
{
    return s->constraint ? constraint_take(s->constraint, r->ids, r->n) : r->n;
}

static void fail_constraint(engine *e, sequence *s)
{
    err failure;
    err_set(&failure, ERR_LIMIT, "grammar", -1,
            "no token can follow: the text is past the grammar's limits (%d readings at a time, "
            "%d levels), or logit_bias forbids what is left",
            GRAMMAR_THREADS_MOST, GRAMMAR_DEPTH_MOST);
    engine_finish_sequence(e, s, ENGINE_FAILED, &failure);
}

/* The prompt's last token has been through the target: its logits are all that was wanted. */
static status take_scores(engine *e, sequence *s, int lane)
{
    const request *r = s->req;
    s->usage.cycles++;
    s->usage.decode_ms = clock_ms_since(s->decode_ns);
    TRY(cycle_read_logits(e->cycle, lane, r->score_ids, r->n_scores, r->scores));
    engine_finish_sequence(e, s, ENGINE_STOP, NULL);
    return ERR_OK;
}

/* Take in what a cycle emitted for one lane, which it may have taken over a block boundary. */
static status advance(engine *e, sequence *s, cycle_result *r, bool crossed)
{
    int n_made = r->n;
    r->n = n_allowed(s, r);
    s->usage.cycles++;
    s->usage.drafted += r->n_drafted;
    s->usage.accepted += r->n_accepted;
    s->usage.decode_ms = clock_ms_since(s->decode_ns);
    if (r->n == 0) {
        fail_constraint(e, s);
        return ERR_OK;
    }
    tally_tokens(e, s, r);
    bool ends = is_eos(e, s, r->ids[r->n - 1]);
    int n_used;
    bool is_cut = sequence_emit(s, r, ends, &n_used);
    s->pos += r->n;
    s->anchor = r->ids[r->n - 1];
    reuse_advance(e->reuse, r->n);
    if (r->n < n_made) {
        fail_constraint(e, s);
        return ERR_OK;
    }
    if (crossed) TRY(engine_cache_cross(e, s));
    if (is_cut)
        engine_finish_sequence(e, s, ENGINE_STOP_STRING, NULL);
    else if (ends)
        engine_finish_sequence(e, s, ENGINE_STOP, NULL);
    else if (s->n_new >= s->req->max_tokens)
        engine_finish_sequence(e, s, ENGINE_LENGTH, NULL);
    return ERR_OK;
}

/* A lane's numbers were no numbers: what it had in the cache is dropped, with all that goes on from
 * there, and computed again, once. */
static void recompute(engine *e, sequence *s)
{
    int32_t top = s->n_published > 0 ? s->blocks[0] : -1;
    if (top >= 0) reuse_forget(e->reuse, top);
    for (int i = 0; i < e->opt.n_lanes && top >= 0; i++) {
        sequence *other = e->lanes[i];
        if (other && other != s && other->n_published > 0 && other->blocks[0] == top)
            engine_suspend(e, other, false);
    }
    mutex_lock(&e->lock);
    e->count.recomputed++;
    mutex_unlock(&e->lock);
    if (s->n_recomputed++ == 0) {
        engine_suspend(e, s, false);
        return;
    }
    err failure = {0};
    err_set(&failure, ERR_DEVICE, "numbers", -1, "the model's output is not a number");
    engine_finish_sequence(e, s, ENGINE_FAILED, &failure);
}

/* The step's lanes that still have a slot and blocks for what they want; proposals that have none
 * are left out before anyone gives way. */
static int make_room(engine *e, int L, sequence **lanes)
{
    int kept = 0;
    for (int l = 0; l < L; l++) {
        cycle_lane *lane = &e->step[l];
        sequence *s = lanes[l];
        if (s->slot < 0) continue;
        int64_t has = (int64_t)s->n_taken * OPS_BLOCK;
        if (engine_cache_reach(e, s, lane->pos + lane->n_draft + 1) != ERR_OK && has > lane->pos)
            lane->n_draft = (int)(has - lane->pos) - 1;
        engine_make_room(e, s, lane->pos + lane->n_draft + 1);
    }
    for (int l = 0; l < L; l++) {
        if (lanes[l]->slot < 0) continue;
        e->step[kept] = e->step[l];
        lanes[kept++] = lanes[l];
    }
    return kept;
}

static status take_result(engine *e, sequence *s, int lane)
{
    if (s->req->n_scores > 0) return take_scores(e, s, lane);
    return advance(e, s, &e->results[lane], e->crossed[lane]);
}

static status run_cycle(engine *e, int L)
{
    TRY(engine_cache_before_cycle(e, L));
    TRY(width_step(e->widths, e->cycle, e->step, L, e->results));
    return engine_cache_after_cycle(e, L);
}

static int plan_cycle(engine *e, sequence **lanes)
{
    int L = 0;
    for (int i = 0; i < e->opt.n_lanes; i++) {
        sequence *s = e->lanes[i];
        if (!s || sequence_is_prefilling(s)) continue;
        if (!s->decode_ns) {
            engine_stop_clocks(s);
            s->decode_ns = clock_ns();
        }
        int64_t left = s->req->max_tokens - s->n_new;
        int max_new = (int)(left < OPS_ROWS_MAX ? left : OPS_ROWS_MAX);
        int width = cycle_most_draft(e->cycle, s->pos);
        if (width > max_new - 1) width = max_new - 1;
        lanes[L] = s;
        e->step[L++] = (cycle_lane){.slot = i,
                                    .anchor = s->anchor,
                                    .pos = s->pos,
                                    .n_draft = width,
                                    .max_new = max_new,
                                    .wants_logprobs = s->req->wants_logprobs};
        if (s->constraint && constraint_is_needed(s->constraint, width))
            e->step[L - 1].mask = (cycle_mask){constraint_fill, s->constraint, constraint_guess};
    }
    width_choose(e->widths, e->step, L);
    return make_room(e, L, lanes);
}

static bool decode(engine *e)
{
    sequence *lanes[ENGINE_LANES_MAX];
    int L = plan_cycle(e, lanes);
    if (L == 0) return false;
    int64_t start_ns = clock_ns();
    if (e->opt.guards_steps) mem_guard_begin("decode step");
    status st = run_cycle(e, L);
    if (e->opt.guards_steps) mem_guard_end();
    if (st != ERR_OK) {
        engine_lanes_failed(e, st, "decode", lanes, L);
        return true;
    }
    double ms = clock_ms_since(start_ns);
    histogram_add(&e->tally.cycle, ms);
    e->owed_ms = e->owed_ms > ms ? e->owed_ms - ms : 0;
    for (int l = 0; l < L && st == ERR_OK; l++)
        if (!e->results[l].has_nan) st = take_result(e, lanes[l], l);
    if (st != ERR_OK) fail_all(e, st, "decode");
    for (int l = 0; l < L && st == ERR_OK; l++)
        if (e->results[l].has_nan && e->lanes[e->step[l].slot] == lanes[l]) recompute(e, lanes[l]);
    return true;
}

static bool has_waiting(void *ctx)
{
    engine *e = ctx;
    mutex_lock(&e->lock);
    bool is_over = e->waiting || e->is_stopping;
    mutex_unlock(&e->lock);
    return is_over;
}

static status check(engine *e)
{
    engine_check k;
    err why = {0};
    if (!e->opt.on_check || has_waiting(e)) return ERR_OK;
    status st = engine_check_run(e->cycle, e->tok, engine_check_usual_limits(), has_waiting, e, &k,
                                 &why);
    if (st == ERR_OK) e->opt.on_check(e->opt.check_ctx, &k);
    return st == ERR_NOMEM ? ERR_OK : st;
}

/* Once, before any lane runs: with a thread of its own the engine is ready meanwhile. */
static void measure(engine *e)
{
    e->is_measured = true;
    status st = engine_measure_widths(e->widths, e->cycle);
    if (st == ERR_OK) st = check(e);
    if (st != ERR_OK) fail_all(e, st, "measuring draft widths");
}

bool engine_run_step(engine *e)
{
    if (!e->is_measured) measure(e);
    if (e->opt.suspends_always) engine_suspend_all(e);
    bool worked = engine_admit(e);
    worked |= prefill(e);
    worked |= decode(e);
    if (!worked) return false;
    mutex_lock(&e->lock);
    e->count.cache = engine_cache_stats(e);
    e->count.tally = e->tally;
    e->count.captures = cycle_backend(e->cycle)->n_captures;
    mutex_unlock(&e->lock);
    return true;
}
