/* snapshot: what is kept of a lane at a block boundary, so that another can go on from there.
 *
 * The composite of design.md in two parts: a cell (recurrent state and convolution window of all
 * layers, model/cells.h) and windows (the draft's context, one for each block before the
 * boundary). Restoring a cell is needed for the same output; windows only keep the acceptance up,
 * and any number of the last ones may be given back. Which cell and window belongs to which
 * prefix is cache/reuse.h's business.
 * Thread: the one that owns the cycle. After open nothing allocates. */
#ifndef RIPTIDE_DECODE_SNAPSHOT_H
#define RIPTIDE_DECODE_SNAPSHOT_H

#include "decode/cycle.h"

typedef struct snapshots snapshots;

/* Bytes of a cell; of a window, 0 when nothing is drafted. */
int64_t snapshot_cell_bytes(const cycle *c);
int64_t snapshot_window_bytes(const cycle *c);
/* Blocks before a boundary whose windows a draft can still see; 0 when nothing is drafted. */
int snapshot_window_blocks(const cycle *c);

/* Borrows c until close. n_cells >= 1. Returns NOMEM */
status snapshots_open(snapshots **s, cycle *c, int n_cells, int n_windows, err *e);
void snapshots_close(snapshots *s); /* NULL is fine */
int64_t snapshots_bytes(const snapshots *s);

/* The slot's state as it is now. */
status snapshot_save(snapshots *s, int slot, int cell);

/* The slot goes on behind position pos (a block boundary): state from the cell, no draft context
 * yet. */
status snapshot_load(snapshots *s, int cell, int slot, int64_t pos);

/* Whether the slot, whose next position is slot_pos, has all of the draft's context of the block
 * that begins at pos. */
bool snapshot_has_window(const snapshots *s, int slot, int64_t slot_pos, int64_t pos);

/* That context into a window and back. Load goes from the boundary backwards, a block after the
 * other. */
status snapshot_window_save(snapshots *s, int slot, int64_t pos, int window);
status snapshot_window_load(snapshots *s, int window, int slot, int64_t pos);

/* A cycle that may cross a block boundary.
 *
 * Before cycle_step: cell[l] >= 0 is where lane l's state at its next boundary shall go; -1 for
 * lanes that cannot reach one. After it, with its results: crossed[l] tells which lanes did reach
 * it, and their cells hold the state there; the others' cells hold nothing of use. */
status snapshot_before_cycle(snapshots *s, const cycle_lane *lanes, int L, const int32_t *cell);
status snapshot_after_cycle(snapshots *s, const cycle_lane *lanes, int L, const int32_t *cell,
                            const cycle_result *results, bool *crossed);

#endif
