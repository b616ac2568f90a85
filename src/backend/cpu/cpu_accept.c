#include "backend/cpu/cpu_priv.h"

static bool is_end(const sample_policy *p, int32_t id)
{
    for (int i = 0; i < p->n_eos; i++)
        if (p->eos[i] == id) return true;
    return false;
}

/* How many of a lane's sampled tokens stand: the proposals that the target agreed with and one
 * token more, cut behind an end token and at max_new. */
static int count_emitted(const sample_policy *p, const int32_t *ids, const int32_t *token,
                         int n_rows, int max_new)
{
    int n = 0;
    while (n < n_rows) {
        int i = n++;
        if (n == max_new || is_end(p, token[i])) break;
        if (n < n_rows && ids[n] != token[i]) break;
    }
    return n;
}

status cpu_accept(backend *b, const accept_args *a)
{
    (void)b;
    const int32_t *lane_row = cpu_i32(a->rows.lane_row);
    for (int l = 0; l < a->rows.L; l++) {
        int64_t slot = cpu_i32(a->rows.lane_slot)[l];
        const sample_policy *p = (const sample_policy *)a->lanes.policy.ptr + slot;
        const int32_t *token = cpu_i32(a->token) + lane_row[l];
        int32_t *emitted = (int32_t *)a->emitted.ptr + (int64_t)l * OPS_ROWS_MAX;
        uint32_t *counts = a->lanes.counts.ptr;
        int n = count_emitted(p, cpu_i32(a->rows.ids) + lane_row[l], token,
                              lane_row[l + 1] - lane_row[l], cpu_i32(a->max_new)[l]);
        for (int i = 0; i < OPS_ROWS_MAX; i++) emitted[i] = i < n ? token[i] : -1;
        if (counts)
            for (int i = 0; i < n; i++) counts[slot * a->V + token[i]]++;
        ((int32_t *)a->n_commit.ptr)[l] = n;
    }
    return ERR_OK;
}

status cpu_count_prompt(backend *b, const count_prompt_args *a)
{
    (void)b;
    uint32_t *counts = a->counts.ptr;
    for (int64_t t = 0; t < a->rows.T; t++) {
        int lane = cpu_i32(a->rows.row_lane)[t];
        if (lane < 0) continue;
        int64_t slot = cpu_i32(a->rows.lane_slot)[lane];
        counts[slot * a->V + cpu_i32(a->rows.ids)[t]] |= SAMPLE_IN_PROMPT;
    }
    return ERR_OK;
}
