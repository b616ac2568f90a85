#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_priv.h"
#include "base/clock.h"
#include "tensor/tensor.h"

/* Ops of a few rows are done before a worker has woken up. */
enum { ROWS_A_THREAD = 4 };

typedef struct {
    const cpu_kernels *k;
    const void *a;
} small_job;

static void embed_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const embed_args *a = ((const small_job *)ctx)->a;
    int64_t E = a->table->K;
    for (int64_t t = begin; t < end; t++) {
        float *out = cpu_f32(a->out) + t * E;
        tensor_row_f32(&a->table->view, cpu_i32(a->ids)[t], out);
        if (a->scale != 1.0f)
            for (int64_t i = 0; i < E; i++) out[i] *= a->scale;
    }
}

status cpu_embed(backend *b, const embed_args *a)
{
    small_job j = {cpu_of(b)->k, a};
    workers_for(cpu_of(b)->pool, a->T, ROWS_A_THREAD, embed_rows, &j);
    return ERR_OK;
}

static void norm_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const small_job *j = ctx;
    const rmsnorm_args *a = j->a;
    for (int64_t t = begin; t < end; t++)
        j->k->rmsnorm(cpu_f32(a->x) + t * a->E, cpu_f32(a->w), a->eps, a->E,
                      cpu_f32(a->y) + t * a->E);
}

status cpu_rmsnorm(backend *b, const rmsnorm_args *a)
{
    small_job j = {cpu_of(b)->k, a};
    workers_for(cpu_of(b)->pool, a->T, 4 * ROWS_A_THREAD, norm_rows, &j);
    return ERR_OK;
}

status cpu_gather_rows(backend *b, const gather_rows_args *a)
{
    (void)b;
    for (int64_t m = 0; m < a->M; m++)
        memcpy(cpu_f32(a->y) + m * a->E, cpu_f32(a->x) + (int64_t)cpu_i32(a->index)[m] * a->E,
               (size_t)a->E * sizeof(float));
    return ERR_OK;
}

status cpu_tap_store(backend *b, const tap_store_args *a)
{
    (void)b;
    for (int64_t t = 0; t < a->T; t++)
        memcpy(cpu_f32(a->taps) + t * a->n_cols + a->col, cpu_f32(a->h) + t * a->E,
               (size_t)a->E * sizeof(float));
    return ERR_OK;
}

/* ---- rotation table ----------------------------------------------------------------------- */

/* Interleaved MRoPE: which of the axes t, h, w turns pair j. */
static int rope_axis(const int section[3], int j)
{
    if (j % 3 == 1 && j < 3 * section[1]) return 1;
    if (j % 3 == 2 && j < 3 * section[2]) return 2;
    return 0;
}

static void rope_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const rope_table_args *a = ((const small_job *)ctx)->a;
    for (int j = 0; j < a->n_pairs; j++) {
        double freq = pow(a->theta, -(double)j / a->n_pairs);
        const int32_t *pos = cpu_i32(a->pos) + (int64_t)rope_axis(a->section, j) * a->T;
        for (int64_t t = begin; t < end; t++) {
            double angle = a->f32_angles ? (double)((float)pos[t] * (float)freq)
                                         : (double)pos[t] * freq;
            float *cs = cpu_f32(a->cs) + (t * a->n_pairs + j) * 2;
            cs[0] = (float)cos(angle);
            cs[1] = (float)sin(angle);
        }
    }
}

status cpu_rope_table(backend *b, const rope_table_args *a)
{
    small_job j = {cpu_of(b)->k, a};
    workers_for(cpu_of(b)->pool, a->T, ROWS_A_THREAD, rope_rows, &j);
    return ERR_OK;
}

status cpu_mark(backend *b, const mark_args *a)
{
    (void)b;
    *(uint64_t *)a->at.ptr = (uint64_t)clock_ns();
    return ERR_OK;
}
