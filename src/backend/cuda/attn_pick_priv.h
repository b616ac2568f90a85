/* attn_pick: the fixed cut of positions into segments, and how a call of attn is run.
 *
 * Segments decide bits: their bounds are absolute and follow from the position alone. They grow
 * with the position, so that a short history still spreads over the chip and a long one does not
 * drown in partial sums. The plan decides none: split and folded runs merge the same segments
 * with the same formula in the same order.
 * Segment bounds are multiples of OPS_BLOCK. Pure C, tested without a GPU. */
#ifndef RIPTIDE_BACKEND_CUDA_ATTN_PICK_PRIV_H
#define RIPTIDE_BACKEND_CUDA_ATTN_PICK_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __CUDACC__
#define ATTN_FN static __host__ __device__ inline
#else
#define ATTN_FN static inline
#endif

/* First position of segment s: 16 of 128, 24 of 256, 48 of 512, then 1,024 positions each. */
ATTN_FN int attn_segment_begin(int s)
{
    if (s < 16) return s * 128;
    if (s < 40) return 2048 + (s - 16) * 256;
    if (s < 88) return 8192 + (s - 40) * 512;
    return 32768 + (s - 88) * 1024;
}

/* The segment that holds position pos. */
ATTN_FN int attn_segment_of(int pos)
{
    if (pos < 2048) return pos / 128;
    if (pos < 8192) return 16 + (pos - 2048) / 256;
    if (pos < 32768) return 40 + (pos - 8192) / 512;
    return 88 + (pos - 32768) / 1024;
}

/* Whether a segment begins at pos, a multiple of OPS_BLOCK. */
ATTN_FN bool attn_segment_is_begin(int pos)
{
    int size = pos < 2048 ? 128 : pos < 8192 ? 256 : pos < 32768 ? 512 : 1024;
    return (pos & (size - 1)) == 0;
}

enum {
    ATTN_TILE_ROWS = 64,  /* (row, head) pairs of a tile at most: four m16 tiles */
    ATTN_SPLIT_MAX = 320, /* segments that the merge of a split run has room for */
};

/* How to run a call.
 *   split   a block a segment; partial results pass through scratch, a second kernel merges
 *   folded  a block runs all segments of its tile and merges them in registers, or in shared
 *           memory where it is wide */
typedef struct {
    bool is_folded;
    int m_tiles;    /* m16 tiles of a block: 1 to 4, folded 2, 4, or 8: attn_wide.cuh */
    int few_pairs;  /* split: pairs of a block of attn_few.cuh, 8, 16, 32, 48 or 64; else 0 */
    int n_tiles;    /* upper bound of tiles over all lanes */
    int part_tiles; /* split: tiles of one launch. Fewer than n_tiles where scratch has no room for
                       all, of whole rows of the only lane, but for the last */
    int n_segments; /* segments below max_len */
} attn_plan;

/* R = H / G query heads share a KV head. T, L, max_rows, max_len as in ops_rows. has_wide: this
 * device, head size and format have the wide kernel and that of few rows. */
attn_plan attn_pick(int T, int L, int max_rows, int64_t max_len, int G, int R, int D, bool has_wide,
                    int64_t scratch_bytes);

/* Scratch of a split run: a (max, sum) pair and D sums for each (row, head, segment). */
int64_t attn_split_bytes(int64_t n_row_heads, int n_segments, int D);

#ifdef __cplusplus
}
#endif
#endif
