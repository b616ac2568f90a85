#include "backend/ref/ref_priv.h"

void ref_norm_row(const float *x, const float *w, float eps, int n, double *y)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    double scale = 1.0 / sqrt(sum / n + (double)eps);
    for (int i = 0; i < n; i++) y[i] = (double)x[i] * scale * (double)w[i];
}

static void norm_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const rmsnorm_args *a = ctx;
    const float *w = ref_f32(a->w);
    for (int64_t t = begin; t < end; t++) {
        const float *x = ref_f32(a->x) + t * a->E;
        float *y = ref_f32(a->y) + t * a->E;
        double sum = 0;
        for (int i = 0; i < a->E; i++) sum += (double)x[i] * (double)x[i];
        double scale = 1.0 / sqrt(sum / a->E + (double)a->eps);
        for (int i = 0; i < a->E; i++) y[i] = (float)((double)x[i] * scale * (double)w[i]);
    }
}

status ref_rmsnorm(backend *b, const rmsnorm_args *a)
{
    workers_for(ref_of(b)->pool, a->T, 1, norm_rows, (void *)(uintptr_t)a);
    return ERR_OK;
}
