#include "backend/cuda/attn_pick_priv.h"

/* Folded blocks that fill a large GPU's processors: beyond this a split gains nothing. */
enum { FULL_BLOCKS = 132 };

int64_t attn_split_bytes(int64_t n_row_heads, int n_segments, int D)
{
    return n_row_heads * n_segments * ((int64_t)D * 4 + 8);
}

attn_plan attn_pick(int T, int L, int max_rows, int64_t max_len, int G, int R, int D,
                    int64_t scratch_bytes)
{
    attn_plan p = {0};
    int64_t lane_pairs = (int64_t)max_rows * R, pairs = (int64_t)T * R;
    p.n_segments = max_len > 0 ? attn_segment_of((int)(max_len - 1)) + 1 : 1;
    bool fits = p.n_segments <= ATTN_SPLIT_MAX &&
                attn_split_bytes(pairs * G, p.n_segments, D) <= scratch_bytes;
    bool is_full = lane_pairs >= ATTN_TILE_ROWS && pairs / ATTN_TILE_ROWS * G >= FULL_BLOCKS;
    p.is_folded = !fits || is_full;
    p.m_tiles = p.is_folded || lane_pairs > 48 ? 4 : (int)((lane_pairs + 15) / 16);
    if (p.m_tiles < 1) p.m_tiles = 1;
    int rows = p.m_tiles * 16;
    /* Every lane may leave its last tile partly empty. */
    int64_t full = pairs / rows + L, a_lane = (lane_pairs + rows - 1) / rows * L;
    p.n_tiles = (int)(full < a_lane ? full : a_lane);
    return p;
}
