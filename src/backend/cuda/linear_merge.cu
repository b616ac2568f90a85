/* linear_merge: the slices of a split wide or middle launch added in order. */
#include "backend/cuda/linear_tile.cuh"

enum { MERGE_THREADS = 256, MERGE_COLUMNS = 8 }; /* threads as the wide kernel's computing warps */

/* What a block of the kernels below has: 8 columns, from 8 n on, of a tile. */
typedef struct {
    int part, group, tile, n;
    tile_rows rows;
} merge_job;

/* False where a part has no such tile, or no split. */
template <int COLUMNS>
__device__ static inline bool merge_job_init(merge_job &j, const tile_args &a)
{
    constexpr int NT = COLUMNS / MERGE_COLUMNS;
    int row_tile = blockIdx.x / NT;
    j.n = blockIdx.x % NT;
    j.part = 0, j.group = blockIdx.y;
    while (j.group >= a.part[j.part].n_groups) j.group -= a.part[j.part++].n_groups;
    const tile_part &p = a.part[j.part];
    j.tile = j.group + p.n_groups * row_tile;
    j.rows = {0, row_tile * COLUMNS, min(COLUMNS, p.T - row_tile * COLUMNS)};
    return p.is_split && j.n * MERGE_COLUMNS < j.rows.count;
}

/* linear_merge_kernel: 8 columns of a tile.
 *
 * Does     the end of linear_wide_kernel where slices were split over blocks
 * Grid     (most tiles of rows of a part x columns / 8, tiles along N of all parts); block 256
 * Moves    each partial sum once
 * Why      One block that added all slices of a tile of 32 rows or more would be the last thing
 *          that everyone waits for. */
template <int COLUMNS>
__global__ void __launch_bounds__(MERGE_THREADS)
    linear_merge_kernel(const __grid_constant__ tile_args a)
{
    constexpr int NT = COLUMNS / 8, BLOCKS = 16;
    launch_next();
    launch_wait();
    merge_job j;
    if (!merge_job_init<COLUMNS>(j, a)) return;
    const tile_part &p = a.part[j.part];
    const float *at = tile_partial<MERGE_THREADS, 2 * NT>(a, p, j.tile);
    float sum[2][1][4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float(&four)[4] = sum[i][0];
        tile_gather<MERGE_THREADS, 2 * NT, 1>(four, at, i * NT + j.n, p.slices);
    }
    int warp = threadIdx.x >> 5;
    tile_store_two<1>(sum, p, tile_block<BLOCKS>(p, j.group, warp),
                      tile_block<BLOCKS>(p, j.group, 8 + warp), j.n * MERGE_COLUMNS, j.rows);
}

/* linear_merge_middle_kernel: the same behind linear_middle_kernel, of OUTPUTS by COLUMNS.
 *
 * Grid     as linear_merge_kernel; block a warp for each 16 outputs, as the computing warps there
 */
template <int COLUMNS, int OUTPUTS>
__global__ void __launch_bounds__(OUTPUTS * 2)
    linear_merge_middle_kernel(const __grid_constant__ tile_args a)
{
    constexpr int NT = COLUMNS / 8, BLOCKS = OUTPUTS / PICK_BRICK_N, THREADS = BLOCKS * 32;
    launch_next();
    launch_wait();
    merge_job j;
    if (!merge_job_init<COLUMNS>(j, a)) return;
    const tile_part &p = a.part[j.part];
    const float *at = tile_partial<THREADS, NT>(a, p, j.tile);
    int warp = threadIdx.x >> 5;
    float sum[1][4];
    int64_t block = tile_block<BLOCKS>(p, j.group, warp);
    if (!p.bricks[1]) {
        tile_gather<THREADS, NT, 1>(sum[0], at, j.n, p.slices);
        tile_store<1>(sum, nullptr, p, block, j.n * MERGE_COLUMNS, j.rows);
    } else if (warp < BLOCKS / 2) {
        float up[1][4];
        tile_gather<THREADS, NT, 1>(sum[0], at, j.n, p.slices);
        tile_gather<THREADS, NT, 1>(up[0], at + THREADS / 2 * 4, j.n, p.slices);
        tile_store<1>(sum, up, p, block, j.n * MERGE_COLUMNS, j.rows);
    }
}

typedef void (*merge_kernel)(const tile_args);

static merge_kernel merge_wide(int columns)
{
    if (columns == 32) return linear_merge_kernel<32>;
    return columns == 64 ? linear_merge_kernel<64> : linear_merge_kernel<128>;
}
static merge_kernel merge_middle(pick_tile tile)
{
    if (tile.outputs == PICK_MIDDLE_NARROW) {
        return tile.columns == 32 ? linear_merge_middle_kernel<32, PICK_MIDDLE_NARROW>
                                  : linear_merge_middle_kernel<64, PICK_MIDDLE_NARROW>;
    }
    return tile.columns == 32 ? linear_merge_middle_kernel<32, PICK_MIDDLE_OUTPUTS>
                              : linear_merge_middle_kernel<64, PICK_MIDDLE_OUTPUTS>;
}

cudaError_t linear_merge_launch(const tile_launch *l, const tile_args *a)
{
    int groups = 0, row_tiles = 0;
    for (int i = 0; i < a->n_parts; i++) {
        groups += a->part[i].n_groups;
        if (a->part[i].row_tiles > row_tiles) row_tiles = a->part[i].row_tiles;
    }
    dim3 grid(row_tiles * (l->tile.columns / MERGE_COLUMNS), groups);
    bool is_middle = l->tile.kernel == PICK_MIDDLE;
    int threads = is_middle ? l->tile.outputs * 2 : static_cast<int>(MERGE_THREADS);
    merge_kernel kernel = is_middle ? merge_middle(l->tile) : merge_wide(l->tile.columns);
    return launch_early(l->is_early, kernel, grid, threads, 0, l->stream, *a);
}
