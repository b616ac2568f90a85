/* moe_wide: the experts' linears of a prompt on Hopper, as blocks that stay on their processors.
 *
 * Serves 4-bit codes in groups of 64 or more, with K in whole stages; all else takes linear_run. A
 * row's bits are those of every other kernel of the experts: one chain over K for an output. */
#ifndef RIPTIDE_BACKEND_CUDA_MOE_WIDE_PRIV_H
#define RIPTIDE_BACKEND_CUDA_MOE_WIDE_PRIV_H

#include "backend/cuda/linear_tile_priv.h"

/* Rows of a tile at most. */
enum { MOE_WIDE_ROWS = 96 };

/* Rows sorted by expert, cut into tiles of at most MOE_WIDE_ROWS. */
typedef struct {
    const tile_rows *tiles;
    const int *n_tiles;
    uint32_t *next; /* tiles given out beyond the first of each block: zero at the launch */
} moe_wide_tiles;

/* Whether the three weights of experts, and rows of x at `x`, are what these kernels take. */
bool moe_wide_can(const cuda_backend *cb, const moe_ffn_args *a, const bf16 *x);
/* The shared expert's rows, as a guest of the same launches. */
typedef struct {
    int T;
    bf16 *act;      /* [T, F] */
    float *product; /* [T, E] */
} moe_wide_extra;
/* Whether its weights, of experts that moe_wide_can take, can be. */
bool moe_wide_can_share(const moe_ffn_args *a);
/* act [sorted rows, F] = silu(x gate^T) (x up^T), sorted row i from row x_row[i] of x; and
 * shared's act (NULL: none). */
status moe_wide_gate_up(cuda_backend *cb, const moe_ffn_args *a, const moe_wide_tiles *t,
                        const bf16 *x, const int *x_row, bf16 *act, const moe_wide_extra *shared);
/* product f32 [uses, E] = act down^T, sorted row i to row use[i]; and shared's. */
status moe_wide_down(cuda_backend *cb, const moe_ffn_args *a, const moe_wide_tiles *t,
                     const bf16 *act, const int *use, float *product, const moe_wide_extra *shared);
/* Shared memory of the kernels; once, at open. */
status moe_wide_open(cuda_backend *cb);

#endif
