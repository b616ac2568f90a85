#include "backend/ref/ref_priv.h"

typedef struct {
    const ref_backend *r;
    const float *x;
    const dev_weight *w;
    float *y;
    linear_out out;
    int T;
} linear_job;

int64_t ref_linear_own(int64_t K)
{
    return REF_ROWS * K * (int64_t)sizeof(float);
}

/* Outputs [begin, end) of every row: a weight row is decoded once and used for all T. */
static void linear_part(void *ctx, int64_t begin, int64_t end, int worker)
{
    const linear_job *j = ctx;
    int64_t K = j->w->K, N = j->w->N;
    float *rows = ref_own(j->r, worker);
    for (int64_t n = begin; n < end; n += REF_ROWS) {
        int64_t n_rows = end - n < REF_ROWS ? end - n : REF_ROWS;
        for (int64_t i = 0; i < n_rows; i++) ref_row_decode(&j->w->view, n + i, rows + i * K);
        for (int64_t t = 0; t < j->T; t++) {
            float *y = j->y + t * N + n;
            for (int64_t i = 0; i < n_rows; i++) {
                double dot = ref_row_dot(rows + i * K, j->x + t * K, K);
                y[i] = (float)(j->out == LINEAR_ADD ? (double)y[i] + dot : dot);
            }
        }
    }
}

status ref_linear(backend *b, const linear_args *a)
{
    ref_backend *r = ref_of(b);
    for (int i = 0; i < a->n_parts; i++) {
        const dev_weight *w = a->part[i].w;
        TRY(ref_need(r, "linear", ref_linear_own(w->K), 0));
        linear_job j = {r, ref_f32(a->x), w, ref_f32(a->part[i].y), a->part[i].out, a->T};
        workers_for(r->pool, w->N, REF_ROWS, linear_part, &j);
    }
    return ERR_OK;
}

typedef struct {
    const ref_backend *r;
    const linear_swiglu_args *a;
} swiglu_job;

static void swiglu_part(void *ctx, int64_t begin, int64_t end, int worker)
{
    const swiglu_job *j = ctx;
    int64_t K = j->a->gate->K, F = j->a->gate->N;
    const float *x = ref_f32(j->a->x);
    float *gate = ref_own(j->r, worker), *up = gate + K, *y = ref_f32(j->a->y);
    for (int64_t f = begin; f < end; f++) {
        ref_row_decode(&j->a->gate->view, f, gate);
        ref_row_decode(&j->a->up->view, f, up);
        for (int64_t t = 0; t < j->a->T; t++) {
            double g = ref_row_dot(gate, x + t * K, K), u = ref_row_dot(up, x + t * K, K);
            y[t * F + f] = (float)(ref_silu(g) * u);
        }
    }
}

status ref_linear_swiglu(backend *b, const linear_swiglu_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "linear_swiglu", ref_linear_own(a->gate->K), 0));
    swiglu_job j = {r, a};
    workers_for(r->pool, a->gate->N, 1, swiglu_part, &j);
    return ERR_OK;
}
