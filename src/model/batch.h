/* batch: the rows of one step, plain host data between scheduler and network.
 *
 * A lane's rows are consecutive, at ascending consecutive positions. Arrays are borrowed for the
 * call. */
#ifndef RIPTIDE_MODEL_BATCH_H
#define RIPTIDE_MODEL_BATCH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int T, L;
    int max_rows;             /* no lane has more rows; 0: they are counted */
    const int32_t *ids;       /* [T] */
    const int32_t *row_lane;  /* [T] index in [0, L), or -1: padding (ops.h) */
    const int32_t *row_pos;   /* [T] absolute position; the rotation axes t, h, w all equal it */
    const int32_t *lane_row;  /* [L+1] */
    const int32_t *lane_slot; /* [L] */
    int M;                    /* rows that want logits */
    const int32_t *logit_row; /* [M] row in [0, T) */
    bool advance; /* leave states after the last row (prefill); else model_commit does */
} batch;

#endif
