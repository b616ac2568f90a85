#include "backend/cuda/cuda_pick_priv.h"
#include "support/test.h"

/* Widths of the real models' linears, and of tiny ones. */
static const int64_t outputs[] = {1,    16,   17,   48,    130,   512,   1024,
                                  2048, 5120, 6144, 12288, 17408, 248320};
static const int64_t inputs[] = {1, 63, 64, 65, 384, 1024, 2048, 4096, 5120, 6144, 17408, 25600};
#define COUNT(a) (sizeof(a) / sizeof *(a))

TEST(slices_cover_every_brick_once_and_none_is_empty)
{
    for (size_t i = 0; i < COUNT(outputs); i++) {
        for (size_t j = 0; j < COUNT(inputs); j++) {
            pick_split s = cuda_pick_split(outputs[i], inputs[j], false);
            assert_int_equal(s.n_bricks, (inputs[j] + 63) / 64);
            assert_true(s.slices >= 1 && s.slices <= PICK_SLICES_MAX);
            assert_int_equal(s.slice_bricks % PICK_SLICE_BRICKS, 0);
            assert_true((s.slices - 1) * s.slice_bricks < s.n_bricks);
            assert_true(s.slices * s.slice_bricks >= s.n_bricks);
        }
    }
}

TEST(short_sums_and_many_outputs_are_not_sliced)
{
    assert_int_equal(cuda_pick_split(5120, 384, false).slices, 1);
    assert_int_equal(cuda_pick_split(248320, 5120, false).slices, 1);
    assert_int_equal(cuda_pick_split(17408, 5120, false).slices, 1);
    assert_int_equal(cuda_pick_split(5120, 17408, false).slices, 7); /* of 40 bricks */
    assert_int_equal(cuda_pick_split(2048, 4096, false).slices, PICK_SLICES_MAX);
}

/* Blocks of 64 outputs by a slice, over a launch's weights of one x. */
static int64_t blocks_of(const int64_t *N, int n, int64_t K)
{
    int64_t blocks = 0;
    for (int i = 0; i < n; i++) blocks += (N[i] + 63) / 64 * cuda_pick_split(N[i], K, false).slices;
    return blocks;
}

TEST(the_real_models_launches_of_few_rows_are_one_round_of_blocks)
{
    enum { ROUND = 5 * 132 }; /* of an H200 */
    static const int64_t gdn27[] = {10240, 6144, 48, 48}, attn27[] = {12288, 1024, 1024};
    static const int64_t gdn35[] = {8192, 4096, 32, 32}, attn35[] = {8192, 512, 512};
    static const int64_t narrow27[] = {5120}, narrow35[] = {2048};
    int64_t n[] = {blocks_of(gdn27, 4, 5120),    blocks_of(attn27, 3, 5120),
                   blocks_of(narrow27, 1, 6144), blocks_of(narrow27, 1, 17408),
                   blocks_of(gdn35, 4, 2048),    blocks_of(attn35, 3, 2048),
                   blocks_of(narrow35, 1, 4096)};
    for (size_t i = 0; i < COUNT(n); i++) assert_true(n[i] <= ROUND);
    for (size_t i = 0; i < 4; i++) assert_true(n[i] > ROUND * 2 / 3); /* the 27B's fill it */
}

/* The parts of a launch of weights [N, K]; the first N of 0 ends them. */
static int parts_of(const int64_t N[4], int64_t K, bool is_pair, pick_part parts[4])
{
    int n = 0;
    for (; n < 4 && N[n]; n++) {
        pick_split s = cuda_pick_split(N[n], K, false);
        parts[n] = (pick_part){N[n], is_pair, s.slices, s.slice_bricks, 1};
    }
    return n;
}

/* A launch of one row at a real model's shape, on 132 processors. */
typedef struct {
    const char *what;
    int64_t N[4], K;
    bool is_pair;
    int cluster; /* blocks in which slices meet */
    pick_kernel kernel;
    int outputs;
} deep_case;

TEST(short_slices_of_one_row_are_deep_and_one_block_a_processor)
{
    static const deep_case cases[] = {
        {"27B in", {10240, 6144, 48, 48}, 5120, false, 2, PICK_STREAM, 64},
        {"27B out", {5120}, 6144, false, 0, PICK_STREAM, 64},
        {"27B gate, up", {17408}, 5120, true, 0, PICK_STREAM, 64},
        {"27B head", {248320}, 5120, false, 0, PICK_STREAM, 64},
        {"35B head", {248320}, 2048, false, 0, PICK_STREAM, 64},
        {"35B in", {8192, 4096, 32, 32}, 2048, false, 4, PICK_DEEP, 224},
        {"35B q, k, v", {8192, 512, 512}, 2048, false, 4, PICK_DEEP, 192},
        {"35B out", {2048}, 4096, false, 0, PICK_DEEP, 128},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const deep_case *c = &cases[i];
        pick_part parts[4];
        int n = parts_of(c->N, c->K, c->is_pair, parts);
        pick_tile stream = cuda_pick_tile(90, 4, 1);
        pick_tile tile = cuda_pick_deep(stream, parts, n, 1, c->cluster, true, 132);
        if (tile.kernel != c->kernel || tile.outputs != c->outputs)
            fail_msg("%s: kernel %d, %d outputs", c->what, (int)tile.kernel, tile.outputs);
        tile = cuda_pick_deep(stream, parts, n, 2, c->cluster, true, 132);
        assert_int_equal(tile.kernel, PICK_STREAM);
    }
}

TEST(deep_blocks_have_room_for_their_slices)
{
    pick_tile tile = cuda_pick_tile(90, 4, 1);
    int n_deep = 0;
    for (int bricks = 8; bricks <= 48; bricks += 8) {
        for (int64_t N = 16; N <= 40000; N = N * 5 / 4 + 16) {
            pick_part part = {N, N % 32 == 0, 1 + (int)(N % 7), bricks, 1};
            pick_tile t = cuda_pick_deep(tile, &part, 1, 1, 0, N % 3 > 0, 132);
            assert_true(t.outputs % 32 == 0 && t.outputs <= PICK_DEEP_OUTPUTS_MAX);
            if (N % 3 == 0) assert_int_equal(t.outputs, tile.outputs);
            if (t.kernel != PICK_DEEP) continue;
            assert_true(bricks <= PICK_DEEP_BRICKS_MAX);
            assert_true(bricks * (t.outputs / 16) <= PICK_DEEP_ALL_BRICKS_MAX);
            n_deep++;
        }
    }
    assert_true(n_deep > 10);
}

TEST(experts_are_never_sliced)
{
    for (size_t i = 0; i < COUNT(outputs); i++) {
        for (size_t j = 0; j < COUNT(inputs); j++) {
            assert_int_equal(cuda_pick_split(outputs[i], inputs[j], true).slices, 1);
        }
    }
}

TEST(tiles_hold_the_rows_of_a_call_up_to_what_the_kernel_has_room_for)
{
    static const int sms[] = {80, 86, 90, 100}, bits[] = {2, 3, 4, 5, 6, 8, 16};
    for (size_t i = 0; i < COUNT(sms); i++) {
        for (size_t j = 0; j < COUNT(bits); j++) {
            for (int64_t T = 1; T <= 300; T++) {
                pick_tile t = cuda_pick_tile(sms[i], bits[j], T);
                int most = sms[i] == 90 && bits[j] > 6 ? 64 : 128;
                assert_true(t.columns >= T || t.columns == most);
                assert_true(T <= 8 ? t.columns == 8 : t.columns / 2 < T);
                bool is_middle = sms[i] == 90 && bits[j] == 4 && T > 16 && T <= 64;
                assert_int_equal(t.kernel == PICK_MIDDLE, is_middle);
                assert_int_equal(t.kernel == PICK_STREAM, T <= 32 && !is_middle);
                assert_int_equal(t.kernel == PICK_WIDE, T > 32 && sms[i] == 90 && !is_middle);
                pick_tile x = cuda_pick_experts_tile(sms[i], bits[j], T);
                bool is_uneven = x.kernel == PICK_WIDE && bits[j] == 4 && T > 40 && T <= 72;
                assert_int_equal(x.columns, is_uneven ? 96 : t.columns);
                assert_int_equal(x.kernel == PICK_STREAM, T <= 16);
                assert_int_equal(x.kernel == PICK_WIDE, T > 16 && sms[i] == 90);
            }
        }
    }
}

/* A launch of a real model's shape: tiles of so many outputs, and blocks on 132 processors. */
TEST(launches_of_up_to_64_rows_are_one_round_of_blocks)
{
    static const struct {
        int64_t N[4], K;
        bool is_pair;
        int outputs, blocks;
    } cases[] = {{{10240, 6144, 48, 48}, 5120, false, PICK_MIDDLE_OUTPUTS, 108},
                 {{12288, 1024, 1024}, 5120, false, PICK_MIDDLE_OUTPUTS, 94},
                 {{5120}, 6144, false, PICK_MIDDLE_OUTPUTS, 96},
                 {{17408}, 5120, true, PICK_MIDDLE_OUTPUTS, 109},
                 {{5120}, 17408, false, PICK_MIDDLE_OUTPUTS, 112},
                 {{8192, 4096, 32, 32}, 2048, false, PICK_MIDDLE_OUTPUTS, 86},
                 {{2048}, 4096, false, PICK_MIDDLE_NARROW, 128}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        pick_part parts[4];
        int n = parts_of(cases[i].N, cases[i].K, cases[i].is_pair, parts);
        pick_tile t = cuda_pick_middle(cuda_pick_tile(90, 4, 64), parts, n, 132);
        int64_t blocks = 0, along = cases[i].is_pair ? t.outputs / 2 : t.outputs;
        for (int k = 0; k < n; k++) blocks += (parts[k].N + along - 1) / along * parts[k].slices;
        assert_int_equal(t.kernel, PICK_MIDDLE);
        assert_int_equal(t.outputs, cases[i].outputs);
        assert_int_equal(blocks, cases[i].blocks);
    }
}

TEST(slices_that_have_no_room_apart_are_not_for_the_middle_kernel)
{
    pick_tile t = cuda_pick_tile(90, 4, 64);
    int most = cuda_pick_split_tiles_max(t);
    pick_part part = {(int64_t)most * t.outputs, false, 2, 40, 1};
    assert_int_equal(cuda_pick_middle(t, &part, 1, 132).kernel, PICK_MIDDLE);
    part.N++;
    pick_tile wide = cuda_pick_middle(t, &part, 1, 132);
    assert_int_equal(wide.kernel, PICK_WIDE);
    assert_int_equal(wide.columns, 64);
    part.slices = 1;
    assert_int_equal(cuda_pick_middle(t, &part, 1, 132).kernel, PICK_MIDDLE);
}

TEST(narrower_tiles_of_rows_are_taken_where_they_save_a_round)
{
    enum { SMS = 132 };
    pick_tile t = cuda_pick_tile(90, 4, 2048);
    /* 5,120 outputs: 320 tiles are 3 rounds of 128 rows, 380 are 3 of 112. */
    assert_int_equal(cuda_pick_rounds(t, 4, 2048, 20, SMS).columns, PICK_ROUNDS_COLUMNS);
    assert_int_equal(cuda_pick_rounds(t, 4, 4096, 20, SMS).columns, 128);
    assert_int_equal(cuda_pick_rounds(t, 4, 2048, 136, SMS).columns, 128);
    assert_int_equal(cuda_pick_rounds(t, 4, 2048, 8, SMS).columns, 128);
    assert_int_equal(cuda_pick_rounds(t, 4, 128, 20, SMS).columns, 128); /* split over K */
    assert_int_equal(cuda_pick_rounds(cuda_pick_tile(90, 8, 2048), 8, 2048, 20, SMS).columns, 64);
    assert_int_equal(cuda_pick_rounds(cuda_pick_tile(80, 4, 2048), 4, 2048, 20, SMS).columns, 128);
    for (int64_t T = 1; T <= 3000; T++)
        for (int groups = 1; groups <= 140; groups += 3) {
            pick_tile wide = cuda_pick_tile(90, 4, T);
            pick_tile u = cuda_pick_rounds(wide, 4, T, groups, SMS);
            if (u.columns == wide.columns) continue;
            int64_t most = (T + u.columns - 1) / u.columns * groups;
            assert_false(cuda_pick_is_split(most, 2, u));
        }
}

TEST(partial_sums_of_any_split_launch_fit_in_the_room_that_is_kept)
{
    for (int64_t T = 1; T <= 256; T *= 2) {
        pick_tile t = cuda_pick_tile(90, 4, T);
        int most = cuda_pick_split_tiles_max(t);
        int64_t room = PICK_SLICE_FLOATS / 64 * (T <= 8 ? 8 : T <= 16 ? 16 : 64);
        assert_true((int64_t)most * t.columns * t.outputs <= room);
        assert_true(cuda_pick_is_split(most, 2, t));
        assert_false(cuda_pick_is_split(most + 1, 2, t));
        assert_false(cuda_pick_is_split(1, 1, t));
    }
}

TEST(a_norm_has_a_whole_number_of_warps)
{
    for (int64_t E = 1; E < 20000; E += 127) {
        int n = cuda_pick_norm_threads(E);
        assert_true(n == 128 || n == 256 || n == 512);
    }
}

TEST(chunks_of_topk_cover_the_vocabulary)
{
    assert_int_equal(cuda_pick_topk_chunks(1), 1);
    assert_int_equal(cuda_pick_topk_chunks(4096), 1);
    assert_int_equal(cuda_pick_topk_chunks(4097), 2);
    assert_int_equal(cuda_pick_topk_chunks(248320), 61);
}
