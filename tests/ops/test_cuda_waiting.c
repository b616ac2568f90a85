/* Work that the cuda backend leaves for the op behind (waiting.cuh): the same bits as when a wait
 * between the two ops makes it two launches. */
#include "ops/op_device.h"
#include "ops/op_rule.h"

static const backend_limits limits = {.T = 128,
                                      .L = 16,
                                      .rows_per_lane = 16,
                                      .E = 5120,
                                      .K = 17408,
                                      .N = 5120,
                                      .F = 512,
                                      .moe_F = 128,
                                      .shared_F = 128,
                                      .X = 72,
                                      .K_experts = 10,
                                      .M = 64,
                                      .gdn_Hk = 2,
                                      .gdn_Hv = 6,
                                      .gdn_dk = 128,
                                      .gdn_dv = 128};

/* ---- what is added to the residual stream, and its norm ------------------------------------ */

typedef struct {
    dev_buf h, w, y, first;
    int T, E;
} stream;

static stream stream_new(backend *b, op_call *c, int T, int E, uint64_t *s)
{
    stream r = {.T = T, .E = E};
    r.first = op_upload(b, op_noise_f32(c, (int64_t)T * E, s), (int64_t)T * E * 4);
    r.w = op_upload(b, op_noise_f32(c, E, s), (int64_t)E * 4);
    r.h = op_upload(b, NULL, (int64_t)T * E * 4);
    r.y = op_upload(b, NULL, (int64_t)T * E * 2);
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
static bool waits_within; /* way 0: between the routing and its experts too */

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
        waits_within = way == 0;
        CHECK_OK(op(b, args), &b->last);
        if (way == 0) CHECK_OK(b->ops->sync(b), &b->last);
        if (way == 2) {
            tap_store_args t = {r->h, r->y, r->T, r->E, 0, r->E};
            CHECK_OK(b->ops->tap_store(b, &t), &b->last);
        }
        stream_norm(b, r);
        if (way == 3) CHECK_OK(b->ops->graph_end(b), &b->last);
        char *got_h = op_download(b, c, r->h), *got_y = op_download(b, c, r->y);
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

typedef struct {
    moe_route_args route;
    moe_ffn_args ffn;
} experts_args;

static status run_experts(backend *b, const void *args)
{
    const experts_args *a = args;
    TRY(b->ops->moe_route(b, &a->route));
    if (waits_within) TRY(b->ops->sync(b));
    return b->ops->moe_ffn(b, &a->ffn);
}

/* h is what it began as and what the linear gives by itself. */
static void check_added(backend *b, op_call *c, const stream *r, const linear_args *adds)
{
    dev_buf y = op_upload(b, NULL, r->h.n_bytes);
    linear_args a = {
        .x = adds->x, .T = adds->T, .n_parts = 1, .part = {{adds->part[0].w, y, LINEAR_F32}}};
    CHECK_OK(b->ops->linear(b, &a), &b->last);
    const float *first = (const float *)op_download(b, c, r->first);
    const float *sum = (const float *)op_download(b, c, y);
    const float *h = (const float *)op_download(b, c, r->h);
    for (int64_t i = 0; i < (int64_t)r->T * r->E; i++) {
        if (h[i] != first[i] + sum[i])
            fail_msg("row %lld: %g is not %g + %g", (long long)(i / r->E), (double)h[i],
                     (double)first[i], (double)sum[i]);
    }
    b->ops->release(b, &y);
}

TEST(a_norm_takes_over_the_sums_of_the_linear_in_front)
{
    static const struct {
        op_format format;
        int T, N, K;
    } cases[] = {
        {Q(4, 64), 1, 5120, 17408}, {Q(4, 64), 8, 5120, 6144},  {Q(4, 64), 16, 2048, 4096},
        {Q(4, 32), 31, 2048, 4096}, {Q(8, 64), 3, 1024, 3584},  {Q(6, 64), 2, 4096, 1024},
        {W_BF16, 5, 640, 2048},     {Q(4, 64), 33, 1024, 3584}, {Q(4, 64), 17, 5120, 1536},
        {Q(4, 64), 64, 5120, 6144}, {Q(4, 64), 65, 1024, 3584}, {Q(8, 64), 40, 1024, 3584}};
    backend *b = op_cuda(&limits);
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
        dev_buf x = op_upload(b, op_noise_bf16(&c, (int64_t)T * K, &s), (int64_t)T * K * 2);
        stream r = stream_new(b, &c, T, N, &s);
        linear_args a = {.x = x, .T = T, .n_parts = 1, .part = {{&w, r.h, LINEAR_ADD}}};
        stream_check(b, &c, &r, run_linear, &a, i);
        check_added(b, &c, &r, &a);
        stream_release(b, &r);
        b->ops->release(b, &x);
        b->ops->weight_close(b, &w);
        arena_fini(&c.mem);
    }
}

TEST(experts_take_over_their_routing_and_a_norm_their_sums)
{
    static const struct {
        int T, E, X, K, F, shared_F;
    } cases[] = {{1, 2048, 16, 8, 128, 128}, {9, 1024, 16, 10, 64, 64},  {32, 512, 16, 4, 64, 0},
                 {33, 512, 16, 4, 64, 64},   {70, 1024, 16, 10, 64, 64}, {128, 4160, 16, 4, 64, 0}};
    backend *b = op_cuda(&limits);
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
        dev_buf x = op_upload(b, op_noise_bf16(&c, (int64_t)T * E, &s), (int64_t)T * E * 2);
        dev_buf logits = op_upload(b, op_noise_f32(&c, (int64_t)T * X, &s), (int64_t)T * X * 4);
        dev_buf d_ids = op_upload(b, NULL, (int64_t)T * K * 4);
        dev_buf d_w = op_upload(b, NULL, (int64_t)T * K * 4);
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
        experts_args both = {{logits, d_ids, d_w, T, X, K}, a};
        stream_check(b, &c, &r, run_experts, &both, 100 + i);
        stream_release(b, &r);
        b->ops->release(b, &x);
        b->ops->release(b, &logits);
        b->ops->release(b, &d_ids);
        b->ops->release(b, &d_w);
        for (int k = 0; k < c.n_weights; k++) b->ops->weight_close(b, &w[k]);
        arena_fini(&c.mem);
    }
}

/* ---- from the residual stream to the experts --------------------------------------------------
 */

typedef struct {
    dev_buf in, h, first, norm_w, x, logits, ids, w;
    dev_weight add, router, experts[7];
    int T, E, X, K, F;
} chain;

enum { CHAIN_OPS = 5, CHAIN_IN = 1024 };

/* The ops of an expert layer behind attention; a wait behind those whose bit of `stops` is set. */
static void chain_run(backend *b, const chain *c, int stops)
{
    const dev_weight *e = c->experts;
    linear_args add = {.x = c->in, .T = c->T, .n_parts = 1, .part = {{&c->add, c->h, LINEAR_ADD}}};
    linear_args router = {
        .x = c->x, .T = c->T, .n_parts = 1, .part = {{&c->router, c->logits, LINEAR_F32}}};
    rmsnorm_args norm = {c->h, c->norm_w, c->x, 1e-6f, c->T, c->E};
    moe_route_args route = {c->logits, c->ids, c->w, c->T, c->X, c->K};
    moe_ffn_args ffn = {.x = c->x,
                        .ids = c->ids,
                        .w = c->w,
                        .gate = &e[0],
                        .up = &e[1],
                        .down = &e[2],
                        .s_gate = &e[3],
                        .s_up = &e[4],
                        .s_down = &e[5],
                        .s_sigmoid = &e[6],
                        .h = c->h,
                        .T = c->T,
                        .E = c->E,
                        .X = c->X,
                        .K = c->K,
                        .F = c->F,
                        .shared_F = c->F};
    for (int i = 0; i < CHAIN_OPS; i++) {
        status s = i == 0   ? b->ops->linear(b, &add)
                   : i == 1 ? b->ops->rmsnorm(b, &norm)
                   : i == 2 ? b->ops->linear(b, &router)
                   : i == 3 ? b->ops->moe_route(b, &route)
                            : b->ops->moe_ffn(b, &ffn);
        CHECK_OK(s, &b->last);
        if (stops >> i & 1) CHECK_OK(b->ops->sync(b), &b->last);
    }
}

static void chain_open(backend *b, op_call *c, chain *m, op_format router, uint64_t *s)
{
    err e = {0};
    int T = m->T, E = m->E, F = m->F;
    op_add_weight(c, WEIGHT_LINEAR, (op_format)Q(4, 64), 0, E, CHAIN_IN, false);
    op_add_weight(c, WEIGHT_LINEAR, router, 0, m->X, E, false);
    op_add_weight(c, WEIGHT_EXPERTS, (op_format)Q(4, 64), m->X, F, E, false);
    op_add_weight(c, WEIGHT_EXPERTS, (op_format)Q(4, 64), m->X, F, E, false);
    op_add_weight(c, WEIGHT_EXPERTS, (op_format)Q(4, 64), m->X, E, F, false);
    op_add_weight(c, WEIGHT_LINEAR, (op_format)Q(4, 64), 0, F, E, false);
    op_add_weight(c, WEIGHT_LINEAR, (op_format)Q(4, 64), 0, F, E, false);
    op_add_weight(c, WEIGHT_LINEAR, (op_format)Q(4, 64), 0, E, F, false);
    op_add_weight(c, WEIGHT_LINEAR, (op_format)Q(8, 64), 0, 1, E, false);
    dev_weight *to[9] = {&m->add, &m->router};
    for (int k = 0; k < 7; k++) to[2 + k] = &m->experts[k];
    for (int k = 0; k < 9; k++)
        CHECK_OK(b->ops->weight_open(b, &c->weight[k], c->use[k], to[k], &e), &e);
    m->in = op_upload(b, op_noise_bf16(c, (int64_t)T * CHAIN_IN, s), (int64_t)T * CHAIN_IN * 2);
    m->first = op_upload(b, op_noise_f32(c, (int64_t)T * E, s), (int64_t)T * E * 4);
    m->norm_w = op_upload(b, op_noise_f32(c, E, s), (int64_t)E * 4);
    m->h = op_upload(b, NULL, (int64_t)T * E * 4);
    m->x = op_upload(b, NULL, (int64_t)T * E * 2);
    m->logits = op_upload(b, NULL, (int64_t)T * m->X * 4);
    m->ids = op_upload(b, NULL, (int64_t)T * m->K * 4);
    m->w = op_upload(b, NULL, (int64_t)T * m->K * 4);
}

static void chain_close(backend *b, chain *m)
{
    dev_buf *all[] = {&m->in, &m->first, &m->norm_w, &m->h, &m->x, &m->logits, &m->ids, &m->w};
    for (int i = 0; i < N_CASES(all); i++) b->ops->release(b, all[i]);
    b->ops->weight_close(b, &m->add);
    b->ops->weight_close(b, &m->router);
    for (int k = 0; k < 7; k++) b->ops->weight_close(b, &m->experts[k]);
}

TEST(experts_take_over_all_that_stands_between_them_and_the_residual_stream)
{
    static const struct {
        op_format router;
        int T, E, X, K;
    } cases[] = {{Q(8, 64), 1, 2048, 72, 8}, {Q(8, 64), 8, 2048, 40, 8},
                 {W_BF16, 3, 1088, 16, 4},   {Q(4, 64), 5, 1536, 64, 8},
                 {Q(8, 32), 2, 2048, 64, 8}, {Q(8, 64), 9, 2048, 64, 8}};
    static const int stops[] = {31, 0, 1, 2, 4, 8, 6, 0}; /* the last replayed from a graph */
    backend *b = op_cuda(&limits);
    if (!b) TEST_SKIP("no cuda backend");
    uint64_t seed = test_seed();
    for (int i = 0; i < N_CASES(cases); i++) {
        op_call c = {.seed = seed + (uint64_t)i};
        arena_init(&c.mem, 0);
        uint64_t s = c.seed;
        chain m = {.T = cases[i].T, .E = cases[i].E, .X = cases[i].X, .K = cases[i].K, .F = 64};
        chain_open(b, &c, &m, cases[i].router, &s);
        const dev_buf outs[] = {m.h, m.x, m.logits, m.ids, m.w};
        char *want[N_CASES(outs)] = {NULL};
        for (int j = 0; j < N_CASES(stops); j++) {
            CHECK_OK(b->ops->copy(b, m.h, m.first, m.h.n_bytes), &b->last);
            for (int k = 1; k < N_CASES(outs); k++)
                CHECK_OK(b->ops->fill(b, outs[k], 0xff, outs[k].n_bytes), &b->last);
            bool is_graph = j + 1 == N_CASES(stops);
            if (is_graph) {
                CHECK_OK(b->ops->sync(b), &b->last);
                CHECK_OK(b->ops->graph_begin(b, 990 + (uint64_t)i), &b->last);
            }
            chain_run(b, &m, stops[j]);
            if (is_graph) CHECK_OK(b->ops->graph_end(b), &b->last);
            for (int k = 0; k < N_CASES(outs); k++) {
                char *got = op_download(b, &c, outs[k]);
                if (j == 0) want[k] = got;
                if (memcmp(want[k], got, (size_t)outs[k].n_bytes) != 0)
                    fail_msg("other bits: case %d, way %d, output %d", i, j, k);
            }
        }
        chain_close(b, &m);
        arena_fini(&c.mem);
    }
}

/* ---- the delta rule ------------------------------------------------------------------------ */

/* One lane of one to three rows; enough heads in all to fill a GPU, one lane of them longer than a
 * stage. */
static const gdn_case shapes[] = {
    {"1@5", 2, 6, 128, 128},
    {"2@0", 4, 8, 64, 32},
    {"3@1", 2, 4, 128, 128},
    {"1@0,1@7,3@0,8@64,1@5,17@0,4@9,1@1,5@0,1@130,7@3,2@2+1", 2, 6, 128, 128},
    {"3@0,1@7,1@0,2@64,1@5,1@0,4@9,1@1,5@0,1@130,1@3,2@2", 4, 8, 64, 32},
};
static const gdn_case *shape;
static bool is_apart, advances;

static status rule_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    gdn_prep_args p = rule_prep_args(b, c, d, shape, 0, op_rows(c, 0, d));
    gdn_scan_args s = rule_scan_args(b, c, d, &p, 0, advances);
    TRY(b->ops->gdn_prep(b, &p));
    if (is_apart) TRY(b->ops->sync(b));
    return b->ops->gdn_scan(b, &s);
}

static void rule_build(op_call *c, int i, const op_lanes *lanes)
{
    op_lanes own = op_lanes_parse(shape->lanes);
    (void)i;
    (void)lanes;
    c->param = shape;
    c->run = rule_run;
    op_add_rows(c, 0, &own);
    rule_add(c, shape, true);
}

static const op_entry rule = {"gdn prep and scan", 1, rule_build, NULL, false, false};

TEST(a_scan_takes_over_the_prep_in_front)
{
    backend *b = op_cuda(&limits);
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
