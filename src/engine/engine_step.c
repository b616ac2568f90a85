/* One step: admit, a slice of prompts, a cycle of the decoding lanes. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine_cache_priv.h"
#include "engine/engine_cycle.h"

static void add_usage(engine_counters *c, const engine_usage *u)
{
    c->prompt_tokens += u->prompt_tokens;
    c->completion_tokens += u->completion_tokens;
    c->cycles += u->cycles;
    c->drafted += u->drafted;
    c->accepted += u->accepted;
}

static void stop_clocks(sequence *s)
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
    }
    stop_clocks(s);
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

/* The first waiting sequence that is canceled, or that a free slot and blocks allow; or NULL.
 * One that waits for a prefix is passed by, one that does not fit is not. */
static sequence *take_waiting(engine *e, int slot)
{
    sequence *found = NULL;
    bool is_blocked = false;
    mutex_lock(&e->lock);
    for (sequence **at = &e->waiting; *at; at = &(*at)->next) {
        sequence *s = *at;
        bool is_canceled = atomic_load(&s->req->is_canceled);
        bool waits = slot >= 0 && !is_blocked && engine_cache_should_wait(e, s);
        bool fits = slot >= 0 && !is_blocked && !waits && engine_cache_fits(e, s);
        if (!fits && !waits) is_blocked = true;
        if (!is_canceled && !fits) continue;
        *at = s->next;
        if (!*at) e->waiting_end = at;
        e->n_waiting--;
        found = s;
        break;
    }
    mutex_unlock(&e->lock);
    return found;
}

static int free_slot(const engine *e)
{
    for (int i = 0; i < e->opt.n_lanes; i++)
        if (!e->lanes[i]) return i;
    return -1;
}

static status start_lane(engine *e, sequence *s, int slot)
{
    const request *r = s->req;
    s->slot = slot;
    e->lanes[slot] = s;
    mutex_lock(&e->lock);
    e->count.n_running++;
    mutex_unlock(&e->lock);
    TRY(cycle_reset(e->cycle, slot));
    if (e->widths) width_forget(e->widths, slot);
    TRY(engine_cache_start(e, s));
    sample_policy p = sequence_policy(s, e->info.eos, e->info.n_eos, e->bias);
    TRY(cycle_set_policy(e->cycle, slot, &p, e->bias));
    if (policy_has_penalties(&r->policy)) TRY(cycle_mark_prompt(e->cycle, slot, r->ids, r->n_ids));
    stop_clocks(s);
    s->prefill_ns = clock_ns();
    s->anchor = r->ids[r->n_ids - 1];
    return ERR_OK;
}

static void fail_all(engine *e, status s, const char *what)
{
    const err *last = &cycle_backend(e->cycle)->last;
    err failure = *last;
    if (failure.code == ERR_OK) err_set(&failure, s, what, -1, "%s", status_text(s));
    reuse_clear(e->reuse);
    for (int i = 0; i < e->opt.n_lanes; i++)
        if (e->lanes[i]) engine_finish_sequence(e, e->lanes[i], ENGINE_FAILED, &failure);
    if (s == ERR_DEVICE) {
        mutex_lock(&e->lock);
        e->broken = failure;
        mutex_unlock(&e->lock);
    }
}

/* Cancel and admit until neither is possible. True when anything changed. */
static bool admit(engine *e)
{
    bool changed = false;
    for (int i = 0; i < e->opt.n_lanes; i++) {
        sequence *s = e->lanes[i];
        if (!s || !atomic_load(&s->req->is_canceled)) continue;
        engine_finish_sequence(e, s, ENGINE_CANCELED, NULL);
        changed = true;
    }
    for (sequence *s; (s = take_waiting(e, free_slot(e))) != NULL; changed = true) {
        if (atomic_load(&s->req->is_canceled)) {
            engine_finish_sequence(e, s, ENGINE_CANCELED, NULL);
            continue;
        }
        status st = start_lane(e, s, free_slot(e));
        if (st != ERR_OK) fail_all(e, st, "start of a lane");
    }
    return changed;
}

static bool is_prefilling(const sequence *s)
{
    return s && s->pos < s->req->n_ids - 1;
}

static status run_slices(engine *e, int n)
{
    for (int i = 0; i < n; i++) {
        const cycle_slice *a = &e->slices[i];
        TRY(engine_cache_reach(e, e->lanes[a->slot], a->pos + a->n));
    }
    TRY(cycle_prefill(e->cycle, e->slices, n));
    for (int i = 0; i < n; i++) {
        sequence *s = e->lanes[e->slices[i].slot];
        s->pos += e->slices[i].n;
        reuse_advance(e->reuse, e->slices[i].n);
        TRY(engine_cache_after_slice(e, s));
    }
    return ERR_OK;
}

/* One slice of prompts, oldest slots first, up to prefill_rows in all. */
static bool prefill(engine *e)
{
    int n = 0, rows = 0;
    for (int i = 0; i < e->opt.n_lanes && rows < e->opt.prefill_rows; i++) {
        sequence *s = e->lanes[i];
        if (!is_prefilling(s)) continue;
        int64_t end = engine_cache_slice_end(e, s, e->opt.prefill_rows - rows);
        int take = (int)(end - s->pos);
        e->slices[n++] = (cycle_slice){.slot = i,
                                       .ids = s->req->ids + s->pos,
                                       .n = take,
                                       .pos = s->pos,
                                       .prompt_end = engine_cache_context_end(s, end)};
        rows += take;
    }
    if (n == 0) return false;
    if (e->opt.guards_steps) mem_guard_begin("prefill step");
    status st = run_slices(e, n);
    if (e->opt.guards_steps) mem_guard_end();
    if (st != ERR_OK) {
        fail_all(e, st, "prefill");
        return true;
    }
    for (int i = 0; i < n; i++) sequence_emit_prefill(e->lanes[e->slices[i].slot]);
    return true;
}

static bool is_eos(const engine *e, const sequence *s, int32_t id)
{
    for (int i = 0; i < e->info.n_eos && !s->req->policy.ignore_eos; i++)
        if (e->info.eos[i] == id) return true;
    return false;
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

static status run_cycle(engine *e, int L)
{
    width_choose(e->widths, e->step, L);
    TRY(engine_cache_before_cycle(e, L));
    TRY(width_step(e->widths, e->cycle, e->step, L, e->results));
    return engine_cache_after_cycle(e, L);
}

static bool decode(engine *e)
{
    int L = 0;
    for (int i = 0; i < e->opt.n_lanes; i++) {
        sequence *s = e->lanes[i];
        if (!s || is_prefilling(s)) continue;
        if (!s->decode_ns) {
            stop_clocks(s);
            s->decode_ns = clock_ns();
        }
        int64_t left = s->req->max_tokens - s->n_new;
        int max_new = (int)(left < OPS_ROWS_MAX ? left : OPS_ROWS_MAX);
        int width = e->width < max_new - 1 ? e->width : max_new - 1;
        e->step[L++] = (cycle_lane){.slot = i,
                                    .anchor = s->anchor,
                                    .pos = s->pos,
                                    .n_draft = width,
                                    .max_new = max_new,
                                    .wants_logprobs = s->req->wants_logprobs};
        if (s->constraint && constraint_is_needed(s->constraint, width))
            e->step[L - 1].mask = (cycle_mask){constraint_fill, s->constraint};
    }
    if (L == 0) return false;
    if (e->opt.guards_steps) mem_guard_begin("decode step");
    status st = run_cycle(e, L);
    if (e->opt.guards_steps) mem_guard_end();
    for (int l = 0; l < L && st == ERR_OK; l++)
        st = advance(e, e->lanes[e->step[l].slot], &e->results[l], e->crossed[l]);
    if (st != ERR_OK) fail_all(e, st, "decode");
    return true;
}

/* Once, before any lane runs: with a thread of its own the engine is ready meanwhile. */
static void measure(engine *e)
{
    e->is_measured = true;
    status st = engine_measure_widths(e->widths, e->cycle);
    if (st != ERR_OK) fail_all(e, st, "measuring draft widths");
}

bool engine_run_step(engine *e)
{
    if (!e->is_measured) measure(e);
    bool worked = admit(e);
    worked |= prefill(e);
    worked |= decode(e);
    if (!worked) return false;
    mutex_lock(&e->lock);
    e->count.cache = engine_cache_stats(e);
    mutex_unlock(&e->lock);
    return true;
}
