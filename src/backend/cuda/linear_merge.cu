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

cudaError_t linear_merge_launch(const tile_launch *l, const tile_args *a)
{
    int groups = 0, row_tiles = 0;
    for (int i = 0; i < a->n_parts; i++) {
        groups += a->part[i].n_groups;
        if (a->part[i].row_tiles > row_tiles) row_tiles = a->part[i].row_tiles;
    }
    dim3 grid(row_tiles * (l->tile.columns / MERGE_COLUMNS), groups);
    auto kernel = l->tile.columns == 32   ? linear_merge_kernel<32>
                  : l->tile.columns == 64 ? linear_merge_kernel<64>
                                          : linear_merge_kernel<128>;
    return launch_early(l->is_early, kernel, grid, MERGE_THREADS, 0, l->stream, *a);
}
