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

/* Tiles of m_tiles m16 over all lanes: every lane may leave its last one partly empty. */
static int64_t count_tiles(int64_t pairs, int64_t lane_pairs, int L, int m_tiles)
{
    int64_t rows = m_tiles * 16;
    int64_t full = pairs / rows + L, a_lane = (lane_pairs + rows - 1) / rows * L;
    return full < a_lane ? full : a_lane;
}

attn_plan attn_pick(int T, int L, int max_rows, int64_t max_len, int G, int R, int D, bool has_wide,
                    int64_t scratch_bytes)
{
    attn_plan p = {0};
    int64_t lane_pairs = (int64_t)max_rows * R, pairs = (int64_t)T * R;
    p.n_segments = max_len > 0 ? attn_segment_of((int)(max_len - 1)) + 1 : 1;
    bool fits = p.n_segments <= ATTN_SPLIT_MAX &&
                attn_split_bytes(pairs * G, p.n_segments, D) <= scratch_bytes;
    bool is_full = lane_pairs >= ATTN_TILE_ROWS && pairs / ATTN_TILE_ROWS * G >= FULL_BLOCKS;
    p.is_folded = !fits || is_full;
    p.m_tiles = lane_pairs > 48 ? 4 : (int)((lane_pairs + 15) / 16);
    if (p.m_tiles < 1) p.m_tiles = 1;
    if (p.is_folded) {
        p.m_tiles = count_tiles(pairs, lane_pairs, L, 4) * G > FULL_BLOCKS / 2 ? 4 : 2;
        /* A wide block is more than twice as fast as two of 64 pairs; half of the processors do. */
        if (has_wide && lane_pairs >= 2 * ATTN_TILE_ROWS &&
            count_tiles(pairs, lane_pairs, L, 8) * G > FULL_BLOCKS / 2)
            p.m_tiles = 8;
    } else if (count_tiles(pairs, lane_pairs, L, p.m_tiles) * G * p.n_segments < WIDE_BLOCKS) {
        p.m_tiles = 1;
    }
    p.n_tiles = (int)count_tiles(pairs, lane_pairs, L, p.m_tiles);
    return p;
}
