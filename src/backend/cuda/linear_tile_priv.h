/* linear_tile: y = x W^T for one tile of outputs, the kernels behind every linear and every expert.
 *
 * A tile is 64 to 320 outputs (or half of a gate and the same half of its up) by 8..128 rows of
 * x. The K order is pick_split's: `slices` chains of mma k16 steps, each from zero in ascending K,
 * added in order. One block runs either one slice of a tile (split: the partial sums go through
 * memory and the block that arrives last, or a second launch, adds them in order) or all of them;
 * the bits are the same. */
#ifndef RIPTIDE_BACKEND_LINEAR_TILE_PRIV_H
#define RIPTIDE_BACKEND_LINEAR_TILE_PRIV_H

#include <cuda.h> /* CUtensorMap; the library itself is not linked */

#include "backend/cuda/cuda_pick_priv.h"
#include "backend/cuda/cuda_priv.h"
#include "backend/cuda/weight_ahead_priv.h"

/* Slices that can meet in a cluster, and the rows of x up to which there is room for their sums. */
enum { LINEAR_CLUSTER_MAX = 4, LINEAR_CLUSTER_COLUMNS = 16 };

/* Beyond linear_out. */
enum {
    TILE_OUT_SWIGLU = LINEAR_ADD + 1, /* y act = silu(gate) * up, of a pair */
    TILE_OUT_SLICES,                  /* y f32 [slices, T, N]: each slice's sums, not times 2^k */
};

/* Rows begin .. begin+count-1 of the sorted rows, all of one expert. */
typedef struct {
    int expert, begin, count;
} tile_rows;

/* One weight, or a pair (gate, up) whose formats and shapes are equal, and the rows it is for. */
typedef struct {
    const uint8_t *bricks[2]; /* dequant.cuh; [1] is NULL unless a pair */
    float times[2];           /* 2^k of each (dequant.cuh) */
    int64_t N, K;
    int64_t expert_bytes; /* from one expert to the next */
    int n_bricks;         /* along K */
    int n_groups;         /* tiles along N */
    int slices, slice_bricks, is_split;

    const bf16 *x; /* rows of K values */
    int is_x_odd;  /* they are not whole, aligned 16-byte pieces */
    int T;
    int row_tiles; /* tiles of rows */
    void *y;       /* rows of N values of the type that `out` says */
    int out;       /* linear_out or TILE_OUT_SWIGLU */
    /* Floats of y from one slice's sums to the next: they are left there, one below the other, for
     * the op behind (waiting.cuh). 0: slices are added here. */
    int64_t slice_step;
    /* Experts: the tiles of rows are `tiles` (those from *n_tiles on are idle). Sorted row i reads
     * row x_row[i] of x (not with PICK_WIDE; PICK_MIDDLE has no experts) and writes row y_row[i] of
     * y (NULL: i itself). Otherwise all NULL and rows are cut as they come. */
    const tile_rows *tiles;
    const int *n_tiles, *x_row, *y_row;

    int block_begin;       /* first block of this part */
    int counter_begin;     /* first of its n_groups x row_tiles counters */
    int64_t partial_begin; /* first float of its partial sums */
} tile_part;

typedef struct {
    int brick_bytes;
    int has_two_groups; /* scales for each 32 of K */
    int has_experts;    /* some part has `tiles` */
    int knows_tiles;    /* they were there before the launch in front of this one let it begin */
    int n_parts;
    tile_part part[OPS_PARTS_MAX];
    int cluster; /* blocks of a cluster, in which slices meet; 0: they meet in memory */
    float *partial;
    uint32_t *counters;
    ahead_spans ahead; /* of the launch that is likely to follow */
    int is_light;      /* this launch reads so little that `ahead` need not wait for its end */
} tile_args;

/* How a launch is to be made. */
typedef struct {
    pick_tile tile;
    bool has_slices, is_early; /* a block runs several slices; see launch_early.cuh */
    int bricks;                /* PICK_DEEP: the most that a block multiplies */
    dim3 grid;
    cudaStream_t stream;
} tile_launch;

/* Launch for weights of BITS (16 = bf16). map: of x, for PICK_WIDE and PICK_MIDDLE alone. */
template <int BITS>
cudaError_t linear_tile_launch(const tile_launch *l, const tile_args *a, const CUtensorMap *map);
/* Let the kernels that cuda_pick_tile can choose have their shared memory; once a device. */
template <int BITS> cudaError_t linear_tile_open(int sm);

extern template cudaError_t linear_tile_launch<2>(const tile_launch *, const tile_args *,
                                                  const CUtensorMap *);
extern template cudaError_t linear_tile_open<2>(int);
extern template cudaError_t linear_tile_launch<3>(const tile_launch *, const tile_args *,
                                                  const CUtensorMap *);
extern template cudaError_t linear_tile_open<3>(int);
extern template cudaError_t linear_tile_launch<4>(const tile_launch *, const tile_args *,
                                                  const CUtensorMap *);
extern template cudaError_t linear_tile_open<4>(int);
extern template cudaError_t linear_tile_launch<5>(const tile_launch *, const tile_args *,
                                                  const CUtensorMap *);
extern template cudaError_t linear_tile_open<5>(int);
extern template cudaError_t linear_tile_launch<6>(const tile_launch *, const tile_args *,
                                                  const CUtensorMap *);
extern template cudaError_t linear_tile_open<6>(int);
extern template cudaError_t linear_tile_launch<8>(const tile_launch *, const tile_args *,
                                                  const CUtensorMap *);
extern template cudaError_t linear_tile_open<8>(int);
extern template cudaError_t linear_tile_launch<16>(const tile_launch *, const tile_args *,
                                                   const CUtensorMap *);
extern template cudaError_t linear_tile_open<16>(int);

/* Add the slices of a split PICK_WIDE or PICK_MIDDLE launch and write its outputs; in
 * linear_merge.cu. */
cudaError_t linear_merge_launch(const tile_launch *l, const tile_args *a);

/* ---- linear.cu: from weights to launches ------------------------------------------------ */

/* Bits of a weight's kernel: 2..8, or 16 for bf16. */
int linear_weight_bits(const dev_weight *w);
/* Whether gate and up can share a tile. */
bool linear_is_pair(const dev_weight *gate, const dev_weight *up);

/* Rows sorted by expert on the device. */
typedef struct {
    const tile_rows *tiles;
    const int *n_tiles, *x_row, *y_row;
    int n_tiles_max; /* what *n_tiles cannot pass */
    bool is_known;   /* a launch of theirs was made before, and has waited for them */
} tile_experts;

typedef struct {
    const dev_weight *w, *up; /* up: the second of a pair, else NULL */
    const bf16 *x;
    int T;
    const tile_experts *experts; /* NULL: plain */
    void *y;
    int out;
} linear_piece;

/* y_i = x_i W_i^T, up to OPS_PARTS_MAX pieces, in as few launches as formats and kernels allow.
 * tile: how rows are cut (experts' tiles have tile->columns); NULL: as suits each piece.
 * partial: linear_partial_bytes(largest T) bytes. */
status linear_run(cuda_backend *cb, const linear_piece *pieces, int n, const pick_tile *tile,
                  float *partial);
int64_t linear_partial_bytes(int64_t T);
/* Whether a linear of w in a call of T rows may leave its slices' sums for who comes behind, and
 * such a call: f32 [slices of cuda_pick_split, T, N] at `sums`, not times 2^k. */
bool linear_can_leave(const cuda_backend *cb, const dev_weight *w, const bf16 *x, int T);
status linear_run_leaving(cuda_backend *cb, const dev_weight *w, const bf16 *x, int T, float *sums);

/* y act [T, F] = silu(x gate^T) * (x up^T); linear_swiglu_bytes(T, F) of scratch from byte
 * `scratch` on. The same bits whether gate and up share tiles or not. */
status linear_swiglu_run(cuda_backend *cb, const bf16 *x, int T, const dev_weight *gate,
                         const dev_weight *up, bf16 *y, int64_t scratch);
int64_t linear_swiglu_bytes(int64_t T, int64_t F);

/* y = silu(gate) * up, n values. */
status linear_silu_mul(cuda_backend *cb, const float *gate, const float *up, bf16 *y, int64_t n);

#endif
