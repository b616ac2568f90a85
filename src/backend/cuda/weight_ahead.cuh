/* weight_ahead: the device's part, called by every thread of a launch once. */
#ifndef RIPTIDE_BACKEND_CUDA_WEIGHT_AHEAD_CUH
#define RIPTIDE_BACKEND_CUDA_WEIGHT_AHEAD_CUH

#include "backend/cuda/weight_ahead_priv.h"

/* Start fetching this thread's share of the runs; nothing waits for them. */
__device__ static inline void ahead_fetch(const ahead_spans &s)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    for (int i = 0; i < s.n; i++) {
        const ahead_span &p = s.span[i];
        if (p.bytes == 0) continue;
        int n = p.n_rows * p.n_slices;
        for (int j = threadIdx.x * gridDim.x + blockIdx.x; j < n; j += gridDim.x * blockDim.x) {
            const char *at = static_cast<const char *>(p.from) + j / p.n_slices * p.row_bytes +
                             int64_t(j % p.n_slices) * p.slice_bytes;
            asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"(p.bytes)
                         : "memory");
        }
    }
#else
    (void)s;
#endif
}

#endif
