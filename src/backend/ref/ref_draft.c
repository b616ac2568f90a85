#include <string.h>

#include "backend/draft_steps.h"
#include "backend/ref/ref_priv.h"

/* k or q <- rope(rmsnorm(x)) over all D dims, rounded to f32 into out (may be x). */
static void norm_rotate(const float *x, const float *w, float eps, const float *cs, int D,
                        double *y, float *out)
{
    ref_norm_row(x, w, eps, D, y);
    ref_rope_rotate(y, cs, D / 2);
    for (int d = 0; d < D; d++) out[d] = (float)y[d];
}

static float *ring_at(dev_buf b, const draft_ring *ring, int64_t slot, int G, int g, int pos, int D)
{
    return ref_f32(b) + ((slot * G + g) * ring->R + pos % ring->R) * D;
}

static void write_ring(ref_backend *r, const draft_kv_write_args *a, int i)
{
    const draft_ring *ring = &a->layer[i].ring;
    for (int64_t t = 0; t < a->rows.T; t++) {
        int lane = ref_i32(a->rows.row_lane)[t];
        if (lane < 0) continue;
        int n = a->n_commit.ptr ? ref_i32(a->n_commit)[lane] : ref_lane_rows(&a->rows, lane);
        int index = (int)t - ref_i32(a->rows.lane_row)[lane];
        if (index >= n || index < n - ring->R) continue;
        int slot = ref_i32(a->rows.lane_slot)[lane], pos = ref_i32(a->rows.row_pos)[t];
        for (int g = 0; g < a->G; g++) {
            int64_t at = (t * a->G + g) * a->D;
            norm_rotate(ref_f32(a->layer[i].k) + at, ref_f32(a->layer[i].k_norm), a->eps,
                        ref_f32(a->cs) + t * a->D, a->D, ref_own(r, 0),
                        ring_at(ring->k, ring, slot, a->G, g, pos, a->D));
            memcpy(ring_at(ring->v, ring, slot, a->G, g, pos, a->D), ref_f32(a->layer[i].v) + at,
                   (size_t)a->D * sizeof(float));
        }
    }
}

status ref_draft_kv_write(backend *b, const draft_kv_write_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "draft_kv_write", ref_attn_own(1, a->D), 0));
    for (int i = 0; i < a->n_layers; i++) write_ring(r, a, i);
    return ERR_OK;
}

status ref_draft_attn_prep(backend *b, const draft_attn_prep_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "draft_attn_prep", ref_attn_own(1, a->D), 0));
    for (int64_t m = 0; m < a->M; m++) {
        const float *cs = ref_f32(a->cs) + m * a->D;
        for (int64_t h = 0; h < a->H; h++) {
            float *q = ref_f32(a->q) + (m * a->H + h) * a->D;
            norm_rotate(q, ref_f32(a->q_norm), a->eps, cs, a->D, ref_own(r, 0), q);
        }
        for (int64_t g = 0; g < a->G; g++) {
            float *k = ref_f32(a->k) + (m * a->G + g) * a->D;
            norm_rotate(k, ref_f32(a->k_norm), a->eps, cs, a->D, ref_own(r, 0), k);
        }
    }
    return ERR_OK;
}

/* ---- block attention ---------------------------------------------------------------------- */

typedef struct {
    const ref_backend *r;
    const draft_attn_args *a;
} attn_job;

/* Fold one key and value into a softmax in progress. */
static void see(const float *q, const float *k, const float *v, float scale, int D, double *max,
                double *sum, double *acc)
{
    double score = ref_row_dot_double(q, k, D) * (double)scale;
    if (score > *max) {
        double shrink = exp(*max - score);
        *sum *= shrink;
        for (int d = 0; d < D; d++) acc[d] *= shrink;
        *max = score;
    }
    double w = exp(score - *max);
    *sum += w;
    for (int d = 0; d < D; d++) acc[d] += w * (double)v[d];
}

/* Row i of lane l, query head h. */
static void attn_head(const draft_attn_args *a, int l, int i, int h, double *acc)
{
    int g = h / (a->H / a->G), D = a->D;
    int slot = ref_i32(a->lane_slot)[l], p = ref_i32(a->anchor_pos)[l];
    int from = ref_i32(a->ctx_begin)[l];
    int64_t first = (int64_t)l * a->B;
    const float *q = ref_f32(a->q) + ((first + i) * a->H + h) * D;
    double max = -INFINITY, sum = 0;
    if (a->window > 0 && from < p + i - a->window + 1) from = p + i - a->window + 1;
    memset(acc, 0, (size_t)D * sizeof *acc);
    for (int s = from; s < p; s++) {
        see(q, ring_at(a->ring.k, &a->ring, slot, a->G, g, s, D),
            ring_at(a->ring.v, &a->ring, slot, a->G, g, s, D), a->scale, D, &max, &sum, acc);
    }
    int n_seen = a->is_causal ? i + 1 : a->B;
    for (int j = 0; j < n_seen; j++) {
        int64_t at = ((first + j) * a->G + g) * D;
        see(q, ref_f32(a->k) + at, ref_f32(a->v) + at, a->scale, D, &max, &sum, acc);
    }
    float *out = ref_f32(a->out) + ((first + i) * a->H + h) * D;
    for (int d = 0; d < D; d++) out[d] = (float)(acc[d] / sum);
}

static void attn_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const attn_job *j = ctx;
    const draft_attn_args *a = j->a;
    for (int64_t unit = begin; unit < end; unit++) {
        int row = (int)(unit / a->H);
        attn_head(a, row / a->B, row % a->B, (int)(unit % a->H), ref_own(j->r, worker));
    }
}

status ref_draft_attn(backend *b, const draft_attn_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "draft_attn", ref_attn_own(1, a->D), 0));
    attn_job j = {r, a};
    workers_for(r->pool, (int64_t)a->L * a->B * a->H, 1, attn_units, &j);
    return ERR_OK;
}

/* ---- convolution -------------------------------------------------------------------------- */

status ref_draft_conv(backend *b, const draft_conv_args *a)
{
    (void)b;
    int64_t E = a->E, n_groups = E / a->group;
    const float *base = ref_f32(a->base) + a->side * 2 * E;
    for (int64_t t = 0; t < (int64_t)a->L * a->B; t++) {
        const float *u = ref_f32(a->u) + t * E;
        const float *delta = ref_f32(a->delta) + (t * 2 + a->side) * 2 * n_groups;
        int n_taps = t % a->B == 0 ? 1 : 2; /* history is empty before a block */
        for (int64_t ch = 0; ch < E; ch++) {
            double c = 0;
            for (int tau = 0; tau < n_taps; tau++) {
                double w = (double)base[tau * E + ch] +
                           (double)delta[tau * n_groups + ch / a->group];
                c += w * (double)u[ch - tau * E];
            }
            if (a->adds) {
                float *h = ref_f32(a->h) + t * E + ch;
                *h = (float)((double)*h + c);
            } else {
                ref_f32(a->y)[t * E + ch] = (float)c;
            }
        }
    }
    return ERR_OK;
}

static const draft_steps steps = {ref_rmsnorm, ref_linear, ref_draft_conv, ref_draft_attn_prep,
                                  ref_draft_attn};

status ref_draft_attend(backend *b, const draft_attend_args *a)
{
    return draft_steps_attend(&steps, b, a);
}

status ref_draft_enter(backend *b, const draft_enter_args *a)
{
    return draft_steps_enter(&steps, b, a);
}

status ref_draft_leave(backend *b, const draft_leave_args *a)
{
    return draft_steps_leave(&steps, b, a);
}
