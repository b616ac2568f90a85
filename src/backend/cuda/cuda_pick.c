#include "backend/cuda/cuda_pick_priv.h"

static int64_t round_up_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

pick_split cuda_pick_split(int64_t N, int64_t K, bool is_experts)
{
    int64_t n_bricks = round_up_div(K, PICK_BRICK_K);
    int64_t slices = PICK_SLICES_MAX;
    if (N >= PICK_MANY_N) {
        slices = 1;
    } else if (N <= PICK_FEW_N) {
        slices = n_bricks <= PICK_SHORT_BRICKS ? 4 : 2;
    } else if (N >= K) {
        slices = 2;
    }
    if (slices > n_bricks / PICK_SLICE_BRICKS) slices = n_bricks / PICK_SLICE_BRICKS;
    if (slices < 1 || is_experts) slices = 1;
    int64_t each = round_up_div(round_up_div(n_bricks, slices), PICK_SLICE_BRICKS) *
                   PICK_SLICE_BRICKS;
    return (pick_split){(int)n_bricks, (int)round_up_div(n_bricks, each), (int)each};
}

static pick_tile pick_stream(int64_t T)
{
    return (pick_tile){PICK_STREAM, T <= 8 ? 8 : T <= 16 ? 16 : 32, PICK_GROUP_N / 2};
}

static pick_tile pick_many(int sm, int bits, int64_t T)
{
    /* Wide sums of 128 columns leave room in shared memory for bricks of up to 6 bits. */
    int most = sm == 90 && bits > 6 ? 64 : 128;
    int columns = T <= 32 ? 32 : T <= 64 ? 64 : most;
    if (sm == 90) return (pick_tile){PICK_WIDE, columns, 2 * PICK_GROUP_N};
    return (pick_tile){PICK_TILE, columns, PICK_GROUP_N};
}

pick_tile cuda_pick_tile(int sm, int bits, int64_t T)
{
    if (sm == 90 && bits == PICK_MIDDLE_BITS && T > 16 && T <= PICK_MIDDLE_ROWS)
        return (pick_tile){PICK_MIDDLE, T <= 32 ? 32 : 64, PICK_MIDDLE_OUTPUTS};
    return T <= 32 ? pick_stream(T) : pick_many(sm, bits, T);
}

pick_tile cuda_pick_experts_tile(int sm, int bits, int64_t T)
{
    if (T <= 16) return pick_stream(T);
    pick_tile tile = pick_many(sm, bits, T);
    /* Rows are dealt out unevenly: a third more than the mean makes one tile of most experts. For
     * the width that experts have; other widths would be kernels that hardly anyone runs. */
    if (tile.kernel == PICK_WIDE && bits == 4 && T > 40 && T <= 72) tile.columns = 96;
    return tile;
}

/* What T rows take: rounds of blocks times the rows of each. */
static int64_t rounds_rows(int64_t T, int64_t n_groups, int n_sms, int columns)
{
    return round_up_div(n_groups * round_up_div(T, columns), n_sms) * columns;
}

pick_tile cuda_pick_rounds(pick_tile tile, int bits, int64_t T, int64_t n_groups, int n_sms)
{
    /* The width that prompts have; fewer tiles than that may be split over K instead. */
    if (tile.kernel != PICK_WIDE || tile.columns != 128 || bits != 4) return tile;
    pick_tile narrow = {tile.kernel, PICK_ROUNDS_COLUMNS, tile.outputs};
    int64_t n_tiles = n_groups * round_up_div(T, narrow.columns);
    if (n_tiles <= cuda_pick_split_tiles_max(narrow)) return tile;
    int64_t wide_rows = rounds_rows(T, n_groups, n_sms, tile.columns);
    int64_t narrow_rows = rounds_rows(T, n_groups, n_sms, narrow.columns);
    /* Weights are widened once a tile of rows: narrower ones must save a tenth to be worth it. */
    return narrow_rows * 10 <= wide_rows * 9 ? narrow : tile;
}

static int64_t tile_count(const pick_part *part, int outputs)
{
    return round_up_div(part->N, part->is_pair ? outputs / 2 : outputs) * part->row_tiles;
}

static int64_t block_count(const pick_part *parts, int n, int cluster, int outputs)
{
    int64_t blocks = 0;
    for (int i = 0; i < n; i++) {
        int64_t own = tile_count(&parts[i], outputs) * parts[i].slices;
        blocks += cluster ? round_up_div(own, cluster) * cluster : own;
    }
    return blocks;
}

static bool fits_deep(const pick_part *parts, int n, int outputs)
{
    for (int i = 0; i < n; i++) {
        if (parts[i].bricks > PICK_DEEP_BRICKS_MAX ||
            parts[i].bricks * (outputs / PICK_BRICK_N) > PICK_DEEP_ALL_BRICKS_MAX)
            return false;
    }
    return true;
}

pick_tile cuda_pick_deep(pick_tile tile, const pick_part *parts, int n, int rows, int cluster,
                         bool can_grow, int n_sms)
{
    if (rows > PICK_DEEP_ROWS) return tile;
    int outputs = tile.outputs;
    int64_t blocks = block_count(parts, n, cluster, outputs);
    if (can_grow && blocks > n_sms) {
        for (outputs = PICK_DEEP_OUTPUTS_MIN; outputs <= PICK_DEEP_OUTPUTS_MAX;
             outputs += 2 * PICK_BRICK_N) {
            blocks = block_count(parts, n, cluster, outputs);
            if (blocks <= n_sms) break;
        }
    }
    if (outputs > PICK_DEEP_OUTPUTS_MAX || !fits_deep(parts, n, outputs) ||
        blocks > PICK_DEEP_BLOCKS_MAX)
        return tile;
    return (pick_tile){PICK_DEEP, PICK_DEEP_COLUMNS, outputs};
}

pick_tile cuda_pick_middle(pick_tile tile, const pick_part *parts, int n, int n_sms)
{
    pick_tile narrow = {tile.kernel, tile.columns, PICK_MIDDLE_NARROW};
    if (2 * block_count(parts, n, 0, tile.outputs) <= n_sms) tile = narrow;
    bool has_slices = false;
    int64_t tiles = 0;
    for (int i = 0; i < n; i++) {
        tiles += tile_count(&parts[i], tile.outputs);
        has_slices |= parts[i].slices > 1;
    }
    if (has_slices && tiles > cuda_pick_split_tiles_max(tile))
        return (pick_tile){PICK_WIDE, tile.columns, 2 * PICK_GROUP_N};
    return tile;
}

int cuda_pick_split_tiles_max(pick_tile tile)
{
    int n = PICK_SLICE_FLOATS / (tile.columns * tile.outputs);
    return n < PICK_TILES_MAX ? n : PICK_TILES_MAX;
}

bool cuda_pick_is_split(int64_t n_tiles, int slices, pick_tile tile)
{
    return slices > 1 && n_tiles <= cuda_pick_split_tiles_max(tile);
}

int cuda_pick_norm_threads(int64_t E)
{
    return E <= 1024 ? 128 : E <= 4096 ? 256 : 512;
}

int cuda_pick_topk_chunks(int64_t V)
{
    return (int)round_up_div(V, PICK_TOPK_CHUNK);
}
