#include <math.h>

#include "backend/cpu/cpu_topk_priv.h"

enum {
    SCAN_RUN = 256,     /* values whose maximum decides whether they are looked at one by one */
    TOPK_CHUNK = 16384, /* ids of a unit; lists of chunks are merged in ascending order */
};

void cpu_topk_begin(cpu_topk_list *l, int k, int32_t *ids, float *vals)
{
    *l = (cpu_topk_list){.ids = ids, .vals = vals, .k = k};
}

/* A value enters only above the last one, so equal values stay in the order they came in. */
void cpu_topk_push(cpu_topk_list *l, float value, int32_t id)
{
    if (l->n == l->k && !(value > l->vals[l->k - 1])) return;
    int at = l->n < l->k ? l->n++ : l->k - 1;
    for (; at > 0 && value > l->vals[at - 1]; at--) {
        l->vals[at] = l->vals[at - 1];
        l->ids[at] = l->ids[at - 1];
    }
    l->vals[at] = value;
    l->ids[at] = id;
}

void cpu_topk_scan(const cpu_kernels *k, cpu_topk_list *l, const float *x, int64_t n, int32_t id0)
{
    for (int64_t at = 0; at < n; at += SCAN_RUN) {
        int64_t end = n - at < SCAN_RUN ? n : at + SCAN_RUN;
        if (l->n == l->k && !(k->max(x + at, end - at) > l->vals[l->k - 1])) continue;
        for (int64_t i = at; i < end; i++) cpu_topk_push(l, x[i], id0 + (int32_t)i);
    }
}

void cpu_topk_end(cpu_topk_list *l)
{
    for (; l->n < l->k; l->n++) {
        l->ids[l->n] = -1;
        l->vals[l->n] = -INFINITY;
    }
}

void cpu_topk_row(const cpu_kernels *k, const float *x, int64_t n, int n_top, int32_t *ids,
                  float *vals)
{
    cpu_topk_list l;
    cpu_topk_begin(&l, n_top, ids, vals);
    cpu_topk_scan(k, &l, x, n, 0);
    cpu_topk_end(&l);
}

/* ---- the op ------------------------------------------------------------------------------- */

typedef struct {
    cpu_backend *c;
    const topk_args *a;
    int n_chunks;
    int32_t *ids; /* [M, n_chunks, OPS_TOPK_MAX] lists of chunks */
    float *vals;
} topk_job;

static void topk_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const topk_job *j = ctx;
    const topk_args *a = j->a;
    float *scaled = cpu_own(j->c, worker);
    bool is_plain = a->scale == 1.0f && !(a->softcap > 0);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t from = unit % j->n_chunks * TOPK_CHUNK;
        int64_t n = a->V - from < TOPK_CHUNK ? a->V - from : TOPK_CHUNK;
        const float *x = cpu_f32(a->logits) + unit / j->n_chunks * a->V + from;
        cpu_topk_list l;
        if (!is_plain) {
            j->c->k->softcap(x, n, a->scale, a->softcap, scaled);
            x = scaled;
        }
        cpu_topk_begin(&l, a->k, j->ids + unit * OPS_TOPK_MAX, j->vals + unit * OPS_TOPK_MAX);
        cpu_topk_scan(j->c->k, &l, x, n, (int32_t)from);
        cpu_topk_end(&l);
    }
}

static int topk_chunks(int64_t V)
{
    return (int)((V + TOPK_CHUNK - 1) / TOPK_CHUNK);
}

cpu_scratch cpu_topk_scratch(int M, int64_t V)
{
    int64_t list = (int64_t)M * topk_chunks(V) * OPS_TOPK_MAX * 4;
    return (cpu_scratch){.own = TOPK_CHUNK * 4, .shared = 2 * cpu_align64(list)};
}

status cpu_topk(backend *b, const topk_args *a)
{
    cpu_backend *c = cpu_of(b);
    topk_job j = {c, a, topk_chunks(a->V), NULL, NULL};
    cpu_scratch s = cpu_topk_scratch(a->M, a->V);
    TRY(cpu_need(c, "topk", s.own, s.shared, 0));
    j.ids = (int32_t *)c->shared;
    j.vals = (float *)(c->shared + s.shared / 2);
    workers_for(c->pool, (int64_t)a->M * j.n_chunks, 1, topk_units, &j);
    for (int64_t m = 0; m < a->M; m++) {
        cpu_topk_list l;
        cpu_topk_begin(&l, a->k, (int32_t *)a->ids.ptr + m * a->k, cpu_f32(a->vals) + m * a->k);
        for (int64_t unit = m * j.n_chunks; unit < (m + 1) * j.n_chunks; unit++)
            for (int i = 0; i < a->k && j.ids[unit * OPS_TOPK_MAX + i] >= 0; i++)
                cpu_topk_push(&l, j.vals[unit * OPS_TOPK_MAX + i], j.ids[unit * OPS_TOPK_MAX + i]);
        cpu_topk_end(&l);
    }
    return ERR_OK;
}
