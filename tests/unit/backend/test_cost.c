/* Expected numbers are worked out by hand from the shapes. */
#include "backend/cost.h"
#include "support/test.h"

static const backend f32 = {.act = DTYPE_F32}, bf16 = {.act = DTYPE_BF16};

/* 4-bit weights of [N, K] with groups of 64: half a byte and 4/64 bytes an element. */
static dev_weight weight(int64_t X, int64_t N, int64_t K)
{
    return (dev_weight){.N = N, .K = K, .X = (int)X, .n_bytes = X * N * K * 9 / 16};
}

static void check(cost c, int64_t n_bytes, int64_t n_ops)
{
    assert_int_equal(c.n_bytes, n_bytes);
    assert_int_equal(c.n_ops, n_ops);
}

TEST(linear_reads_weights_once_and_rows_by_their_type)
{
    dev_weight w = weight(1, 128, 256), v = weight(1, 64, 256);
    linear_args a = {
        .T = 3, .n_parts = 2, .part = {{.w = &w, .out = LINEAR_ACT}, {.w = &v, .out = LINEAR_ADD}}};
    int64_t weights = (128 + 64) * 256 * 9 / 16, n_ops = 2 * 3 * (128 + 64) * 256;
    check(cost_linear(&bf16, &a), weights + 3 * (256 * 2 + 128 * 2 + 64 * 8), n_ops);
    check(cost_linear(&f32, &a), weights + 3 * (256 * 4 + 128 * 4 + 64 * 8), n_ops);
    linear_swiglu_args s = {.gate = &w, .up = &w, .T = 2};
    check(cost_linear_swiglu(&bf16, &s), 2 * 128 * 256 * 9 / 16 + 2 * (256 + 128) * 2,
          2 * 128 * (4 * 256 + 5));
}

TEST(attention_counts_positions_read_once_a_lane_and_seen_by_each_row)
{
    attn_args a = {.H = 24,
                   .G = 4,
                   .D = 256,
                   .has_gate = true,
                   .rows = {.T = 8, .L = 1},
                   .kv.format = KV_INT8};
    cost_rows r = {.n_seen = 8 * 1000, .n_read = 1000};
    check(cost_attn(&bf16, &a, &r), 1000 * 4 * 2 * (256 + 4) + 8 * 24 * 256 * 3 * 2,
          8 * 1000 * 24 * (4 * 256 + 4) + 8 * 24 * 256 * 4);
    a.kv.format = KV_BF16;
    check(cost_attn(&bf16, &a, &r), 1000 * 4 * 2 * 256 * 2 + 8 * 24 * 256 * 3 * 2,
          8 * 1000 * 24 * (4 * 256 + 4) + 8 * 24 * 256 * 4);
}

TEST(a_state_is_read_and_when_it_advances_written)
{
    gdn_scan_args a = {.Hk = 16, .Hv = 48, .dk = 128, .dv = 128, .rows = {.T = 8, .L = 1}};
    int64_t n_state = 48 * 128 * 128, C = 10240, n_out = 6144;
    int64_t rows = 8 * ((C + 2 * n_out) * 2 + 2 * 48 * 4) + 128 * 4;
    check(cost_gdn_scan(&bf16, &a), n_state * 4 + rows, 8 * n_state * 7 + 8 * n_out * 9);
    a.advance = true;
    check(cost_gdn_scan(&bf16, &a), 2 * n_state * 4 + rows + 6 * C * 2,
          8 * n_state * 7 + 8 * n_out * 9);
}

TEST(experts_count_by_how_many_are_touched)
{
    dev_weight up = weight(256, 512, 2048), down = weight(256, 2048, 512);
    moe_ffn_args a = {
        .gate = &up, .up = &up, .down = &down, .T = 1, .E = 2048, .X = 256, .K = 8, .F = 512};
    int64_t expert = 3 * 512 * 2048 * 9 / 16, row = 2048 * (2 + 8);
    cost_rows r = {0};
    check(cost_moe_ffn(&bf16, &a, &r), 8 * expert + row + 8 * 8,
          8 * (6 * 2048 * 512 + 5 * 512 + 2 * 2048));
    a.T = 100; /* 800 uses of at most 256 experts */
    assert_int_equal(cost_moe_ffn(&bf16, &a, &r).n_bytes, 256 * expert + 100 * row + 800 * 8);
    r.n_experts = 40;
    assert_int_equal(cost_moe_ffn(&bf16, &a, &r).n_bytes, 40 * expert + 100 * row + 800 * 8);
}

TEST(sampling_reads_logits_once)
{
    sample_args a = {.M = 4, .V = 1000, .rows = {.T = 4, .L = 2}};
    check(cost_sample(&f32, &a), 4 * (1000 * 4 + 8), 4 * 1000 * 5);
    int word;
    a.logprob.ptr = a.mask.ptr = a.lanes.counts.ptr = &word;
    check(cost_sample(&f32, &a), 4 * (1000 * 4 + 8 + 4 + 32 * 4) + 2 * 1000 * 4, 4 * 1000 * 5);
    topk_args t = {.M = 7, .V = 1000, .k = 16};
    check(cost_topk(&f32, &t), 7 * (1000 * 4 + 16 * 8), 7 * 1000 * 2);
}

TEST(rows_of_a_table_cost_their_share)
{
    dev_weight table = weight(1, 1000, 64);
    embed_args a = {.table = &table, .T = 5};
    check(cost_embed(&f32, &a), 5 * (64 * 9 / 16) + 5 * 4 + 5 * 64 * 4, 5 * 64);
    a.T = 4000; /* more rows than the table has: each is read once */
    assert_int_equal(cost_embed(&f32, &a).n_bytes, table.n_bytes + 4000 * 4 + 4000 * 64 * 4);
    check(cost_add((cost){1, 2}, (cost){30, 40}), 31, 42);
}
