#include <string.h>

#include "backend/ref/ref_priv.h"
#include "base/rng.h"

typedef struct {
    const ref_backend *r;
    const draft_select_args *a;
} select_job;

/* Unary value plus the edge from the predecessor: sum_m pred[prev, m] r[m] succ[id, m]. */
static void score_candidates(const draft_select_args *a, int64_t row, int32_t prev, float *scratch,
                             double *score)
{
    const int32_t *ids = ref_i32(a->ids) + row * a->k;
    for (int c = 0; c < a->k; c++) score[c] = (double)ref_f32(a->vals)[row * a->k + c];
    if (!a->pred) return;
    float *from = scratch, *to = scratch + a->R;
    const float *r = ref_f32(a->r) + row * a->R;
    ref_row_decode(&a->pred->view, prev, from);
    for (int c = 0; c < a->k; c++) {
        ref_row_decode(&a->succ->view, ids[c], to);
        double edge = 0;
        for (int m = 0; m < a->R; m++) edge += (double)from[m] * (double)r[m] * (double)to[m];
        score[c] += edge;
    }
}

/* Bias and penalties of the lane, with the block's own tokens path[0..n). */
static void adjust(const draft_select_args *a, const sample_policy *p, int64_t slot,
                   const int32_t *ids, const int32_t *path, int n, double *score)
{
    const sample_bias *bias = (const sample_bias *)a->lanes.bias.ptr + slot * OPS_BIAS_MAX;
    const uint32_t *counts = a->lanes.counts.ptr;
    for (int c = 0; c < a->k; c++) {
        for (int i = 0; i < p->n_bias; i++) {
            if (bias[i].id == ids[c]) score[c] += (double)bias[i].value;
        }
        if (!counts) continue;
        int n_more = 0;
        for (int i = 0; i < n; i++) n_more += path[i] == ids[c];
        score[c] = ref_pick_penalise(p, score[c], counts[slot * a->V + ids[c]], n_more);
    }
}

/* The chosen candidate: argmax, ties to the better unary rank. */
static int choose(const sample_policy *p, const int32_t *ids, int k, int64_t pos, double *z)
{
    int32_t keep[OPS_TOPK_MAX];
    int n = k, best = -1;
    rng_key key = rng_row_key(p->seed, p->choice, pos);
    if (p->temperature > 0) {
        for (int c = 0; c < k; c++) z[c] /= (double)p->temperature;
        n = ref_pick_filter(p, z, ids, k, keep);
        for (int i = 0; i < n; i++) z[keep[i]] += rng_gumbel(rng_bits(key, (uint32_t)ids[keep[i]]));
    } else {
        for (int c = 0; c < k; c++) keep[c] = c;
    }
    for (int i = 0; i < n; i++) {
        int c = keep[i];
        if (best < 0 || z[c] > z[best] || (z[c] == z[best] && c < best)) best = c;
    }
    return best;
}

static void walk_lanes(void *ctx, int64_t begin, int64_t end, int worker)
{
    const select_job *j = ctx;
    const draft_select_args *a = j->a;
    for (int64_t l = begin; l < end; l++) {
        int64_t slot = ref_i32(a->lane_slot)[l];
        const sample_policy *p = (const sample_policy *)a->lanes.policy.ptr + slot;
        int32_t *path = (int32_t *)a->proposals.ptr + l * (a->B - 1);
        int32_t *verify = (int32_t *)a->verify_ids.ptr + ref_i32(a->lane_row)[l];
        int32_t prev = ref_i32(a->anchor)[l];
        int n_draft = ref_i32(a->n_draft)[l];
        for (int i = 1; i < a->B; i++) {
            if (i > n_draft) {
                path[i - 1] = -1;
                continue;
            }
            int64_t row = l * (a->B - 1) + i - 1;
            const int32_t *ids = ref_i32(a->ids) + row * a->k;
            double z[OPS_TOPK_MAX];
            score_candidates(a, row, prev, ref_own(j->r, worker), z);
            adjust(a, p, slot, ids, path, i - 1, z);
            int64_t pos = (int64_t)ref_i32(a->anchor_pos)[l] + i;
            prev = ids[choose(p, ids, a->k, pos, z)];
            path[i - 1] = verify[i] = prev;
        }
    }
}

status ref_draft_select(backend *b, const draft_select_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "draft_select", ref_linear_own(a->R), 0));
    select_job j = {r, a};
    workers_for(r->pool, a->L, 1, walk_lanes, &j);
    return ERR_OK;
}
