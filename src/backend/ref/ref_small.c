#include <string.h>

#include "backend/ref/ref_priv.h"
#include "base/clock.h"

status ref_embed(backend *b, const embed_args *a)
{
    (void)b;
    int64_t E = a->table->K;
    for (int64_t t = 0; t < a->T; t++) {
        float *out = ref_f32(a->out) + t * E;
        ref_row_decode(&a->table->view, ref_i32(a->ids)[t], out);
        for (int64_t i = 0; i < E; i++) out[i] *= a->scale;
    }
    return ERR_OK;
}

status ref_gather_rows(backend *b, const gather_rows_args *a)
{
    (void)b;
    for (int64_t m = 0; m < a->M; m++) {
        memcpy(ref_f32(a->y) + m * a->E, ref_f32(a->x) + (int64_t)ref_i32(a->index)[m] * a->E,
               (size_t)a->E * sizeof(float));
    }
    return ERR_OK;
}

status ref_tap_store(backend *b, const tap_store_args *a)
{
    (void)b;
    for (int64_t t = 0; t < a->T; t++) {
        memcpy(ref_f32(a->taps) + t * a->n_cols + a->col, ref_f32(a->h) + t * a->E,
               (size_t)a->E * sizeof(float));
    }
    return ERR_OK;
}

status ref_count_prompt(backend *b, const count_prompt_args *a)
{
    (void)b;
    uint32_t *counts = a->counts.ptr;
    for (int64_t t = 0; t < a->rows.T; t++) {
        int lane = ref_i32(a->rows.row_lane)[t];
        if (lane < 0) continue;
        int64_t slot = ref_i32(a->rows.lane_slot)[lane];
        counts[slot * a->V + ref_i32(a->rows.ids)[t]] |= SAMPLE_IN_PROMPT;
    }
    return ERR_OK;
}

status ref_mark(backend *b, const mark_args *a)
{
    (void)b;
    *(uint64_t *)a->at.ptr = (uint64_t)clock_ns();
    return ERR_OK;
}
