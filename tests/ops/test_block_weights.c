/* tags: threads */
/* Weights of GGUF's block types in every op that takes weights, on cpu and cuda against ref, which
 * reads the file's own bytes; and the bits of a row in any company. */
#include <stdlib.h>

#include "backend/backend.h"
#include "support/test.h"
#include "tensor/block.h"
#include "tensor/block_encode.h"
#include "tensor/half.h"

enum { ROWS = 9, E = 256, F = 512, N = 70, X = 4, K = 2, VALUES = ROWS * F };

typedef struct {
    backend *b;
    float out[VALUES]; /* of the last op */
} side;

typedef struct {
    tensor t;
    uint8_t *bytes; /* owned */
    dev_weight at[2];
} weight;

static uint64_t seed;
static float x[ROWS * F], row[F];
static side sides[2]; /* ref, and the one under test */

static const backend_limits limits = {.T = ROWS,
                                      .L = 1,
                                      .rows_per_lane = 1,
                                      .E = E,
                                      .K = F,
                                      .N = F,
                                      .F = F,
                                      .moe_F = F,
                                      .shared_F = F,
                                      .X = X,
                                      .K_experts = K,
                                      .V = N,
                                      .M = ROWS};

static bool open_sides(const char *name)
{
    err e = {0};
    seed = test_seed();
    backend_options ref = {.name = "ref", .n_threads = 1}, other = {.name = name, .n_threads = 2};
    status s = backend_open(&sides[1].b, &other, &e);
    if (s == ERR_UNSUPPORTED) {
        print_message("SKIP: %s: %s\n", name, e.msg);
        return false;
    }
    CHECK_OK(s, &e);
    CHECK_OK(backend_open(&sides[0].b, &ref, &e), &e);
    for (int i = 0; i < 2; i++) CHECK_OK(sides[i].b->ops->reserve(sides[i].b, &limits, &e), &e);
    return true;
}

static void close_sides(void)
{
    for (int i = 0; i < 2; i++) sides[i].b->ops->close(sides[i].b);
}

/* Random values as blocks of `type`, opened on both sides; [n, k], of n_experts when > 1. */
static weight open_weight(dtype type, int n_experts, int n, int k, weight_use use)
{
    err e = {0};
    weight w = {.t = {.type = type, .n_dims = n_experts > 1 ? 3 : 2}};
    int64_t row_bytes = block_row_bytes(type, k), rows = (int64_t)n_experts * n;
    w.bytes = malloc((size_t)(rows * row_bytes));
    for (int64_t i = 0; i < rows; i++) {
        for (int j = 0; j < k; j++) row[j] = 0.1f * (float)test_normal(&seed);
        block_encode_row(type, row, k, w.bytes + i * row_bytes);
    }
    int64_t shape[] = {n_experts, n, k};
    memcpy(w.t.shape, n_experts > 1 ? shape : shape + 1, sizeof(int64_t) * (size_t)w.t.n_dims);
    w.t.data = w.bytes;
    w.t.n_bytes = rows * row_bytes;
    for (int i = 0; i < 2; i++)
        CHECK_OK(sides[i].b->ops->weight_open(sides[i].b, &w.t, use, &w.at[i], &e), &e);
    return w;
}

static void close_weight(weight *w)
{
    for (int i = 0; i < 2; i++) sides[i].b->ops->weight_close(sides[i].b, &w->at[i]);
    free(w->bytes);
}

static dev_buf to_device(backend *b, const void *from, int64_t n_bytes)
{
    err e = {0};
    dev_buf d = {0};
    CHECK_OK(b->ops->alloc(b, n_bytes, &d, &e), &e);
    if (from) CHECK_STATUS(b->ops->upload(b, d, from, n_bytes), ERR_OK);
    return d;
}

/* Activations: the same numbers on both sides. */
static dev_buf act_to_device(backend *b, const float *from, int64_t n)
{
    uint16_t half[VALUES];
    if (b->act == DTYPE_F32) return to_device(b, from, n * 4);
    for (int64_t i = 0; i < n; i++) half[i] = half_to_bf16(from[i]);
    return to_device(b, half, n * 2);
}

static void read_out(side *s, dev_buf from, int64_t n, bool is_act)
{
    uint16_t half[VALUES];
    bool is_half = is_act && s->b->act == DTYPE_BF16;
    void *to = is_half ? (void *)half : s->out;
    CHECK_STATUS(s->b->ops->download(s->b, to, from, n * (is_half ? 2 : 4)), ERR_OK);
    if (is_half) half_row_from_bf16(half, s->out, n);
}

static void fill_x(void)
{
    for (int i = 0; i < ROWS * F; i++)
        x[i] = half_from_bf16(half_to_bf16((float)test_normal(&seed)));
}

static void expect_near(const char *what, dtype type, int T, int64_t n)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = (double)sides[1].out[i], b = (double)sides[0].out[i];
        diff += (a - b) * (a - b);
        norm += b * b;
    }
    /* cpu rounds activations to 8 bits, cuda results to 8 of their own. */
    if (!(norm > 0 && sqrt(diff / norm) < 2e-2))
        fail_msg("%s of %s, %d rows: %g off", what, dtype_name(type), T, sqrt(diff / norm));
}

typedef struct {
    dtype type;
    int T;
    weight linear, plain, gate, up, experts[3], shared[3], sigmoid, table;
} model;

static void run_linear(side *s, const model *m, int i, linear_out out)
{
    backend *b = s->b;
    bool is_act = out == LINEAR_ACT;
    float ones[VALUES];
    for (int j = 0; j < VALUES; j++) ones[j] = 1;
    dev_buf in = act_to_device(b, x, (int64_t)m->T * E);
    dev_buf y = is_act ? act_to_device(b, ones, (int64_t)m->T * N)
                       : to_device(b, ones, (int64_t)m->T * N * 4);
    dev_buf z = to_device(b, NULL, (int64_t)m->T * N * 4);
    linear_args a = {.x = in, .T = m->T, .n_parts = 2};
    a.part[0].w = &m->linear.at[i], a.part[0].y = y, a.part[0].out = out;
    a.part[1].w = &m->plain.at[i], a.part[1].y = z, a.part[1].out = LINEAR_F32;
    CHECK_OK(b->ops->linear(b, &a), &b->last);
    read_out(s, z, (int64_t)m->T * N, false);
    for (int64_t j = 0; j < (int64_t)m->T * N; j++) assert_true(isfinite(s->out[j]));
    read_out(s, y, (int64_t)m->T * N, is_act);
    b->ops->release(b, &z);
    b->ops->release(b, &y);
    b->ops->release(b, &in);
}

static void run_swiglu(side *s, const model *m, int i)
{
    backend *b = s->b;
    dev_buf in = act_to_device(b, x, (int64_t)m->T * E);
    dev_buf y = to_device(b, NULL, (int64_t)m->T * F * 4);
    linear_swiglu_args a = {.x = in, .gate = &m->gate.at[i], .up = &m->up.at[i], .y = y, .T = m->T};
    CHECK_OK(b->ops->linear_swiglu(b, &a), &b->last);
    read_out(s, y, (int64_t)m->T * F, true);
    b->ops->release(b, &y);
    b->ops->release(b, &in);
}

static void run_experts(side *s, const model *m, int i)
{
    backend *b = s->b;
    int32_t ids[ROWS * K];
    float w[ROWS * K], h[ROWS * E];
    for (int j = 0; j < m->T * K; j++) {
        ids[j] = (j / K + j % K * 2) % X;
        w[j] = 0.3f + 0.4f * (float)(j % K);
    }
    for (int j = 0; j < m->T * E; j++) h[j] = 0.25f;
    dev_buf in = act_to_device(b, x, (int64_t)m->T * E);
    dev_buf id = to_device(b, ids, m->T * K * 4), weights = to_device(b, w, m->T * K * 4);
    dev_buf y = to_device(b, h, (int64_t)m->T * E * 4);
    moe_ffn_args a = {.x = in,
                      .ids = id,
                      .w = weights,
                      .gate = &m->experts[0].at[i],
                      .up = &m->experts[1].at[i],
                      .down = &m->experts[2].at[i],
                      .s_gate = &m->shared[0].at[i],
                      .s_up = &m->shared[1].at[i],
                      .s_down = &m->shared[2].at[i],
                      .s_sigmoid = &m->sigmoid.at[i],
                      .h = y,
                      .T = m->T,
                      .E = E,
                      .X = X,
                      .K = K,
                      .F = F,
                      .shared_F = F};
    CHECK_OK(b->ops->moe_ffn(b, &a), &b->last);
    read_out(s, y, (int64_t)m->T * E, false);
    dev_buf *all[] = {&y, &weights, &id, &in};
    for (int j = 0; j < 4; j++) b->ops->release(b, all[j]);
}

static void run_embed(side *s, const model *m, int i)
{
    backend *b = s->b;
    int32_t ids[ROWS];
    for (int t = 0; t < m->T; t++) ids[t] = (t * 17 + 69) % N;
    dev_buf id = to_device(b, ids, m->T * 4), y = to_device(b, NULL, (int64_t)m->T * E * 4);
    embed_args a = {.table = &m->table.at[i], .ids = id, .out = y, .scale = 1, .T = m->T};
    CHECK_OK(b->ops->embed(b, &a), &b->last);
    read_out(s, y, (int64_t)m->T * E, false);
    b->ops->release(b, &y);
    b->ops->release(b, &id);
}

static model open_model(dtype type)
{
    model m = {.type = type};
    m.linear = open_weight(type, 1, N, E, WEIGHT_LINEAR);
    m.plain = open_weight(DTYPE_BF16, 1, N, E, WEIGHT_LINEAR);
    m.gate = open_weight(type, 1, F, E, WEIGHT_LINEAR);
    m.up = open_weight(DTYPE_Q6_K, 1, F, E, WEIGHT_LINEAR);
    m.experts[0] = open_weight(type, X, F, E, WEIGHT_EXPERTS);
    m.experts[1] = open_weight(type, X, F, E, WEIGHT_EXPERTS);
    m.experts[2] = open_weight(DTYPE_Q6_K, X, E, F, WEIGHT_EXPERTS);
    m.shared[0] = open_weight(DTYPE_Q8_0, 1, F, E, WEIGHT_LINEAR);
    m.shared[1] = open_weight(type, 1, F, E, WEIGHT_LINEAR);
    m.shared[2] = open_weight(type, 1, E, F, WEIGHT_LINEAR);
    m.sigmoid = open_weight(DTYPE_F32, 1, 1, E, WEIGHT_LINEAR);
    m.table = open_weight(type, 1, N, E, WEIGHT_TABLE);
    return m;
}

static void close_model(model *m)
{
    weight *all[] = {&m->linear,     &m->plain,      &m->gate,       &m->up,
                     &m->experts[0], &m->experts[1], &m->experts[2], &m->shared[0],
                     &m->shared[1],  &m->shared[2],  &m->sigmoid,    &m->table};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) close_weight(all[i]);
}

/* Each op over m->T rows; the first row's bits of the tested side go to `first` or equal it. */
static void check_ops(const model *m, float (*first)[F], bool is_first)
{
    static const char *const names[] = {"linear act", "linear f32", "linear add",
                                        "swiglu",     "experts",    "embed"};
    static const int widths[] = {N, N, N, F, E, E};
    for (int op = 0; op < 6; op++) {
        for (int i = 0; i < 2; i++) {
            if (op < 3) run_linear(&sides[i], m, i, (linear_out)op);
            if (op == 3) run_swiglu(&sides[i], m, i);
            if (op == 4) run_experts(&sides[i], m, i);
            if (op == 5) run_embed(&sides[i], m, i);
        }
        expect_near(names[op], m->type, m->T, (int64_t)m->T * widths[op]);
        size_t n_bytes = (size_t)widths[op] * sizeof(float);
        if (is_first)
            memcpy(first[op], sides[1].out, n_bytes);
        else
            assert_memory_equal(first[op], sides[1].out, n_bytes);
    }
}

static void check_backend(const char *name)
{
    static const dtype types[] = {DTYPE_Q4_K, DTYPE_Q8_0, DTYPE_Q5_1, DTYPE_Q3_K};
    static const int rows[] = {1, 3, ROWS};
    float first[6][F];
    if (!open_sides(name)) skip();
    for (int k = 0; k < 4; k++) {
        model m = open_model(types[k]);
        fill_x();
        for (int i = 0; i < 3; i++) {
            m.T = rows[i];
            check_ops(&m, first, i == 0);
        }
        close_model(&m);
    }
    close_sides();
}

TEST(block_weights_on_cpu_are_those_of_ref)
{
    check_backend("cpu");
}

TEST(block_weights_on_cuda_are_those_of_ref)
{
    check_backend("cuda");
}
