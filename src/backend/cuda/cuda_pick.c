#include "backend/cuda/cuda_pick_priv.h"

static int64_t round_up_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

pick_split cuda_pick_split(int64_t N, int64_t K)
{
    int64_t n_bricks = round_up_div(K, PICK_BRICK_K);
    int64_t groups = round_up_div(N, PICK_GROUP_N);
    int64_t slices = round_up_div(PICK_BLOCKS_WANTED, groups);
    if (slices > n_bricks / PICK_SLICE_BRICKS) slices = n_bricks / PICK_SLICE_BRICKS;
    if (slices > PICK_SLICES_MAX) slices = PICK_SLICES_MAX;
    if (slices < 1) slices = 1;
    int64_t each = round_up_div(n_bricks, slices);
    if (each < 1) each = 1;
    pick_split p = {(int)n_bricks, (int)round_up_div(n_bricks, each), (int)each};
    if (p.slices < 1) p.slices = 1;
    return p;
}

int cuda_pick_columns(int64_t T)
{
    for (int columns = 8; columns < 128; columns *= 2) {
        if (T <= columns) return columns;
    }
    return 128;
}

int cuda_pick_split_tiles_max(int columns)
{
    return columns > 64 ? PICK_BLOCKS_WANTED / 2 : PICK_BLOCKS_WANTED;
}

bool cuda_pick_is_split(int64_t n_tiles, int slices, int columns)
{
    return slices > 1 && n_tiles <= cuda_pick_split_tiles_max(columns);
}

int cuda_pick_norm_threads(int64_t E)
{
    return E <= 1024 ? 128 : E <= 4096 ? 256 : 512;
}

int cuda_pick_topk_chunks(int64_t V)
{
    return (int)round_up_div(V, PICK_TOPK_CHUNK);
}
