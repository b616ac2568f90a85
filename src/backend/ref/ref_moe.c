#include <string.h>

#include "backend/ref/ref_priv.h"

/* ---- router ------------------------------------------------------------------------------- */

static void route_row(const float *logits, int X, int K, int32_t *ids, float *w)
{
    ref_topk_row(logits, X, K, 1.0f, 0.0f, ids, w);
    double sum = 0;
    for (int k = 0; k < K; k++) sum += exp((double)w[k] - (double)w[0]);
    double max = (double)w[0];
    for (int k = 0; k < K; k++) w[k] = (float)(exp((double)w[k] - max) / sum);
}

status ref_moe_route(backend *b, const moe_route_args *a)
{
    (void)b;
    for (int64_t t = 0; t < a->T; t++) {
        route_row(ref_f32(a->logits) + t * a->X, a->X, a->K, (int32_t *)a->ids.ptr + t * a->K,
                  ref_f32(a->w) + t * a->K);
    }
    return ERR_OK;
}

/* ---- experts ------------------------------------------------------------------------------ */

/* Rows grouped by expert, so that each expert's weights are decoded once a call. A use is one
 * (row, place among its K); use u belongs to row u / K. */
typedef struct {
    const ref_backend *r;
    const moe_ffn_args *a;
    int32_t *first;  /* [X+1] first entry of each expert in `use` */
    int32_t *use;    /* [T*K] */
    float *act;      /* [T*K, F] silu(gate x) * up x of each use */
    float *shared;   /* [T, shared_F] the same of the shared expert */
    double *sigmoid; /* [T] its weight */
} moe_job;

static int64_t align16(int64_t n)
{
    return (n + 15) / 16 * 16;
}

int64_t ref_moe_own(int64_t T, int64_t E, int K, int64_t F, int64_t shared_F)
{
    int64_t widest = E > F ? E : F;
    if (shared_F > widest) widest = shared_F;
    return T * K * (int64_t)sizeof(double) + 2 * widest * (int64_t)sizeof(float);
}

int64_t ref_moe_shared(int64_t T, int X, int K, int64_t F, int64_t shared_F)
{
    return align16(T * (int64_t)sizeof(double)) + align16(T * K * F * 4) +
           align16(T * shared_F * 4) + align16(T * K * 4) + align16(((int64_t)X + 1) * 4);
}

static moe_job job_of(const ref_backend *r, const moe_ffn_args *a)
{
    char *at = r->shared;
    moe_job j = {.r = r, .a = a, .sigmoid = (double *)at};
    at += align16(a->T * (int64_t)sizeof(double));
    j.act = (float *)at;
    at += align16((int64_t)a->T * a->K * a->F * 4);
    j.shared = (float *)at;
    at += align16((int64_t)a->T * a->shared_F * 4);
    j.use = (int32_t *)at;
    at += align16((int64_t)a->T * a->K * 4);
    j.first = (int32_t *)at;
    return j;
}

/* Counting sort of uses by expert; within an expert they stay in row order. */
static void group_uses(const moe_job *j)
{
    const moe_ffn_args *a = j->a;
    const int32_t *ids = ref_i32(a->ids);
    int n = a->T * a->K;
    memset(j->first, 0, ((size_t)a->X + 1) * sizeof *j->first);
    for (int u = 0; u < n; u++) j->first[ids[u] + 1]++;
    for (int x = 0; x < a->X; x++) j->first[x + 1] += j->first[x];
    for (int u = 0; u < n; u++) j->use[j->first[ids[u]]++] = u;
    for (int x = a->X; x > 0; x--) j->first[x] = j->first[x - 1];
    j->first[0] = 0;
}

/* Outputs [begin, end) of all experts' gate and up: unit = expert * F + f. */
static void gate_up_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const moe_job *j = ctx;
    const moe_ffn_args *a = j->a;
    float *gate = ref_own(j->r, worker), *up = gate + a->E;
    const float *x = ref_f32(a->x);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t e = unit / a->F, f = unit % a->F;
        if (j->first[e] == j->first[e + 1]) continue;
        tensor gate_e = tensor_slice(&a->gate->view, e), up_e = tensor_slice(&a->up->view, e);
        ref_row_decode(&gate_e, f, gate);
        ref_row_decode(&up_e, f, up);
        for (int i = j->first[e]; i < j->first[e + 1]; i++) {
            int64_t u = j->use[i];
            const float *row = x + u / a->K * a->E;
            double g = ref_row_dot(gate, row, a->E), v = ref_row_dot(up, row, a->E);
            j->act[u * a->F + f] = (float)(ref_silu(g) * v);
        }
    }
}

static void shared_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const moe_job *j = ctx;
    const moe_ffn_args *a = j->a;
    float *gate = ref_own(j->r, worker), *up = gate + a->E;
    for (int64_t f = begin; f < end; f++) {
        ref_row_decode(&a->s_gate->view, f, gate);
        ref_row_decode(&a->s_up->view, f, up);
        for (int64_t t = 0; t < a->T; t++) {
            const float *row = ref_f32(a->x) + t * a->E;
            double g = ref_row_dot(gate, row, a->E), v = ref_row_dot(up, row, a->E);
            j->shared[t * a->shared_F + f] = (float)(ref_silu(g) * v);
        }
    }
}

/* Column n of the result: every use's down product, then each row's sum in the order of ids. */
static void down_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const moe_job *j = ctx;
    const moe_ffn_args *a = j->a;
    double *y = ref_own(j->r, worker);
    float *row = (float *)(y + (int64_t)a->T * a->K);
    for (int64_t n = begin; n < end; n++) {
        for (int64_t e = 0; e < a->X; e++) {
            if (j->first[e] == j->first[e + 1]) continue;
            tensor down = tensor_slice(&a->down->view, e);
            ref_row_decode(&down, n, row);
            for (int i = j->first[e]; i < j->first[e + 1]; i++) {
                int64_t u = j->use[i];
                y[u] = ref_row_dot(row, j->act + u * a->F, a->F);
            }
        }
        if (a->s_down) ref_row_decode(&a->s_down->view, n, row);
        for (int64_t t = 0; t < a->T; t++) {
            double sum = 0;
            for (int64_t k = 0; k < a->K; k++) {
                sum += (double)ref_f32(a->w)[t * a->K + k] * y[t * a->K + k];
            }
            if (a->s_down) {
                sum += j->sigmoid[t] * ref_row_dot(row, j->shared + t * a->shared_F, a->shared_F);
            }
            ref_f32(a->h)[t * a->E + n] += (float)sum;
        }
    }
}

status ref_moe_ffn(backend *b, const moe_ffn_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "moe_ffn", ref_moe_own(a->T, a->E, a->K, a->F, a->shared_F),
                 ref_moe_shared(a->T, a->X, a->K, a->F, a->shared_F)));
    moe_job j = job_of(r, a);
    group_uses(&j);
    workers_for(r->pool, (int64_t)a->X * a->F, 1, gate_up_units, &j);
    if (a->s_gate) {
        float *row = ref_own(r, 0);
        ref_row_decode(&a->s_sigmoid->view, 0, row);
        for (int64_t t = 0; t < a->T; t++) {
            j.sigmoid[t] = ref_sigmoid(ref_row_dot(row, ref_f32(a->x) + t * a->E, a->E));
        }
        workers_for(r->pool, a->shared_F, 1, shared_units, &j);
    }
    workers_for(r->pool, a->E, 1, down_units, &j);
    return ERR_OK;
}
