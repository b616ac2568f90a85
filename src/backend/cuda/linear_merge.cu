/* linear_merge: the slices of a split wide launch added in order. */
#include "backend/cuda/linear_tile.cuh"

enum { MERGE_THREADS = 256, MERGE_COLUMNS = 8 }; /* threads as the wide kernel's computing warps */

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
    int row_tile = blockIdx.x / NT, n = blockIdx.x % NT;
    int part = 0, group = blockIdx.y;
    while (group >= a.part[part].n_groups) group -= a.part[part++].n_groups;
    const tile_part &p = a.part[part];
    tile_rows rows = {0, row_tile * COLUMNS, min(COLUMNS, p.T - row_tile * COLUMNS)};
    if (!p.is_split || n * MERGE_COLUMNS >= rows.count) return;
    const float *at = tile_partial<MERGE_THREADS, 2 * NT>(a, p, group + p.n_groups * row_tile);
    float sum[2][1][4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float(&four)[4] = sum[i][0];
        tile_gather<MERGE_THREADS, 2 * NT, 1>(four, at, i * NT + n, p.slices);
    }
    int warp = threadIdx.x >> 5;
    tile_store_two<1>(sum, p, tile_block<BLOCKS>(p, group, warp),
                      tile_block<BLOCKS>(p, group, 8 + warp), n * MERGE_COLUMNS, rows);
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
    int row_tile = blockIdx.x / NT, n = blockIdx.x % NT;
    int part = 0, group = blockIdx.y;
    while (group >= a.part[part].n_groups) group -= a.part[part++].n_groups;
    const tile_part &p = a.part[part];
    tile_rows rows = {0, row_tile * COLUMNS, min(COLUMNS, p.T - row_tile * COLUMNS)};
    if (!p.is_split || n * MERGE_COLUMNS >= rows.count) return;
    const float *at = tile_partial<THREADS, NT>(a, p, group + p.n_groups * row_tile);
    int warp = threadIdx.x >> 5;
    float sum[1][4];
    if (!p.bricks[1]) {
        tile_gather<THREADS, NT, 1>(sum[0], at, n, p.slices);
        tile_store<1>(sum, nullptr, p, int64_t(group) * BLOCKS + warp, n * MERGE_COLUMNS, rows);
    } else if (warp < BLOCKS / 2) {
        float up[1][4];
        tile_gather<THREADS, NT, 1>(sum[0], at, n, p.slices);
        tile_gather<THREADS, NT, 1>(up[0], at + THREADS / 2 * 4, n, p.slices);
        tile_store<1>(sum, up, p, int64_t(group) * (BLOCKS / 2) + warp, n * MERGE_COLUMNS, rows);
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
