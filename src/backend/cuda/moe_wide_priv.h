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
/* act [sorted rows, F] = silu(x gate^T) (x up^T), sorted row i from row x_row[i] of x. */
status moe_wide_gate_up(cuda_backend *cb, const moe_ffn_args *a, const moe_wide_tiles *t,
                        const bf16 *x, const int *x_row, bf16 *act);
/* product f32 [uses, E] = act down^T, sorted row i to row use[i]. */
status moe_wide_down(cuda_backend *cb, const moe_ffn_args *a, const moe_wide_tiles *t,
                     const bf16 *act, const int *use, float *product);
/* Shared memory of the kernels; once, at open. */
status moe_wide_open(cuda_backend *cb);

#endif
