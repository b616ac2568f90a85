#include <string.h>

#include "backend/ref/ref_priv.h"
#include "tensor/half.h"
#include "tensor/quant.h"

/* ---- prep: norm, rotate, store ------------------------------------------------------------ */

typedef struct {
    const ref_backend *r;
    const attn_prep_args *a;
} prep_job;

/* One f32 vector into cell `cell` of a cache in its format. */
static void kv_store(kv_format format, dev_buf data, dev_buf scale, int64_t cell, const float *x,
                     int D)
{
    switch (format) {
    case KV_INT8:
        ref_f32(scale)[cell] = quant_kv_encode(x, D, (int8_t *)data.ptr + cell * D);
        break;
    case KV_BF16:
        for (int d = 0; d < D; d++) {
            ((uint16_t *)data.ptr)[cell * D + d] = half_to_bf16(x[d]);
        }
        break;
    case KV_F32: memcpy(ref_f32(data) + cell * D, x, (size_t)D * sizeof *x); break;
    }
}

static void kv_load(kv_format format, dev_buf data, dev_buf scale, int64_t cell, float *x, int D)
{
    switch (format) {
    case KV_INT8: {
        const int8_t *q = (const int8_t *)data.ptr + cell * D;
        float s = ref_f32(scale)[cell];
        for (int d = 0; d < D; d++) x[d] = s * (float)q[d];
        break;
    }
    case KV_BF16: half_row_from_bf16((const uint16_t *)data.ptr + cell * D, x, D); break;
    case KV_F32: memcpy(x, ref_f32(data) + cell * D, (size_t)D * sizeof *x); break;
    }
}

static void prep_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const prep_job *j = ctx;
    const attn_prep_args *a = j->a;
    int H = a->H, G = a->G, D = a->D, q_stride = a->has_gate ? 2 * D : D;
    double *y = ref_own(j->r, worker);
    float *k_row = (float *)(y + D);
    for (int64_t t = begin; t < end; t++) {
        int lane = ref_i32(a->rows.row_lane)[t];
        const float *cs = ref_f32(a->cs) + t * a->n_pairs * 2;
        for (int h = 0; h < H; h++) {
            const float *x = ref_f32(a->qg) + (t * H + h) * q_stride;
            float *q = ref_f32(a->q) + (t * H + h) * D;
            ref_norm_row(x, ref_f32(a->q_norm), a->eps, D, y);
            ref_rope_rotate(y, cs, a->n_pairs);
            for (int d = 0; d < D; d++) q[d] = (float)y[d];
        }
        if (lane < 0) continue;
        int slot = ref_i32(a->rows.lane_slot)[lane], pos = ref_i32(a->rows.row_pos)[t];
        for (int g = 0; g < G; g++) {
            int64_t cell = ref_kv_cell(&a->rows, slot, pos, G, g);
            ref_norm_row(ref_f32(a->k) + (t * G + g) * D, ref_f32(a->k_norm), a->eps, D, y);
            ref_rope_rotate(y, cs, a->n_pairs);
            for (int d = 0; d < D; d++) k_row[d] = (float)y[d];
            kv_store(a->kv.format, a->kv.k, a->kv.k_scale, cell, k_row, D);
            kv_store(a->kv.format, a->kv.v, a->kv.v_scale, cell, ref_f32(a->v) + (t * G + g) * D,
                     D);
        }
    }
}

status ref_attn_prep(backend *b, const attn_prep_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "attn_prep", ref_attn_own(1, a->D), 0));
    prep_job j = {r, a};
    workers_for(r->pool, a->rows.T, 1, prep_rows, &j);
    return ERR_OK;
}

/* ---- attention ---------------------------------------------------------------------------- */

/* One query head's softmax while its segments pass by, and the segment in hand. */
typedef struct {
    double max, sum;
    double *acc; /* [D] */
    float *part; /* [D] of this segment */
    double score[OPS_BLOCK];
    float weight[OPS_BLOCK];
} head_sum;

typedef struct {
    const ref_backend *r;
    const attn_args *a;
} attn_job;

int64_t ref_attn_own(int heads_per_kv, int D)
{
    int64_t head = (int64_t)sizeof(head_sum) + D * (int64_t)(sizeof(double) + sizeof(float));
    return heads_per_kv * head + D * (int64_t)(sizeof(double) + 2 * sizeof(float));
}

/* Merge a segment of n scores into (max, sum) and leave the weights exp(score - max) in place;
 * what was summed before is scaled to the new maximum. */
static void head_sum_weigh(head_sum *s, int n, int D)
{
    double max = s->max, sum = 0;
    for (int i = 0; i < n; i++) {
        if (s->score[i] > max) max = s->score[i];
    }
    if (max > s->max) {
        double scale = exp(s->max - max);
        s->sum *= scale;
        for (int d = 0; d < D; d++) s->acc[d] *= scale;
        s->max = max;
    }
    for (int i = 0; i < n; i++) {
        double w = exp(s->score[i] - max);
        s->weight[i] = (float)w;
        sum += w;
    }
    s->sum += sum;
}

/* Row t, KV head g: blocks of OPS_BLOCK positions in ascending order; a K or V vector is read
 * once for all the query heads that share it. */
REF_HOT static void attn_group(const attn_args *a, int64_t t, int g, head_sum *heads, float *vec)
{
    int D = a->D, n_heads = a->H / a->G;
    int slot = ref_i32(a->rows.lane_slot)[ref_i32(a->rows.row_lane)[t]];
    int n_pos = ref_i32(a->rows.row_pos)[t] + 1;
    const float *q = ref_f32(a->q) + (t * a->H + (int64_t)g * n_heads) * D;
    for (int from = 0; from < n_pos; from += OPS_BLOCK) {
        int n = n_pos - from < OPS_BLOCK ? n_pos - from : OPS_BLOCK;
        int64_t cell = ref_kv_cell(&a->rows, slot, from, a->G, g);
        for (int i = 0; i < n; i++) {
            kv_load(a->kv.format, a->kv.k, a->kv.k_scale, cell + i, vec, D);
            for (int h = 0; h < n_heads; h++) {
                heads[h].score[i] = ref_row_dot_double(q + h * D, vec, D) * (double)a->scale;
            }
        }
        for (int h = 0; h < n_heads; h++) {
            head_sum_weigh(&heads[h], n, D);
            memset(heads[h].part, 0, (size_t)D * sizeof(float));
        }
        for (int i = 0; i < n; i++) {
            kv_load(a->kv.format, a->kv.v, a->kv.v_scale, cell + i, vec, D);
            for (int h = 0; h < n_heads; h++) {
                float w = heads[h].weight[i], *part = heads[h].part;
                for (int d = 0; d < D; d++) part[d] += w * vec[d];
            }
        }
        for (int h = 0; h < n_heads; h++) {
            for (int d = 0; d < D; d++) heads[h].acc[d] += (double)heads[h].part[d];
        }
    }
}

static void attn_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const attn_job *j = ctx;
    const attn_args *a = j->a;
    int D = a->D, n_heads = a->H / a->G;
    head_sum *heads = ref_own(j->r, worker);
    double *acc = (double *)(heads + n_heads);
    float *part = (float *)(acc + n_heads * D), *vec = part + n_heads * D;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t t = unit / a->G;
        int g = (int)(unit % a->G);
        if (ref_i32(a->rows.row_lane)[t] < 0) continue;
        for (int h = 0; h < n_heads; h++) {
            heads[h].max = -INFINITY;
            heads[h].sum = 0;
            heads[h].acc = acc + h * D;
            heads[h].part = part + h * D;
            memset(heads[h].acc, 0, (size_t)D * sizeof(double));
        }
        attn_group(a, t, g, heads, vec);
        for (int h = 0; h < n_heads; h++) {
            int64_t head = t * a->H + (int64_t)g * n_heads + h;
            const float *gate = a->has_gate ? ref_f32(a->qg) + head * 2 * D + D : NULL;
            float *out = ref_f32(a->out) + head * D;
            for (int d = 0; d < D; d++) {
                double y = heads[h].acc[d] / heads[h].sum;
                out[d] = (float)(gate ? y * ref_sigmoid((double)gate[d]) : y);
            }
        }
    }
}

status ref_attn(backend *b, const attn_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "attn", ref_attn_own(a->H / a->G, a->D), 0));
    attn_job j = {r, a};
    workers_for(r->pool, (int64_t)a->rows.T * a->G, 1, attn_units, &j);
    return ERR_OK;
}
