/* linear_tile: y = x W^T for one tile of outputs, the kernels behind every linear and every expert.
 *
 * A tile is 128 or 256 outputs (or half of a gate and the same half of its up) by 8..128 rows of
 * x. The K order is pick_split's: `slices` chains of mma k16 steps, each from zero in ascending K,
 * added in order. One block runs either one slice of a tile (split: the partial sums go through
 * memory and the block that arrives last adds them in order) or all of them; the bits are the same.
 */
#ifndef RIPTIDE_BACKEND_LINEAR_TILE_PRIV_H
#define RIPTIDE_BACKEND_LINEAR_TILE_PRIV_H

#include <cuda.h> /* CUtensorMap; the library itself is not linked */

#include "backend/cuda/cuda_pick_priv.h"
#include "backend/cuda/cuda_priv.h"

/* Beyond linear_out: y act = silu(gate) * up, of a pair. */
enum { TILE_OUT_SWIGLU = LINEAR_ADD + 1 };

/* Rows begin .. begin+count-1 of the sorted rows, all of one expert. */
typedef struct {
    int expert, begin, count;
} tile_rows;

/* One weight, or a pair (gate, up) whose formats and shapes are equal. */
typedef struct {
    const uint8_t *bricks[2]; /* dequant.cuh; [1] is NULL unless a pair */
    void *y;                  /* rows of N values of the type that `out` says */
    int64_t N;
    int64_t expert_bytes; /* from one expert to the next */
    int out;              /* linear_out or TILE_OUT_SWIGLU */
    int n_groups;         /* tiles along N */
    int block_begin;      /* first block of this part */
    int slices, slice_bricks;
    int is_split;
    int counter_begin;     /* first of its n_groups x row tiles counters */
    int64_t partial_begin; /* first float of its partial sums */
} tile_part;

typedef struct {
    const bf16 *x; /* rows of K values, `ldx` apart */
    int64_t ldx, K;
    int T;
    int n_bricks, brick_bytes;
    int has_two_groups; /* scales for each 32 of K */
    int is_x_odd;       /* rows of x are not whole, aligned 16-byte pieces */
    int n_parts;
    tile_part part[OPS_PARTS_MAX];
    float *partial;
    uint32_t *counters;
    /* Experts: the grid counts tiles of `tiles` (those from *n_tiles on are idle). Sorted row i
     * reads row x_row[i] of x (not with PICK_WIDE) and writes row y_row[i] of y (NULL: i itself).
     * Otherwise all NULL
     * and the grid counts tiles along T. */
    const tile_rows *tiles;
    const int *n_tiles, *x_row, *y_row;
} tile_args;

/* Launch for weights of BITS (16 = bf16). has_slices: a block runs several slices. map: of x, for
 * PICK_WIDE alone. */
template <int BITS>
cudaError_t linear_tile_launch(pick_tile tile, bool has_slices, dim3 grid, const tile_args *a,
                               const CUtensorMap *map, cudaStream_t stream);
/* Let the kernels that cuda_pick_tile can choose have their shared memory; once a device. */
template <int BITS> cudaError_t linear_tile_open(int sm);

extern template cudaError_t linear_tile_launch<2>(pick_tile, bool, dim3, const tile_args *,
                                                  const CUtensorMap *, cudaStream_t);
extern template cudaError_t linear_tile_open<2>(int);
extern template cudaError_t linear_tile_launch<3>(pick_tile, bool, dim3, const tile_args *,
                                                  const CUtensorMap *, cudaStream_t);
extern template cudaError_t linear_tile_open<3>(int);
extern template cudaError_t linear_tile_launch<4>(pick_tile, bool, dim3, const tile_args *,
                                                  const CUtensorMap *, cudaStream_t);
extern template cudaError_t linear_tile_open<4>(int);
extern template cudaError_t linear_tile_launch<5>(pick_tile, bool, dim3, const tile_args *,
                                                  const CUtensorMap *, cudaStream_t);
extern template cudaError_t linear_tile_open<5>(int);
extern template cudaError_t linear_tile_launch<6>(pick_tile, bool, dim3, const tile_args *,
                                                  const CUtensorMap *, cudaStream_t);
extern template cudaError_t linear_tile_open<6>(int);
extern template cudaError_t linear_tile_launch<8>(pick_tile, bool, dim3, const tile_args *,
                                                  const CUtensorMap *, cudaStream_t);
extern template cudaError_t linear_tile_open<8>(int);
extern template cudaError_t linear_tile_launch<16>(pick_tile, bool, dim3, const tile_args *,
                                                   const CUtensorMap *, cudaStream_t);
extern template cudaError_t linear_tile_open<16>(int);

/* ---- linear.cu: from weights to launches ------------------------------------------------ */

/* Bits of a weight's kernel: 2..8, or 16 for bf16. */
int linear_weight_bits(const dev_weight *w);
/* Whether gate and up can share a tile. */
bool linear_is_pair(const dev_weight *gate, const dev_weight *up);

/* Rows, sorted by expert on the device, of a grouped launch. */
typedef struct {
    const tile_rows *tiles;
    const int *n_tiles, *x_row, *y_row;
    int n_tiles_max; /* what *n_tiles cannot pass */
    pick_tile tile;  /* that the rows were cut for; all weights of a pass share it */
} tile_experts;

typedef struct {
    const dev_weight *w, *up; /* up: the second of a pair, else NULL */
    void *y;
    int out;
} linear_piece;

/* y_i = x W_i^T for pieces over the same T rows of x; formats may differ. experts NULL: plain.
 * partial: linear_partial_bytes(T) bytes. */
status linear_run(cuda_backend *cb, const bf16 *x, int T, const linear_piece *pieces, int n,
                  const tile_experts *experts, float *partial);
int64_t linear_partial_bytes(int64_t T);

/* y act [T, F] = silu(x gate^T) * (x up^T); linear_swiglu_bytes(T, F) of scratch from byte
 * `scratch` on. The same bits whether gate and up share tiles or not. */
status linear_swiglu_run(cuda_backend *cb, const bf16 *x, int T, const dev_weight *gate,
                         const dev_weight *up, bf16 *y, int64_t scratch);
int64_t linear_swiglu_bytes(int64_t T, int64_t F);

/* y = silu(gate) * up, n values. */
status linear_silu_mul(cuda_backend *cb, const float *gate, const float *up, bf16 *y, int64_t n);

#endif
