/* The cuda backend's linears and experts at every tile width: bits that do not depend on the
 * length of the call, on who shares a launch, or on graph replay. Values against ref are in
 * test_ops.c; here a sample is checked against sums in double. */
#include "ops/op_device.h"

static const backend_limits limits = {.T = 1100,
                                      .L = 64,
                                      .rows_per_lane = 16,
                                      .E = 2048,
                                      .K = 4160,
                                      .N = 17408,
                                      .F = 1024,
                                      .moe_F = 256,
                                      .shared_F = 256,
                                      .X = 300,
                                      .K_experts = 8,
                                      .V = 5000,
                                      .M = 1100,
                                      .H = 32,
                                      .G = 2,
                                      .D = 256,
                                      .gdn_Hk = 4,
                                      .gdn_Hv = 8,
                                      .gdn_dk = 128,
                                      .gdn_dv = 128,
                                      .max_position = 4096};

static const int lengths[] = {1, 2, 7, 8, 9, 16, 17, 32, 33, 64, 65, 100, 128, 129, 200, 299};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };
/* Outputs of all parts of a call: twice what a call of the largest model has. More only makes a
 * run under a sanitizer take ten minutes. */
enum { CALL_N = 40000 };

static void same(const char *got, const char *want, int64_t n, const char *what, int i)
{
    if (memcmp(got, want, (size_t)n) != 0) fail_msg("other bits: %s, %d", what, i);
}

/* ---- linear ------------------------------------------------------------------------------- */

typedef struct {
    op_format format;
    int T, N, K;
} wide_case;
static const wide_case wide_cases[] = {
    {Q(4, 64), 300, 300, 4160},
    {Q(4, 64), 1060, 2560, 1024},
    {Q(4, 64), 1060, 3584, 1024},
    {Q(4, 32), 300, 129, 1120},
    {Q(8, 128), 300, 513, 1152},
    {Q(6, 64), 300, 77, 640},
    {Q(5, 64), 300, 130, 1088},
    {Q(3, 64), 300, 128, 1280},
    {Q(2, 64), 300, 260, 2048},
    /* One slice with an odd end; slices that meet in clusters, with an odd end. */
    {Q(4, 64), 300, 16400, 832},
    {Q(4, 32), 33, 8397, 3008},
    {Q(4, 64), 300, 9000, 5120},
    /* Up to 64 rows, 12 parts: more tiles than slices have room for apart. */
    {Q(4, 64), 65, 3328, 2048},
    {W_BF16, 300, 200, 2056},
};

static float sum_in_double(const tensor *w, int n, const uint16_t *x, int64_t K, float *row)
{
    double sum = 0;
    tensor_row_f32(w, n, row);
    for (int64_t k = 0; k < K; k++) sum += (double)row[k] * (double)half_from_bf16(x[k]);
    return (float)sum;
}

static void check_values(op_call *c, const wide_case *p, const uint16_t *x, const float *y,
                         uint64_t *s)
{
    double diff = 0, norm = 0;
    float *row = op_new(c, p->K, sizeof *row);
    for (int i = 0; i < 200; i++) {
        int t = (int)(test_random(s) % (uint64_t)p->T), n = (int)(test_random(s) % (uint64_t)p->N);
        double want = (double)sum_in_double(&c->weight[0], n, x + (int64_t)t * p->K, p->K, row);
        double d = (double)y[(int64_t)t * p->N + n] - want;
        diff += d * d;
        norm += want * want;
    }
    if (!(sqrt(diff / norm) < 4e-3)) fail_msg("values are %.3g off", sqrt(diff / norm));
}

static void linear_once(backend *b, dev_buf x, int T, const dev_weight *w, const dev_buf *y,
                        int n_parts, linear_out out)
{
    linear_args a = {.x = x, .T = T, .n_parts = n_parts};
    for (int i = 0; i < n_parts; i++) {
        a.part[i].w = w;
        a.part[i].y = y[i];
        a.part[i].out = out;
    }
    CHECK_OK(b->ops->linear(b, &a), &b->last);
}

static void check_lengths(backend *b, op_call *c, const wide_case *p, dev_buf x,
                          const dev_weight *w, const char *want, uint64_t *s)
{
    dev_buf y[OPS_PARTS_MAX];
    int64_t row = (int64_t)p->N * 4;
    for (int i = 0; i < OPS_PARTS_MAX; i++) y[i] = op_upload(b, NULL, 300 * row);
    for (int i = 0; i < N_LENGTHS && lengths[i] <= p->T; i++) {
        int T = lengths[i], from = (int)(test_random(s) % (uint64_t)(p->T - T + 1));
        dev_buf at = dev_buf_at(x, (int64_t)from * p->K * 2);
        for (int n_parts = 1; n_parts <= OPS_PARTS_MAX; n_parts += n_parts < 10 ? 3 : 2) {
            if (n_parts > 1 && n_parts * p->N > CALL_N) break;
            linear_once(b, at, T, w, y, n_parts, LINEAR_F32);
            for (int k = 0; k < n_parts; k++) {
                same(op_download(b, c, y[k]), want + from * row, T * row, "rows, of parts",
                     n_parts);
                CHECK_OK(b->ops->fill(b, y[k], 0xff, T * row), &b->last);
            }
        }
    }
    for (int i = 0; i < OPS_PARTS_MAX; i++) b->ops->release(b, &y[i]);
}

TEST(a_row_of_a_linear_has_the_same_bits_in_a_call_of_any_length)
{
    backend *b = op_cuda(&limits);
    if (!b) TEST_SKIP("no cuda backend");
    uint64_t seed = test_seed();
    for (int i = 0; i < N_CASES(wide_cases); i++) {
        const wide_case *p = &wide_cases[i];
        op_call c = {.seed = seed + (uint64_t)i};
        arena_init(&c.mem, 0);
        uint64_t s = c.seed;
        err e = {0};
        op_add_weight(&c, WEIGHT_LINEAR, p->format, 0, p->N, p->K, false);
        uint16_t *x = op_noise_bf16(&c, (int64_t)p->T * p->K, &s);
        dev_weight w = {0};
        CHECK_OK(b->ops->weight_open(b, &c.weight[0], WEIGHT_LINEAR, &w, &e), &e);
        dev_buf dx = op_upload(b, x, (int64_t)p->T * p->K * 2);
        dev_buf y = op_upload(b, NULL, (int64_t)p->T * p->N * 4);
        linear_once(b, dx, p->T, &w, &y, 1, LINEAR_F32);
        char *full = op_download(b, &c, y);
        check_values(&c, p, x, (const float *)full, &s);
        check_lengths(b, &c, p, dx, &w, full, &s);
        b->ops->release(b, &dx);
        b->ops->release(b, &y);
        b->ops->weight_close(b, &w);
        arena_fini(&c.mem);
    }
}

TEST(a_gated_pair_has_the_bits_of_its_two_linears_at_any_length)
{
    backend *b = op_cuda(&limits);
    if (!b) TEST_SKIP("no cuda backend");
    uint64_t seed = test_seed();
    static const wide_case cases[] = {{Q(4, 64), 300, 200, 2048},
                                      {W_BF16, 300, 70, 1024},
                                      {Q(4, 64), 1060, 1280, 4160},
                                      {Q(4, 64), 300, 16400, 832},
                                      {Q(4, 32), 33, 17390, 768}};
    for (int i = 0; i < N_CASES(cases); i++) {
        const wide_case *p = &cases[i];
        op_call c = {.seed = seed + (uint64_t)i};
        arena_init(&c.mem, 0);
        uint64_t s = c.seed;
        err e = {0};
        dev_weight w[2] = {0};
        for (int k = 0; k < 2; k++) {
            op_add_weight(&c, WEIGHT_LINEAR, p->format, 0, p->N, p->K, false);
            CHECK_OK(b->ops->weight_open(b, &c.weight[k], WEIGHT_LINEAR, &w[k], &e), &e);
        }
        dev_buf x = op_upload(b, op_noise_bf16(&c, (int64_t)p->T * p->K, &s),
                              (int64_t)p->T * p->K * 2);
        dev_buf y = op_upload(b, NULL, (int64_t)p->T * p->N * 2);
        dev_buf part = op_upload(b, NULL, (int64_t)p->T * p->N * 2);
        linear_swiglu_args a = {x, &w[0], &w[1], y, p->T};
        CHECK_OK(b->ops->linear_swiglu(b, &a), &b->last);
        char *full = op_download(b, &c, y);
        int64_t row = (int64_t)p->N * 2;
        for (int k = 0; k < N_LENGTHS && lengths[k] <= p->T; k++) {
            int T = lengths[k], from = (int)(test_random(&s) % (uint64_t)(p->T - T + 1));
            a = (linear_swiglu_args){dev_buf_at(x, (int64_t)from * p->K * 2), &w[0], &w[1], part,
                                     T};
            CHECK_OK(b->ops->linear_swiglu(b, &a), &b->last);
            same(op_download(b, &c, part), full + from * row, T * row, "gated rows", T);
        }
        /* Up next to its own gate: with equal weights the pair is silu(g) g. */
        dev_buf g = op_upload(b, NULL, (int64_t)p->T * p->N * 4);
        linear_once(b, x, p->T, &w[0], &g, 1, LINEAR_F32);
        a = (linear_swiglu_args){x, &w[0], &w[0], y, p->T};
        CHECK_OK(b->ops->linear_swiglu(b, &a), &b->last);
        const float *gate = (const float *)op_download(b, &c, g);
        const uint16_t *got = (const uint16_t *)op_download(b, &c, y);
        for (int64_t k = 0; k < (int64_t)p->T * p->N; k++) {
            double v = (double)gate[k], want = v / (1 + exp(-v)) * v;
            double d = fabs((double)half_from_bf16(got[k]) - want);
            if (!(d <= 0.005 * fabs(want) + 1e-30)) fail_msg("%g is not %g", d + want, want);
        }
        b->ops->release(b, &x);
        b->ops->release(b, &y);
        b->ops->release(b, &g);
        b->ops->release(b, &part);
        for (int k = 0; k < 2; k++) b->ops->weight_close(b, &w[k]);
        arena_fini(&c.mem);
    }
}

/* ---- experts ------------------------------------------------------------------------------ */

typedef struct {
    op_format format, up, shared;
    int T, E, X, K, F, shared_F;
} experts_case;
static const experts_case experts_cases[] = {
    {Q(4, 64), Q(4, 64), Q(4, 64), 300, 1024, 16, 4, 128, 128},
    {Q(4, 64), Q(8, 64), Q(8, 64), 300, 256, 64, 8, 64, 64},
    {Q(4, 64), Q(4, 64), Q(8, 64), 300, 640, 64, 8, 256, 128},  /* 37 rows an expert on average */
    {Q(4, 128), Q(4, 128), Q(4, 64), 300, 256, 32, 2, 128, 0},  /* 19 */
    {Q(4, 64), Q(4, 64), Q(4, 64), 300, 2048, 40, 8, 256, 256}, /* 60; shared: four slices of K */
    {Q(4, 64), Q(4, 64), Q(4, 64), 300, 256, 300, 8, 64, 64},   /* 8, more than threads of a run */
    {Q(4, 64), Q(4, 64), Q(4, 64), 300, 128, 4, 2, 256, 128},   /* 150: two tiles each */
    {W_BF16, W_BF16, W_BF16, 300, 512, 4, 2, 64, 0},
};

static void route_noise(int32_t *ids, float *w, int T, int X, int K, uint64_t *s)
{
    for (int t = 0; t < T; t++) {
        int first = (int)(test_random(s) % (uint64_t)X);
        for (int k = 0; k < K; k++) {
            ids[t * K + k] = (first + k) % X;
            w[t * K + k] = (float)test_uniform(s);
        }
    }
}

TEST(a_row_of_moe_ffn_has_the_same_bits_in_a_call_of_any_length)
{
    backend *b = op_cuda(&limits);
    if (!b) TEST_SKIP("no cuda backend");
    uint64_t seed = test_seed();
    for (int i = 0; i < N_CASES(experts_cases); i++) {
        const experts_case *p = &experts_cases[i];
        op_call c = {.seed = seed + (uint64_t)i};
        arena_init(&c.mem, 0);
        uint64_t s = c.seed;
        err e = {0};
        dev_weight w[7] = {0};
        op_add_weight(&c, WEIGHT_EXPERTS, p->format, p->X, p->F, p->E, false);
        op_add_weight(&c, WEIGHT_EXPERTS, p->up, p->X, p->F, p->E, false);
        op_add_weight(&c, WEIGHT_EXPERTS, p->format, p->X, p->E, p->F, false);
        if (p->shared_F) {
            op_add_weight(&c, WEIGHT_LINEAR, p->shared, 0, p->shared_F, p->E, false);
            op_add_weight(&c, WEIGHT_LINEAR, p->shared, 0, p->shared_F, p->E, false);
            op_add_weight(&c, WEIGHT_LINEAR, p->shared, 0, p->E, p->shared_F, false);
            op_add_weight(&c, WEIGHT_LINEAR, p->shared, 0, 1, p->E, false);
        }
        for (int k = 0; k < c.n_weights; k++) {
            CHECK_OK(b->ops->weight_open(b, &c.weight[k], c.use[k], &w[k], &e), &e);
        }
        int32_t *ids = op_new(&c, (int64_t)p->T * p->K, 4);
        float *weight = op_new(&c, (int64_t)p->T * p->K, 4);
        route_noise(ids, weight, p->T, p->X, p->K, &s);
        dev_buf x = op_upload(b, op_noise_bf16(&c, (int64_t)p->T * p->E, &s),
                              (int64_t)p->T * p->E * 2);
        dev_buf d_ids = op_upload(b, ids, (int64_t)p->T * p->K * 4);
        dev_buf d_w = op_upload(b, weight, (int64_t)p->T * p->K * 4);
        dev_buf h = op_upload(b, NULL, (int64_t)p->T * p->E * 4);
        CHECK_OK(b->ops->fill(b, h, 0, h.n_bytes), &b->last);
        moe_ffn_args a = {x,    d_ids, d_w,  &w[0], &w[1], &w[2], NULL, NULL,       NULL,
                          NULL, h,     p->T, p->E,  p->X,  p->K,  p->F, p->shared_F};
        if (p->shared_F) {
            a.s_gate = &w[3];
            a.s_up = &w[4];
            a.s_down = &w[5];
            a.s_sigmoid = &w[6];
        }
        CHECK_OK(b->ops->moe_ffn(b, &a), &b->last);
        char *full = op_download(b, &c, h);
        for (int k = 0; k < N_LENGTHS; k++) {
            int T = lengths[k], from = (int)(test_random(&s) % (uint64_t)(p->T - T + 1));
            CHECK_OK(b->ops->fill(b, h, 0, h.n_bytes), &b->last);
            moe_ffn_args part = a;
            part.T = T;
            part.x = dev_buf_at(x, (int64_t)from * p->E * 2);
            part.ids = dev_buf_at(d_ids, (int64_t)from * p->K * 4);
            part.w = dev_buf_at(d_w, (int64_t)from * p->K * 4);
            CHECK_OK(b->ops->moe_ffn(b, &part), &b->last);
            same(op_download(b, &c, h), full + (int64_t)from * p->E * 4, (int64_t)T * p->E * 4,
                 "expert rows", T);
        }
        b->ops->release(b, &x);
        b->ops->release(b, &d_ids);
        b->ops->release(b, &d_w);
        b->ops->release(b, &h);
        for (int k = 0; k < c.n_weights; k++) b->ops->weight_close(b, &w[k]);
        arena_fini(&c.mem);
    }
}

/* ---- graphs ------------------------------------------------------------------------------- */

TEST(a_replayed_graph_reads_its_inputs_anew)
{
    backend *b = op_cuda(&limits);
    if (!b) TEST_SKIP("no cuda backend");
    op_call c = {.seed = test_seed()};
    arena_init(&c.mem, 0);
    uint64_t s = c.seed;
    err e = {0};
    enum { T = 8, N = 200, K = 2048 };
    op_add_weight(&c, WEIGHT_LINEAR, (op_format)Q(4, 64), 0, N, K, false);
    dev_weight w = {0};
    CHECK_OK(b->ops->weight_open(b, &c.weight[0], WEIGHT_LINEAR, &w, &e), &e);
    dev_buf x = op_upload(b, op_noise_bf16(&c, T * K, &s), T * K * 2),
            y = op_upload(b, NULL, T * N * 4);
    assert_false(b->ops->graph_replay(b, 42));
    CHECK_OK(b->ops->graph_begin(b, 42), &b->last);
    linear_once(b, x, T, &w, &y, 1, LINEAR_F32);
    CHECK_OK(b->ops->graph_end(b), &b->last);
    for (int i = 0; i < 3; i++) {
        char *replayed = op_download(b, &c, y);
        linear_once(b, x, T, &w, &y, 1, LINEAR_F32);
        same(replayed, op_download(b, &c, y), T * N * 4, "replay", i);
        CHECK_OK(b->ops->fill(b, y, 0xff, T * N * 4), &b->last);
        CHECK_OK(b->ops->upload(b, x, op_noise_bf16(&c, T * K, &s), T * K * 2), &b->last);
        assert_true(b->ops->graph_replay(b, 42));
    }
    assert_false(b->ops->graph_replay(b, 43));
    b->ops->release(b, &x);
    b->ops->release(b, &y);
    b->ops->weight_close(b, &w);
    arena_fini(&c.mem);
}
