#include <string.h>

#include "backend/cpu/cpu_policy_priv.h"
#include "backend/cpu/cpu_priv.h"
#include "base/rng.h"

typedef struct {
    cpu_backend *c;
    const draft_select_args *a;
} select_job;

/* Unary value plus the edge from the predecessor: sum_m pred[prev, m] r[m] succ[id, m]. */
static void score_candidates(const select_job *j, int64_t row, int32_t prev, float *scratch,
                             float *score)
{
    const draft_select_args *a = j->a;
    const int32_t *ids = cpu_i32(a->ids) + row * a->k;
    memcpy(score, cpu_f32(a->vals) + row * a->k, (size_t)a->k * sizeof *score);
    if (!a->pred) return;
    float *from = scratch, *to = scratch + a->R;
    const float *r = cpu_f32(a->r) + row * a->R;
    tensor_row_f32(&a->pred->view, prev, from);
    for (int m = 0; m < a->R; m++) from[m] *= r[m];
    for (int c = 0; c < a->k; c++) {
        if (ids[c] < 0) continue;
        tensor_row_f32(&a->succ->view, ids[c], to);
        score[c] += j->c->k->dot(from, to, a->R);
    }
}

/* Bias and penalties of the lane, with the block's own tokens path[0..n). */
static void adjust(const draft_select_args *a, const sample_policy *p, int64_t slot,
                   const int32_t *ids, const int32_t *path, int n, float *score)
{
    const sample_bias *bias = (const sample_bias *)a->lanes.bias.ptr + slot * OPS_BIAS_MAX;
    const uint32_t *counts = a->lanes.counts.ptr;
    for (int c = 0; c < a->k; c++) {
        if (ids[c] < 0) continue;
        for (int i = 0; i < p->n_bias; i++)
            if (bias[i].id == ids[c]) score[c] += bias[i].value;
        if (!counts) continue;
        int n_more = 0;
        for (int i = 0; i < n; i++) n_more += path[i] == ids[c];
        score[c] = cpu_policy_penalise(p, score[c], counts[slot * a->V + ids[c]], n_more);
    }
}

/* Candidates by descending z, ties to the lower id. */
static void sort_candidates(const float *z, const int32_t *ids, int n, int32_t *order)
{
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0; at--) {
            int32_t before = order[at - 1];
            if (z[before] > z[i] || (z[before] == z[i] && ids[before] < ids[i])) break;
            order[at] = before;
        }
        order[at] = i;
    }
}

/* The chosen candidate: argmax, ties to the better unary rank. */
static int choose(const cpu_kernels *k, const sample_policy *p, const int32_t *ids, int n,
                  int64_t pos, float *z)
{
    if (p->temperature > 0) {
        int32_t order[OPS_TOPK_MAX], padded[16] = {0};
        float sorted[OPS_TOPK_MAX], noise[16];
        for (int c = 0; c < n; c++) z[c] /= p->temperature;
        sort_candidates(z, ids, n, order);
        for (int c = 0; c < n; c++) sorted[c] = z[order[c]];
        int n_kept = cpu_policy_keep(p, sorted, n);
        memcpy(padded, ids, (size_t)n * sizeof *ids);
        k->gumbel16(padded, rng_row_key(p->seed, p->choice, pos), noise);
        for (int i = 0; i < n; i++)
            z[order[i]] = i < n_kept ? z[order[i]] + noise[order[i]] : -__builtin_inff();
    }
    int best = 0;
    for (int c = 1; c < n; c++)
        if (z[c] > z[best]) best = c;
    return best;
}

static void walk_lanes(void *ctx, int64_t begin, int64_t end, int worker)
{
    const select_job *j = ctx;
    const draft_select_args *a = j->a;
    for (int64_t l = begin; l < end; l++) {
        int64_t slot = cpu_i32(a->lane_slot)[l];
        const sample_policy *p = (const sample_policy *)a->lanes.policy.ptr + slot;
        int32_t *path = (int32_t *)a->proposals.ptr + l * (a->B - 1);
        int32_t *verify = (int32_t *)a->verify_ids.ptr + cpu_i32(a->lane_row)[l];
        int32_t prev = cpu_i32(a->anchor)[l];
        int n_draft = cpu_i32(a->n_draft)[l];
        for (int i = 1; i < a->B; i++) {
            if (i > n_draft) {
                path[i - 1] = -1;
                continue;
            }
            int64_t row = l * (a->B - 1) + i - 1;
            const int32_t *ids = cpu_i32(a->ids) + row * a->k;
            float z[OPS_TOPK_MAX];
            score_candidates(j, row, prev, cpu_own(j->c, worker), z);
            adjust(a, p, slot, ids, path, i - 1, z);
            int64_t pos = (int64_t)cpu_i32(a->anchor_pos)[l] + i;
            prev = ids[choose(j->c->k, p, ids, a->k, pos, z)];
            path[i - 1] = verify[i] = prev;
        }
    }
}

status cpu_draft_select(backend *b, const draft_select_args *a)
{
    select_job j = {cpu_of(b), a};
    TRY(cpu_need(j.c, "draft_select", 2 * (int64_t)a->R * 4, 0, 0));
    workers_for(j.c->pool, a->L, 1, walk_lanes, &j);
    return ERR_OK;
}
