#include "engine/engine_admit_priv.h"

#include <string.h>

#include "base/clock.h"
#include "engine/engine_cache_priv.h"

/* a is served before b. */
static bool is_first(const sequence *a, const sequence *b, int64_t left_a, int64_t left_b)
{
    if (a->req->priority != b->req->priority) return a->req->priority > b->req->priority;
    bool was_a = a->usage.suspensions > 0, was_b = b->usage.suspensions > 0;
    if (was_a != was_b) return was_a;
    if (was_a) return sequence_is_older(a, b);
    left_a -= a->overtaken;
    left_b -= b->overtaken;
    return left_a != left_b ? left_a < left_b : sequence_is_older(a, b);
}

/* ---- suspension ---- */

/* The running sequence that gives way first, or NULL. */
static sequence *last_lane(const engine *e)
{
    sequence *last = NULL;
    for (int i = 0; i < e->opt.n_lanes; i++) {
        sequence *s = e->lanes[i];
        if (!s) continue;
        if (!last || s->req->priority < last->req->priority ||
            (s->req->priority == last->req->priority && sequence_is_older(last, s)))
            last = s;
    }
    return last;
}

void engine_suspend(engine *e, sequence *s, bool keeps)
{
    engine_cache_leave(e, s, keeps);
    e->lanes[s->slot] = NULL;
    e->n_leaves++;
    s->slot = -1;
    s->floor = s->pos;
    s->pos = 0;
    s->usage.suspensions++;
    mutex_lock(&e->lock);
    s->next = e->waiting;
    e->waiting = s;
    if (!s->next) e->waiting_end = &s->next;
    e->n_waiting++;
    e->count.n_running--;
    e->count.suspensions++;
    mutex_unlock(&e->lock);
}

void engine_suspend_all(engine *e)
{
    for (int i = 0; i < e->opt.n_lanes; i++) {
        sequence *s = e->lanes[i];
        if (s && s->pos > s->floor) engine_suspend(e, s, true);
    }
}

bool engine_make_room(engine *e, sequence *s, int64_t end)
{
    for (;;) {
        status st = engine_cache_reach(e, s, end);
        if (st == ERR_OK) return true;
        sequence *last = last_lane(e);
        engine_suspend(e, last, true);
        if (last == s) return false;
    }
}

/* ---- admission ---- */

/* How much the waiting sequence has to compute, as far as the cache stands. */
static int64_t work_of(engine *e, sequence *s)
{
    if (s->work_stamp != e->n_leaves) {
        s->work = s->req->n_ids - engine_cache_peek(e, s);
        s->work_stamp = e->n_leaves;
    }
    return s->work;
}

/* The link to the waiting sequence whose turn it is; NULL when all wait for prefixes. Under the
 * lock. */
static sequence **find_first(engine *e)
{
    sequence **best = NULL;
    for (sequence **at = &e->waiting; *at; at = &(*at)->next) {
        sequence *s = *at;
        if (best && s->req->priority < (*best)->req->priority) continue;
        if (engine_cache_should_wait(e, s)) continue;
        if (!best || is_first(s, *best, work_of(e, s), work_of(e, *best))) best = at;
    }
    return best;
}

static sequence *unlink_waiting(engine *e, sequence **at)
{
    sequence *s = *at;
    *at = s->next;
    if (!*at) e->waiting_end = at;
    e->n_waiting--;
    return s;
}

static sequence *take_canceled(engine *e)
{
    sequence *found = NULL;
    mutex_lock(&e->lock);
    for (sequence **at = &e->waiting; *at; at = &(*at)->next) {
        if (!atomic_load(&(*at)->req->is_canceled)) continue;
        found = unlink_waiting(e, at);
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

/* The waiting sequence whose turn it is, if the pool has room for it; or NULL. */
static sequence *take_first(engine *e)
{
    sequence *found = NULL;
    mutex_lock(&e->lock);
    sequence **at = e->waiting ? find_first(e) : NULL;
    if (at && engine_cache_fits(e, *at)) {
        int64_t work = work_of(e, *at);
        found = unlink_waiting(e, at);
        for (sequence *s = e->waiting; s; s = s->next)
            if (sequence_is_older(s, found)) s->overtaken += work;
    }
    mutex_unlock(&e->lock);
    return found;
}

/* No lane is free, but what waits is more urgent than what runs. */
static bool give_way(engine *e)
{
    sequence *last = last_lane(e);
    mutex_lock(&e->lock);
    bool is_urgent = false;
    for (const sequence *s = e->waiting; s; s = s->next)
        is_urgent |= s->req->priority > last->req->priority;
    sequence **at = is_urgent ? find_first(e) : NULL;
    is_urgent = at && (*at)->req->priority > last->req->priority;
    mutex_unlock(&e->lock);
    if (is_urgent) engine_suspend(e, last, true);
    return is_urgent;
}

/* Penalties count what was emitted: after a suspension the host knows it and the slot does not. */
static status restore_counts(engine *e, sequence *s)
{
    const request *r = s->req;
    if (!policy_has_penalties(&r->policy)) return ERR_OK;
    if (s->n_new == 0) return cycle_mark_prompt(e->cycle, s->slot, r->ids, r->n_ids);
    memset(e->counts_row, 0, (size_t)e->info.V * sizeof *e->counts_row);
    for (int i = 0; i < r->n_ids; i++) e->counts_row[r->ids[i]] = SAMPLE_IN_PROMPT;
    for (int64_t i = 0; i < s->n_new; i++) e->counts_row[s->ids[r->n_ids + i]]++;
    return cycle_set_counts(e->cycle, s->slot, e->counts_row);
}

static status start_lane(engine *e, sequence *s, int slot)
{
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
    TRY(restore_counts(e, s));
    s->anchor = s->ids[sequence_goal(s)];
    if (s->prefill_ns) return ERR_OK;
    engine_stop_clocks(s);
    histogram_add(&e->tally.queue, s->usage.queue_ms);
    s->prefill_ns = clock_ns();
    return ERR_OK;
}

bool engine_admit(engine *e)
{
    bool changed = false;
    for (int i = 0; i < e->opt.n_lanes; i++) {
        sequence *s = e->lanes[i];
        if (!s || !atomic_load(&s->req->is_canceled)) continue;
        engine_finish_sequence(e, s, ENGINE_CANCELED, NULL);
        changed = true;
    }
    for (sequence *s; (s = take_canceled(e)) != NULL; changed = true)
        engine_finish_sequence(e, s, ENGINE_CANCELED, NULL);
    for (;; changed = true) {
        if (free_slot(e) < 0 && !give_way(e)) break;
        sequence *s = take_first(e);
        if (!s) break;
        status st = start_lane(e, s, free_slot(e));
        if (st != ERR_OK) engine_lanes_failed(e, st, "start of a lane", &s, 1);
    }
    return changed;
}

/* ---- whose prompt ---- */

static int64_t left(const sequence *s)
{
    return sequence_goal(s) - s->pos;
}

int engine_order_prompts(const engine *e, sequence **lanes)
{
    int n = 0;
    for (int i = 0; i < e->opt.n_lanes; i++) {
        sequence *s = e->lanes[i];
        if (!sequence_is_prefilling(s)) continue;
        int at = n++;
        for (; at > 0 && is_first(s, lanes[at - 1], left(s), left(lanes[at - 1])); at--)
            lanes[at] = lanes[at - 1];
        lanes[at] = s;
    }
    return n;
}
