/* draft_window: the draft's context of one block of 64 positions, out of a slot's rings and back.
 *
 * Context keys and values depend on the tokens before them alone, as those of the target do, so
 * that what one lane left serves another. A window holds them for every draft layer:
 * act [layers][k, v][G][64][D].
 * Thread: the one that owns the backend; calls only enqueue. */
#ifndef RIPTIDE_DECODE_DRAFT_WINDOW_PRIV_H
#define RIPTIDE_DECODE_DRAFT_WINDOW_PRIV_H

#include "decode/draft_priv.h"

int64_t draft_window_bytes(const draft *d);

/* Positions that every layer's ring still has when a slot's context ends at some position. */
int64_t draft_window_reach(const draft *d);

/* Positions pos .. pos + 63, all of them in the rings (save) or about to be (load). */
status draft_window_save(const draft *d, int slot, int64_t pos, dev_buf to);
status draft_window_load(draft *d, dev_buf from, int slot, int64_t pos);

#endif
