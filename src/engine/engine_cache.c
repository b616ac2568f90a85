#include "engine/engine_cache_priv.h"

#include <string.h>

#include "base/asserts.h"
#include "cache/prefix_tree.h"

enum { WAIT_BLOCKS = 2 };
/* Rows of a prompt's first slice at most, and of tokens between planned beginnings of messages at
 * least: what a pass of its own is worth. */
enum { FIRST_ROWS = 512, TURN_BLOCKS = FIRST_ROWS / OPS_BLOCK };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- opening ---- */

/* The cache of the plan; where that does not fit after all, less of it, down to none. */
status engine_cache_open(engine *e, err *out)
{
    memory_plan *p = &e->memory;
    status st = ERR_OK;
    e->turn_id = tokenizer_find_added(e->tok, STR("<|im_start|>"));
    e->window_blocks = snapshot_window_blocks(e->cycle);
    while (p->n_cells > 0) {
        st = snapshots_open(&e->snapshots, e->cycle, p->n_cells, p->n_windows, out);
        if (st == ERR_OK) break;
        if (e->opt.cache_bytes > 0)
            return err_set(out, st, "memory", -1,
                           "the prompt cache's %d states and %.0f MiB do not fit; take less with "
                           "--cache-memory or none with --prompt-cache off",
                           p->n_cells, (double)p->cache / 0x1p20);
        if (!memory_plan_shrink(p, &e->wish)) break;
    }
    reuse_options o = {.n_blocks = (int)cycle_n_blocks(e->cycle),
                       .n_lanes = e->opt.n_lanes,
                       .n_cells = p->n_cells,
                       .n_windows = p->n_windows,
                       .evicts_always = e->opt.evicts_always};
    return reuse_open(&e->reuse, &o, out);
}

void engine_cache_close(engine *e)
{
    snapshots_close(e->snapshots);
    reuse_close(e->reuse);
}

engine_cache_counters engine_cache_stats(const engine *e)
{
    reuse_counters c = reuse_stats(e->reuse);
    return (engine_cache_counters){
        .lookups = c.lookups,
        .hits = c.hits,
        .reused_tokens = c.reused_tokens,
        .stopped_at_end = c.stops[REUSE_WHOLE],
        .stopped_by_tokens = c.stops[REUSE_DIFFERS],
        .no_state = c.stops[REUSE_NO_STATE],
        .waits = e->n_waits,
        .evicted_blocks = c.evicted_blocks,
        .evicted_states = c.evicted_cells,
        .evicted_windows = c.evicted_windows,
        .clears = c.clears,
        .n_blocks = c.n_blocks,
        .n_free_blocks = c.n_free,
        .n_cached_blocks = c.n_nodes,
        .n_held_blocks = c.n_held,
        .n_states = c.n_cells,
        .n_kept_states = c.n_cells_attached,
    };
}

/* ---- admission ---- */

static int blocks_to(int64_t end)
{
    return (int)((end + OPS_BLOCK - 1) / OPS_BLOCK);
}

static int at_least_zero(int n)
{
    return n > 0 ? n : 0;
}

bool engine_cache_fits(const engine *e, const sequence *s)
{
    int room = reuse_n_available(e->reuse), n_lanes = 0;
    for (int i = 0; i < e->opt.n_lanes; i++) {
        const sequence *lane = e->lanes[i];
        if (!lane) continue;
        n_lanes++;
        /* The rest of its prompt, or a block more of its answer. */
        int64_t end = sequence_is_prefilling(lane) ? sequence_goal(lane) + 1
                                                   : lane->pos + OPS_BLOCK;
        room -= at_least_zero(blocks_to(end) - lane->n_taken);
    }
    if (n_lanes == 0) return true;
    /* Who had to give way comes back for good, as far as can be seen. */
    int want = s->usage.suspensions > 0 ? s->n_blocks : blocks_to(sequence_goal(s) + 1) + 1;
    return want - reuse_peek_held(e->reuse, s->ids, (int)sequence_goal(s) + 1) <= room;
}

int64_t engine_cache_peek(const engine *e, const sequence *s)
{
    return (int64_t)reuse_peek(e->reuse, s->ids, (int)sequence_goal(s) + 1) * OPS_BLOCK;
}

/* Keep the state at a boundary that is still ahead. A full plan leaves out what comes last. */
static void plan_add(sequence *s, int boundary, reuse_weight weight)
{
    int at = 0;
    if ((int64_t)boundary * OPS_BLOCK <= s->pos) return;
    while (at < s->n_plan && s->plan[at].boundary < boundary) at++;
    if (at < s->n_plan && s->plan[at].boundary == boundary) {
        if (s->plan[at].weight < weight) s->plan[at].weight = weight;
        return;
    }
    if (s->n_plan == SEQ_PLAN_MAX) return;
    memmove(s->plan + at + 1, s->plan + at, (size_t)(s->n_plan - at) * sizeof *s->plan);
    s->plan[at] = (state_plan){boundary, weight};
    s->n_plan++;
}

/* Where some other prompt leaves this one. */
static void plan_branch(sequence *s, int boundary)
{
    plan_add(s, boundary, boundary < s->first_end ? REUSE_EXPECTED : REUSE_END);
}

static int common_blocks(const request *a, const request *b)
{
    int n = (a->n_ids < b->n_ids ? a->n_ids : b->n_ids) - 1, i = 0;
    size_t size = OPS_BLOCK * sizeof *a->ids;
    while ((i + 1) * OPS_BLOCK <= n &&
           memcmp(a->ids + (int64_t)i * OPS_BLOCK, b->ids + (int64_t)i * OPS_BLOCK, size) == 0)
        i++;
    return i;
}

bool engine_cache_should_wait(engine *e, sequence *s)
{
    const request *r = s->req;
    if (!reuse_is_on(e->reuse) || s->usage.suspensions > 0) return false;
    int best = 0;
    sequence *ahead = NULL;
    for (int i = 0; i < e->opt.n_lanes; i++) {
        sequence *lane = e->lanes[i];
        /* Nobody waits for what is less urgent: that may come late. */
        if (!sequence_is_prefilling(lane) || lane->req->priority < r->priority) continue;
        int n = common_blocks(lane->req, r);
        if ((int64_t)n * OPS_BLOCK < lane->pos || n <= best) continue;
        best = n;
        ahead = lane;
    }
    /* Little is not worth beginning to wait for; who waits takes all there will be. */
    int least = s->has_waited ? 1 : WAIT_BLOCKS;
    if (!ahead || best < reuse_peek(e->reuse, r->ids, r->n_ids) + least) return false;
    plan_branch(ahead, best);
    if (!s->has_waited) e->n_waits++;
    s->has_waited = true;
    return true;
}

/* Where messages begin: a conversation may be taken up again at any of them. Each pass that this
 * costs must save some, so the next one back is as far from the last as that from the end. */
static void plan_turns(const engine *e, sequence *s)
{
    const request *r = s->req;
    int end = r->n_ids / OPS_BLOCK, next = s->first_end;
    for (int i = r->n_ids - 1; i > s->pos && e->turn_id >= 0; i--) {
        int at = i / OPS_BLOCK, least = end - next > TURN_BLOCKS ? end - next : TURN_BLOCKS;
        if (r->ids[i] != e->turn_id || next - at < least) continue;
        plan_add(s, at, REUSE_TURN);
        next = at;
    }
}

/* Where a later prompt is expected to leave this one, as far as its tokens tell, and where one has
 * left it (n_match, 0 = none has). */
static void plan_prompt(const engine *e, sequence *s, int n_match)
{
    const request *r = s->req;
    int second = -1, last = -1;
    for (int i = 1; i < r->n_ids && e->turn_id >= 0; i++) {
        if (r->ids[i] != e->turn_id) continue;
        if (second < 0) second = i;
        last = i;
    }
    s->first_end = (last > 0 ? last : r->n_ids - 1) / OPS_BLOCK;
    if (n_match > 0) plan_branch(s, n_match);
    plan_add(s, (int)(sequence_goal(s) / OPS_BLOCK), REUSE_END);
    plan_add(s, (r->n_ids - 1) / OPS_BLOCK, REUSE_END);
    plan_add(s, s->first_end, REUSE_END);
    if (second > 0) plan_add(s, second / OPS_BLOCK, REUSE_EXPECTED);
    plan_turns(e, s);
}

static status load_windows(engine *e, sequence *s, int n_blocks)
{
    int first = n_blocks - e->window_blocks;
    for (int i = n_blocks - 1; i >= 0 && i >= first; i--) {
        int window = reuse_window_use(e->reuse, s->blocks[i]);
        if (window < 0) break;
        TRY(snapshot_window_load(e->snapshots, window, s->slot, (int64_t)i * OPS_BLOCK));
    }
    return ERR_OK;
}

static engine_cache_stop stop_of(reuse_reason r)
{
    return r == REUSE_WHOLE     ? ENGINE_CACHE_END
           : r == REUSE_DIFFERS ? ENGINE_CACHE_TOKENS
                                : ENGINE_CACHE_STATE;
}

status engine_cache_start(engine *e, sequence *s)
{
    s->pos = s->n_plan = 0;
    if (!reuse_is_on(e->reuse)) return ERR_OK;
    reuse_found f = reuse_match(e->reuse, s->ids, (int)sequence_goal(s) + 1, s->blocks);
    if (s->usage.suspensions == 0) s->usage.cache_stop = stop_of(f.reason);
    reuse_hold(e->reuse, s->blocks, f.n_blocks);
    s->n_taken = s->n_published = f.n_blocks;
    if (f.n_blocks > 0) {
        s->pos = (int64_t)f.n_blocks * OPS_BLOCK;
        if (s->usage.suspensions == 0) s->usage.cached_tokens = s->pos;
        TRY(cycle_set_blocks(e->cycle, s->slot, 0, s->blocks, f.n_blocks));
        TRY(snapshot_load(e->snapshots, f.cell, s->slot, s->pos));
        TRY(load_windows(e, s, f.n_blocks));
    }
    plan_prompt(e, s, f.n_match > f.n_blocks ? f.n_match : 0);
    return ERR_OK;
}

status engine_cache_reach(engine *e, sequence *s, int64_t end)
{
    int want = blocks_to(end), had = s->n_taken;
    if (want <= had) return ERR_OK;
    DASSERT(want <= s->n_blocks);
    TRY(reuse_take(e->reuse, want - had, s->blocks + had));
    s->n_taken = want;
    return cycle_set_blocks(e->cycle, s->slot, had, s->blocks + had, want - had);
}

/* ---- publishing ---- */

/* Make the sequence's first n blocks nodes; where there are such nodes it takes them. */
static status publish(engine *e, sequence *s, int n)
{
    for (; s->n_published < n; s->n_published++) {
        int i = s->n_published;
        int32_t had = s->blocks[i];
        const int32_t *ids = s->ids + (int64_t)i * OPS_BLOCK;
        s->blocks[i] = reuse_publish(e->reuse, i > 0 ? s->blocks[i - 1] : PREFIX_ROOT, ids, had);
        if (s->blocks[i] != had) TRY(cycle_set_blocks(e->cycle, s->slot, i, s->blocks + i, 1));
    }
    return ERR_OK;
}

/* The draft's context of the blocks before a boundary, as far as the slot has it. */
static status keep_windows(engine *e, sequence *s, int n_blocks)
{
    int first = n_blocks - e->window_blocks;
    for (int i = n_blocks - 1; i >= 0 && i >= first; i--) {
        int64_t pos = (int64_t)i * OPS_BLOCK;
        if (reuse_window_use(e->reuse, s->blocks[i]) >= 0) continue;
        if (!snapshot_has_window(e->snapshots, s->slot, s->pos, pos)) continue;
        int window = reuse_window_take(e->reuse, s->blocks[i]);
        if (window < 0) break;
        TRY(snapshot_window_save(e->snapshots, s->slot, pos, window));
    }
    return ERR_OK;
}

int64_t engine_cache_slice_end(const engine *e, const sequence *s, int n)
{
    int64_t end = sequence_goal(s);
    bool is_on = reuse_is_on(e->reuse);
    /* A slice at most doubles what there is. */
    if (is_on && n > s->pos && n > FIRST_ROWS) n = s->pos > FIRST_ROWS ? (int)s->pos : FIRST_ROWS;
    if (end > s->pos + n) {
        int64_t whole = (s->pos + n) / OPS_BLOCK * OPS_BLOCK;
        end = is_on && whole > s->pos ? whole : s->pos + n;
    }
    for (int i = 0; i < s->n_plan; i++) {
        int64_t at = (int64_t)s->plan[i].boundary * OPS_BLOCK;
        if (at > s->pos) return smaller(end, at);
    }
    return end;
}

int64_t engine_cache_context_end(const sequence *s, int64_t slice_end)
{
    for (int i = 0; i < s->n_plan; i++) {
        int64_t at = (int64_t)s->plan[i].boundary * OPS_BLOCK;
        if (at >= slice_end && s->plan[i].weight >= REUSE_END) return at;
    }
    return sequence_goal(s);
}

status engine_cache_after_slice(engine *e, sequence *s)
{
    if (!reuse_is_on(e->reuse)) return ERR_OK;
    int n = (int)(s->pos / OPS_BLOCK);
    TRY(publish(e, s, n));
    if (s->pos % OPS_BLOCK != 0) return ERR_OK;
    reuse_weight weight = REUSE_PASSING;
    for (int i = 0; i < s->n_plan; i++)
        if (s->plan[i].boundary == n) weight = s->plan[i].weight;
    int32_t node = s->blocks[n - 1];
    if (reuse_has_cell(e->reuse, node)) {
        reuse_cell_raise(e->reuse, node, weight);
    } else {
        int32_t cell = reuse_cell_take(e->reuse);
        TRY(snapshot_save(e->snapshots, s->slot, cell));
        reuse_cell_attach(e->reuse, node, cell, weight);
    }
    return weight >= REUSE_END ? keep_windows(e, s, n) : ERR_OK;
}

/* ---- decoding ---- */

status engine_cache_before_cycle(engine *e, int L)
{
    for (int l = 0; l < L; l++) {
        const cycle_lane *lane = &e->step[l];
        sequence *s = e->lanes[lane->slot];
        e->step_cells[l] = -1;
        if (!reuse_is_on(e->reuse) || lane->pos % OPS_BLOCK + lane->n_draft + 1 < OPS_BLOCK)
            continue;
        if (s->cell < 0) s->cell = reuse_cell_take(e->reuse);
        e->step_cells[l] = s->cell;
    }
    return e->snapshots ? snapshot_before_cycle(e->snapshots, e->step, L, e->step_cells) : ERR_OK;
}

status engine_cache_after_cycle(engine *e, int L)
{
    if (!e->snapshots) return ERR_OK;
    return snapshot_after_cycle(e->snapshots, e->step, L, e->step_cells, e->results, e->crossed);
}

status engine_cache_cross(engine *e, sequence *s)
{
    int n = (int)(s->pos / OPS_BLOCK);
    /* Behind a stop string there are tokens that were never given out. */
    if ((int64_t)n * OPS_BLOCK > s->req->n_ids + s->n_new) return ERR_OK;
    TRY(publish(e, s, n));
    reuse_cell_attach(e->reuse, s->blocks[n - 1], s->cell, REUSE_PASSING);
    s->cell = -1;
    return ERR_OK;
}

void engine_cache_leave(engine *e, sequence *s, bool keeps_end)
{
    int n = s->n_published;
    while (n > 0 && !reuse_has_cell(e->reuse, s->blocks[n - 1])) n--;
    if (keeps_end && n > 0) {
        reuse_cell_raise(e->reuse, s->blocks[n - 1], REUSE_END);
        if (s->first_end > 1 && n >= s->first_end)
            reuse_pass_ends(e->reuse, s->blocks[s->first_end - 2]);
        /* Without windows the draft only guesses worse. */
        (void)keep_windows(e, s, n);
    }
    if (s->cell >= 0) reuse_cell_drop(e->reuse, s->cell);
    s->cell = -1;
    reuse_drop(e->reuse, s->blocks, s->n_taken);
    s->n_taken = s->n_published = 0;
}
