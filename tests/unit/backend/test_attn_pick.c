/* The fixed cut of positions into segments, and which run serves a call. */
#include "backend/cuda/attn_pick_priv.h"
#include "support/test.h"

enum { LAST = 300000 };
static const int64_t PLENTY = (int64_t)1 << 40;

TEST(segments_follow_one_another_on_whole_blocks)
{
    assert_int_equal(attn_segment_begin(0), 0);
    for (int s = 0; attn_segment_begin(s) < LAST; s++) {
        int begin = attn_segment_begin(s), end = attn_segment_begin(s + 1);
        assert_true(end > begin);
        assert_int_equal(begin % 64, 0);
        assert_true(end - begin >= 128 && end - begin <= 1024);
    }
}

TEST(a_position_lies_in_the_segment_that_says_so)
{
    for (int pos = 0; pos < LAST; pos++) {
        int s = attn_segment_of(pos);
        if (pos < attn_segment_begin(s) || pos >= attn_segment_begin(s + 1))
            fail_msg("position %d is not in segment %d", pos, s);
    }
}

TEST(segments_never_shrink)
{
    for (int s = 1; s < 320; s++)
        assert_true(attn_segment_begin(s + 1) - attn_segment_begin(s) >=
                    attn_segment_begin(s) - attn_segment_begin(s - 1));
}

TEST(the_longest_context_has_room_in_the_merge)
{
    assert_true(attn_segment_of(262143) < ATTN_SPLIT_MAX);
}

TEST(decode_is_split_and_takes_one_m_tile)
{
    attn_plan p = attn_pick(1, 1, 1, 24576, 4, 6, 256, false, PLENTY);
    assert_false(p.is_folded);
    assert_int_equal(p.m_tiles, 1);
    assert_int_equal(p.n_tiles, 1);
    assert_int_equal(p.n_segments, attn_segment_of(24575) + 1);
}

TEST(verify_takes_wide_tiles_only_where_they_fill_the_chip)
{
    attn_plan near = attn_pick(8, 1, 8, 512, 4, 6, 256, false, PLENTY);
    attn_plan far = attn_pick(8, 1, 8, 32768, 4, 6, 256, false, PLENTY);
    assert_false(near.is_folded || far.is_folded);
    assert_int_equal(near.m_tiles, 1);
    assert_int_equal(near.n_tiles, 3);
    assert_int_equal(far.m_tiles, 3);
    assert_int_equal(far.n_tiles, 1);
}

TEST(few_rows_take_blocks_that_hold_them)
{
    static const int rows[] = {1, 2, 3, 5, 6, 8, 9, 10, 16};
    static const int pairs[] = {8, 16, 32, 32, 48, 48, 64, 64, 48};
    for (int i = 0; i < 9; i++) {
        attn_plan p = attn_pick(rows[i], 1, rows[i], 32768, 4, 6, 256, true, PLENTY);
        assert_false(p.is_folded);
        assert_int_equal(p.few_pairs, pairs[i]);
        assert_int_equal(p.n_tiles, (rows[i] * 6 + pairs[i] - 1) / pairs[i]);
        p = attn_pick(rows[i], 1, rows[i], 32768, 4, 6, 256, false, PLENTY);
        assert_int_equal(p.few_pairs, 0);
    }
    assert_int_equal(attn_pick(8, 1, 8, 65536, 2, 8, 256, true, PLENTY).few_pairs, 64);
    assert_int_equal(attn_pick(2048, 1, 2048, 32768, 4, 6, 256, true, PLENTY).few_pairs, 0);
}

TEST(rows_whose_sums_have_no_room_are_split_a_part_at_a_time)
{
    const int64_t scratch = 190 << 20;
    for (int T = 40; T < 600; T += 7) {
        for (int G = 1; G <= 8; G *= 2) {
            for (int R = 1; R <= 8; R++) {
                attn_plan p = attn_pick(T, 1, T, 65536, G, R, 256, true, scratch);
                int n_tiles = (T * R + p.few_pairs - 1) / (p.few_pairs ? p.few_pairs : 1);
                if (p.is_folded || p.part_tiles == p.n_tiles) continue;
                assert_int_equal(p.few_pairs, 64);
                assert_int_equal(p.n_tiles, n_tiles);
                assert_true(p.part_tiles > 0 && p.part_tiles < n_tiles);
                assert_int_equal(p.part_tiles * 64 % R, 0); /* whole rows */
                assert_true(attn_split_bytes(p.part_tiles * 64 * G, p.n_segments, 256) <= scratch);
            }
        }
    }
    attn_plan p = attn_pick(200, 1, 200, 32768, 4, 6, 256, true, scratch);
    assert_false(p.is_folded);
    assert_int_equal(p.part_tiles, 6); /* 64 rows */
    assert_true(attn_pick(200, 1, 200, 32768, 4, 6, 256, false, scratch).is_folded);
    assert_true(attn_pick(200, 2, 100, 32768, 4, 6, 256, true, scratch).is_folded);
    assert_true(attn_pick(200, 1, 50, 32768, 4, 6, 256, true, scratch).is_folded);
    assert_true(attn_pick(200, 1, 200, 32768, 4, 6, 256, true, 1 << 20).is_folded);
    assert_true(attn_pick(400, 1, 400, 32768, 4, 6, 256, true, scratch).is_folded);
}

TEST(short_histories_take_narrow_blocks)
{
    attn_plan near = attn_pick(8, 1, 8, 2048, 4, 6, 256, true, PLENTY);
    attn_plan middle = attn_pick(8, 1, 8, 24576, 2, 8, 256, true, PLENTY);
    attn_plan lanes = attn_pick(32, 4, 8, 24576, 2, 8, 256, true, PLENTY);
    assert_int_equal(near.few_pairs, 16);
    assert_int_equal(near.n_tiles, 3);
    assert_int_equal(middle.few_pairs, 32);
    assert_int_equal(middle.n_tiles, 2);
    assert_int_equal(lanes.few_pairs, 64);
    assert_int_equal(attn_pick(1, 1, 1, 2048, 4, 6, 256, true, PLENTY).few_pairs, 8);
}

TEST(a_prompt_that_fills_the_chip_is_folded)
{
    attn_plan p = attn_pick(2048, 1, 2048, 2048, 4, 6, 256, false, PLENTY);
    assert_true(p.is_folded);
    assert_int_equal(p.m_tiles, 4);
    assert_int_equal(p.n_tiles, 2048 * 6 / 64);
}

TEST(a_long_prompt_takes_the_wide_kernel_where_there_is_one)
{
    attn_plan p = attn_pick(2048, 1, 2048, 32768, 4, 6, 256, true, PLENTY);
    assert_true(p.is_folded);
    assert_int_equal(p.m_tiles, 8);
    assert_int_equal(p.n_tiles, 2048 * 6 / 128);
    assert_int_equal(attn_pick(2048, 1, 2048, 32768, 4, 6, 256, false, PLENTY).m_tiles, 4);
    /* Few rows, or lanes of few rows, leave wide tiles empty. */
    assert_int_equal(attn_pick(256, 1, 256, 32768, 4, 6, 256, true, 0).m_tiles, 4);
    assert_int_equal(attn_pick(1024, 64, 16, 32768, 4, 6, 256, true, 0).m_tiles, 4);
}

TEST(a_segment_begins_where_its_begin_says)
{
    for (int s = 0, pos = 0; pos < LAST; pos += 64) {
        if (pos == attn_segment_begin(s + 1)) s++;
        assert_int_equal(attn_segment_is_begin(pos), pos == attn_segment_begin(s));
    }
}

TEST(what_does_not_fit_the_scratch_is_folded)
{
    int64_t need = attn_split_bytes(16 * 24, attn_segment_of(39999) + 1, 256);
    assert_false(attn_pick(16, 1, 16, 40000, 4, 6, 256, false, need).is_folded);
    attn_plan p = attn_pick(16, 1, 16, 40000, 4, 6, 256, false, need - 1);
    assert_true(p.is_folded);
    assert_int_equal(p.m_tiles, 2);
}

/* n_tiles bounds the tiles of any cut of T rows into L lanes. */
TEST(tiles_suffice_for_every_cut_into_lanes)
{
    uint64_t s = test_seed();
    for (int round = 0; round < 2000; round++) {
        int L = 1 + (int)(test_random(&s) % 9), R = 1 + (int)(test_random(&s) % 8), T = 0, most = 0;
        int rows[9];
        for (int l = 0; l < L; l++) {
            rows[l] = (int)(test_random(&s) % 20);
            T += rows[l];
            if (rows[l] > most) most = rows[l];
        }
        int64_t scratch = test_random(&s) % 2 ? PLENTY : 0;
        attn_plan p = attn_pick(T + 2, L, most, 5000, 2, R, 256, test_random(&s) % 2, scratch);
        int tiles = 0, pairs = p.few_pairs ? p.few_pairs : p.m_tiles * 16;
        for (int l = 0; l < L; l++) tiles += (rows[l] * R + pairs - 1) / pairs;
        assert_true(tiles <= p.n_tiles);
    }
}
