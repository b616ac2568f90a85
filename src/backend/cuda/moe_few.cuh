/* moe_few: routing, sort and the shared expert's gate of few rows as one launch (waiting.cuh). */
#ifndef RIPTIDE_BACKEND_CUDA_MOE_FEW_CUH
#define RIPTIDE_BACKEND_CUDA_MOE_FEW_CUH

#include "backend/cuda/moe_gate.cuh"
#include "backend/cuda/moe_sort.cuh"

/* Whether the routing should wait for its experts. */
bool moe_few_serves(const cuda_backend *cb, const moe_route_args *a);
/* Whether the routing that waits is of these experts' rows. */
bool moe_few_takes(const cuda_backend *cb, const moe_ffn_args *a);
/* That routing, the sort of its ids, and `gate` (NULL: no shared expert); none waits any more. */
status moe_few_run(cuda_backend *cb, const moe_sorted *to, const moe_gate *gate);
/* The gate alone, of any number of rows: the same bits. */
status moe_gate_run(cuda_backend *cb, const moe_gate *gate);

/* ids [n] of n / K rows, of X experts. counts: int [MOE_RUNS, X] of scratch. */
typedef struct {
    const int32_t *ids;
    int n, X, K;
    int *counts;
} moe_uses;
/* moe_sort.cu: any number of uses by expert, and `gate` (NULL: no shared expert). More than MOE_FEW
 * uses set the words behind n_tiles to zero. */
status moe_sort_run(cuda_backend *cb, const moe_uses *a, const moe_sorted *to,
                    const moe_gate *gate);

#endif
