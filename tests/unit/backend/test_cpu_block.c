/* tags: threads */
/* Weights of block types on the cpu backend against `ref`, which reads the file's own bytes. */
#include <stdlib.h>

#include "backend/backend.h"
#include "block_bytes.h"
#include "support/test.h"
#include "tensor/block.h"

enum { N = 96, K = 512, T = 3, X = 2, SIZE = N * K * X };

typedef struct {
    backend *ref, *cpu;
    float *x, *y[2], *one;
    uint8_t *bytes;
    uint64_t seed;
} bench;

static bench open_bench(void)
{
    bench b = {.seed = test_seed()};
    err e = {0};
    backend_limits limits = {.T = 8, .L = 1, .rows_per_lane = 1, .E = K, .K = K, .N = N, .M = 1};
    CHECK_OK(backend_open(&b.ref, &(backend_options){.name = "ref", .n_threads = 1}, &e), &e);
    CHECK_OK(backend_open(&b.cpu, &(backend_options){.name = "cpu", .n_threads = 2}, &e), &e);
    CHECK_OK(b.ref->ops->reserve(b.ref, &limits, &e), &e);
    CHECK_OK(b.cpu->ops->reserve(b.cpu, &limits, &e), &e);
    b.x = aligned_alloc(64, T * K * sizeof(float));
    b.one = aligned_alloc(64, N * sizeof(float) + 64);
    for (int i = 0; i < 2; i++) b.y[i] = aligned_alloc(64, T * N * sizeof(float));
    b.bytes = malloc(SIZE * 2);
    for (int i = 0; i < T * K; i++) b.x[i] = (float)test_normal(&b.seed);
    return b;
}

static void close_bench(bench *b)
{
    b->ref->ops->close(b->ref);
    b->cpu->ops->close(b->cpu);
    free(b->x);
    free(b->one);
    free(b->y[0]);
    free(b->y[1]);
    free(b->bytes);
}

static void linear(backend *be, const dev_weight *w, float *x, float *y, int rows)
{
    linear_args a = {.x = {x, rows * K * 4},
                     .T = rows,
                     .n_parts = 1,
                     .part = {{w, {y, rows * N * 4}, LINEAR_F32}}};
    assert_int_equal(be->ops->linear(be, &a), ERR_OK);
}

/* Relative distance of the two results over all rows. */
static double distance(const bench *b)
{
    double diff = 0, norm = 0;
    for (int i = 0; i < T * N; i++) {
        double d = (double)b->y[1][i] - (double)b->y[0][i];
        diff += d * d;
        norm += (double)b->y[0][i] * (double)b->y[0][i];
    }
    return sqrt(diff / norm);
}

/* With int8 activations a type stays within the bound of the affine ones; f32 panels, where heads
 * cut through groups, are near exact; and a row alone has the bits that it has among others. */
static void check_type(bench *b, dtype t, tensor_heads heads)
{
    tensor w = {.type = t, .n_dims = 2, .shape = {N, K}, .data = b->bytes, .heads = heads};
    dev_weight in_ref, in_cpu;
    err e = {0};
    w.n_bytes = block_row_bytes(t, (int64_t)N * K);
    block_bytes_fill(t, b->bytes, w.n_bytes, &b->seed);
    CHECK_OK(b->ref->ops->weight_open(b->ref, &w, WEIGHT_LINEAR, &in_ref, &e), &e);
    CHECK_OK(b->cpu->ops->weight_open(b->cpu, &w, WEIGHT_LINEAR, &in_cpu, &e), &e);
    linear(b->ref, &in_ref, b->x, b->y[0], T);
    linear(b->cpu, &in_cpu, b->x, b->y[1], T);
    bool is_int8 = !heads.in_columns || heads.size % block_affine_of(t).group == 0;
    double bound = is_int8 ? 0.05 : 2e-5, got = distance(b);
    if (!(got <= bound)) fail_msg("%s is off by %g", dtype_name(t), got);
    for (int row = 0; row < T; row++) {
        linear(b->cpu, &in_cpu, b->x + row * K, b->one, 1);
        assert_memory_equal(b->one, b->y[1] + row * N, N * sizeof(float));
    }
    b->ref->ops->weight_close(b->ref, &in_ref);
    b->cpu->ops->weight_close(b->cpu, &in_cpu);
}

TEST(every_block_type_multiplies_as_on_ref)
{
    bench b = open_bench();
    for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++) check_type(&b, (dtype)t, (tensor_heads){0});
    close_bench(&b);
}

/* Up to 64 outputs keep f32 activations, and a weight is then the value of the file: a row with a
 * single one picks a column. */
TEST(the_weights_of_few_outputs_are_the_files_values_and_take_little)
{
    enum { FEW = 48 };
    bench b = open_bench();
    for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++) {
        tensor w = {.type = (dtype)t, .n_dims = 2, .shape = {FEW, K}, .data = b.bytes};
        dev_weight open;
        err e = {0};
        float row[K];
        block_affine a = block_affine_of((dtype)t);
        w.n_bytes = block_row_bytes((dtype)t, FEW * K);
        block_bytes_fill((dtype)t, b.bytes, w.n_bytes, &b.seed);
        CHECK_OK(b.cpu->ops->weight_open(b.cpu, &w, WEIGHT_LINEAR, &open, &e), &e);
        int bits = a.bits + (a.zero ? 32 : 64) / a.group;
        assert_int_equal(open.n_bytes, FEW * K * bits / 8);
        for (int k = 0; k < K; k += 7) {
            memset(b.x, 0, K * sizeof *b.x);
            b.x[k] = 1;
            linear_args args = {.x = {b.x, K * 4},
                                .T = 1,
                                .n_parts = 1,
                                .part = {{&open, {b.one, FEW * 4}, LINEAR_F32}}};
            assert_int_equal(b.cpu->ops->linear(b.cpu, &args), ERR_OK);
            for (int n = 0; n < FEW; n++) {
                tensor_row_f32(&w, n, row);
                float got = b.one[n];
                /* A bias is subtracted once more rounded. */
                if (!(a.zero ? got == row[k] : fabsf(got - row[k]) <= 1e-6f))
                    fail_msg("%s: %g, want %g", dtype_name((dtype)t), (double)got, (double)row[k]);
            }
        }
        b.cpu->ops->weight_close(b.cpu, &open);
    }
    close_bench(&b);
}

/* 4 heads of 128 columns: half a block of 256; 6 heads of 8 rows behind 48 others. */
TEST(heads_in_another_order_multiply_as_on_ref)
{
    static const dtype types[] = {DTYPE_Q8_0, DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_IQ2_S, DTYPE_IQ4_XS};
    bench b = open_bench();
    for (int i = 0; i < 5; i++) {
        check_type(&b, types[i], (tensor_heads){4, 2, 128, 0, true});
        check_type(&b, types[i], (tensor_heads){32, 2, 16, 0, true});
        check_type(&b, types[i], (tensor_heads){64, 2, 8, 0, true});
        check_type(&b, types[i], (tensor_heads){6, 3, 8, 48, false});
    }
    check_type(&b, DTYPE_Q8_0, (tensor_heads){8, 2, 64, 0, true}); /* whole blocks of the panels */
    check_type(&b, DTYPE_IQ4_NL, (tensor_heads){8, 2, 64, 0, true});
    close_bench(&b);
}

TEST(experts_and_tables_of_blocks_open_too)
{
    bench b = open_bench();
    static const dtype types[] = {DTYPE_Q4_K, DTYPE_Q6_K};
    for (int i = 0; i < 2; i++) {
        tensor w = {.type = types[i], .n_dims = 3, .shape = {X, N, K}, .data = b.bytes};
        dev_weight open;
        err e = {0};
        float row[K], out[K];
        w.n_bytes = block_row_bytes(types[i], SIZE);
        block_bytes_fill(types[i], b.bytes, w.n_bytes, &b.seed);
        CHECK_OK(b.cpu->ops->weight_open(b.cpu, &w, WEIGHT_EXPERTS, &open, &e), &e);
        assert_true(open.X == X && open.N == N && open.K == K && open.n_bytes > 0);
        b.cpu->ops->weight_close(b.cpu, &open);
        w.n_dims = 2, w.shape[0] = X * N, w.shape[1] = K;
        CHECK_OK(b.cpu->ops->weight_open(b.cpu, &w, WEIGHT_TABLE, &open, &e), &e);
        int32_t id = 7;
        embed_args a = {
            .table = &open, .ids = {&id, 4}, .out = {out, sizeof out}, .scale = 1, .T = 1};
        assert_int_equal(b.cpu->ops->embed(b.cpu, &a), ERR_OK);
        tensor_row_f32(&w, 7, row);
        assert_memory_equal(row, out, sizeof row);
        b.cpu->ops->weight_close(b.cpu, &open);
    }
    close_bench(&b);
}

/* Few outputs, heads that cut through blocks or through groups, experts, a table. */
TEST(a_plan_without_a_backend_says_what_opening_takes)
{
    static const struct {
        int n_dims;
        int64_t shape[3];
        weight_use use;
        tensor_heads heads;
    } cases[] = {{2, {N, K}, WEIGHT_LINEAR, {0}},
                 {2, {N - 3, K}, WEIGHT_LINEAR, {0}},
                 {2, {48, K}, WEIGHT_LINEAR, {0}},
                 {2, {N, K}, WEIGHT_LINEAR, {4, 2, 128, 0, true}},
                 {2, {N, K}, WEIGHT_LINEAR, {64, 2, 8, 0, true}},
                 {3, {X, N, K}, WEIGHT_EXPERTS, {0}},
                 {2, {N, K}, WEIGHT_TABLE, {0}}};
    bench b = open_bench();
    for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            tensor w = {.type = (dtype)t, .n_dims = cases[i].n_dims, .data = b.bytes};
            dev_weight open;
            err e = {0};
            memcpy(w.shape, cases[i].shape, sizeof cases[i].shape);
            w.heads = cases[i].heads;
            w.n_bytes = block_row_bytes(w.type, N * K * (w.n_dims == 3 ? X : 1));
            block_bytes_fill(w.type, b.bytes, w.n_bytes, &b.seed);
            CHECK_OK(b.cpu->ops->weight_open(b.cpu, &w, cases[i].use, &open, &e), &e);
            int64_t planned = backend_block_bytes(b.cpu->name, &w, cases[i].use);
            assert_int_equal(planned, open.owned ? open.n_bytes : 0);
            assert_int_equal(backend_block_bytes(NULL, &w, cases[i].use), planned);
            assert_int_equal(backend_block_bytes("ref", &w, cases[i].use), 0);
            b.cpu->ops->weight_close(b.cpu, &open);
        }
    close_bench(&b);
}
