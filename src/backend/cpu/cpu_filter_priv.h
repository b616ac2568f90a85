/* cpu_filter: which of a whole vocabulary survive min_p, top_k and top_p, without a full sort. */
#ifndef RIPTIDE_BACKEND_CPU_FILTER_PRIV_H
#define RIPTIDE_BACKEND_CPU_FILTER_PRIV_H

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels_priv.h"

enum { FILTER_FEW = 64 };

typedef struct {
    void *mem; /* cpu_filter_bytes(V), the caller's */
    /* Either the survivors themselves, descending (n_few > 0) .. */
    float few_z[FILTER_FEW];
    int32_t few_ids[FILTER_FEW];
    int n_few;
    /* .. or all z[i] >= least. */
    float least;
} cpu_filter;

int64_t cpu_filter_bytes(int64_t V);

/* z [V], whose largest is max. Values that tie with the lowest survivor but did not survive
 * become -inf in z. */
void cpu_filter_run(cpu_filter *f, const cpu_kernels *k, const sample_policy *p, float *z,
                    int64_t V, float max);

#endif
