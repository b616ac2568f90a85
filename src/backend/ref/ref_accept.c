#include "backend/ref/ref_priv.h"

static bool is_eos(const sample_policy *p, int32_t id)
{
    for (int i = 0; i < p->n_eos; i++) {
        if (p->eos[i] == id) return true;
    }
    return false;
}

/* How many of a lane's sampled tokens stand: the accepted proposals and one token more, cut
 * behind an end token and at max_new. */
static int n_emitted(const sample_policy *p, const int32_t *ids, const int32_t *token, int n_rows,
                     int max_new)
{
    for (int i = 0; i < n_rows; i++) {
        bool is_last = i + 1 == n_rows || ids[i + 1] != token[i];
        if (is_last || i + 1 == max_new || is_eos(p, token[i])) return i + 1;
    }
    return 0;
}

status ref_accept(backend *b, const accept_args *a)
{
    (void)b;
    for (int l = 0; l < a->rows.L; l++) {
        int64_t slot = ref_i32(a->rows.lane_slot)[l], r0 = ref_i32(a->rows.lane_row)[l];
        const int32_t *token = ref_i32(a->token) + r0;
        const sample_policy *p = (const sample_policy *)a->lanes.policy.ptr + slot;
        int32_t *emitted = (int32_t *)a->emitted.ptr + (int64_t)l * OPS_ROWS_MAX;
        uint32_t *counts = a->lanes.counts.ptr;
        int n = n_emitted(p, ref_i32(a->rows.ids) + r0, token, ref_lane_rows(&a->rows, l),
                          ref_i32(a->max_new)[l]);
        for (int i = 0; i < OPS_ROWS_MAX; i++) emitted[i] = i < n ? token[i] : -1;
        for (int i = 0; counts && i < n; i++) counts[slot * a->V + token[i]]++;
        ((int32_t *)a->n_commit.ptr)[l] = n;
    }
    return ERR_OK;
}
