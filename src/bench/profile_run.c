/* Prompts and cycles of a profile. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/bench_priv.h"
#include "bench/profile_priv.h"
#include "engine/engine_cycle.h"

static int64_t longest_prompt(const profile_request *r)
{
    int64_t most = 0;
    for (int i = 0; i < r->n_prompts; i++)
        if (r->prompts[i] > most) most = r->prompts[i];
    return most;
}

static status set_slots(profiler *p, int n_slots)
{
    sample_policy settings = {
        .temperature = (float)p->r->temperature, .seed = 1, .top_p = 1, .repetition = 1};
    int32_t *blocks = mem_new_array((size_t)p->slot_blocks, sizeof *blocks);
    status s = blocks ? ERR_OK : ERR_NOMEM;
    for (int slot = 0; slot < n_slots && s == ERR_OK; slot++) {
        for (int64_t i = 0; i < p->slot_blocks; i++)
            blocks[i] = (int32_t)(slot * p->slot_blocks + i);
        s = cycle_set_blocks(p->c, slot, 0, blocks, (int)p->slot_blocks);
        settings.seed = (uint64_t)slot + 1;
        if (s == ERR_OK) s = cycle_set_policy(p->c, slot, &settings, NULL);
    }
    mem_free(blocks);
    return s;
}

status profiler_open(profiler *p, profile_request *r, err *e)
{
    const engine_options *o = &r->engine;
    int n_slots = r->lanes[r->n_lanes - 1];
    int64_t cycles = (int64_t)r->n_lanes *
                     (PROFILE_WARM + r->tokens + PROFILE_STAGED + 2 * PROFILE_MARKED);
    int64_t context = longest_prompt(r) + cycles * OPS_ROWS_MAX + OPS_BLOCK;
    cycle_options c = engine_cycle_options(o);
    c.draft = o->draft_rows == 0 ? NULL : o->draft;
    c.n_slots = n_slots;
    c.max_context = (context + OPS_BLOCK - 1) / OPS_BLOCK * OPS_BLOCK;
    *p = (profiler){.r = r};
    TRY(cycle_open(&p->c, &c, e));
    if (cycle_max_context(p->c) < context)
        return err_set(e, ERR_INVALID, "--prompt-tokens", -1,
                       "prompt and answers take %ld positions, the model has %ld", (long)context,
                       (long)cycle_max_context(p->c));
    p->b = (backend *)cycle_backend(p->c); /* its op table is exchanged while stages are timed */
    p->slot_blocks = cycle_n_blocks(p->c) / n_slots;
    p->ids = mem_new_array((size_t)longest_prompt(r), sizeof *p->ids);
    r->width = cycle_max_draft(p->c);
    TRY(engine_open_widths(o, p->c, &p->widths, e));
    if (engine_measure_widths(p->widths, p->c) != ERR_OK)
        return err_set(e, p->b->last.code, "--draft-rows", -1, "%s", p->b->last.msg);
    if (!p->ids) return err_set(e, ERR_NOMEM, "profile", -1, "a prompt");
    if (set_slots(p, n_slots) != ERR_OK)
        return err_set(e, p->b->last.code, "slots", -1, "%s", p->b->last.msg);
    return ERR_OK;
}

void profiler_close(profiler *p)
{
    mem_free(p->ids);
    mem_free(p->widths);
    cycle_close(p->c);
    *p = (profiler){0};
}

void profiler_set_prompt(profiler *p)
{
    p->n_ready = 0;
}

/* ---- prompts ------------------------------------------------------------------------------ */

static void make_prompt(profiler *p, int slot, int64_t n)
{
    int V = model_arch(cycle_model(p->c))->V;
    for (int64_t i = 0; i < n; i++)
        p->ids[i] = (int32_t)(rng_mix64(((uint64_t)slot << 40) + (uint64_t)i) % (uint64_t)V);
}

static stage_pass pass_of(const profiler *p, int L)
{
    const model *m = cycle_model(p->c);
    return (stage_pass){
        .L = L, .V = model_arch(m)->V, .E = model_arch(m)->E, .n_taps = model_settings(m)->n_taps};
}

static void tell_slice(const profiler *p, int slot, int n_rows)
{
    stage_pass pass = pass_of(p, 1);
    pass.pos[0] = p->pos[slot];
    pass.n_rows[0] = n_rows;
    stages_set_pass(&pass);
}

static void tell_cycle(const profiler *p, const cycle_lane *lanes, int L)
{
    stage_pass pass = pass_of(p, L);
    for (int l = 0; l < L; l++) {
        pass.pos[l] = lanes[l].pos;
        pass.n_rows[l] = lanes[l].n_draft + 1;
        pass.has_proposals |= lanes[l].n_draft > 0;
    }
    stages_set_pass(&pass);
}

/* Rows [p->pos[slot], end) of the prompt in slices. */
static status run_slices(profiler *p, int slot, int64_t end)
{
    int64_t rows = cycle_prefill_rows(p->c);
    while (p->pos[slot] < end) {
        int64_t n = end - p->pos[slot] < rows ? end - p->pos[slot] : rows;
        cycle_slice s = {.slot = slot,
                         .ids = p->ids + p->pos[slot],
                         .n = (int)n,
                         .pos = p->pos[slot],
                         .prompt_end = p->pos[slot] + n};
        tell_slice(p, slot, (int)n);
        TRY(cycle_prefill(p->c, &s, 1));
        p->pos[slot] += n;
    }
    return p->b->ops->sync(p->b);
}

static status restart(profiler *p, int slot)
{
    p->pos[slot] = 0;
    if (p->widths) width_forget(p->widths, slot);
    return cycle_reset(p->c, slot);
}

static status run_staged(profiler *p, int slot, int64_t end, stage_table *out)
{
    stages_begin(p->b, out);
    status s = run_slices(p, slot, end);
    stages_end(p->b);
    return s;
}

status profiler_prefill(profiler *p, int64_t prompt, profile_prefill *out)
{
    int64_t end = prompt - 1, rows = cycle_prefill_rows(p->c);
    int64_t last = end > rows ? (end - 1) / rows * rows : 0; /* where the last slice begins */
    *out = (profile_prefill){.prompt = prompt, .n_timed = last ? last : end};
    make_prompt(p, 0, prompt);
    TRY(restart(p, 0));
    if (!last) { /* one slice: once to warm up, once for the clock, once in stages */
        TRY(run_slices(p, 0, end));
        TRY(restart(p, 0));
    }
    int64_t from = clock_ns();
    TRY(run_slices(p, 0, out->n_timed));
    out->ms = clock_ms_since(from);
    if (!last) TRY(restart(p, 0));
    out->staged_pos = p->pos[0];
    out->staged_rows = end - p->pos[0];
    TRY(run_staged(p, 0, end, &out->stages));
    p->anchor[0] = p->ids[end];
    p->n_ready = 1;
    return ERR_OK;
}

/* ---- cycles ------------------------------------------------------------------------------- */

static status fill_slots(profiler *p, int64_t prompt, int lanes)
{
    for (; p->n_ready < lanes; p->n_ready++) {
        make_prompt(p, p->n_ready, prompt);
        TRY(restart(p, p->n_ready));
        TRY(run_slices(p, p->n_ready, prompt - 1));
        p->anchor[p->n_ready] = p->ids[prompt - 1];
    }
    return ERR_OK;
}

/* A cycle with `width` proposals a lane, or as the policy says. */
static status step_width(profiler *p, int lanes, int width, profile_decode *out)
{
    cycle_lane lane[64];
    static cycle_result result[64];
    for (int l = 0; l < lanes; l++)
        lane[l] = (cycle_lane){.slot = l,
                               .anchor = p->anchor[l],
                               .pos = p->pos[l],
                               .n_draft = width,
                               .max_new = width + 1};
    width_choose(p->widths, lane, lanes);
    tell_cycle(p, lane, lanes);
    TRY(width_step(p->widths, p->c, lane, lanes, result));
    for (int l = 0; l < lanes; l++) {
        const cycle_result *r = &result[l];
        p->pos[l] += r->n;
        p->anchor[l] = r->ids[r->n - 1];
        out->tokens_per_cycle += r->n;
        out->drafted += r->n_drafted;
        out->accepted += r->n_accepted;
        out->output_hash = hash_bytes(r->ids, (size_t)r->n * sizeof *r->ids, out->output_hash);
    }
    return ERR_OK;
}

static status step(profiler *p, int lanes, profile_decode *out)
{
    return step_width(p, lanes, p->r->width, out);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, bench_by_value);
    return v[n / 2];
}

/* Cycles whose parts are timed where they run, in graphs of their own. */
static status time_parts(profiler *p, int lanes, int width, profile_parts *out)
{
    profile_decode ignored = {0};
    double ms[5][PROFILE_MARKED];
    status s = ERR_OK;
    int n = 0;
    cycle_set_marks(p->c, true);
    for (int i = 0; i < PROFILE_MARKED && s == ERR_OK; i++) {
        uint64_t ns[CYCLE_MARKS];
        s = step_width(p, lanes, width, &ignored);
        if (s == ERR_OK) s = cycle_read_marks(p->c, ns);
        if (s != ERR_OK || i == 0) continue; /* the first was captured */
        int first = width > 0 ? CYCLE_MARK_DRAFT : CYCLE_MARK_TARGET;
        ms[0][n] = (double)(ns[CYCLE_MARK_DRAFTED] - ns[CYCLE_MARK_DRAFT]) * 1e-6;
        ms[1][n] = (double)(ns[CYCLE_MARK_SAMPLE] - ns[CYCLE_MARK_TARGET]) * 1e-6;
        ms[2][n] = (double)(ns[CYCLE_MARK_CONTEXT] - ns[CYCLE_MARK_SAMPLE]) * 1e-6;
        ms[3][n] = (double)(ns[CYCLE_MARK_END] - ns[CYCLE_MARK_CONTEXT]) * 1e-6;
        ms[4][n++] = (double)(ns[CYCLE_MARK_END] - ns[first]) * 1e-6;
    }
    cycle_set_marks(p->c, false);
    if (s == ERR_OK)
        *out = (profile_parts){.draft = width > 0 ? median(ms[0], n) : 0,
                               .target = median(ms[1], n),
                               .rest = median(ms[2], n),
                               .context = median(ms[3], n),
                               .whole = median(ms[4], n)};
    return s;
}

static status time_cycles(profiler *p, int lanes, profile_decode *out)
{
    double *ms = mem_new_array((size_t)p->r->tokens, sizeof *ms);
    status s = ms ? ERR_OK : ERR_NOMEM;
    int n = 0;
    for (; n < p->r->tokens && s == ERR_OK; n++) {
        int64_t from = clock_ns();
        s = step(p, lanes, out);
        ms[n] = clock_ms_since(from);
        out->mean_ms += ms[n];
    }
    if (s == ERR_OK) {
        out->cycle_ms = median(ms, n);
        out->mean_ms /= n;
        out->n_cycles = n;
        out->tokens_per_cycle /= (double)n * lanes;
    }
    mem_free(ms);
    return s;
}

status profiler_decode(profiler *p, int64_t prompt, int lanes, profile_decode *out)
{
    profile_decode ignored = {0};
    *out = (profile_decode){.lanes = lanes, .prompt = prompt, .n_staged = PROFILE_STAGED};
    TRY(fill_slots(p, prompt, lanes));
    for (int i = 0; i < PROFILE_WARM; i++) TRY(step(p, lanes, &ignored));
    out->context = p->pos[0];
    TRY(time_cycles(p, lanes, out));
    out->has_parts = !p->widths && p->r->width > 0;
    if (out->has_parts) {
        /* In this order: cycles without proposals leave context rows for the next one's draft. */
        TRY(time_parts(p, lanes, 0, &out->single));
        TRY(time_parts(p, lanes, p->r->width, &out->parts));
    }
    stages_begin(p->b, &out->stages);
    status s = ERR_OK;
    for (int i = 0; i < PROFILE_STAGED && s == ERR_OK; i++) s = step(p, lanes, &ignored);
    stages_end(p->b);
    return s;
}
