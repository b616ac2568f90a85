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
    PICK_BRICK_N = 16,  /* weight rows of a brick: the M of mma m16n8k16 */
    PICK_BRICK_K = 64,  /* weight columns of a brick: four k16 steps */
    PICK_GROUP_N = 128, /* weight rows of the largest tile that splits by arrival */
    PICK_SLICES_MAX = 8,
    PICK_SLICE_BRICKS = 8, /* fewer K than this in a slice costs more than it hides */
    /* A launch of few rows has room for 660 blocks at a time (5 on each of 132 processors): one
     * more and a second round begins. From PICK_MANY_N outputs on there are enough without a
     * split. Inputs that widen share a launch with others, and so do the small ones, up to
     * PICK_FEW_N: 2 slices, or 4 for small ones up to PICK_SHORT_BRICKS of K, make 450 to 520
     * blocks at the 27B's shapes. Others stand alone and get all the slices there are. */
    PICK_MANY_N = 16384,
    PICK_FEW_N = 1024,
    PICK_SHORT_BRICKS = 32,
    PICK_TILES_MAX = 576,               /* tiles beyond which a split cannot help any more */
    PICK_SLICE_FLOATS = 288 * 128 * 64, /* room for one slice's sums of a split launch */
};

/* The fixed K order of a weight [X, N, K]: `slices` chains of `slice_bricks` bricks each (a
 * multiple of PICK_SLICE_BRICKS, the last may be shorter, none is empty), each summed from zero in
 * ascending K, then added in order. Experts have one slice: many are at work at a time. */
typedef struct {
    int n_bricks; /* K in bricks, rounded up */
    int slices, slice_bricks;
} pick_split;
pick_split cuda_pick_split(int64_t N, int64_t K, bool is_experts);

/* The kernels of a linear. All run the same chain for an output. */
typedef enum {
    PICK_STREAM, /* few rows: weights go straight to registers */
    PICK_DEEP,   /* one row, short slices: weights through shared memory; sm_90 alone */
    PICK_TILE,   /* mma.sync over tiles in shared memory: any GPU from sm_80 on */
    PICK_WIDE,   /* wgmma: sm_90 alone */
    PICK_MIDDLE, /* wgmma, 17 to 64 rows of 4-bit weights: sm_90 alone */
} pick_kernel;

/* What a block computes: `outputs` weight rows by `columns` rows of x. */
typedef struct {
    pick_kernel kernel;
    int columns, outputs;
} pick_tile;

/* For weights of `bits` (16: bf16) and a call of T rows. */
pick_tile cuda_pick_tile(int sm, int bits, int64_t T);
/* For experts with T rows each on average: many tiles have fewer rows, or more. */
pick_tile cuda_pick_experts_tile(int sm, int bits, int64_t T);

/* `tile` of a launch of T rows and n_groups tiles of outputs on n_sms processors, or narrower tiles
 * of rows where those leave fewer processors idle in the last round of blocks. */
enum { PICK_ROUNDS_COLUMNS = 112 };
pick_tile cuda_pick_rounds(pick_tile tile, int bits, int64_t T, int64_t n_groups, int n_sms);

/* One row by blocks with a warp for every 16 of a tile's outputs and all of a slice's x and weights
 * in shared memory (PICK_DEEP). For the width that models have. */
enum {
    PICK_DEEP_BITS = 4,
    PICK_DEEP_ROWS = 1, /* of more, the kernels beside it want the shared memory more */
    PICK_DEEP_COLUMNS = 8,
    PICK_DEEP_OUTPUTS_MIN = 96, /* beyond PICK_STREAM's 64 */
    PICK_DEEP_OUTPUTS_MAX = 288,
    PICK_DEEP_BRICKS_MAX = 32,      /* of a slice */
    PICK_DEEP_ALL_BRICKS_MAX = 224, /* of all warps: with x and sums less than 190 KB */
    PICK_DEEP_BLOCKS_MAX = 288,     /* those of 8 experts' and a shared one's `down` in the 35B */
};
/* A weight of a launch, or a gate and its up. */
typedef struct {
    int64_t N;
    bool is_pair;
    int slices;    /* that blocks share */
    int bricks;    /* that a block multiplies */
    int row_tiles; /* of experts more than one */
} pick_part;
/* The tile of PICK_DEEP for a launch of `rows` rows, or `tile`, PICK_STREAM's for up to 8.
 * can_grow: it may have more outputs, the fewest with which all parts' blocks, in clusters of
 * `cluster` (0: none), are one a processor. */
pick_tile cuda_pick_deep(pick_tile tile, const pick_part *parts, int n, int rows, int cluster,
                         bool can_grow, int n_sms);

/* PICK_MIDDLE: tiles of PICK_MIDDLE_OUTPUTS, with which the 27B's launches are one round of an
 * H200's processors, or of PICK_MIDDLE_NARROW where those would leave half of them idle. */
enum {
    PICK_MIDDLE_BITS = 4,
    PICK_MIDDLE_ROWS = 64,
    PICK_MIDDLE_OUTPUTS = 320,
    PICK_MIDDLE_NARROW = 128,
};
/* `tile`, a PICK_MIDDLE, for a launch of these parts (slices: all that a weight has), or
 * PICK_WIDE's where a block would have to add slices itself. */
pick_tile cuda_pick_middle(pick_tile tile, const pick_part *parts, int n, int n_sms);

/* Whether one block per slice pays (partial sums pass through memory), or a block should run all
 * slices of its tile itself: n_tiles blocks without a split. */
bool cuda_pick_is_split(int64_t n_tiles, int slices, pick_tile tile);

/* Most tiles of a split launch: what partial sums need room for. */
int cuda_pick_split_tiles_max(pick_tile tile);

/* Threads of a norm's block for rows of E values. */
int cuda_pick_norm_threads(int64_t E);

/* Values of a row that one block of the first top-k pass covers, and the blocks a row. */
enum { PICK_TOPK_CHUNK = 4096 };
int cuda_pick_topk_chunks(int64_t V);

#ifdef __cplusplus
}
#endif
#endif
