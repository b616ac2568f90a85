#include "decode/snapshot.h"

#include <stddef.h>

#include "backend/dev_arena.h"
#include "base/mem.h"
#include "decode/cycle_priv.h"
#include "decode/draft_window_priv.h"
#include "model/cells.h"

enum { LANES_MAX = 64 };

/* The arrays of cells_lanes, one copy to the device. */
typedef struct {
    int32_t row[LANES_MAX + 1], cell[LANES_MAX], n_commit[LANES_MAX];
} lane_words;

struct snapshots {
    cycle *c;
    cells *cells;
    int n_cells;
    dev_arena mem;
    dev_buf windows; /* [n_windows, window bytes] */
    dev_buf lanes;   /* the crossing lanes of a cycle, as lane_words */
};

int64_t snapshot_cell_bytes(const cycle *c)
{
    return cells_bytes(c->target, c->narrow);
}

int64_t snapshot_window_bytes(const cycle *c)
{
    return c->max_draft > 0 ? draft_window_bytes(c->drafter) : 0;
}

int snapshot_window_blocks(const cycle *c)
{
    return c->max_draft > 0 ? (int)(draft_window_reach(c->drafter) / OPS_BLOCK) : 0;
}

static void plan(snapshots *s, int n_windows)
{
    s->windows = dev_arena_take(&s->mem, n_windows * snapshot_window_bytes(s->c));
    s->lanes = dev_arena_take(&s->mem, (int64_t)sizeof(lane_words));
}

status snapshots_open(snapshots **out, cycle *c, int n_cells, int n_windows, err *e)
{
    snapshots *s = mem_new(sizeof *s);
    if (!s) return err_set(e, ERR_NOMEM, "snapshots", -1, "snapshots");
    s->c = c;
    s->n_cells = n_cells;
    status st = cells_open(&s->cells, c->target, c->narrow, n_cells, e);
    if (st == ERR_OK) {
        plan(s, n_windows);
        st = dev_arena_open(&s->mem, c->be, e);
    }
    if (st != ERR_OK) {
        snapshots_close(s);
        return st;
    }
    plan(s, n_windows);
    *out = s;
    return ERR_OK;
}

void snapshots_close(snapshots *s)
{
    if (!s) return;
    cells_close(s->cells);
    dev_arena_close(&s->mem, s->c->be);
    mem_free(s);
}

int64_t snapshots_bytes(const snapshots *s)
{
    return s->n_cells * snapshot_cell_bytes(s->c) + s->windows.n_bytes;
}

status snapshot_save(snapshots *s, int slot, int cell)
{
    return cells_save(s->cells, slot, cell);
}

status snapshot_load(snapshots *s, int cell, int slot, int64_t pos)
{
    TRY(cycle_pending_leave(s->c, slot));
    s->c->ctx_begin[slot] = pos;
    return cells_load(s->cells, cell, slot);
}

static dev_buf window_at(const snapshots *s, int window)
{
    return dev_buf_at(s->windows, window * snapshot_window_bytes(s->c));
}

bool snapshot_has_window(const snapshots *s, int slot, int64_t slot_pos, int64_t pos)
{
    const cycle *c = s->c;
    return c->max_draft > 0 && pos >= c->ctx_begin[slot] && pos + OPS_BLOCK <= slot_pos &&
           pos + draft_window_reach(c->drafter) >= slot_pos;
}

status snapshot_window_save(snapshots *s, int slot, int64_t pos, int window)
{
    TRY(cycle_pending_flush(s->c)); /* the block's context may still wait */
    return draft_window_save(s->c->drafter, slot, pos, window_at(s, window));
}

status snapshot_window_load(snapshots *s, int window, int slot, int64_t pos)
{
    s->c->ctx_begin[slot] = pos;
    return draft_window_load(s->c->drafter, window_at(s, window), slot, pos);
}

static int64_t next_boundary(int64_t pos)
{
    return (pos / OPS_BLOCK + 1) * OPS_BLOCK;
}

/* A verify pass can be committed only from where it began, so the state there is set aside; narrow
 * states end their pass at the boundary. */
status snapshot_before_cycle(snapshots *s, const cycle_lane *lanes, int L, const int32_t *cell)
{
    for (int l = 0; l < L && !s->c->narrow; l++)
        if (cell[l] >= 0) TRY(snapshot_save(s, lanes[l].slot, cell[l]));
    return ERR_OK;
}

static status commit_lanes(snapshots *s, const lane_words *at, int n)
{
    TRY(s->c->be->ops->upload(s->c->be, s->lanes, at, sizeof *at));
    cells_lanes lanes = {
        .L = n,
        .row = cycle_view(s->lanes, offsetof(lane_words, row), n + 1),
        .cell = cycle_view(s->lanes, offsetof(lane_words, cell), n),
        .n_commit = cycle_view(s->lanes, offsetof(lane_words, n_commit), n),
    };
    return cells_commit(s->cells, &lanes);
}

status snapshot_after_cycle(snapshots *s, const cycle_lane *lanes, int L, const int32_t *cell,
                            const cycle_result *results, bool *crossed)
{
    const int32_t *lane_row = s->c->rows.lane_row; /* of the cycle that was */
    bool advanced = s->c->narrow || cells_pass_advanced(s->cells);
    lane_words at = {0};
    int n = 0;
    for (int l = 0; l < L; l++) {
        int64_t rows = next_boundary(lanes[l].pos) - lanes[l].pos;
        crossed[l] = cell[l] >= 0 && results[l].n >= rows;
        if (!crossed[l]) continue;
        if (advanced) TRY(snapshot_save(s, lanes[l].slot, cell[l]));
        at.row[n] = lane_row[l];
        at.cell[n] = cell[l];
        at.n_commit[n++] = (int32_t)rows;
    }
    at.row[n] = lane_row[L];
    return n > 0 && !advanced ? commit_lanes(s, &at, n) : ERR_OK;
}
