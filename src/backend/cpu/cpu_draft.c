#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_attn_priv.h"
#include "backend/cpu/cpu_priv.h"
#include "backend/draft_steps.h"

/* ---- prep --------------------------------------------------------------------------------- */

static void norm_rotate(const cpu_kernels *k, const float *x, const float *w, float eps,
                        const float *cs, int D, float *y)
{
    k->rmsnorm(x, w, eps, D, y);
    cpu_attn_rotate(y, cs, D / 2);
}

static float *ring_at(dev_buf b, const draft_ring *ring, int64_t slot, int G, int g, int64_t pos,
                      int D)
{
    return cpu_f32(b) + ((slot * G + g) * ring->R + pos % ring->R) * D;
}

typedef struct {
    const cpu_kernels *k;
    const void *a;
} draft_job;

/* Row t of a layer. */
static void ring_row(const draft_job *j, int i, int64_t t)
{
    const draft_kv_write_args *a = j->a;
    const draft_ring *ring = &a->layer[i].ring;
    int lane = cpu_i32(a->rows.row_lane)[t];
    if (lane < 0) return;
    const int32_t *first = cpu_i32(a->rows.lane_row) + lane;
    int n = a->n_commit.ptr ? cpu_i32(a->n_commit)[lane] : first[1] - first[0];
    int index = (int)t - first[0];
    if (index >= n || index < n - ring->R) return;
    int slot = cpu_i32(a->rows.lane_slot)[lane], pos = cpu_i32(a->rows.row_pos)[t];
    for (int g = 0; g < a->G; g++) {
        int64_t at = (t * a->G + g) * a->D;
        norm_rotate(j->k, cpu_f32(a->layer[i].k) + at, cpu_f32(a->layer[i].k_norm), a->eps,
                    cpu_f32(a->cs) + t * a->D, a->D,
                    ring_at(ring->k, ring, slot, a->G, g, pos, a->D));
        memcpy(ring_at(ring->v, ring, slot, a->G, g, pos, a->D), cpu_f32(a->layer[i].v) + at,
               (size_t)a->D * sizeof(float));
    }
}

static void ring_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const draft_job *j = ctx;
    const draft_kv_write_args *a = j->a;
    int64_t T = a->rows.T;
    for (int64_t at = begin; at < end; at++) ring_row(j, (int)(at / T), at % T);
}

status cpu_draft_kv_write(backend *b, const draft_kv_write_args *a)
{
    draft_job j = {cpu_of(b)->k, a};
    workers_for(cpu_of(b)->pool, (int64_t)a->n_layers * a->rows.T, 8, ring_rows, &j);
    return ERR_OK;
}

static void head_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const draft_job *j = ctx;
    const draft_attn_prep_args *a = j->a;
    for (int64_t m = begin; m < end; m++) {
        const float *cs = cpu_f32(a->cs) + m * a->D;
        for (int64_t h = 0; h < a->H; h++) {
            float *q = cpu_f32(a->q) + (m * a->H + h) * a->D;
            norm_rotate(j->k, q, cpu_f32(a->q_norm), a->eps, cs, a->D, q);
        }
        for (int64_t g = 0; g < a->G; g++) {
            float *k = cpu_f32(a->k) + (m * a->G + g) * a->D;
            norm_rotate(j->k, k, cpu_f32(a->k_norm), a->eps, cs, a->D, k);
        }
    }
}

status cpu_draft_attn_prep(backend *b, const draft_attn_prep_args *a)
{
    draft_job j = {cpu_of(b)->k, a};
    workers_for(cpu_of(b)->pool, a->M, 8, head_rows, &j);
    return ERR_OK;
}

/* ---- block attention ---------------------------------------------------------------------- */

enum { UNIT_QUERIES = 32 };

/* Rows of a unit, which is a KV head against some rows of a lane's block. */
static int unit_rows(const draft_attn_args *a)
{
    int n = UNIT_QUERIES / (a->H / a->G);
    return n < 1 ? 1 : n < a->B ? n : a->B;
}

typedef struct {
    const cpu_backend *c;
    const draft_attn_args *a;
    int n_chunks; /* units of a (lane, KV head) */
} attn_job;

/* A worker's scratch for the queries of a unit. */
typedef struct {
    attn_run *run;
    float *acc, *s, *correct, *k, *v; /* k, v: the block's rows of one KV head side by side */
    const float **q;
} unit_scratch;

static int64_t unit_bytes(int n_q, int B, int D, char *mem, unit_scratch *s)
{
    int64_t at = 0, sizes[] = {n_q * (int64_t)sizeof(attn_run),
                               (int64_t)n_q * D * 4,
                               (int64_t)n_q * ATTN_TILE * 4,
                               n_q * 4,
                               (int64_t)B * D * 4,
                               (int64_t)B * D * 4,
                               n_q * (int64_t)sizeof(float *)};
    char *start[7];
    for (int i = 0; i < 7; i++) {
        start[i] = mem ? mem + at : NULL;
        at += cpu_align64(sizes[i]);
    }
    if (s)
        *s = (unit_scratch){(attn_run *)start[0],    (float *)start[1], (float *)start[2],
                            (float *)start[3],       (float *)start[4], (float *)start[5],
                            (const float **)start[6]};
    return at;
}

/* One tile: n_pos keys of which query i sees [low[i], high[i]). */
static void see_tile(const attn_job *j, attn_tile *t, unit_scratch *s, const int *low,
                     const int *high)
{
    const cpu_kernels *k = j->c->k;
    k->attn_scores[KERNEL_KV_F32](t);
    for (int i = 0; i < t->n_q; i++)
        s->correct[i] = k->attn_softmax(s->s + i * ATTN_TILE, low[i], high[i], NULL, &s->run[i]);
    k->attn_values[KERNEL_KV_F32](t);
}

/* Rows [row0, row0 + n) of lane l against KV head g. */
static void attn_unit(const attn_job *j, int l, int g, int row0, int n, unit_scratch *s)
{
    const draft_attn_args *a = j->a;
    int per_row = a->H / a->G, n_q = n * per_row, D = a->D;
    int slot = cpu_i32(a->lane_slot)[l], p = cpu_i32(a->anchor_pos)[l];
    int begin = cpu_i32(a->ctx_begin)[l], low[ATTN_Q_MAX], high[ATTN_Q_MAX];
    int64_t block = (int64_t)l * a->B;
    attn_tile t = {.q = s->q,
                   .s = s->s,
                   .acc = s->acc,
                   .correct = s->correct,
                   .scale = a->scale,
                   .n_q = n_q,
                   .D = D};
    for (int i = 0; i < n_q; i++) {
        int64_t head = (block + row0 + i / per_row) * a->H + (int64_t)g * per_row + i % per_row;
        s->q[i] = cpu_f32(a->q) + head * D;
        s->run[i] = (attn_run){-INFINITY, 0};
    }
    memset(s->acc, 0, (size_t)n_q * (size_t)D * sizeof(float));
    /* Row i sees p + i - window + 1 at the earliest; a tile ends at a multiple of 64 and at the
     * end of the ring. */
    int from = a->window > 0 && begin < p + row0 - a->window + 1 ? p + row0 - a->window + 1 : begin;
    for (int64_t at = from, end; at < p; at = end) {
        end = (at / ATTN_TILE + 1) * ATTN_TILE;
        int64_t wrap = (at / a->ring.R + 1) * a->ring.R;
        if (end > wrap) end = wrap;
        if (end > p) end = p;
        t.n_pos = (int)(end - at);
        t.k = ring_at(a->ring.k, &a->ring, slot, a->G, g, at, D);
        t.v = ring_at(a->ring.v, &a->ring, slot, a->G, g, at, D);
        for (int i = 0; i < n_q; i++) {
            int64_t first = a->window > 0 ? p + row0 + i / per_row - a->window + 1 : 0;
            low[i] = first > at ? (int)(first - at) : 0;
            high[i] = t.n_pos;
        }
        see_tile(j, &t, s, low, high);
    }
    for (int r = 0; r < a->B; r++) {
        int64_t at = ((block + r) * a->G + g) * D;
        memcpy(s->k + (int64_t)r * D, cpu_f32(a->k) + at, (size_t)D * sizeof(float));
        memcpy(s->v + (int64_t)r * D, cpu_f32(a->v) + at, (size_t)D * sizeof(float));
    }
    t.k = s->k;
    t.v = s->v;
    t.n_pos = a->B;
    for (int i = 0; i < n_q; i++) {
        low[i] = 0;
        high[i] = a->is_causal ? row0 + i / per_row + 1 : a->B;
    }
    see_tile(j, &t, s, low, high);
    for (int i = 0; i < n_q; i++) {
        float *out = cpu_f32(a->out) + (s->q[i] - cpu_f32(a->q)), inverse = 1.0f / s->run[i].sum;
        for (int d = 0; d < D; d++) out[d] = s->acc[(int64_t)i * D + d] * inverse;
    }
}

static void attn_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const attn_job *j = ctx;
    const draft_attn_args *a = j->a;
    unit_scratch s;
    int rows = unit_rows(a);
    unit_bytes(rows * (a->H / a->G), a->B, a->D, cpu_own(j->c, worker), &s);
    for (int64_t unit = begin; unit < end; unit++) {
        int row0 = (int)(unit % j->n_chunks) * rows;
        int64_t head = unit / j->n_chunks;
        attn_unit(j, (int)(head / a->G), (int)(head % a->G), row0,
                  a->B - row0 < rows ? a->B - row0 : rows, &s);
    }
}

cpu_scratch cpu_draft_scratch(int H, int G, int D, int B)
{
    int per_row = H / G, n_q = per_row > UNIT_QUERIES ? per_row : UNIT_QUERIES;
    return (cpu_scratch){.own = unit_bytes(n_q, B, D, NULL, NULL)};
}

status cpu_draft_attn(backend *b, const draft_attn_args *a)
{
    cpu_backend *c = cpu_of(b);
    int rows = unit_rows(a);
    attn_job j = {c, a, (a->B + rows - 1) / rows};
    TRY(cpu_need(c, "draft_attn", unit_bytes(rows * (a->H / a->G), a->B, a->D, NULL, NULL), 0, 0));
    workers_for(c->pool, (int64_t)a->L * a->G * j.n_chunks, 1, attn_units, &j);
    return ERR_OK;
}

/* ---- convolution -------------------------------------------------------------------------- */

static void conv_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const draft_conv_args *a = ((const draft_job *)ctx)->a;
    int64_t E = a->E, n_groups = E / a->group;
    const float *base = cpu_f32(a->base) + a->side * 2 * E;
    for (int64_t t = begin; t < end; t++) {
        const float *u = cpu_f32(a->u) + t * E;
        const float *delta = cpu_f32(a->delta) + (t * 2 + a->side) * 2 * n_groups;
        bool has_history = t % a->B != 0;
        float *out = a->adds ? cpu_f32(a->h) + t * E : cpu_f32(a->y) + t * E;
        for (int64_t ch = 0; ch < E; ch++) {
            int64_t g = ch / a->group;
            float c = (base[ch] + delta[g]) * u[ch];
            if (has_history) c += (base[E + ch] + delta[n_groups + g]) * u[ch - E];
            out[ch] = a->adds ? out[ch] + c : c;
        }
    }
}

status cpu_draft_conv(backend *b, const draft_conv_args *a)
{
    draft_job j = {cpu_of(b)->k, a};
    workers_for(cpu_of(b)->pool, (int64_t)a->L * a->B, 4, conv_rows, &j);
    return ERR_OK;
}

static const draft_steps steps = {cpu_rmsnorm, cpu_linear, cpu_draft_conv, cpu_draft_attn_prep,
                                  cpu_draft_attn};

status cpu_draft_attend(backend *b, const draft_attend_args *a)
{
    return draft_steps_attend(&steps, b, a);
}

status cpu_draft_enter(backend *b, const draft_enter_args *a)
{
    return draft_steps_enter(&steps, b, a);
}

status cpu_draft_leave(backend *b, const draft_leave_args *a)
{
    return draft_steps_leave(&steps, b, a);
}
