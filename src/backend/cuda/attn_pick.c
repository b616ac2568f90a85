#include "backend/cuda/attn_pick_priv.h"

/* Blocks that fill a large GPU's processors: a folded run of so many gains nothing from a split. */
enum { FULL_BLOCKS = 132 };
/* Fewer blocks of wide tiles than this leave processors idle; narrow tiles make up to four times as
 * many, at the price of reading K and V as often (measured by bench/workshop's attention-sweep). */
enum { WIDE_BLOCKS = 280 };

int64_t attn_split_bytes(int64_t n_row_heads, int n_segments, int D)
{
    return n_row_heads * n_segments * ((int64_t)D * 4 + 8);
}

/* Tiles of `rows` pairs over all lanes: every lane may leave its last one partly empty. */
static int64_t count_tiles(int64_t pairs, int64_t lane_pairs, int L, int64_t rows)
{
    int64_t full = pairs / rows + L, a_lane = (lane_pairs + rows - 1) / rows * L;
    return full < a_lane ? full : a_lane;
}

/* So many blocks of 16 and of 32 pairs at most are faster than fewer of more pairs, though they
 * read K and V several times: they are all there at once, each with shorter tiles (measured). */
enum { FEW_BLOCKS_16 = 200, FEW_BLOCKS_32 = 300 };

/* Pairs of a block of attn_few.cuh: the fewest that hold a lane, or the least part of one of up to
 * 64; less while that makes few blocks. A tile makes `blocks` of them. */
static int pick_few(int64_t pairs, int64_t lane_pairs, int L, int64_t blocks)
{
    static const int sizes[] = {8, 16, 32, 48, 64};
    int64_t n_tiles = (lane_pairs + 63) / 64;
    int i = 0;
    while (i < 4 && sizes[i] * n_tiles < lane_pairs) i++;
    if (i > 1 && count_tiles(pairs, lane_pairs, L, 16) * blocks <= FEW_BLOCKS_16) return 16;
    if (i > 2 && count_tiles(pairs, lane_pairs, L, 32) * blocks <= FEW_BLOCKS_32) return 32;
    return sizes[i];
}

/* Tiles of ATTN_TILE_ROWS pairs, R a row, that are 32 or 64 whole rows or more of them, and whose
 * partial results have room: 0 when not even the fewest do. */
static int64_t tiles_that_fit(int G, int R, int n_segments, int D, int64_t scratch_bytes)
{
    int64_t step = R % 2 ? R : R / 2;
    return scratch_bytes / attn_split_bytes(step * ATTN_TILE_ROWS * G, n_segments, D) * step;
}

attn_plan attn_pick(int T, int L, int max_rows, int64_t max_len, int G, int R, int D, bool has_wide,
                    int64_t scratch_bytes)
{
    attn_plan p = {0};
    int64_t lane_pairs = (int64_t)max_rows * R, pairs = (int64_t)T * R;
    p.n_segments = max_len > 0 ? attn_segment_of((int)(max_len - 1)) + 1 : 1;
    bool can_split = p.n_segments <= ATTN_SPLIT_MAX;
    bool fits = can_split && attn_split_bytes(pairs * G, p.n_segments, D) <= scratch_bytes;
    bool is_full = lane_pairs >= ATTN_TILE_ROWS && pairs / ATTN_TILE_ROWS * G >= FULL_BLOCKS;
    /* Folded, so few rows leave most processors idle: a few launches that do not are faster. Rows
     * are those of the lane and no others: whose sums are where is known here. */
    if (can_split && has_wide && L == 1 && T == max_rows && !fits && !is_full)
        p.part_tiles = (int)tiles_that_fit(G, R, p.n_segments, D, scratch_bytes);
    p.is_folded = is_full || (!fits && p.part_tiles == 0);
    p.m_tiles = lane_pairs > 48 ? 4 : (int)((lane_pairs + 15) / 16);
    if (p.m_tiles < 1) p.m_tiles = 1;
    if (p.is_folded) {
        p.m_tiles = count_tiles(pairs, lane_pairs, L, 64) * G > FULL_BLOCKS / 2 ? 4 : 2;
        /* A wide block is more than twice as fast as two of 64 pairs; half of the processors do. */
        if (has_wide && lane_pairs >= 2 * ATTN_TILE_ROWS &&
            count_tiles(pairs, lane_pairs, L, 128) * G > FULL_BLOCKS / 2)
            p.m_tiles = 8;
    } else if (count_tiles(pairs, lane_pairs, L, 16 * p.m_tiles) * G * p.n_segments < WIDE_BLOCKS) {
        p.m_tiles = 1;
    }
    if (!p.is_folded && has_wide) {
        p.few_pairs = p.part_tiles ? ATTN_TILE_ROWS
                                   : pick_few(pairs, lane_pairs, L, (int64_t)G * p.n_segments);
    }
    p.n_tiles = (int)count_tiles(pairs, lane_pairs, L, p.few_pairs ? p.few_pairs : 16 * p.m_tiles);
    if (!p.part_tiles) p.part_tiles = p.n_tiles;
    return p;
}
