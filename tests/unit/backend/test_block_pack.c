/* The device's form of block types, on the host: what the kernel computes is what the file says. */
#include "backend/cuda/block_pack_priv.h"

#include <stdlib.h>

#include "backend/backend.h"
#include "block_bytes.h"
#include "tensor/half.h"

enum { N = 70, K = 512, ROWS = 8, PANELS = (N + BLOCK_PANEL_N - 1) / BLOCK_PANEL_N };

static uint8_t bytes[N * K * 2], panel_bytes[1 << 16], codes[K];
static float groups[K], want[K];
static uint16_t x[ROWS][K];

static tensor make(dtype type, uint64_t *seed)
{
    tensor t = {.type = type, .n_dims = 2, .shape = {N, K}, .data = bytes};
    t.n_bytes = N * block_row_bytes(type, K);
    assert_true(t.n_bytes <= (int64_t)sizeof bytes);
    block_bytes_fill(type, bytes, t.n_bytes, seed);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < K; k++) x[r][k] = half_to_bf16((float)test_normal(seed));
    return t;
}

/* Outputs of a panel for rows [0, n_rows) of x, summed as the kernel does. */
static void multiply(const block_format *f, const uint8_t *panel, int n_rows,
                     float (*out)[BLOCK_PANEL_N])
{
    const uint16_t *rows[ROWS];
    for (int r = 0; r < n_rows; r++) rows[r] = x[r];
    for (int lane = 0; lane < BLOCK_PANEL_N; lane++) {
        for (int s = 0; s < BLOCK_SLICES; s++) {
            float acc[ROWS] = {0};
            block_dot(f, panel, lane, block_slice_begin(f, s), block_slice_begin(f, s + 1), rows,
                      n_rows, acc);
            for (int r = 0; r < n_rows; r++) out[r][lane] = s ? out[r][lane] + acc[r] : acc[r];
        }
    }
}

static void check_products(const tensor *t)
{
    block_format f = block_format_of(t);
    assert_true(block_panel_bytes(&f) <= (int64_t)sizeof panel_bytes);
    double error = 0, size = 0;
    for (int p = 0; p < PANELS; p++) {
        float all[ROWS][BLOCK_PANEL_N], one[1][BLOCK_PANEL_N];
        memset(panel_bytes, 0xff, sizeof panel_bytes);
        block_pack_panel(t, p, codes, groups, panel_bytes);
        assert_int_equal(panel_bytes[block_panel_bytes(&f)], 0xff);
        multiply(&f, panel_bytes, ROWS, all);
        multiply(&f, panel_bytes, 1, one);
        assert_memory_equal(one, all, sizeof one); /* in any company */
        for (int lane = 0; lane < BLOCK_PANEL_N; lane++) {
            int n = p * BLOCK_PANEL_N + lane;
            if (n < N) tensor_row_f32(t, n, want);
            for (int r = 0; r < ROWS; r++) {
                double sum = 0;
                for (int k = 0; k < K && n < N; k++)
                    sum += (double)want[k] * (double)block_bf16(x[r][k]);
                error += ((double)all[r][lane] - sum) * ((double)all[r][lane] - sum);
                size += sum * sum;
            }
        }
    }
    if (!(size > 0 && error <= 1e-10 * size))
        fail_msg("%s: error %g of %g", dtype_name(t->type), sqrt(error), sqrt(size));
}

TEST(products_are_those_of_the_files_values)
{
    uint64_t seed = test_seed();
    int n = 0;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        if (!dtype_is_block((dtype)type)) continue;
        tensor t = make((dtype)type, &seed);
        check_products(&t);
        n++;
    }
    assert_int_equal(n, 21);
}

TEST(heads_in_another_order_are_put_right)
{
    uint64_t seed = test_seed();
    static const dtype types[] = {DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q8_0};
    for (int i = 0; i < 3; i++) {
        tensor t = make(types[i], &seed);
        t.heads = (tensor_heads){.n = 8, .n_groups = 2, .size = K / 8, .in_columns = true};
        assert_true(block_is_packable(&t));
        check_products(&t);
        t.heads = (tensor_heads){.n = 6, .n_groups = 3, .size = 10, .from = 10};
        check_products(&t);
        t.heads = (tensor_heads){.n = K / 8, .n_groups = 2, .size = 8, .in_columns = true};
        assert_false(block_is_packable(&t));
    }
}

TEST(rows_of_a_table_are_the_files_rows)
{
    uint64_t seed = test_seed();
    for (int type = 0; type < DTYPE_COUNT; type++) {
        if (!dtype_is_block((dtype)type)) continue;
        tensor t = make((dtype)type, &seed);
        block_format f = block_format_of(&t);
        float scales[K], biases[K], most = 0;
        for (int row = 0; row < N; row++) {
            block_pack_row(&t, row, codes, groups, panel_bytes, scales, biases);
            tensor_row_f32(&t, row, want);
            for (int k = 0; k < K; k++) most = fmaxf(most, fabsf(want[k]));
            for (int k = 0; k < K; k++) {
                int bit = k * f.bits, code = panel_bytes[bit / 8] >> bit % 8 & ((1 << f.bits) - 1);
                float got = scales[k / f.group] * (float)code + biases[k / f.group];
                if (!(fabsf(got - want[k]) <= 1e-6f * most))
                    fail_msg("%s: %g, want %g", dtype_name(t.type), (double)got, (double)want[k]);
            }
        }
    }
}

/* Bytes as block_pack_panel and block_pack_row write them: of Q4_K 4 bits a code and f32 scale and
 * bias of each 32; panels are whole. */
TEST(a_plan_knows_the_bytes_of_panels_and_tables)
{
    tensor t = {.type = DTYPE_Q4_K, .n_dims = 2, .shape = {40, 512}};
    int64_t side;
    assert_int_equal(block_pack_bytes(&t, false, &side), 64 * 512 / 8 * (4 + 2));
    assert_int_equal(side, 0);
    assert_int_equal(block_pack_bytes(&t, true, &side), 40 * 512 / 2);
    assert_int_equal(side, 40 * 16 * 4);
    assert_int_equal(backend_block_bytes("cuda", &t, WEIGHT_TABLE), 40 * 512 * 6 / 8);
    t = (tensor){.type = DTYPE_Q4_K, .n_dims = 3, .shape = {3, 40, 512}};
    assert_int_equal(backend_block_bytes("cuda:sm_90", &t, WEIGHT_EXPERTS), 3 * 64 * 512 * 6 / 8);
}
