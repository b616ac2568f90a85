#include "backend/ref/ref_priv.h"
#include "base/rng.h"

typedef struct {
    const ref_backend *r;
    const sample_args *a;
} sample_job;

int64_t ref_sample_own(int64_t V)
{
    return V * (int64_t)(sizeof(double) + sizeof(int32_t));
}

/* y = the row's logits after mask, bias and penalties. */
static void adjust(const sample_args *a, int64_t m, int lane, const sample_policy *p, double *y)
{
    const float *logits = ref_f32(a->logits) + m * a->V;
    int64_t slot = ref_i32(a->rows.lane_slot)[lane];
    for (int64_t i = 0; i < a->V; i++) y[i] = (double)logits[i];
    if (p->has_mask && a->mask.ptr) {
        const uint32_t *mask = (const uint32_t *)a->mask.ptr + m * ((a->V + 31) / 32);
        for (int64_t i = 0; i < a->V; i++) {
            if (!(mask[i / 32] >> (i % 32) & 1)) y[i] = -INFINITY;
        }
    }
    const sample_bias *bias = (const sample_bias *)a->lanes.bias.ptr + slot * OPS_BIAS_MAX;
    for (int i = 0; i < p->n_bias; i++) y[bias[i].id] += (double)bias[i].value;
    if (!a->lanes.counts.ptr) return;
    if (p->repetition == 1 && p->frequency == 0 && p->presence == 0) return;
    const uint32_t *counts = (const uint32_t *)a->lanes.counts.ptr + slot * a->V;
    const int32_t *ids = ref_i32(a->rows.ids);
    int first = ref_i32(a->rows.lane_row)[lane] + 1, last = a->is_prompt ? 0 : ref_i32(a->row)[m];
    for (int i = 0; i < a->V; i++) {
        int n_more = 0;
        for (int t = first; t <= last; t++) n_more += ids[t] == i;
        y[i] = ref_pick_penalise(p, y[i], counts[i], n_more);
    }
}

static int argmax(const double *y, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        if (y[i] > y[best]) best = i;
    }
    return (int)best;
}

/* argmax over the survivors of z + gumbel, ties to the lower id. */
static int draw(const sample_policy *p, int64_t pos, double *z, int V, int32_t *keep)
{
    for (int i = 0; i < V; i++) z[i] /= (double)p->temperature;
    int n = ref_pick_filter(p, z, NULL, V, keep);
    rng_key key = rng_row_key(p->seed, p->choice, pos);
    int best = keep[0];
    double best_value = -INFINITY;
    for (int i = 0; i < n; i++) {
        double value = z[keep[i]] + rng_gumbel(rng_bits(key, (uint32_t)keep[i]));
        if (value > best_value || (value == best_value && keep[i] < best)) {
            best = keep[i];
            best_value = value;
        }
    }
    return best;
}

/* log sum exp of the raw logits. */
static double log_mass(const float *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if ((double)x[i] > max) max = (double)x[i];
    }
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
    return max + log(sum);
}

static void sample_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const sample_job *j = ctx;
    const sample_args *a = j->a;
    double *y = ref_own(j->r, worker);
    int32_t *keep = (int32_t *)(y + a->V);
    for (int64_t m = begin; m < end; m++) {
        int row = ref_i32(a->row)[m], lane = ref_i32(a->rows.row_lane)[row];
        int32_t *token = (int32_t *)a->token.ptr + m;
        if (lane < 0) continue;
        const sample_policy *p = (const sample_policy *)a->lanes.policy.ptr +
                                 ref_i32(a->rows.lane_slot)[lane];
        adjust(a, m, lane, p, y);
        *token = p->temperature > 0
                     ? draw(p, (int64_t)ref_i32(a->rows.row_pos)[row] + 1, y, a->V, keep)
                     : argmax(y, a->V);
        const float *logits = ref_f32(a->logits) + m * a->V;
        if (!a->logprob.ptr && !a->top_ids.ptr) continue;
        double log_sum = log_mass(logits, a->V);
        if (a->logprob.ptr) {
            ref_f32(a->logprob)[m] = (float)((double)logits[*token] - log_sum);
        }
        if (a->top_ids.ptr) {
            float *top = ref_f32(a->top_logprobs) + m * OPS_TOP_LOGPROBS;
            ref_topk_row(logits, a->V, OPS_TOP_LOGPROBS, 1.0f, 0.0f,
                         (int32_t *)a->top_ids.ptr + m * OPS_TOP_LOGPROBS, top);
            for (int i = 0; i < OPS_TOP_LOGPROBS; i++) top[i] = (float)((double)top[i] - log_sum);
        }
    }
}

status ref_sample(backend *b, const sample_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "sample", ref_sample_own(a->V), 0));
    sample_job j = {r, a};
    workers_for(r->pool, a->M, 1, sample_rows, &j);
    return ERR_OK;
}
