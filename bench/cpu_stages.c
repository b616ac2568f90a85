/* links: backend
 *
 * cpu_stages: a forward pass of a real shape through the cpu backend's op table, stage by stage,
 * with random 4-bit weights: no files, no model code. What it prints per stage is the sum over its
 * calls of the least time of all passes (the machine may be busy), the bytes of weights, state and
 * cache that the stage must read, and its share of the floor, max(bytes / bandwidth, int8
 * operations / rate), both measured here first.
 *
 * Usage: cpu_stages [rows [context [threads [cpu:isa [0.8b|35b [passes]]]]]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backend/backend.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/workers.h"
#include "tensor/quant.h"

/* ---- floors ------------------------------------------------------------------------------- */

typedef struct {
    const uint64_t *data;
    uint64_t sink[64];
} read_job;

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2"), optimize("O3")))
#else
#define WIDE
#endif

/* Two halves side by side: one core reads two streams faster than one. */
WIDE static void read_share(void *ctx, int64_t begin, int64_t end, int worker)
{
    read_job *j = ctx;
    uint64_t s[16] = {0};
    int64_t half = (end - begin) / 16 * 8;
    const uint64_t *a = j->data + begin, *b = a + half;
    for (int64_t i = 0; i < half; i += 8)
        for (int k = 0; k < 8; k++) {
            s[k] ^= a[i + k];
            s[8 + k] ^= b[i + k];
        }
    for (int k = 1; k < 16; k++) s[0] ^= s[k];
    j->sink[worker % 64] = s[0];
}

/* GB/s of all threads, the best of pieces of 8 MiB out of 256 that no cache holds. */
static double read_bandwidth(workers *w)
{
    const int64_t n = 256 << 17, piece = 8 << 17;
    uint64_t *data = mem_new_aligned((size_t)n * 8, 2 << 20);
    int64_t best = INT64_MAX;
    if (!data) return 1;
    (void)madvise(data, (size_t)n * 8, MADV_HUGEPAGE);
    for (int64_t i = 0; i < n; i++) data[i] = (uint64_t)i;
    for (int rep = 0; rep < 20; rep++) {
        for (int64_t at = 0; at < n; at += piece) {
            read_job j = {.data = data + at};
            int64_t t = clock_ns();
            workers_for(w, piece, 4096, read_share, &j);
            t = clock_ns() - t;
            if (t < best) best = t;
        }
    }
    mem_free(data);
    return (double)piece * 8 / (double)best;
}

#if defined(__x86_64__)
#define DOT(i) a##i = _mm512_dpbusd_epi32(a##i, x, x)
__attribute__((target("avx512f,avx512vnni"), noinline)) static int dots(int n)
{
    __m512i x = _mm512_set1_epi8(1), a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x;
    for (int i = 0; i < n; i++) {
        DOT(0), DOT(1), DOT(2), DOT(3), DOT(4), DOT(5), DOT(6), DOT(7);
        __asm__ volatile(""
                         : "+v"(a0), "+v"(a1), "+v"(a2), "+v"(a3), "+v"(a4), "+v"(a5), "+v"(a6),
                           "+v"(a7));
    }
    a0 = _mm512_add_epi32(_mm512_add_epi32(a0, a1), _mm512_add_epi32(a2, a3));
    a4 = _mm512_add_epi32(_mm512_add_epi32(a4, a5), _mm512_add_epi32(a6, a7));
    return _mm512_reduce_add_epi32(_mm512_add_epi32(a0, a4));
}

/* The same for AVX2, where a product of bytes and its sum are two operations on 32 bytes. */
#define DOT2(i) a##i = _mm256_add_epi16(a##i, _mm256_maddubs_epi16(x, y))
__attribute__((target("avx2"), noinline)) static int dots2(int n)
{
    __m256i x = _mm256_set1_epi8(1), y = x, a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x,
            a7 = x;
    for (int i = 0; i < n; i++) {
#define NEXT_DOT2(i) \
    DOT2(i);         \
    __asm__ volatile("" : "+x"(y), "+x"(a##i)) /* the product is another one each time */
        NEXT_DOT2(0);
        NEXT_DOT2(1);
        NEXT_DOT2(2);
        NEXT_DOT2(3);
        NEXT_DOT2(4);
        NEXT_DOT2(5);
        NEXT_DOT2(6);
        NEXT_DOT2(7);
    }
    a0 = _mm256_add_epi16(_mm256_add_epi16(a0, a1), _mm256_add_epi16(a2, a3));
    a4 = _mm256_add_epi16(_mm256_add_epi16(a4, a5), _mm256_add_epi16(a6, a7));
    return _mm256_extract_epi16(_mm256_add_epi16(a0, a4), 0);
}
#endif

#if defined(__x86_64__)
enum { RATE_LOOPS = 20000 };

static void dot_share(void *ctx, int64_t begin, int64_t end, int worker)
{
    int *sink = ctx;
    bool is_wide = __builtin_cpu_supports("avx512vnni");
    for (int64_t i = begin; i < end; i++)
        sink[16 * worker] += is_wide ? dots(RATE_LOOPS) : dots2(RATE_LOOPS);
}
#endif

/* Int8 operations per ns of all threads at once, with VNNI or AVX2; 0 without either. */
static double int8_rate(workers *w)
{
#if defined(__x86_64__)
    static int sink[16 * 256];
    int64_t best = INT64_MAX;
    int n = workers_count(w);
    bool is_wide = __builtin_cpu_supports("avx512vnni");
    if ((!is_wide && !__builtin_cpu_supports("avx2")) || n > 256) return 0;
    for (int rep = 0; rep < 500; rep++) {
        int64_t t = clock_ns();
        workers_for(w, n, 1, dot_share, sink);
        t = clock_ns() - t;
        if (t < best) best = t;
    }
    return (double)RATE_LOOPS * 8 * (is_wide ? 128 : 64) * n / (double)best;
#else
    (void)w;
    return 0;
#endif
}

/* ---- the shape ---------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    int E, F, H, G, D, Hk, Hv, n_layers, X, K, moe_F, shared_F;
    int64_t V;
} shape;

static const shape shapes[] = {
    {"0.8b", 1024, 3584, 8, 2, 256, 16, 16, 24, 0, 0, 0, 0, 248320},
    {"35b", 2048, 0, 16, 2, 256, 16, 32, 8, 256, 8, 512, 512, 248320},
};
enum { DK = 128, LAYERS_MAX = 64, STAGES_MAX = 24, CALLS_MAX = 256, PAIRS = 32 };

typedef struct {
    dev_weight qkv, z, a, b, out, q, k, v, o, gate, up, down, router, s_gate, s_up, s_down, s_sig;
    dev_buf kv[4], state, conv;
    bool is_full;
} layer;

typedef struct {
    const char *name;
    int64_t n_bytes, n_ops, best[CALLS_MAX];
    int n_calls; /* of the pass in hand */
} stage;

static backend *be;
static shape sh;
static layer layers[LAYERS_MAX];
static dev_weight head, table;
static stage stages[STAGES_MAX];
static int n_stages;
static int T = 1, context = 512;
static uint64_t rng = 1;

static uint64_t draw(void)
{
    rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
    return rng >> 16;
}

static void must(status s, const err *e)
{
    if (s == ERR_OK) return;
    fprintf(stderr, "%s: %s: %s\n", status_name(s), e->where, e->msg);
    exit(1);
}

static dev_buf take(int64_t n_bytes)
{
    dev_buf b;
    err e = {0};
    must(be->ops->alloc(be, n_bytes, &b, &e), &e);
    return b;
}

/* States and caches come from one big allocation, as in the product. */
static dev_buf arena_mem;

static dev_buf take_part(int64_t n_bytes)
{
    dev_buf b = arena_mem;
    b.n_bytes = n_bytes;
    arena_mem = dev_buf_at(arena_mem, (n_bytes + 255) / 256 * 256);
    return b;
}

static dev_buf fill_f32(dev_buf b, int64_t n, float scale);

static dev_buf take_f32(int64_t n, float scale)
{
    return fill_f32(take(n * 4), n, scale);
}

static dev_buf fill_f32(dev_buf b, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i++)
        ((float *)b.ptr)[i] = scale * ((float)(draw() & 0xffff) / 32768 - 1);
    return b;
}

/* A weight with random codes; the source is made once and shared. */
static dev_weight weight(weight_use use, int64_t X, int64_t N, int64_t K, int bits)
{
    static uint8_t *codes;
    static uint16_t *scales;
    static int64_t cap, scale_cap;
    dev_weight w;
    err e = {0};
    tensor t = {.type = DTYPE_AFFINE,
                .n_dims = use == WEIGHT_EXPERTS ? 3 : 2,
                .scale_type = DTYPE_BF16,
                .bits = bits,
                .group = 64};
    t.n_bytes = X * N * quant_affine_row_bytes(K, bits);
    int64_t n_scales = X * N * K / 64;
    if (t.n_bytes > cap) {
        mem_free(codes);
        codes = mem_new((size_t)t.n_bytes);
        for (int64_t i = 0; i < t.n_bytes; i++) codes[i] = (uint8_t)draw();
        cap = t.n_bytes;
    }
    if (n_scales > scale_cap) {
        mem_free(scales);
        scales = mem_new((size_t)n_scales * 2);
        for (int64_t i = 0; i < n_scales; i++) scales[i] = (uint16_t)(0x3b00 + (draw() & 0xff));
        scale_cap = n_scales;
    }
    int64_t dims[3] = {X, N, K};
    memcpy(t.shape, dims + (3 - t.n_dims), (size_t)t.n_dims * sizeof *dims);
    t.data = codes;
    t.scales = t.biases = scales;
    must(be->ops->weight_open(be, &t, use, &w, &e), &e);
    return w;
}

static dev_weight linear(int64_t N, int64_t K)
{
    return weight(WEIGHT_LINEAR, 1, N, K, 4);
}

/* ---- buffers of a pass -------------------------------------------------------------------- */

static struct {
    dev_buf h, x, ids, pos, cs, norm, p, z, a, b, qkv, g, beta, out, q, qg, k, v, act, logits;
    dev_buf route, route_ids, route_w, conv_w, neg_a, dt, dnorm, hnorm, index, token, policy, bias;
    ops_rows rows;
} u;

static void open_rows(void)
{
    int n_blocks = (context + T + OPS_BLOCK - 1) / OPS_BLOCK;
    u.rows = (ops_rows){.T = T,
                        .L = 1,
                        .max_rows = T,
                        .max_len = context + T,
                        .ids = take(T * 4),
                        .row_lane = take(T * 4),
                        .row_pos = take(T * 4),
                        .lane_row = take(8),
                        .lane_slot = take(4),
                        .table = take(n_blocks * 4),
                        .table_stride = n_blocks};
    u.pos = take(T * 12);
    for (int t = 0; t < T; t++) {
        ((int32_t *)u.rows.row_pos.ptr)[t] = context + t;
        ((int32_t *)u.pos.ptr)[t] = context + t;
        ((int32_t *)u.rows.ids.ptr)[t] = (int32_t)(draw() % 200000);
    }
    ((int32_t *)u.rows.lane_row.ptr)[1] = T;
    for (int i = 0; i < n_blocks; i++) ((int32_t *)u.rows.table.ptr)[i] = i;
}

static void open_buffers(void)
{
    int64_t C = 2 * sh.Hk * DK + sh.Hv * DK, vd = sh.Hv * DK, hd = sh.H * sh.D;
    open_rows();
    u.h = take_f32(T * sh.E, 1);
    u.x = take(T * sh.E * 4);
    u.norm = take_f32(sh.E, 1);
    u.hnorm = take_f32(sh.D, 1);
    u.dnorm = take_f32(DK, 1);
    u.cs = take((int64_t)T * PAIRS * 8);
    u.p = take(T * C * 4);
    u.qkv = take(T * C * 4);
    u.z = take(T * vd * 4);
    u.a = take(T * sh.Hv * 4);
    u.b = take(T * sh.Hv * 4);
    u.g = take(T * sh.Hv * 4);
    u.beta = take(T * sh.Hv * 4);
    u.out = take(T * (vd > hd ? vd : hd) * 4);
    u.q = take(T * hd * 4);
    u.qg = take(T * 2 * hd * 4);
    u.k = take(T * sh.G * sh.D * 4);
    u.v = take(T * sh.G * sh.D * 4);
    u.act = take((int64_t)T * (sh.F > 0 ? sh.F : 1) * 4);
    int M = T > 16 ? 1 : T;
    u.logits = take(M * sh.V * 4);
    u.index = take(M * 4);
    u.token = take(M * 4);
    for (int m = 0; m < M; m++) ((int32_t *)u.index.ptr)[m] = T - M + m;
    u.policy = take(sizeof(sample_policy));
    *(sample_policy *)u.policy.ptr = (sample_policy){
        .seed = 1, .temperature = 1, .top_p = 1, .repetition = 1};
    u.bias = take(sizeof(sample_bias) * OPS_BIAS_MAX);
    u.conv_w = take_f32(C * 4, 1);
    u.neg_a = take_f32(sh.Hv, 0.1f);
    u.dt = take_f32(sh.Hv, 1);
    for (int i = 0; i < sh.Hv; i++) ((float *)u.neg_a.ptr)[i] -= 0.2f;
    if (sh.X > 0) {
        u.route = take(T * sh.X * 4);
        u.route_ids = take(T * sh.K * 4);
        u.route_w = take(T * sh.K * 4);
    }
}

static void open_layer(layer *l, int i)
{
    int64_t C = 2 * sh.Hk * DK + sh.Hv * DK, vd = sh.Hv * DK, hd = sh.H * sh.D, E = sh.E;
    int64_t cells = (int64_t)u.rows.table_stride * sh.G * OPS_BLOCK;
    l->is_full = i % 4 == 3;
    if (l->is_full) {
        l->q = linear(2 * hd, E);
        l->k = linear(sh.G * sh.D, E);
        l->v = linear(sh.G * sh.D, E);
        l->o = linear(E, hd);
        for (int k = 0; k < 2; k++) l->kv[k] = take_part(cells * sh.D);
        for (int k = 2; k < 4; k++) l->kv[k] = fill_f32(take_part(cells * 4), cells, 0.01f);
    } else {
        l->qkv = linear(C, E);
        l->z = linear(vd, E);
        l->a = linear(sh.Hv, E);
        l->b = linear(sh.Hv, E);
        l->out = linear(E, vd);
        int64_t n = (int64_t)sh.Hv * DK * DK;
        l->state = fill_f32(take_part(n * 4), n, 0.1f);
        l->conv = fill_f32(take_part(C * 12), C * 3, 1);
    }
    if (sh.X > 0) {
        l->router = weight(WEIGHT_LINEAR, 1, sh.X, E, 8);
        l->gate = weight(WEIGHT_EXPERTS, sh.X, sh.moe_F, E, 4);
        l->up = weight(WEIGHT_EXPERTS, sh.X, sh.moe_F, E, 4);
        l->down = weight(WEIGHT_EXPERTS, sh.X, E, sh.moe_F, 4);
        l->s_gate = linear(sh.shared_F, E);
        l->s_up = linear(sh.shared_F, E);
        l->s_down = linear(E, sh.shared_F);
        l->s_sig = linear(1, E);
    } else {
        l->gate = linear(sh.F, E);
        l->up = linear(sh.F, E);
        l->down = linear(E, sh.F);
    }
}

/* ---- stages ------------------------------------------------------------------------------- */

static int64_t started;

/* With one thread its processor time, which a busy machine lengthens less. */
static int64_t stage_ns(void)
{
    struct timespec t;
    if (be->n_threads > 1) return clock_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void begin(void)
{
    started = stage_ns();
}

static void end(const char *name, int64_t n_bytes, int64_t n_ops)
{
    int64_t t = stage_ns() - started;
    int i = 0;
    while (i < n_stages && strcmp(stages[i].name, name) != 0) i++;
    stage *s = &stages[i];
    if (i == n_stages) {
        n_stages++;
        s->name = name;
        for (int c = 0; c < CALLS_MAX; c++) s->best[c] = INT64_MAX;
    }
    s->n_bytes += n_bytes;
    s->n_ops += n_ops;
    if (t < s->best[s->n_calls]) s->best[s->n_calls] = t;
    s->n_calls++;
}

static int64_t ops_of(const dev_weight *w)
{
    return 2 * T * w->N * w->K;
}

static void run_linear(const char *name, dev_buf x, int n, const dev_weight *const *w,
                       const dev_buf *y, linear_out out)
{
    linear_args a = {.x = x, .T = T, .n_parts = n};
    int64_t n_bytes = 0, n_ops = 0;
    for (int i = 0; i < n; i++) {
        a.part[i].w = w[i];
        a.part[i].y = y[i];
        a.part[i].out = out;
        n_bytes += w[i]->n_bytes;
        n_ops += ops_of(w[i]);
    }
    begin();
    must(be->ops->linear(be, &a), &be->last);
    end(name, n_bytes, n_ops);
}

static void run_norm(void)
{
    rmsnorm_args a = {u.h, u.norm, u.x, 1e-6f, T, sh.E};
    begin();
    must(be->ops->rmsnorm(be, &a), &be->last);
    end("norm", 0, 0);
}

static void run_delta(layer *l)
{
    int64_t C = 2 * sh.Hk * DK + sh.Hv * DK, state = (int64_t)sh.Hv * DK * DK * 4;
    run_linear("delta in", u.x, 4, (const dev_weight *[]){&l->qkv, &l->z, &l->a, &l->b},
               (dev_buf[]){u.p, u.z, u.a, u.b}, LINEAR_ACT);
    gdn_prep_args p = {.p = u.p,
                       .a = u.a,
                       .b = u.b,
                       .conv_w = u.conv_w,
                       .neg_A = u.neg_a,
                       .dt_bias = u.dt,
                       .conv_state = l->conv,
                       .rows = u.rows,
                       .qkv = u.qkv,
                       .g = u.g,
                       .beta = u.beta,
                       .Hk = sh.Hk,
                       .Hv = sh.Hv,
                       .dk = DK,
                       .dv = DK};
    begin();
    must(be->ops->gdn_prep(be, &p), &be->last);
    end("delta prep", C * 12, 0);
    gdn_scan_args s = {.qkv = u.qkv,
                       .g = u.g,
                       .beta = u.beta,
                       .p = u.p,
                       .z = u.z,
                       .norm_w = u.dnorm,
                       .state = l->state,
                       .conv_state = l->conv,
                       .rows = u.rows,
                       .out = u.out,
                       .eps = 1e-6f,
                       .Hk = sh.Hk,
                       .Hv = sh.Hv,
                       .dk = DK,
                       .dv = DK,
                       .advance = true};
    begin();
    must(be->ops->gdn_scan(be, &s), &be->last);
    end("delta scan", 2 * state, 0);
    run_linear("delta out", u.out, 1, (const dev_weight *[]){&l->out}, &u.h, LINEAR_ADD);
}

static void run_full(layer *l)
{
    kv_layer kv = {KV_INT8, l->kv[0], l->kv[1], l->kv[2], l->kv[3]};
    run_linear("attn in", u.x, 3, (const dev_weight *[]){&l->q, &l->k, &l->v},
               (dev_buf[]){u.qg, u.k, u.v}, LINEAR_ACT);
    attn_prep_args p = {.qg = u.qg,
                        .k = u.k,
                        .v = u.v,
                        .q_norm = u.hnorm,
                        .k_norm = u.hnorm,
                        .cs = u.cs,
                        .q = u.q,
                        .kv = kv,
                        .rows = u.rows,
                        .eps = 1e-6f,
                        .H = sh.H,
                        .G = sh.G,
                        .D = sh.D,
                        .n_pairs = PAIRS,
                        .has_gate = true};
    begin();
    must(be->ops->attn_prep(be, &p), &be->last);
    end("attn prep", 0, 0);
    attn_args a = {.q = u.q,
                   .qg = u.qg,
                   .kv = kv,
                   .rows = u.rows,
                   .out = u.out,
                   .scale = 0.0625f,
                   .H = sh.H,
                   .G = sh.G,
                   .D = sh.D,
                   .has_gate = true};
    begin();
    must(be->ops->attn(be, &a), &be->last);
    end("attn", 2 * (int64_t)(context + T) * sh.G * (sh.D + 4), 0);
    run_linear("attn out", u.out, 1, (const dev_weight *[]){&l->o}, &u.h, LINEAR_ADD);
}

static void run_dense(layer *l)
{
    linear_swiglu_args g = {u.x, &l->gate, &l->up, u.act, T};
    begin();
    must(be->ops->linear_swiglu(be, &g), &be->last);
    end("gate up", l->gate.n_bytes + l->up.n_bytes, ops_of(&l->gate) + ops_of(&l->up));
    run_linear("down", u.act, 1, (const dev_weight *[]){&l->down}, &u.h, LINEAR_ADD);
}

static void run_moe(layer *l)
{
    run_linear("router", u.x, 1, (const dev_weight *[]){&l->router}, &u.route, LINEAR_F32);
    for (int64_t i = 0; i < (int64_t)T * sh.X; i++) /* the activations decide too little */
        ((float *)u.route.ptr)[i] = (float)(draw() & 0xffff) * 1e-4f;
    moe_route_args r = {u.route, u.route_ids, u.route_w, T, sh.X, sh.K};
    begin();
    must(be->ops->moe_route(be, &r), &be->last);
    end("route", 0, 0);
    moe_ffn_args m = {.x = u.x,
                      .ids = u.route_ids,
                      .w = u.route_w,
                      .gate = &l->gate,
                      .up = &l->up,
                      .down = &l->down,
                      .s_gate = &l->s_gate,
                      .s_up = &l->s_up,
                      .s_down = &l->s_down,
                      .s_sigmoid = &l->s_sig,
                      .h = u.h,
                      .T = T,
                      .E = sh.E,
                      .X = sh.X,
                      .K = sh.K,
                      .F = sh.moe_F,
                      .shared_F = sh.shared_F};
    bool is_used[1024] = {false};
    int n_used = 0;
    for (int i = 0; i < T * sh.K; i++) {
        int e = ((int32_t *)u.route_ids.ptr)[i];
        n_used += !is_used[e];
        is_used[e] = true;
    }
    int64_t one = (l->gate.n_bytes + l->up.n_bytes + l->down.n_bytes) / sh.X;
    begin();
    must(be->ops->moe_ffn(be, &m), &be->last);
    end("experts", one * n_used + l->s_gate.n_bytes + l->s_up.n_bytes + l->s_down.n_bytes,
        2LL * T * 3 * sh.E * (sh.K * sh.moe_F + sh.shared_F));
}

static void run_head(void)
{
    int M = T > 16 ? 1 : T, all = T;
    gather_rows_args ga = {u.h, u.index, u.x, M, sh.E};
    must(be->ops->gather_rows(be, &ga), &be->last);
    T = M;
    run_linear("head", u.x, 1, (const dev_weight *[]){&head}, &u.logits, LINEAR_F32);
    T = all;
    sample_args s = {.logits = u.logits,
                     .row = u.index,
                     .rows = u.rows,
                     .lanes = {.policy = u.policy, .bias = u.bias},
                     .token = u.token,
                     .M = M,
                     .V = (int)sh.V};
    begin();
    must(be->ops->sample(be, &s), &be->last);
    end("sample", M * sh.V * 4, 0);
}

static void run_pass(void)
{
    embed_args e = {&table, u.rows.ids, u.h, 1, T};
    rope_table_args r = {u.pos, u.cs, 1e7, PAIRS, {PAIRS, 0, 0}, T, false};
    begin();
    must(be->ops->embed(be, &e), &be->last);
    must(be->ops->rope_table(be, &r), &be->last);
    end("embed, rope", 0, 0);
    for (int i = 0; i < sh.n_layers; i++) {
        run_norm();
        if (layers[i].is_full)
            run_full(&layers[i]);
        else
            run_delta(&layers[i]);
        run_norm();
        if (sh.X > 0)
            run_moe(&layers[i]);
        else
            run_dense(&layers[i]);
    }
    run_norm();
    run_head();
}

/* ---- report ------------------------------------------------------------------------------- */

static double least_time(const stage *s)
{
    double sum = 0;
    for (int i = 0; i < s->n_calls; i++) sum += (double)s->best[i];
    return sum;
}

static void report(double bandwidth, double rate)
{
    double total = 0, floor_total = 0;
    printf("%-12s %9s %6s %9s %8s %9s %7s\n", "stage", "us", "share", "MB", "GB/s", "GOP/s",
           "floor");
    for (int i = 0; i < n_stages; i++) total += least_time(&stages[i]);
    for (int i = 0; i < n_stages; i++) {
        const stage *s = &stages[i];
        double read = (double)s->n_bytes / bandwidth, mul = rate > 0 ? (double)s->n_ops / rate : 0;
        double least = read > mul ? read : mul, ns = least_time(s);
        floor_total += least;
        printf("%-12s %9.1f %5.1f%% %9.2f %8.1f %9.1f %6.1f%%\n", s->name, ns * 1e-3,
               100 * ns / total, (double)s->n_bytes * 1e-6, (double)s->n_bytes / ns,
               (double)s->n_ops / ns, 100 * least / ns);
    }
    printf("%-12s %9.1f us = %.1f tok/s, floor %.1f us = %.1f%%\n", "all", total * 1e-3,
           T * 1e9 / total, floor_total * 1e-3, 100 * floor_total / total);
}

int main(int argc, char **argv)
{
    backend_options o = {.name = argc > 4 ? argv[4] : "cpu",
                         .n_threads = argc > 3 ? atoi(argv[3]) : 0};
    int passes = argc > 6 ? atoi(argv[6]) : 20;
    err e = {0};
    if (argc > 1) T = atoi(argv[1]);
    if (argc > 2) context = atoi(argv[2]);
    sh = shapes[argc > 5 && strcmp(argv[5], "35b") == 0];
    must(backend_open(&be, &o, &e), &e);
    workers *w;
    must(workers_open(&w, be->n_threads, &e), &e);
    double bandwidth = read_bandwidth(w), rate = int8_rate(w);
    workers_close(w);
    printf("%s, %s:%s, %d threads, %d rows behind %d: reads %.1f GB/s, int8 %.0f GOP/s\n", sh.name,
           be->name, be->isa, be->n_threads, T, context, bandwidth, rate);
    open_buffers();
    arena_mem = take((int64_t)sh.n_layers * (4 << 20) +
                     (int64_t)u.rows.table_stride * 64 * sh.G * (2 * sh.D + 8) * sh.n_layers / 4 +
                     (8 << 20));
    for (int i = 0; i < sh.n_layers; i++) open_layer(&layers[i], i);
    head = linear(sh.V, sh.E);
    table = weight(WEIGHT_TABLE, 1, sh.V, sh.E, 4);
    backend_limits l = {.T = T,
                        .L = 1,
                        .E = sh.E,
                        .K = 8192,
                        .N = 8192,
                        .F = sh.F,
                        .moe_F = sh.moe_F,
                        .shared_F = sh.shared_F,
                        .X = sh.X,
                        .K_experts = sh.K,
                        .V = sh.V,
                        .M = T,
                        .H = sh.H,
                        .G = sh.G,
                        .D = sh.D,
                        .gdn_Hk = sh.Hk,
                        .gdn_Hv = sh.Hv,
                        .gdn_dk = DK,
                        .gdn_dv = DK,
                        .max_position = context + T};
    must(be->ops->reserve(be, &l, &e), &e);
    for (int pass = 0; pass < passes; pass++) {
        for (int i = 0; i < n_stages; i++) {
            stages[i].n_bytes = stages[i].n_ops = 0;
            stages[i].n_calls = 0;
        }
        run_pass();
    }
    report(bandwidth, rate);
    return 0;
}
