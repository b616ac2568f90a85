#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "block_reading.h"
#include "support/guard.h"
#include "tensor/block.h"
#include "tensor/tensor.h"

/* Where the f16 scales of a block lie; random bits there would be NaN. */
static const struct {
    dtype type;
    int at[2];
} scales[] = {
    {DTYPE_Q4_0, {0, 0}},     {DTYPE_Q4_1, {0, 2}},    {DTYPE_Q5_0, {0, 0}},
    {DTYPE_Q5_1, {0, 2}},     {DTYPE_Q8_0, {0, 0}},    {DTYPE_Q2_K, {80, 82}},
    {DTYPE_Q3_K, {108, 108}}, {DTYPE_Q4_K, {0, 2}},    {DTYPE_Q5_K, {0, 2}},
    {DTYPE_Q6_K, {208, 208}}, {DTYPE_IQ1_S, {0, 0}},   {DTYPE_IQ1_M, {-1, -1}},
    {DTYPE_IQ2_XXS, {0, 0}},  {DTYPE_IQ2_XS, {0, 0}},  {DTYPE_IQ2_S, {0, 0}},
    {DTYPE_IQ3_XXS, {0, 0}},  {DTYPE_IQ3_S, {0, 0}},   {DTYPE_IQ4_NL, {0, 0}},
    {DTYPE_IQ4_XS, {0, 0}},   {DTYPE_MXFP4, {-1, -1}}, {DTYPE_NVFP4, {-1, -1}},
};
enum { N_TYPES = sizeof scales / sizeof *scales };

/* Random bytes with finite scales: an f16's exponent of all ones loses its lowest bit. */
static void fill(uint8_t *b, int row, uint64_t *seed)
{
    for (int i = 0; i < dtype_block_bytes(scales[row].type); i++) b[i] = (uint8_t)test_random(seed);
    for (int i = 0; i < 2; i++) {
        int at = scales[row].at[i];
        if (at >= 0 && (b[at + 1] & 0x7c) == 0x7c) b[at + 1] &= 0xfb;
    }
    if (scales[row].type == DTYPE_IQ1_M && (b[55] >> 4 & 7) == 7 && b[53] >> 6 == 3) b[53] &= 0xbf;
    if (scales[row].type == DTYPE_MXFP4 && b[0] > 250) b[0] = 250;
}

TEST(every_type_has_a_size_and_stands_in_the_table)
{
    assert_int_equal(N_TYPES, DTYPE_COUNT - DTYPE_Q4_0);
    for (int i = 0; i < N_TYPES; i++) {
        dtype t = scales[i].type;
        assert_true(dtype_is_block(t) && dtype_bits(t) == 0 && dtype_block(t) % 32 == 0);
        assert_int_equal(block_row_bytes(t, 3 * dtype_block(t)), 3 * dtype_block_bytes(t));
        assert_int_equal(dtype_find(dtype_name(t), strlen(dtype_name(t))), DTYPE_NONE);
    }
    assert_int_equal(block_row_bytes(DTYPE_BF16, 5), 10);
}

/* Each value is formed with at most five roundings, each at most half an ulp (6e-8) of its term. */
TEST(random_blocks_decode_to_what_the_format_says)
{
    uint64_t seed = test_seed();
    float row[512];
    for (int i = 0; i < N_TYPES; i++) {
        dtype t = scales[i].type;
        int n = dtype_block(t), n_bytes = dtype_block_bytes(t);
        uint8_t bytes[2 * 256];
        for (int round = 0; round < 300; round++) {
            fill(bytes, i, &seed);
            fill(bytes + n_bytes, i, &seed);
            uint8_t *guarded = guard_copy(bytes, 2 * (size_t)n_bytes);
            block_decode_row(t, guarded, 2 * n, row);
            guard_free(guarded, 2 * (size_t)n_bytes);
            for (int e = 0; e < 2 * n; e++) {
                reading want = read_block(t, bytes + e / n * n_bytes, e % n);
                if (!(fabs((double)row[e] - want.value) <= 4e-7 * want.term + 1e-44))
                    fail_msg("%s element %d is %.9g, want %.17g", dtype_name(t), e, (double)row[e],
                             want.value);
            }
        }
    }
}

/* Types of one product of an f16 scale and a short code are exact. */
TEST(one_short_product_is_exact)
{
    static const dtype exact[] = {DTYPE_Q4_0,  DTYPE_Q5_0, DTYPE_Q8_0, DTYPE_IQ4_NL, DTYPE_MXFP4,
                                  DTYPE_NVFP4, DTYPE_Q6_K, DTYPE_Q3_K, DTYPE_IQ4_XS};
    uint64_t seed = test_seed();
    float row[256];
    uint8_t bytes[256];
    for (int k = 0; k < 9; k++) {
        int i = 0;
        while (scales[i].type != exact[k]) i++;
        for (int round = 0; round < 100; round++) {
            fill(bytes, i, &seed);
            block_decode_row(exact[k], bytes, dtype_block(exact[k]), row);
            for (int e = 0; e < dtype_block(exact[k]); e++)
                if ((double)row[e] != read_block(exact[k], bytes, e).value)
                    fail_msg("%s element %d", dtype_name(exact[k]), e);
        }
    }
}

/* Codes fit their bits, scale * code + bias is the value before its last rounding, and where a type
 * has one zero, scale * (code - zero) is the value exactly. */
TEST(affine_groups_say_the_same_as_the_blocks)
{
    uint64_t seed = test_seed();
    for (int i = 0; i < N_TYPES; i++) {
        dtype t = scales[i].type;
        block_affine a = block_affine_of(t);
        int n = dtype_block(t);
        uint8_t bytes[2 * 256], codes[512];
        float scale[32], bias[32], row[512];
        assert_true((a.bits == 4 || a.bits == 8) && (a.group == 16 || a.group == 32));
        for (int round = 0; round < 100; round++) {
            fill(bytes, i, &seed);
            fill(bytes + dtype_block_bytes(t), i, &seed);
            block_affine_row(t, bytes, 2 * n, codes, scale, bias);
            block_decode_row(t, bytes, 2 * n, row);
            for (int e = 0; e < 2 * n; e++) {
                int g = e / a.group;
                double product = (double)scale[g] * codes[e];
                assert_true(codes[e] < 1 << a.bits);
                if (!(fabs(product + (double)bias[g] - (double)row[e]) <=
                      1.2e-7 * (fabs(product) + fabs((double)bias[g]))))
                    fail_msg("%s element %d", dtype_name(t), e);
                if (a.zero == 0) continue;
                assert_true(bias[g] == (float)-a.zero * scale[g]);
                if (scale[g] * (float)(codes[e] - a.zero) != row[e])
                    fail_msg("%s element %d: zero", dtype_name(t), e);
            }
        }
    }
}

TEST(edges_of_the_scale_formats)
{
    uint8_t mx[17] = {0, 0x71}, nv[36] = {0x7f, 0xff, 1, 0x7e};
    float row[64];
    block_decode_row(DTYPE_MXFP4, mx, 32, row);
    assert_true(row[0] == 0x1p-128f && row[16] == 12 * 0x1p-128f);
    mx[0] = 1;
    block_decode_row(DTYPE_MXFP4, mx, 32, row);
    assert_true(row[0] == 0x1p-127f);
    for (int i = 4; i < 36; i++) nv[i] = 0x71;
    block_decode_row(DTYPE_NVFP4, nv, 64, row);
    assert_true(row[0] == 0 && row[16] == 0 && row[32] == 0x1p-10f && row[48] == 224);
    assert_true(row[8] == 0 && row[40] == 12 * 0x1p-10f);
}

static void check_grid(const json *root, const char *name, const void *table, int size, int n)
{
    str text;
    assert_true(json_to_str(json_get(root, name), &text));
    for (int i = 0; i < n; i++) {
        uint64_t have = 0;
        char word[17] = {0};
        memcpy(&have, (const char *)table + i * size, (size_t)size);
        memcpy(word, text.ptr, 2 * (size_t)size);
        if (strtoull(word, NULL, 16) != have) fail_msg("%s[%d]", name, i);
        text = str_trim(str_skip(text, 2 * (size_t)size));
    }
    assert_int_equal(text.len, 0);
}

TEST(the_codebooks_are_those_of_the_file_they_were_made_from)
{
    arena a;
    err e = {0};
    str text;
    const json *root;
    char path[1024];
    if (!test_shared()) TEST_SKIP("no shared data");
    arena_init(&a, 0);
    snprintf(path, sizeof path, "%s/data/iq_grids.json", test_shared());
    CHECK_OK(file_read(&a, path, 1 << 20, &text, &e), &e);
    CHECK_OK(json_parse(&a, text, "grids", 4, 0, &root, &e), &e);
    check_grid(root, "iq2xxs_grid", iq2xxs_grid, 8, 256);
    check_grid(root, "iq2xs_grid", iq2xs_grid, 8, 512);
    check_grid(root, "iq2s_grid", iq2s_grid, 8, 1024);
    check_grid(root, "iq3xxs_grid", iq3xxs_grid, 4, 256);
    check_grid(root, "iq3s_grid", iq3s_grid, 4, 512);
    check_grid(root, "iq1s_grid", iq1s_grid, 8, 2048);
    arena_fini(&a);
}

/* ---- tensors of blocks ---------------------------------------------------------------------- */

/* A tensor whose row i of the file holds i everywhere, as Q8_0 with scale 1. */
static tensor numbered(uint8_t *bytes, int64_t N, int64_t K)
{
    for (int64_t i = 0; i < N * K / 32; i++) {
        bytes[34 * i] = 0;
        bytes[34 * i + 1] = 0x3c;
        memset(bytes + 34 * i + 2, (int)(i / (K / 32)), 32);
    }
    return (tensor){.type = DTYPE_Q8_0,
                    .n_dims = 2,
                    .shape = {N, K},
                    .data = bytes,
                    .n_bytes = N * K / 32 * 34};
}

TEST(rows_and_slices_of_blocks_are_views)
{
    uint8_t bytes[12 * 2 * 34];
    char text[64];
    float row[64];
    tensor t = numbered(bytes, 12, 64);
    for (int i = 0; i < 12; i++) {
        tensor_row_f32(&t, i, row);
        assert_true(row[0] == i && row[63] == i);
    }
    tensor r = tensor_rows(&t, 5, 7);
    assert_int_equal(r.n_bytes, 2 * 68);
    tensor_row_f32(&r, 1, row);
    assert_true(row[0] == 6);
    tensor x = t;
    x.n_dims = 3;
    x.shape[0] = 3, x.shape[1] = 4, x.shape[2] = 64;
    tensor s = tensor_slice(&x, 2);
    tensor_row_f32(&s, 3, row);
    assert_true(row[0] == 11 && s.n_bytes == 4 * 68);
    assert_string_equal(tensor_format(&t, text, sizeof text), "[12, 64] Q8_0");
}

/* 2 groups of 3 heads: head k * 3 + j of ours is the file's j * 2 + k. */
static const int FILE_HEAD[] = {0, 2, 4, 1, 3, 5};

TEST(heads_in_rows_come_in_the_programs_order)
{
    uint8_t bytes[16 * 34];
    float row[32];
    tensor t = numbered(bytes, 16, 32);
    t.heads = (tensor_heads){.n = 6, .n_groups = 2, .size = 2, .from = 4};
    for (int i = 0; i < 16; i++) {
        int want = i < 4 ? i : 4 + FILE_HEAD[(i - 4) / 2] * 2 + i % 2;
        assert_int_equal(tensor_file_row(&t, i), want);
        tensor_row_f32(&t, i, row);
        assert_true(row[0] == want);
    }
}

TEST(heads_in_columns_come_in_the_programs_order)
{
    /* One row; head h of the file, 16 columns, holds h: blocks hold two heads each. */
    uint8_t bytes[3 * 34];
    float row[96];
    tensor t = numbered(bytes, 1, 96);
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < 32; i++) bytes[34 * b + 2 + i] = (uint8_t)(2 * b + i / 16);
    t.heads = (tensor_heads){.n = 6, .n_groups = 2, .size = 16, .in_columns = true};
    tensor_row_f32(&t, 0, row);
    for (int c = 0; c < 96; c++) assert_int_equal((int)row[c], FILE_HEAD[c / 16]);
}
