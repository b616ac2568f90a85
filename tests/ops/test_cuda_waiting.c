/* Work that the cuda backend leaves for the op behind (waiting.cuh): the same bits as when a wait
 * between the two ops makes it two launches. */
#include "ops/op_cases.h"
#include "ops/op_check.h"
#include "ops/op_gdn.h"

static backend *cuda(void)
{
    static const backend_limits limits = {.T = 64,
                                          .L = 16,
                                          .rows_per_lane = 16,
                                          .E = 5120,
                                          .K = 17408,
                                          .N = 5120,
                                          .F = 512,
                                          .moe_F = 128,
                                          .shared_F = 128,
                                          .X = 16,
                                          .K_experts = 10,
                                          .M = 64,
                                          .gdn_Hk = 2,
                                          .gdn_Hv = 6,
                                          .gdn_dk = 128,
                                          .gdn_dv = 128};
    static backend *b;
    err e = {0};
    backend_options o = {.name = "cuda", .n_threads = 1};
    if (!b && backend_open(&b, &o, &e) != ERR_OK) return NULL;
    CHECK_OK(b->ops->reserve(b, &limits, &e), &e);
    return b;
}

static dev_buf device(backend *b, const void *from, int64_t n_bytes)
{
    err e = {0};
    dev_buf d = {0};
    CHECK_OK(b->ops->alloc(b, n_bytes, &d, &e), &e);
    if (from) CHECK_OK(b->ops->upload(b, d, from, n_bytes), &b->last);
    return d;
}

static char *download(backend *b, op_call *c, dev_buf d)
{
    char *p = op_new(c, d.n_bytes, 1);
    CHECK_OK(b->ops->download(b, p, d, d.n_bytes), &b->last);
    return p;
}

static uint16_t *noise_bf16(op_call *c, int64_t n, uint64_t *s)
{
    uint16_t *x = op_new(c, n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = half_to_bf16((float)op_noise(s));
    return x;
}
static float *noise_f32(op_call *c, int64_t n, uint64_t *s)
{
    float *x = op_new(c, n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)op_noise(s);
    return x;
}

/* ---- what is added to the residual stream, and its norm ------------------------------------ */

typedef struct {
    dev_buf h, w, y, first;
    int T, E;
} stream;

static stream stream_new(backend *b, op_call *c, int T, int E, uint64_t *s)
{
    stream r = {.T = T, .E = E};
    r.first = device(b, noise_f32(c, (int64_t)T * E, s), (int64_t)T * E * 4);
    r.w = device(b, noise_f32(c, E, s), (int64_t)E * 4);
    r.h = device(b, NULL, (int64_t)T * E * 4);
    r.y = device(b, NULL, (int64_t)T * E * 2);
    return r;
}

static void stream_start(backend *b, const stream *r)
{
    CHECK_OK(b->ops->copy(b, r->h, r->first, r->h.n_bytes), &b->last);
    CHECK_OK(b->ops->fill(b, r->y, 0xff, r->y.n_bytes), &b->last);
}

static void stream_norm(backend *b, const stream *r)
{
    rmsnorm_args a = {r->h, r->w, r->y, 1e-6f, r->T, r->E};
    CHECK_OK(b->ops->rmsnorm(b, &a), &b->last);
}

static void stream_release(backend *b, stream *r)
{
    b->ops->release(b, &r->h);
    b->ops->release(b, &r->w);
    b->ops->release(b, &r->y);
    b->ops->release(b, &r->first);
}

/* way 0: a wait between; 1: none; 2: another op between; 3: none, replayed from a graph. */
enum { WAYS = 4 };

typedef status (*stream_op)(backend *b, const void *args);

static void stream_check(backend *b, op_call *c, stream *r, stream_op op, const void *args, int i)
{
    char *h = NULL, *y = NULL;
    for (int way = 0; way < WAYS; way++) {
        stream_start(b, r);
        if (way == 3) {
            CHECK_OK(b->ops->sync(b), &b->last);
            CHECK_OK(b->ops->graph_begin(b, 77 + (uint64_t)i), &b->last);
        }
        CHECK_OK(op(b, args), &b->last);
        if (way == 0) CHECK_OK(b->ops->sync(b), &b->last);
        if (way == 2) {
            tap_store_args t = {r->h, r->y, r->T, r->E, 0, r->E};
            CHECK_OK(b->ops->tap_store(b, &t), &b->last);
        }
        stream_norm(b, r);
        if (way == 3) CHECK_OK(b->ops->graph_end(b), &b->last);
        char *got_h = download(b, c, r->h), *got_y = download(b, c, r->y);
        if (way == 0) h = got_h, y = got_y;
        if (memcmp(h, got_h, (size_t)r->h.n_bytes) != 0 ||
            memcmp(y, got_y, (size_t)r->y.n_bytes) != 0)
            fail_msg("other bits: case %d, way %d", i, way);
    }
}

static status run_linear(backend *b, const void *args)
{
    return b->ops->linear(b, args);
}
static status run_experts(backend *b, const void *args)
{
    return b->ops->moe_ffn(b, args);
}

TEST(a_norm_takes_over_the_sums_of_the_linear_in_front)
{
    static const struct {
        op_format format;
        int T, N, K;
    } cases[] = {{Q(4, 64), 1, 5120, 17408}, {Q(4, 64), 8, 5120, 6144}, {Q(4, 64), 16, 2048, 4096},
                 {Q(4, 32), 31, 2048, 4096}, {Q(8, 64), 3, 1024, 3584}, {Q(6, 64), 2, 4096, 1024},
                 {W_BF16, 5, 640, 2048},     {Q(4, 64), 33, 1024, 3584}};
    backend *b = cuda();
    if (!b) TEST_SKIP("no cuda backend");
    uint64_t seed = test_seed();
    for (int i = 0; i < N_CASES(cases); i++) {
        op_call c = {.seed = seed + (uint64_t)i};
        arena_init(&c.mem, 0);
        uint64_t s = c.seed;
        err e = {0};
        int T = cases[i].T, N = cases[i].N, K = cases[i].K;
        dev_weight w = {0};
        op_add_weight(&c, WEIGHT_LINEAR, cases[i].format, 0, N, K, false);
        CHECK_OK(b->ops->weight_open(b, &c.weight[0], WEIGHT_LINEAR, &w, &e), &e);
        dev_buf x = device(b, noise_bf16(&c, (int64_t)T * K, &s), (int64_t)T * K * 2);
        stream r = stream_new(b, &c, T, N, &s);
        linear_args a = {.x = x, .T = T, .n_parts = 1, .part = {{&w, r.h, LINEAR_ADD}}};
        stream_check(b, &c, &r, run_linear, &a, i);
        stream_release(b, &r);
        b->ops->release(b, &x);
        b->ops->weight_close(b, &w);
        arena_fini(&c.mem);
    }
}

TEST(a_norm_takes_over_the_sums_of_the_experts_in_front)
{
    static const struct {
        int T, E, X, K, F, shared_F;
    } cases[] = {{1, 2048, 16, 8, 128, 128}, {9, 1024, 16, 10, 64, 64}, {32, 512, 16, 4, 64, 0}};
    backend *b = cuda();
    if (!b) TEST_SKIP("no cuda backend");
    uint64_t seed = test_seed();
    for (int i = 0; i < N_CASES(cases); i++) {
        op_call c = {.seed = seed + (uint64_t)i};
        arena_init(&c.mem, 0);
        uint64_t s = c.seed;
        err e = {0};
        int T = cases[i].T, E = cases[i].E, X = cases[i].X, K = cases[i].K, F = cases[i].F;
        int sF = cases[i].shared_F;
        dev_weight w[7] = {0};
        op_add_weight(&c, WEIGHT_EXPERTS, (op_format)Q(4, 64), X, F, E, false);
        op_add_weight(&c, WEIGHT_EXPERTS, (op_format)Q(4, 64), X, F, E, false);
        op_add_weight(&c, WEIGHT_EXPERTS, (op_format)Q(4, 64), X, E, F, false);
        if (sF) {
            op_add_weight(&c, WEIGHT_LINEAR, (op_format)Q(4, 64), 0, sF, E, false);
            op_add_weight(&c, WEIGHT_LINEAR, (op_format)Q(4, 64), 0, sF, E, false);
            op_add_weight(&c, WEIGHT_LINEAR, (op_format)Q(4, 64), 0, E, sF, false);
            op_add_weight(&c, WEIGHT_LINEAR, (op_format)Q(8, 64), 0, 1, E, false);
        }
        for (int k = 0; k < c.n_weights; k++)
            CHECK_OK(b->ops->weight_open(b, &c.weight[k], c.use[k], &w[k], &e), &e);
        int32_t *ids = op_new(&c, (int64_t)T * K, 4);
        for (int u = 0; u < T * K; u++) ids[u] = (u / K * 3 + u % K) % X;
        dev_buf x = device(b, noise_bf16(&c, (int64_t)T * E, &s), (int64_t)T * E * 2);
        dev_buf d_ids = device(b, ids, (int64_t)T * K * 4);
        dev_buf d_w = device(b, noise_f32(&c, (int64_t)T * K, &s), (int64_t)T * K * 4);
        stream r = stream_new(b, &c, T, E, &s);
        moe_ffn_args a = {.x = x,
                          .ids = d_ids,
                          .w = d_w,
                          .gate = &w[0],
                          .up = &w[1],
                          .down = &w[2],
                          .h = r.h,
                          .T = T,
                          .E = E,
                          .X = X,
                          .K = K,
                          .F = F,
                          .shared_F = sF};
        if (sF) a.s_gate = &w[3], a.s_up = &w[4], a.s_down = &w[5], a.s_sigmoid = &w[6];
        stream_check(b, &c, &r, run_experts, &a, 100 + i);
        stream_release(b, &r);
        b->ops->release(b, &x);
        b->ops->release(b, &d_ids);
        b->ops->release(b, &d_w);
        for (int k = 0; k < c.n_weights; k++) b->ops->weight_close(b, &w[k]);
        arena_fini(&c.mem);
    }
}

/* ---- the delta rule ------------------------------------------------------------------------ */

enum {
    RULE_P = OP_ROWS_N,
    RULE_A,
    RULE_B,
    RULE_Z,
    RULE_CONV_W,
    RULE_NEG_A,
    RULE_DT,
    RULE_NORM,
    RULE_QKV,
    RULE_G,
    RULE_BETA,
    RULE_OUT,
    RULE_STATE,
    RULE_CONV
};

/* Enough heads in all to fill a GPU; one lane is longer than a stage. */
static const gdn_case shapes[] = {
    {"1@0,1@7,3@0,8@64,1@5,17@0,4@9,1@1,5@0,1@130,7@3,2@2+1", 2, 6, 128, 128},
    {"3@0,1@7,1@0,2@64,1@5,1@0,4@9,1@1,5@0,1@130,1@3,2@2", 4, 8, 64, 32},
};
static const gdn_case *shape;
static bool is_apart, advances;

static status rule_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    gdn_prep_args p = {.p = d[RULE_P],
                       .a = d[RULE_A],
                       .b = d[RULE_B],
                       .conv_w = d[RULE_CONV_W],
                       .neg_A = d[RULE_NEG_A],
                       .dt_bias = d[RULE_DT],
                       .conv_state = d[RULE_CONV],
                       .rows = op_rows(c, 0, d),
                       .qkv = d[RULE_QKV],
                       .g = d[RULE_G],
                       .beta = d[RULE_BETA],
                       .Hk = shape->Hk,
                       .Hv = shape->Hv,
                       .dk = shape->dk,
                       .dv = shape->dv};
    gdn_scan_args s = {.qkv = p.qkv,
                       .g = p.g,
                       .beta = p.beta,
                       .p = p.p,
                       .z = d[RULE_Z],
                       .norm_w = d[RULE_NORM],
                       .state = d[RULE_STATE],
                       .conv_state = d[RULE_CONV],
                       .rows = p.rows,
                       .out = d[RULE_OUT],
                       .eps = 1e-6f,
                       .Hk = shape->Hk,
                       .Hv = shape->Hv,
                       .dk = shape->dk,
                       .dv = shape->dv,
                       .advance = advances};
    TRY(b->ops->gdn_prep(b, &p));
    if (is_apart) TRY(b->ops->sync(b));
    return b->ops->gdn_scan(b, &s);
}

static void rule_build(op_call *c, int i, const op_lanes *lanes)
{
    op_lanes own = op_lanes_parse(shape->lanes);
    int C = gdn_channels(shape), Hv = shape->Hv, n_out = Hv * shape->dv;
    (void)i;
    (void)lanes;
    c->param = shape;
    c->run = rule_run;
    op_add_rows(c, 0, &own);
    op_add_noise(c, "p", OP_IN, OP_ACT, OP_ROW, 0, C, 1, 0);
    op_add_noise(c, "a", OP_IN, OP_ACT, OP_ROW, 0, Hv, 1, -2);
    op_add_noise(c, "b", OP_IN, OP_ACT, OP_ROW, 0, Hv, 1.5, 0);
    op_add_noise(c, "z", OP_IN, OP_ACT, OP_ROW, 0, n_out, 1, 0);
    op_add_noise(c, "conv_w", OP_IN, OP_F32, OP_WHOLE, 0, (int64_t)C * 4, 0.6, 0);
    op_add_noise(c, "neg_A", OP_IN, OP_F32, OP_WHOLE, 0, Hv, 0.2, -1);
    op_add_noise(c, "dt_bias", OP_IN, OP_F32, OP_WHOLE, 0, Hv, 0.5, 0);
    op_add_noise(c, "norm_w", OP_IN, OP_F32, OP_WHOLE, 0, shape->dv, 0.3, 1);
    op_add(c, "qkv", OP_OUT, OP_ACT, OP_ROW, 0, C);
    op_add(c, "g", OP_OUT, OP_F32, OP_ROW, 0, Hv);
    op_add(c, "beta", OP_OUT, OP_F32, OP_ROW, 0, Hv);
    op_add(c, "out", OP_OUT, OP_ACT, OP_ROW, 0, n_out);
    op_add(c, "state", OP_INOUT, OP_F32, OP_SLOT, 0, (int64_t)Hv * shape->dk * shape->dv);
    op_add_noise(c, "conv_state", OP_INOUT, OP_ACT, OP_SLOT, 0, 3 * (int64_t)C, 1, 0);
}

static const op_entry rule = {"gdn prep and scan", 1, rule_build, NULL, false, false};

TEST(a_scan_takes_over_the_prep_in_front)
{
    backend *b = cuda();
    if (!b) TEST_SKIP("no cuda backend");
    uint64_t seed = test_seed();
    for (int i = 0; i < 2 * N_CASES(shapes); i++) {
        op_call apart, together;
        shape = &shapes[i / 2];
        advances = i & 1;
        is_apart = true;
        op_begin(&apart, &rule, 0, seed, NULL);
        op_result want = op_run(b, &apart);
        is_apart = false;
        op_begin(&together, &rule, 0, seed, NULL);
        op_result got = op_run(b, &together);
        op_same_bits(&apart, &want, &together, &got, false, "when prep and scan are one launch");
        arena_fini(&apart.mem);
        arena_fini(&together.mem);
    }
}
