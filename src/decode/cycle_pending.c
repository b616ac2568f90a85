/* Context that the draft has not been given yet.
 *
 * A cycle without proposals leaves the target's hidden rows here instead of projecting them: one
 * row a lane and cycle, the lanes of a cycle side by side. They are projected in one pass when a
 * lane is to be drafted for again, when a block's context is to be kept, or when no room is left:
 * for many rows that costs hardly more than for one. Rows do not depend on each other, so the
 * draft's rings are then as if nothing had waited. */
#include "base/mem.h"
#include "decode/cycle_priv.h"
#include "decode/draft_window_priv.h"

/* Rows are worth collecting up to here; the draft's scratch bounds them too. */
enum { PENDING_ROWS = 64 };

static int64_t row_bytes(const arch_draft *a, dtype act)
{
    return (int64_t)a->n_taps * a->E * (dtype_bits(act) / 8);
}

static int most_rows(int n_slots)
{
    return PENDING_ROWS > 2 * n_slots ? PENDING_ROWS : 2 * n_slots;
}

static int64_t words_bytes(int64_t rows)
{
    return (4 * rows + 1) * 4;
}

int64_t cycle_pending_plan_bytes(int n_slots, const arch_draft *a, dtype act)
{
    return most_rows(n_slots) * row_bytes(a, act) + words_bytes(most_rows(n_slots));
}

void cycle_pending_plan(cycle *c)
{
    cycle_pending *p = &c->pending;
    if (!c->has_draft || c->max_draft == 0) return;
    int rows = most_rows(c->opt.n_slots);
    p->max_rows = rows < c->max_rows ? rows : c->max_rows;
    p->taps = dev_arena_take(&c->mem, p->max_rows * row_bytes(&c->draft_files.draft, c->be->act));
    p->words = dev_arena_take(&c->mem, words_bytes(p->max_rows));
}

int64_t cycle_pending_bytes(const cycle *c)
{
    return c->pending.taps.n_bytes + c->pending.words.n_bytes;
}

status cycle_pending_open(cycle *c, err *e)
{
    cycle_pending *p = &c->pending;
    if (p->max_rows == 0) return ERR_OK;
    p->host = mem_new_array(4 * (size_t)p->max_rows + 1, sizeof *p->host);
    if (!p->host) return err_set(e, ERR_NOMEM, "cycle", -1, "%d waiting rows", p->max_rows);
    return ERR_OK;
}

/* The arrays of ops_rows: every row is a lane of its own. */
static int32_t *slots_of(const cycle_pending *p)
{
    return p->host;
}
static int32_t *positions_of(const cycle_pending *p)
{
    return p->host + p->max_rows;
}

status cycle_pending_flush(cycle *c)
{
    cycle_pending *p = &c->pending;
    if (p->n_rows == 0) return ERR_OK;
    int n = p->n_rows, most = p->max_rows;
    int32_t *lane_row = p->host + 2 * most, *row_lane = lane_row + most + 1;
    for (int i = 0; i < n; i++) lane_row[i] = row_lane[i] = i;
    lane_row[n] = n;
    TRY(c->be->ops->upload(c->be, p->words, p->host, (4 * (int64_t)most + 1) * 4));
    ops_rows rows = {
        .T = n,
        .L = n,
        .max_rows = 1,
        .lane_slot = cycle_view(p->words, 0, n),
        .row_pos = cycle_view(p->words, 4 * (int64_t)most, n),
        .lane_row = cycle_view(p->words, 8 * (int64_t)most, n + 1),
        .row_lane = cycle_view(p->words, 4 * (3 * (int64_t)most + 1), n),
    };
    p->n_rows = p->n_cycles = 0;
    return draft_context(c->drafter, p->taps, &rows, (dev_buf){0});
}

status cycle_pending_add(cycle *c, const cycle_lane *lanes, int L)
{
    cycle_pending *p = &c->pending;
    if (p->max_rows == 0) return ERR_OK;
    /* Two rows of a slot must not share a place of its ring in one pass. */
    if (p->n_rows + L > p->max_rows || p->n_cycles >= draft_window_reach(c->drafter))
        TRY(cycle_pending_flush(c));
    for (int l = 0; l < L; l++) {
        slots_of(p)[p->n_rows + l] = lanes[l].slot;
        positions_of(p)[p->n_rows + l] = (int32_t)lanes[l].pos;
    }
    int64_t size = row_bytes(&c->draft_files.draft, c->be->act), at = p->n_rows * size;
    p->n_rows += L;
    p->n_cycles++;
    return c->be->ops->copy(c->be, dev_buf_at(p->taps, at), model_taps(c->target), L * size);
}

status cycle_pending_leave(cycle *c, int slot)
{
    cycle_pending *p = &c->pending;
    bool has_own = false, has_others = false;
    for (int i = 0; i < p->n_rows; i++) {
        bool is_own = slots_of(p)[i] == slot;
        has_own |= is_own;
        has_others |= !is_own;
    }
    if (has_own && has_others) return cycle_pending_flush(c);
    if (has_own) p->n_rows = p->n_cycles = 0;
    return ERR_OK;
}
