/* The draft's fused ops on cuda (draft_attend.cu, draft_enter.cu): the bits of the ops that each is
 * made of. */
#include <math.h>

#include "ops/op_device.h"
#include "ops/op_read.h"

static const backend_limits limits = {.T = 64,
                                      .L = 4,
                                      .rows_per_lane = 16,
                                      .E = 5120,
                                      .K = 5120,
                                      .N = 4096,
                                      .F = 512,
                                      .M = 64,
                                      .H = 32,
                                      .G = 8,
                                      .D = 128,
                                      .max_position = 8192};
enum { D = 128, SLOTS = 3 };

typedef struct {
    int L, B, H, G, K, window, R, anchor, begin;
    bool is_causal;
    op_format format;
} attend_case;

static const attend_case cases[] = {
    {1, 8, 32, 8, 5120, 2048, 2048, 513, 0, false, Q(4, 64)},
    {1, 8, 32, 8, 5120, 2048, 2048, 5003, 0, false, Q(4, 64)},
    {1, 8, 32, 8, 2048, 2048, 1000, 990, 30, true, Q(4, 64)},
    {1, 7, 12, 3, 1024, 256, 300, 777, 700, false, W_BF16},
    {1, 5, 6, 3, 1088, 0, 512, 0, 0, true, Q(8, 32)},
    {1, 2, 16, 1, 1024, 0, 640, 640, 1, false, Q(4, 32)},
    {1, 8, 8, 2, 2048, 0, 3008, 4000, 1000, false, Q(4, 64)},
    {1, 16, 4, 2, 1024, 256, 512, 900, 0, false, Q(4, 64)},
    {2, 8, 32, 8, 2048, 2048, 2048, 700, 0, false, Q(4, 64)}, /* more lanes: as steps */
};

typedef struct {
    dev_buf x, q_norm, k_norm, cs, ring_k, ring_v, slot, anchor, begin, q, k, v, out;
    dev_weight w[3];
} attend;

static void attend_open(backend *b, op_call *c, attend *m, const attend_case *p, uint64_t *s)
{
    err e = {0};
    int64_t M = p->L * p->B, ring = (int64_t)SLOTS * p->G * p->R * D;
    int N[3] = {p->H * D, p->G * D, p->G * D};
    for (int i = 0; i < 3; i++) {
        op_add_weight(c, WEIGHT_LINEAR, p->format, 0, N[i], p->K, false);
        CHECK_OK(b->ops->weight_open(b, &c->weight[i], WEIGHT_LINEAR, &m->w[i], &e), &e);
    }
    m->x = op_upload(b, op_noise_bf16(c, M * p->K, s), M * p->K * 2);
    m->q_norm = op_upload(b, op_noise_f32(c, D, s), D * 4);
    m->k_norm = op_upload(b, op_noise_f32(c, D, s), D * 4);
    m->ring_k = op_upload(b, op_noise_bf16(c, ring, s), ring * 2);
    m->ring_v = op_upload(b, op_noise_bf16(c, ring, s), ring * 2);
    float *cs = op_new(c, M * D, 4);
    int32_t slot[2] = {2, 0}, anchor[2] = {p->anchor, p->anchor}, begin[2] = {p->begin, p->begin};
    for (int64_t t = 0; t < M; t++) read_angles(cs + t * D, 1e7, p->anchor + t % p->B, D / 2);
    m->cs = op_upload(b, cs, M * D * 4);
    m->slot = op_upload(b, slot, sizeof slot);
    m->anchor = op_upload(b, anchor, sizeof anchor);
    m->begin = op_upload(b, begin, sizeof begin);
    m->q = op_upload(b, NULL, M * N[0] * 2);
    m->k = op_upload(b, NULL, M * N[1] * 2);
    m->v = op_upload(b, NULL, M * N[2] * 2);
    m->out = op_upload(b, NULL, M * N[0] * 2);
}

static void attend_close(backend *b, attend *m)
{
    dev_buf *all[] = {&m->x,      &m->q_norm, &m->k_norm, &m->cs, &m->ring_k, &m->ring_v, &m->slot,
                      &m->anchor, &m->begin,  &m->q,      &m->k,  &m->v,      &m->out};
    for (int i = 0; i < N_CASES(all); i++) b->ops->release(b, all[i]);
    for (int i = 0; i < 3; i++) b->ops->weight_close(b, &m->w[i]);
}

static draft_attend_args attend_args_of(const attend *m, const attend_case *p)
{
    return (draft_attend_args){
        .x = m->x,
        .q = &m->w[0],
        .k = &m->w[1],
        .v = &m->w[2],
        .prep = {m->q, m->k, m->q_norm, m->k_norm, m->cs, 1e-6f, p->L * p->B, p->H, p->G, D},
        .attn = {.q = m->q,
                 .k = m->k,
                 .v = m->v,
                 .ring = {m->ring_k, m->ring_v, p->R},
                 .lane_slot = m->slot,
                 .anchor_pos = m->anchor,
                 .ctx_begin = m->begin,
                 .out = m->out,
                 .scale = 0.0883883f,
                 .L = p->L,
                 .B = p->B,
                 .H = p->H,
                 .G = p->G,
                 .D = D,
                 .window = p->window,
                 .is_causal = p->is_causal}};
}

static void attend_steps(backend *b, const draft_attend_args *a)
{
    linear_args in = {.x = a->x,
                      .T = a->prep.M,
                      .n_parts = 3,
                      .part = {{a->q, a->attn.q, LINEAR_ACT},
                               {a->k, a->attn.k, LINEAR_ACT},
                               {a->v, a->attn.v, LINEAR_ACT}}};
    CHECK_OK(b->ops->linear(b, &in), &b->last);
    CHECK_OK(b->ops->draft_attn_prep(b, &a->prep), &b->last);
    CHECK_OK(b->ops->draft_attn(b, &a->attn), &b->last);
}

/* Kernels of a call, which runs as a graph of its own. */
static int64_t attend_nodes(backend *b, const draft_attend_args *a, bool as_steps, uint64_t key)
{
    CHECK_OK(b->ops->graph_begin(b, key), &b->last);
    if (as_steps) {
        attend_steps(b, a);
    } else {
        CHECK_OK(b->ops->draft_attend(b, a), &b->last);
    }
    CHECK_OK(b->ops->graph_end(b), &b->last);
    return b->n_nodes;
}

TEST(attention_from_its_input_has_the_bits_of_its_steps)
{
    backend *b = op_cuda(&limits);
    if (!b) TEST_SKIP("no cuda backend");
    uint64_t seed = test_seed();
    for (int i = 0; i < N_CASES(cases); i++) {
        op_call c = {.seed = seed + (uint64_t)i};
        arena_init(&c.mem, 0);
        uint64_t s = c.seed;
        attend m = {0};
        attend_open(b, &c, &m, &cases[i], &s);
        draft_attend_args a = attend_args_of(&m, &cases[i]);
        int64_t n_x = (int64_t)cases[i].L * cases[i].B * cases[i].K;
        if (i == 0 && attend_nodes(b, &a, false, 1) >= attend_nodes(b, &a, true, 2))
            fail_msg("the real shape is not served by the one kernel");
        for (int again = 0; again < 3; again++) {
            const uint16_t *x = op_noise_bf16(&c, n_x, &s), *other = op_noise_bf16(&c, n_x, &s);
            CHECK_OK(b->ops->upload(b, m.x, x, n_x * 2), &b->last);
            attend_steps(b, &a);
            char *want = op_download(b, &c, m.out);
            /* Other rows before: the sums that lie in the scratch are of no use. */
            CHECK_OK(b->ops->upload(b, m.x, other, n_x * 2), &b->last);
            CHECK_OK(b->ops->draft_attend(b, &a), &b->last);
            CHECK_OK(b->ops->upload(b, m.x, x, n_x * 2), &b->last);
            CHECK_OK(b->ops->fill(b, m.out, 0xff, m.out.n_bytes), &b->last);
            CHECK_OK(b->ops->draft_attend(b, &a), &b->last);
            char *got = op_download(b, &c, m.out);
            int64_t n = 0, first = -1;
            for (int64_t k = 0; k < m.out.n_bytes; k++) {
                if (got[k] == want[k]) continue;
                if (n++ == 0) first = k;
            }
            if (n > 0)
                fail_msg("other bits: case %d, %ld of %ld bytes, first %ld", i, (long)n,
                         (long)m.out.n_bytes, (long)first);
        }
        attend_close(b, &m);
        arena_fini(&c.mem);
    }
}

/* Sums of four squares by both ways to fuse a pair and by none: the first is row_squares's. */
static float squares_by(const float *v, int way)
{
    float p = v[0] * v[0], q = v[1] * v[1], r = v[2] * v[2], s = v[3] * v[3];
    if (way == 0) return fmaf(v[0], v[0], q) + fmaf(v[2], v[2], s);
    if (way == 1) return fmaf(v[1], v[1], p) + fmaf(v[3], v[3], r);
    return (p + q) + (r + s);
}

/* A row of noise shows once in 200 to 600 rows, by a unit of bf16, that its norm's sum was rounded
 * otherwise. One that has four values far above the others, whose squares' sums differ, shows it
 * once in 25 (E 5120) to 54 (E 2048): computed with rmsnorm_kernel's order of sums. */
static void rows_that_tell(float *h, int64_t T, int E, uint64_t *seed)
{
    for (int64_t t = 0; t < T; t++) {
        float *at = h + t * E + (int64_t)(test_random(seed) % (uint64_t)(E / 4)) * 4, first;
        do {
            for (int i = 0; i < 4; i++) at[i] = (float)op_noise(seed) * 1000.0f;
            first = squares_by(at, 0);
        } while (first == squares_by(at, 1) || first == squares_by(at, 2));
    }
}

TEST(many_rows_enter_with_the_bits_of_their_norm)
{
    static const struct {
        int E, calls;
    } sizes[] = {{2048, 48}, {5120, 24}};
    enum { B = 8, GROUP = 16 };
    backend *b = op_cuda(&limits);
    if (!b) TEST_SKIP("no cuda backend");
    uint64_t seed = test_seed();
    for (int i = 0; i < N_CASES(sizes); i++) {
        int E = sizes[i].E, N = 4 * E / GROUP;
        int64_t T = (int64_t)sizes[i].calls * B, n = T * E;
        op_call c = {.seed = seed + (uint64_t)i};
        arena_init(&c.mem, 0);
        uint64_t s = c.seed;
        err e = {0};
        dev_weight w = {0};
        op_add_weight(&c, WEIGHT_LINEAR, (op_format)Q(4, 64), 0, N, E, false);
        CHECK_OK(b->ops->weight_open(b, &c.weight[0], WEIGHT_LINEAR, &w, &e), &e);
        float *rows = op_noise_f32(&c, n, &s);
        rows_that_tell(rows, T, E, &s);
        dev_buf h = op_upload(b, rows, n * 4);
        dev_buf norm = op_upload(b, op_noise_f32(&c, E, &s), E * 4);
        dev_buf base = op_upload(b, op_noise_f32(&c, 4 * (int64_t)E, &s), E * 16);
        dev_buf x = op_upload(b, NULL, n * 2), y = op_upload(b, NULL, B * (int64_t)E * 2);
        dev_buf delta = op_upload(b, NULL, B * (int64_t)N * 2), want = op_upload(b, NULL, n * 2);
        for (int64_t t = 0; t < T; t += B) {
            draft_enter_args a = {.h = dev_buf_at(h, t * E * 4),
                                  .norm = norm,
                                  .kernel = &w,
                                  .base = base,
                                  .x = dev_buf_at(x, t * E * 2),
                                  .delta = delta,
                                  .y = y,
                                  .eps = 1e-6f,
                                  .L = 1,
                                  .B = B,
                                  .E = E,
                                  .group = GROUP};
            CHECK_OK(b->ops->draft_enter(b, &a), &b->last);
        }
        rmsnorm_args r = {.x = h, .w = norm, .y = want, .T = (int)T, .E = E, .eps = 1e-6f};
        CHECK_OK(b->ops->rmsnorm(b, &r), &b->last);
        const char *got = op_download(b, &c, x), *all = op_download(b, &c, want);
        for (int64_t t = 0; t < T; t++) {
            if (memcmp(got + t * E * 2, all + t * E * 2, (size_t)E * 2) != 0)
                fail_msg("E %d: row %lld has other bits", E, (long long)t);
        }
        dev_buf *bufs[] = {&h, &norm, &base, &x, &y, &delta, &want};
        for (int k = 0; k < N_CASES(bufs); k++) b->ops->release(b, bufs[k]);
        b->ops->weight_close(b, &w);
        arena_fini(&c.mem);
    }
}
