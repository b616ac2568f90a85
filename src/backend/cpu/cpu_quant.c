#include "backend/cpu/cpu_priv.h"

enum { WORTH_THREADS = 32768 }; /* elements; fewer are done before a worker has woken up */

typedef struct {
    const cpu_kernels *k;
    const float *x;
    cpu_quant v;
} quant_job;

cpu_quant cpu_quant_at(const cpu_backend *c, int64_t at, int64_t K, int group)
{
    return (cpu_quant){c->q + at, c->q_scale + at / 16, c->q_sum + at / 16, K, group};
}

static void quant_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const quant_job *j = ctx;
    const cpu_quant *v = &j->v;
    int64_t n_groups = v->K / v->group;
    for (int64_t i = begin; i < end; i++)
        j->k->quantise(j->x + i * v->K, v->K, v->group, v->q + i * v->K, v->scale + i * n_groups,
                       v->sum + i * n_groups);
}

void cpu_quant_rows(cpu_backend *c, const float *x, int64_t n, cpu_quant v)
{
    quant_job j = {c->k, x, v};
    if (n * v.K < WORTH_THREADS)
        quant_rows(&j, 0, n, 0);
    else
        workers_for(c->pool, n, 1, quant_rows, &j);
}
