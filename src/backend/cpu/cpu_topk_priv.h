/* cpu_topk: the k best values seen so far, descending, ties to the one that came first. */
#ifndef RIPTIDE_BACKEND_CPU_TOPK_PRIV_H
#define RIPTIDE_BACKEND_CPU_TOPK_PRIV_H

#include "backend/cpu/cpu_priv.h"

typedef struct {
    int32_t *ids; /* [k], the caller's */
    float *vals;  /* [k] */
    int k, n;
} cpu_topk_list;

void cpu_topk_begin(cpu_topk_list *l, int k, int32_t *ids, float *vals);
void cpu_topk_push(cpu_topk_list *l, float value, int32_t id);
/* Push x[i] under id0 + i; runs without a candidate are skipped. */
void cpu_topk_scan(const cpu_kernels *k, cpu_topk_list *l, const float *x, int64_t n, int32_t id0);
/* Fill what is left with (-1, -inf). */
void cpu_topk_end(cpu_topk_list *l);

/* The k largest of x[n]; (-1, -inf) where there is none. */
void cpu_topk_row(const cpu_kernels *k, const float *x, int64_t n, int n_top, int32_t *ids,
                  float *vals);

#endif
