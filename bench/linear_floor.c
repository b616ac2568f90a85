/* linear_floor: every linear of Qwen3.8-27B and Qwen3.6-35B-A3B against its floor.
 *
 * For each shape and number of rows: the median time of one call inside a captured graph of
 * calls that rotate over weights larger than the second-level cache, the floor
 * max(bytes / bandwidth, operations / rate), and the share of it that was reached.
 *
 * Usage: linear_floor [substring of a name [rows, or -rows for all up to that]]   (needs a cuda
 * backend) Weights: random codes, MLX 4-bit groups of 64. The floors' bandwidth and rate are the
 * constants below. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tensor/quant.h"

enum { COPIES_MAX = 8, REPLAYS = 9, CALLS = 24, PARTS = 4 };
static const double RATE = 790e12;             /* bf16, measured on an H200 with large products */
static const double BANDWIDTH = 4.36e12;       /* bytes a second read, measured on an H200 */
static const int64_t WARM_NS = 60000000;       /* clocks rise under load, not before */
static const int64_t SPREAD_BYTES = 200 << 20; /* weights a graph walks through: 4x the cache */

static backend *b;
static uint64_t next_key = 1;
static int only_rows;  /* 0 = every count; -n: up to n */
static uint8_t *noise; /* NOISE_BYTES of random bytes */
static const int64_t NOISE_BYTES = 800 << 20;

static void must(status s, const err *e)
{
    if (s == ERR_OK) return;
    fprintf(stderr, "%s: %s\n", e->where, e->msg);
    exit(1);
}

static dev_buf take(int64_t n_bytes)
{
    err e = {0};
    dev_buf d;
    must(b->ops->alloc(b, n_bytes, &d, &e), &e);
    return d;
}

/* bf16 in a sane range from random bytes */
static dev_buf take_noise(int64_t n)
{
    dev_buf d = take(n * 2);
    uint16_t *x = mem_new((size_t)n * 2);
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint16_t)(0x3c00 + (noise[i % NOISE_BYTES] << 2)) ^
               (uint16_t)((noise[(i * 7) % NOISE_BYTES] & 1) << 15);
    must(b->ops->upload(b, d, x, n * 2), &b->last);
    mem_free(x);
    return d;
}

static dev_weight take_weight(weight_use use, int X, int64_t N, int64_t K, int bits)
{
    static uint16_t scales[32 << 20];
    static int64_t n_scales;
    err e = {0};
    dev_weight w;
    tensor t = {.type = DTYPE_AFFINE,
                .n_dims = use == WEIGHT_EXPERTS ? 3 : 2,
                .bits = bits,
                .group = 64,
                .scale_type = DTYPE_BF16,
                .data = noise,
                .scales = scales,
                .biases = scales};
    int64_t n = N * (use == WEIGHT_EXPERTS ? X : 1);
    if (use == WEIGHT_EXPERTS) memcpy(t.shape, (int64_t[]){X, N, K}, 3 * sizeof(int64_t));
    if (use != WEIGHT_EXPERTS) memcpy(t.shape, (int64_t[]){N, K}, 2 * sizeof(int64_t));
    t.n_bytes = n * quant_affine_row_bytes(K, bits);
    if (t.n_bytes > NOISE_BYTES || n * (K / 64) > 32 << 20) exit(2);
    for (; n_scales < n * (K / 64); n_scales++) {
        scales[n_scales] = (uint16_t)(0x3a00 + noise[n_scales]);
    }
    must(b->ops->weight_open(b, &t, use, &w, &e), &e);
    return w;
}

typedef struct {
    const char *name;
    int64_t bytes; /* that one call must move */
    double flops;
    void (*call)(void *ctx, int i); /* the i-th call of the graph */
    void *ctx;
} job;

static int by_value(const void *p, const void *q)
{
    double x = *(const double *)p, y = *(const double *)q;
    return (x > y) - (x < y);
}

/* Median seconds of one call. */
static double measure(const job *j)
{
    double t[REPLAYS];
    uint64_t key = next_key++;
    for (int i = 0; i < CALLS; i++) j->call(j->ctx, i); /* the order of the weights is learned */
    must(b->ops->graph_begin(b, key), &b->last);
    for (int i = 0; i < CALLS; i++) j->call(j->ctx, i);
    must(b->ops->graph_end(b), &b->last);
    must(b->ops->sync(b), &b->last);
    for (int64_t from = clock_ns(); clock_ns() - from < WARM_NS;) {
        if (!b->ops->graph_replay(b, key)) exit(3);
        must(b->ops->sync(b), &b->last);
    }
    for (int r = 0; r < REPLAYS; r++) {
        int64_t from = clock_ns();
        if (!b->ops->graph_replay(b, key)) exit(3);
        must(b->ops->sync(b), &b->last);
        t[r] = (double)(clock_ns() - from) * 1e-9 / CALLS;
    }
    qsort(t, REPLAYS, sizeof *t, by_value);
    return t[REPLAYS / 2];
}

static void report(const job *j, int T)
{
    if (only_rows > 0 && T != only_rows) return;
    if (only_rows < 0 && T > -only_rows) return;
    double s = measure(j), floor_s = (double)j->bytes / BANDWIDTH;
    if (j->flops / RATE > floor_s) floor_s = j->flops / RATE;
    printf("%-22s %5d rows %9.2f us %7.0f GB/s %7.1f TFLOP/s  floor %8.2f us %5.1f %%\n", j->name,
           T, s * 1e6, (double)j->bytes / s * 1e-9, j->flops / s * 1e-12, floor_s * 1e6,
           floor_s / s * 100);
    fflush(stdout);
}

/* ---- linears ------------------------------------------------------------------------------ */

typedef struct {
    int T, n_parts, copies;
    dev_buf x, y[PARTS];
    linear_out out[PARTS];
    dev_weight w[COPIES_MAX][PARTS];
    bool is_pair;
} linear_ctx;

static void linear_call(void *ctx, int i)
{
    linear_ctx *c = ctx;
    const dev_weight *w = c->w[i % c->copies];
    if (c->is_pair) {
        linear_swiglu_args a = {c->x, &w[0], &w[1], c->y[0], c->T};
        must(b->ops->linear_swiglu(b, &a), &b->last);
        return;
    }
    linear_args a = {.x = c->x, .T = c->T, .n_parts = c->n_parts};
    for (int k = 0; k < c->n_parts; k++) {
        a.part[k].w = &w[k];
        a.part[k].y = c->y[k];
        a.part[k].out = c->out[k];
    }
    must(b->ops->linear(b, &a), &b->last);
}

typedef struct {
    const char *name;
    int bits;
    int64_t K;
    int n_parts;
    int64_t N[PARTS];
    linear_out out;
    bool is_pair, is_head;
} shape;
static const shape shapes[] = {
    {"27b gdn in", 4, 5120, 4, {10240, 6144, 48, 48}, LINEAR_ACT, false, false},
    {"27b attn in", 4, 5120, 3, {12288, 1024, 1024}, LINEAR_ACT, false, false},
    {"27b attn/gdn out", 4, 6144, 1, {5120}, LINEAR_ADD, false, false},
    {"27b gate up", 4, 5120, 2, {17408, 17408}, LINEAR_ACT, true, false},
    {"27b down", 4, 17408, 1, {5120}, LINEAR_ADD, false, false},
    {"27b head", 4, 5120, 1, {248320}, LINEAR_F32, false, true},
    {"27b down 8 bit", 8, 17408, 1, {5120}, LINEAR_ADD, false, false},
    {"35b gdn in", 4, 2048, 4, {8192, 4096, 32, 32}, LINEAR_ACT, false, false},
    {"35b attn in", 4, 2048, 3, {8192, 512, 512}, LINEAR_ACT, false, false},
    {"35b attn/gdn out", 4, 4096, 1, {2048}, LINEAR_ADD, false, false},
    {"35b head", 4, 2048, 1, {248320}, LINEAR_F32, false, true},
};
static const int row_counts[] = {1, 4, 8, 16, 32, 64, 128, 512, 2048};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

static void run_shape(const shape *s)
{
    linear_ctx c = {.n_parts = s->n_parts, .is_pair = s->is_pair};
    int T_max = s->is_head ? 64 : row_counts[N_ROW_COUNTS - 1];
    int64_t weight_bytes = 0, out_bytes = 0, n_sum = 0;
    c.copies = 1;
    for (int i = 0; i < c.copies; i++) {
        for (int k = 0; k < s->n_parts; k++) {
            c.w[i][k] = take_weight(WEIGHT_LINEAR, 1, s->N[k], s->K, s->bits);
            if (i == 0) weight_bytes += c.w[i][k].n_bytes;
        }
        if (i == 0) c.copies = (int)(SPREAD_BYTES / weight_bytes) + 1;
        if (c.copies > COPIES_MAX) c.copies = COPIES_MAX;
    }
    c.x = take_noise(T_max * s->K);
    for (int k = 0; k < s->n_parts; k++) {
        c.y[k] = take(T_max * s->N[k] * 4);
        c.out[k] = s->out;
        n_sum += s->N[k];
    }
    out_bytes = n_sum * (s->is_pair ? 1 : s->out == LINEAR_ACT ? 2 : s->out == LINEAR_F32 ? 4 : 8);
    for (int i = 0; i < N_ROW_COUNTS && row_counts[i] <= T_max; i++) {
        c.T = row_counts[i];
        job j = {s->name, weight_bytes + c.T * (s->K * 2 + out_bytes),
                 2.0 * c.T * (double)n_sum * (double)s->K, linear_call, &c};
        report(&j, c.T);
    }
    b->ops->release(b, &c.x);
    for (int k = 0; k < s->n_parts; k++) {
        b->ops->release(b, &c.y[k]);
        for (int i = 0; i < c.copies; i++) b->ops->weight_close(b, &c.w[i][k]);
    }
}

/* ---- experts ------------------------------------------------------------------------------ */

typedef struct {
    moe_ffn_args a[2];
} moe_ctx;

static void moe_call(void *ctx, int i)
{
    must(b->ops->moe_ffn(b, &((moe_ctx *)ctx)->a[i % 2]), &b->last);
}

/* Distinct experts a row, uniform over X; returns how many experts are alive. */
static int route(int32_t *ids, int T, int X, int K)
{
    static bool alive[1024];
    int n = 0;
    memset(alive, 0, sizeof alive);
    uint64_t s = 12345;
    for (int t = 0; t < T; t++) {
        bool taken[1024] = {false};
        for (int k = 0; k < K;) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            int e = (int)(s >> 33) % X;
            if (taken[e]) continue;
            taken[e] = true;
            n += !alive[e];
            alive[e] = true;
            ids[t * K + k++] = e;
        }
    }
    return n;
}

static void run_moe(void)
{
    enum { T_MAX = 2048, E = 2048, X = 256, K = 8, F = 512 };
    dev_weight w[2][7];
    moe_ctx c;
    int32_t *ids = mem_new(T_MAX * K * 4);
    float *one = mem_new(T_MAX * K * 4);
    for (int i = 0; i < T_MAX * K; i++) one[i] = 0.125f;
    dev_buf x = take_noise(T_MAX * E), d_ids = take(T_MAX * K * 4), d_w = take(T_MAX * K * 4);
    dev_buf h = take(T_MAX * E * 4);
    must(b->ops->upload(b, d_w, one, T_MAX * K * 4), &b->last);
    for (int i = 0; i < 2; i++) {
        w[i][0] = take_weight(WEIGHT_EXPERTS, X, F, E, 4);
        w[i][1] = take_weight(WEIGHT_EXPERTS, X, F, E, 4);
        w[i][2] = take_weight(WEIGHT_EXPERTS, X, E, F, 4);
        w[i][3] = take_weight(WEIGHT_LINEAR, 1, F, E, 4);
        w[i][4] = take_weight(WEIGHT_LINEAR, 1, F, E, 4);
        w[i][5] = take_weight(WEIGHT_LINEAR, 1, E, F, 4);
        w[i][6] = take_weight(WEIGHT_LINEAR, 1, 1, E, 4);
    }
    int64_t expert_bytes = 0, shared_bytes = 0;
    for (int k = 0; k < 7; k++) *(k < 3 ? &expert_bytes : &shared_bytes) += w[0][k].n_bytes;
    for (int i = 0; i < N_ROW_COUNTS; i++) {
        int T = row_counts[i], alive = route(ids, T, X, K);
        must(b->ops->upload(b, d_ids, ids, T * K * 4), &b->last);
        for (int k = 0; k < 2; k++) {
            c.a[k] = (moe_ffn_args){x,        d_ids,    d_w,      &w[k][0], &w[k][1], &w[k][2],
                                    &w[k][3], &w[k][4], &w[k][5], &w[k][6], h,        T,
                                    E,        X,        K,        F,        F};
        }
        job j = {"35b experts", expert_bytes / X * alive + shared_bytes + (int64_t)T * E * 10,
                 2.0 * T * (K + 1) * 3.0 * E * F, moe_call, &c};
        report(&j, T);
    }
    mem_free(ids);
    mem_free(one);
}

/* ---- the rest ----------------------------------------------------------------------------- */

static dev_buf copy_from, copy_to;
static void copy_call(void *ctx, int i)
{
    (void)ctx;
    (void)i;
    must(b->ops->copy(b, copy_to, copy_from, copy_from.n_bytes), &b->last);
}

static topk_args topk;
static void topk_call(void *ctx, int i)
{
    (void)ctx;
    (void)i;
    must(b->ops->topk(b, &topk), &b->last);
}

static rmsnorm_args norm;
static void norm_call(void *ctx, int i)
{
    (void)ctx;
    (void)i;
    must(b->ops->rmsnorm(b, &norm), &b->last);
}

static void run_small(void)
{
    enum { V = 248320, E = 5120 };
    dev_buf logits = take_noise((int64_t)28 * V * 2);
    topk = (topk_args){logits, take(28 * 64), take(28 * 64), 1, 0, 7, V, 16};
    for (topk.M = 7; topk.M <= 28; topk.M *= 4) {
        job j = {"topk", (int64_t)topk.M * V * 4, 0, topk_call, NULL};
        report(&j, topk.M);
    }
    norm = (rmsnorm_args){logits, take(E * 4), take(2048 * E * 2), 1e-6f, 1, E};
    for (norm.T = 1; norm.T <= 512; norm.T *= 8) {
        job j = {"rmsnorm", (int64_t)norm.T * E * 6, 0, norm_call, NULL};
        report(&j, norm.T);
    }
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    only_rows = argc > 2 ? atoi(argv[2]) : 0;
    err e = {0};
    backend_options o = {.name = "cuda", .n_threads = 1};
    must(backend_open(&b, &o, &e), &e);
    backend_limits l = {.T = 2048,
                        .L = 64,
                        .rows_per_lane = 16,
                        .E = 5120,
                        .K = 17408,
                        .N = 17408,
                        .F = 17408,
                        .moe_F = 512,
                        .shared_F = 512,
                        .X = 256,
                        .K_experts = 8,
                        .V = 248320,
                        .M = 64,
                        .H = 24,
                        .G = 4,
                        .D = 256,
                        .gdn_Hk = 16,
                        .gdn_Hv = 48,
                        .gdn_dk = 128,
                        .gdn_dv = 128,
                        .max_position = 4096};
    must(b->ops->reserve(b, &l, &e), &e);
    noise = mem_new((size_t)NOISE_BYTES);
    uint64_t s = 88172645463325252u;
    for (int64_t i = 0; i < NOISE_BYTES; i += 8) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        memcpy(noise + i, &s, 8);
    }
    copy_from = take((int64_t)2 << 30);
    copy_to = take((int64_t)2 << 30);
    job copy = {"copy", 2 * copy_from.n_bytes, 0, copy_call, NULL};
    printf("copy: %.0f GB/s read and written\n", (double)copy.bytes / measure(&copy) * 1e-9);
    b->ops->release(b, &copy_from);
    b->ops->release(b, &copy_to);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (strstr(shapes[i].name, only)) run_shape(&shapes[i]);
    }
    if (strstr("35b experts", only)) run_moe();
    if (strstr("small", only)) run_small();
    mem_free(noise);
    b->ops->close(b);
    return 0;
}
