/* cells: copies of a slot's recurrent states and convolution windows, kept beside the slots.
 *
 * A cell holds what the Gated DeltaNet layers know after some token; keys and values are not in
 * it (they stay in their blocks), nor are penalty counts (they follow from the tokens). Cells lie
 * as slots do, so that the commit of a verify pass can move one as it moves a slot.
 * Thread: the one that owns the backend. After open nothing allocates; calls only enqueue. */
#ifndef RIPTIDE_MODEL_CELLS_H
#define RIPTIDE_MODEL_CELLS_H

#include "model/narrow.h"

typedef struct cells cells;

/* Bytes of one cell, with states in BF16 or f32. */
int64_t cells_bytes(const model *m, bool is_narrow);

/* The same of a model that is not opened, on a backend with this act type. */
int64_t cells_plan_bytes(const arch_target *a, dtype act, bool is_narrow);

/* n cells over m, which is borrowed until close, as is w: how states are narrowed, or NULL for
 * f32. Returns NOMEM */
status cells_open(cells **c, model *m, narrow *w, int n, err *e);
void cells_close(cells *c); /* NULL is fine */

status cells_save(cells *c, int slot, int cell);
status cells_load(cells *c, int cell, int slot);

/* The last pass moved the slots' states itself (advance = true). */
bool cells_pass_advanced(const cells *c);

/* Only with f32 states: the others never have to go on from before a pass.
 *
 * Some lanes of the last pass with advance = false, ascending; device memory. */
typedef struct {
    int L;
    dev_buf row;      /* i32 [L+1] the lane's first row in that pass; [L] = any row behind them */
    dev_buf cell;     /* i32 [L] distinct; saved from the lane's slot before the pass */
    dev_buf n_commit; /* i32 [L] rows of the lane to move the cell by, >= 1 */
} cells_lanes;

/* As model_commit, for the cells of these lanes. */
status cells_commit(cells *c, const cells_lanes *lanes);

#endif
