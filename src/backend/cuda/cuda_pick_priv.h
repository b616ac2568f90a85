/* cuda_pick: which kernel, tile and K split serve a shape. Pure C, tested without a GPU.
 *
 * What decides a result's bits (the K split) comes from the weight's shape alone; what does not
 * (tile width, who adds the slices) may follow the number of rows. No number here may come from
 * the device in use: the same weights give the same bits on every GPU of one instruction set. */
#ifndef RIPTIDE_BACKEND_CUDA_PICK_PRIV_H
#define RIPTIDE_BACKEND_CUDA_PICK_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PICK_BRICK_N = 16,     /* weight rows of a brick: the M of mma m16n8k16 */
    PICK_BRICK_K = 64,     /* weight columns of a brick: four k16 steps */
    PICK_GROUP_N = 128,    /* weight rows of a block's tile */
    PICK_SLICES_MAX = 8,
    PICK_SLICE_BRICKS = 8, /* fewer K than this in a slice costs more than it hides */
    PICK_BLOCKS_WANTED = 288, /* about two blocks for each of a large GPU's processors */
};

/* The fixed K order of a weight [N, K]: `slices` chains of `slice_bricks` bricks each (the last
 * may be shorter, none is empty), each summed from zero in ascending K, then added in order. */
typedef struct {
    int n_bricks; /* K in bricks, rounded up */
    int slices, slice_bricks;
} pick_split;
pick_split cuda_pick_split(int64_t N, int64_t K);

/* Rows of x in a block's tile for a call of T rows (or T rows an expert, on average): 8, 16, 32,
 * 64 or 128. Does not change any result's bits. */
int cuda_pick_columns(int64_t T);

/* Whether one block per slice pays (partial sums pass through memory), or a block should run all
 * slices of its tile itself: n_tiles blocks without a split. Does not change any result's bits. */
bool cuda_pick_is_split(int64_t n_tiles, int slices, int columns);

/* Most tiles of a split launch part with tiles of this width: what partial sums need room for. */
int cuda_pick_split_tiles_max(int columns);

/* Threads of a norm's block for rows of E values. */
int cuda_pick_norm_threads(int64_t E);

/* Values of a row that one block of the first top-k pass covers, and the blocks a row. */
enum { PICK_TOPK_CHUNK = 4096 };
int cuda_pick_topk_chunks(int64_t V);

#ifdef __cplusplus
}
#endif
#endif
