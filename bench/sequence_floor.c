/* sequence_floor: attention, delta rule, draft attention and sampling at the shapes of
 * Qwen3.8-27B and Qwen3.6-35B-A3B against their floors. links: backend
 *
 * For each shape: the median time of one call inside a captured graph of calls that rotate over
 * caches larger than the second-level cache, the floor max(bytes / bandwidth, operations / rate),
 * and the share of it that was reached. Graph overhead of a call is part of the time.
 *
 * Usage: sequence_floor [substring of a name]   (needs a cuda backend) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/mem.h"

enum { REPLAYS = 9, CALLS = 24, COPIES = 4, NOISE = 1 << 24 };
static const double RATE = 790e12;       /* bf16, measured on an H200 with large products */
static const double BANDWIDTH = 4.36e12; /* bytes a second, read, measured there */
static const int64_t WARM_NS = 30000000;

static backend *b;
static const char *only = "";
static uint64_t next_key = 1;
static uint8_t *noise; /* NOISE random bytes */

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

static dev_buf take_copy(const void *p, int64_t n_bytes)
{
    dev_buf d = take(n_bytes);
    must(b->ops->upload(b, d, p, n_bytes), &b->last);
    return d;
}

typedef enum { AS_I8, AS_BF16, AS_F32 } noise_type;

/* n numbers of magnitude near `size`. */
static dev_buf take_noise(noise_type type, int64_t n, float size)
{
    int64_t each = type == AS_I8 ? 1 : type == AS_BF16 ? 2 : 4, step = NOISE / 4;
    dev_buf d = take(n * each);
    char *host = mem_new((size_t)(step * 4));
    for (int64_t i = 0; i < step; i++) {
        float x = ((float)noise[i] + (float)noise[i + step] / 256 - 128) / 74 * size;
        uint32_t bits;
        memcpy(&bits, &x, 4);
        if (type == AS_I8) host[i] = (char)noise[i];
        if (type == AS_BF16) ((uint16_t *)(void *)host)[i] = (uint16_t)(bits >> 16);
        if (type == AS_F32) ((float *)(void *)host)[i] = x;
    }
    for (int64_t at = 0; at < n; at += step) {
        int64_t part = n - at < step ? n - at : step;
        must(b->ops->upload(b, dev_buf_at(d, at * each), host, part * each), &b->last);
    }
    mem_free(host);
    return d;
}

/* ---- measuring ---------------------------------------------------------------------------- */

typedef struct {
    char name[40];
    int rows;
    double bytes, flops;            /* that one call must move and do */
    void (*call)(void *ctx, int i); /* the i-th call of the graph */
    void *ctx;
} job;

static int by_value(const void *p, const void *q)
{
    double x = *(const double *)p, y = *(const double *)q;
    return (x > y) - (x < y);
}

static void replay(uint64_t key)
{
    if (!b->ops->graph_replay(b, key)) exit(3);
    must(b->ops->sync(b), &b->last);
}

static void run(const job *j)
{
    double t[REPLAYS];
    uint64_t key = next_key++;
    if (!strstr(j->name, only)) return;
    must(b->ops->graph_begin(b, key), &b->last);
    for (int i = 0; i < CALLS; i++) j->call(j->ctx, i);
    must(b->ops->graph_end(b), &b->last);
    must(b->ops->sync(b), &b->last);
    for (int64_t from = clock_ns(); clock_ns() - from < WARM_NS;) replay(key);
    for (int r = 0; r < REPLAYS; r++) {
        int64_t from = clock_ns();
        replay(key);
        t[r] = (double)(clock_ns() - from) * 1e-9 / CALLS;
    }
    qsort(t, REPLAYS, sizeof *t, by_value);
    double s = t[REPLAYS / 2], floor_s = fmax(j->bytes / BANDWIDTH, j->flops / RATE);
    printf("%-32s %5d rows %9.2f us %6.0f GB/s %6.1f TFLOP/s  floor %8.2f us %5.1f %%\n", j->name,
           j->rows, s * 1e6, j->bytes / s * 1e-9, j->flops / s * 1e-12, floor_s * 1e6,
           floor_s / s * 100);
    fflush(stdout);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* L lanes of n rows each, the last at position len - 1, blocks of a slot in a row. */
static ops_rows make_rows(int L, int n, int64_t len)
{
    int T = L * n, stride = (int)(len / OPS_BLOCK) + 1;
    int32_t *lane = mem_new((size_t)T * 4), *pos = mem_new((size_t)T * 4);
    int32_t *first = mem_new((size_t)(L + 1) * 4), *table = mem_new((size_t)(L * stride) * 4);
    for (int t = 0; t < T; t++) {
        lane[t] = t / n;
        pos[t] = (int32_t)(len - n + t % n);
    }
    for (int l = 0; l <= L; l++) first[l] = l * n;
    for (int i = 0; i < L * stride; i++) table[i] = i;
    dev_buf slots = take_copy(lane, T * 4);
    int32_t *slot = mem_new((size_t)L * 4);
    for (int l = 0; l < L; l++) slot[l] = l;
    ops_rows r = {.T = T,
                  .L = L,
                  .max_rows = n,
                  .max_len = len,
                  .ids = take(T * 4),
                  .row_lane = slots,
                  .row_pos = take_copy(pos, T * 4),
                  .lane_row = take_copy(first, (L + 1) * 4),
                  .lane_slot = take_copy(slot, L * 4),
                  .table = take_copy(table, (int64_t)L * stride * 4),
                  .table_stride = stride};
    mem_free(lane);
    mem_free(pos);
    mem_free(first);
    mem_free(table);
    mem_free(slot);
    return r;
}

static void drop_rows(ops_rows *r)
{
    dev_buf *all[] = {&r->ids, &r->row_lane, &r->row_pos, &r->lane_row, &r->lane_slot, &r->table};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) b->ops->release(b, all[i]);
}

/* ---- attention ---------------------------------------------------------------------------- */

typedef struct {
    attn_args a[COPIES];
    int copies;
} attn_ctx;

static void attn_call(void *ctx, int i)
{
    attn_ctx *c = ctx;
    must(b->ops->attn(b, &c->a[i % c->copies]), &b->last);
}

static void run_attn(const char *model, int H, int G, kv_format f, int L, int n, int64_t len)
{
    enum { D = 256 };
    job j = {.rows = L * n, .call = attn_call};
    snprintf(j.name, sizeof j.name, "attn %s %s L%d %lldK", model, f == KV_INT8 ? "int8" : "bf16",
             L, (long long)(len / 1024));
    if (!strstr(j.name, only)) return;
    int64_t cells = (int64_t)L * (len / OPS_BLOCK + 1) * G * OPS_BLOCK, T = (int64_t)L * n;
    int64_t size = f == KV_INT8 ? 1 : 2;
    attn_ctx c = {.copies = cells * D * size > (256 << 20) ? 1 : COPIES};
    ops_rows rows = make_rows(L, n, len);
    dev_buf q = take_noise(AS_BF16, T * H * D, 1), qg = take_noise(AS_BF16, T * H * D * 2, 1);
    dev_buf out = take(T * H * D * 2);
    noise_type type = f == KV_INT8 ? AS_I8 : AS_BF16;
    for (int i = 0; i < c.copies; i++) {
        kv_layer kv = {f, take_noise(type, cells * D, 1), take_noise(type, cells * D, 1),
                       take_noise(AS_F32, cells, 0.01f), take_noise(AS_F32, cells, 0.01f)};
        c.a[i] = (attn_args){q, qg, kv, rows, out, 0.0625f, H, G, D, true};
    }
    j.ctx = &c;
    /* Row i of a lane sees len - n + i + 1 positions; a block of rows shares what it reads. */
    double seen = (double)n * ((double)(len - n) + (n + 1) / 2.0) * L;
    j.bytes = (double)L * (double)len * G * (2.0 * D * (double)size + (f == KV_INT8 ? 8 : 0)) +
              (double)T * H * D * 6;
    j.flops = seen * H * D * 4;
    run(&j);
    for (int i = 0; i < c.copies; i++) {
        kv_layer *kv = &c.a[i].kv;
        dev_buf *all[] = {&kv->k, &kv->v, &kv->k_scale, &kv->v_scale};
        for (int k = 0; k < 4; k++) b->ops->release(b, all[k]);
    }
    drop_rows(&rows);
    b->ops->release(b, &q);
    b->ops->release(b, &qg);
    b->ops->release(b, &out);
}

static void run_attns(void)
{
    static const int64_t lens[] = {512, 2048, 8192, 24576, 131072};
    for (int m = 0; m < 2; m++) {
        const char *name = m ? "35b" : "27b";
        int H = m ? 16 : 24, G = m ? 2 : 4;
        for (int f = 0; f < 2; f++) {
            kv_format format = f ? KV_BF16 : KV_INT8;
            for (int i = 0; i < 5; i++) {
                run_attn(name, H, G, format, 1, 1, lens[i]);
                run_attn(name, H, G, format, 1, 8, lens[i]);
                if (i == 1 || i == 3) run_attn(name, H, G, format, 4, 8, lens[i]);
            }
            run_attn(name, H, G, format, 1, 2048, 2048);
            run_attn(name, H, G, format, 1, 2048, 32768);
        }
    }
}

/* ---- delta rule --------------------------------------------------------------------------- */

enum { STATES = 64 };
typedef struct {
    gdn_prep_args prep;
    gdn_scan_args scan;
    gdn_commit_args commit;
    dev_buf state[STATES];
    int kind; /* 0 prep, 1 scan, 2 commit, 3 prep and scan */
} gdn_ctx;

static void gdn_call(void *ctx, int i)
{
    gdn_ctx *c = ctx;
    c->scan.state = c->commit.state = c->state[i % STATES];
    if (c->kind % 3 == 0) must(b->ops->gdn_prep(b, &c->prep), &b->last);
    if (c->kind % 2 == 1) must(b->ops->gdn_scan(b, &c->scan), &b->last);
    if (c->kind == 2) must(b->ops->gdn_commit(b, &c->commit), &b->last);
}

static void run_gdn(const char *model, int Hk, int Hv, int L, int n, bool advance)
{
    enum { D = 128 };
    static const char *const kinds[] = {"prep", "scan", "commit", "both"};
    int64_t T = (int64_t)L * n, C = (2 * Hk + Hv) * D;
    double state_bytes = (double)L * Hv * D * D * 4;
    gdn_ctx c = {0};
    ops_rows rows = make_rows(L, n, 4096);
    dev_buf p = take_noise(AS_BF16, T * C, 1), ab = take_noise(AS_BF16, T * Hv, 1);
    dev_buf w = take_noise(AS_F32, C * 4, 0.5f), A = take_noise(AS_F32, Hv, -0.1f);
    dev_buf conv = take_noise(AS_BF16, L * C * 3, 1), qkv = take(T * C * 2), g = take(T * Hv * 4);
    dev_buf beta = take(T * Hv * 4), z = take_noise(AS_BF16, T * Hv * D, 1),
            out = take(T * Hv * D * 2);
    dev_buf norm = take_noise(AS_F32, D, 1), n_commit = take(L * 4);
    int32_t *four = mem_new((size_t)L * 4);
    for (int l = 0; l < L; l++) four[l] = n < 4 ? n : 4;
    must(b->ops->upload(b, n_commit, four, L * 4), &b->last);
    mem_free(four);
    for (int i = 0; i < STATES; i++) c.state[i] = take((int64_t)state_bytes);
    c.prep = (gdn_prep_args){p, ab, ab, w, A, A, conv, rows, qkv, g, beta, Hk, Hv, D, D};
    c.scan = (gdn_scan_args){qkv,  g,   beta,  p,  z,  norm, c.state[0], conv,
                             rows, out, 1e-6f, Hk, Hv, D,    D,          advance};
    c.commit = (gdn_commit_args){qkv, g, beta, p, c.state[0], conv, rows, n_commit, Hk, Hv, D, D};
    for (c.kind = 0; c.kind < 4; c.kind++) {
        job j = {.rows = (int)T, .call = gdn_call, .ctx = &c};
        snprintf(j.name, sizeof j.name, "gdn %s %s L%d%s", kinds[c.kind], model, L,
                 c.kind % 2 == 1 && !advance ? " verify" : "");
        double rows_in = (double)T * (double)C * 4; /* projections, and what prep makes of them */
        double scan = state_bytes * (advance ? 2 : 1) + (double)T * ((double)C * 2 + Hv * D * 4);
        j.bytes = c.kind == 0   ? rows_in
                  : c.kind == 1 ? scan
                  : c.kind == 2 ? state_bytes * 2
                                : scan + rows_in - (double)T * (double)C * 2;
        if (c.kind != 2 || !advance) run(&j);
    }
    dev_buf *all[] = {&p, &ab, &w, &A, &conv, &qkv, &g, &beta, &z, &out, &norm, &n_commit};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) b->ops->release(b, all[i]);
    for (int i = 0; i < STATES; i++) b->ops->release(b, &c.state[i]);
    drop_rows(&rows);
}

static void run_gdns(void)
{
    for (int m = 0; m < 2; m++) {
        const char *name = m ? "35b" : "27b";
        int Hv = m ? 32 : 48;
        run_gdn(name, 16, Hv, 1, 1, true);
        run_gdn(name, 16, Hv, 4, 1, true);
        run_gdn(name, 16, Hv, 1, 8, false);
        run_gdn(name, 16, Hv, 4, 8, false);
        run_gdn(name, 16, Hv, 1, 2048, true);
    }
}

/* ---- draft -------------------------------------------------------------------------------- */

static void draft_call(void *ctx, int i)
{
    must(b->ops->draft_attn(b, (draft_attn_args *)ctx + i % COPIES), &b->last);
}

static void run_draft(int L, int pos)
{
    enum { B = 8, H = 32, G = 8, D = 128, W = 2048 };
    job j = {.rows = L * B, .call = draft_call};
    snprintf(j.name, sizeof j.name, "draft attn L%d %d", L, pos);
    if (!strstr(j.name, only)) return;
    int32_t slot[64], at[64], zero[64] = {0};
    for (int l = 0; l < L; l++) slot[l] = l, at[l] = pos;
    draft_attn_args a[COPIES];
    dev_buf q = take_noise(AS_BF16, L * B * H * D, 1), k = take_noise(AS_BF16, L * B * G * D, 1);
    dev_buf v = take_noise(AS_BF16, L * B * G * D, 1), out = take(L * B * H * D * 2);
    dev_buf d_slot = take_copy(slot, L * 4), d_at = take_copy(at, L * 4),
            d_zero = take_copy(zero, L * 4);
    for (int i = 0; i < COPIES; i++) {
        draft_ring ring = {take_noise(AS_BF16, (int64_t)L * G * W * D, 1),
                           take_noise(AS_BF16, (int64_t)L * G * W * D, 1), W};
        a[i] = (draft_attn_args){q,          k, v, ring, d_slot, d_at, d_zero, out,
                                 0.0883883f, L, B, H,    G,      D,    W,      false};
    }
    double n = pos < W - 1 ? pos : W - 1;
    j.bytes = L * (n + B) * G * D * 4 + (double)L * B * H * D * 4;
    j.flops = L * B * (n + B) * H * D * 4;
    j.ctx = a;
    run(&j);
    for (int i = 0; i < COPIES; i++) {
        b->ops->release(b, &a[i].ring.k);
        b->ops->release(b, &a[i].ring.v);
    }
    dev_buf *all[] = {&q, &k, &v, &out, &d_slot, &d_at, &d_zero};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) b->ops->release(b, all[i]);
}

/* ---- sampling ----------------------------------------------------------------------------- */

static void sample_call(void *ctx, int i)
{
    (void)i;
    must(b->ops->sample(b, ctx), &b->last);
}

static void run_sample(const char *name, int M, float temperature, float top_p, int top_k)
{
    enum { V = 248320 };
    job j = {.rows = M, .call = sample_call};
    snprintf(j.name, sizeof j.name, "sample %s", name);
    if (!strstr(j.name, only)) return;
    ops_rows rows = make_rows(1, M, 1000);
    sample_policy p = {
        .seed = 5, .temperature = temperature, .top_p = top_p, .top_k = top_k, .repetition = 1};
    float *x = mem_new((size_t)M * V * 4);
    uint64_t s = 1;
    for (int64_t i = 0; i < (int64_t)M * V; i++) { /* about normal, a few far above */
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[i] = ((float)(s >> 56) + (float)(s >> 48 & 255) + (float)(s >> 40 & 255) - 382) / 55;
        if ((s >> 32 & 0x3fff) == 0) x[i] += 12;
    }
    int32_t row[64];
    for (int m = 0; m < M; m++) row[m] = m;
    sample_args a = {.logits = take_copy(x, (int64_t)M * V * 4),
                     .row = take_copy(row, M * 4),
                     .rows = rows,
                     .token = take(M * 4),
                     .M = M,
                     .V = V};
    a.lanes.policy = take_copy(&p, sizeof p);
    a.lanes.bias = take(OPS_BIAS_MAX * (int64_t)sizeof(sample_bias));
    mem_free(x);
    j.bytes = (double)M * V * 4;
    j.ctx = &a;
    run(&j);
    dev_buf *all[] = {&a.logits, &a.row, &a.token, &a.lanes.policy, &a.lanes.bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) b->ops->release(b, all[i]);
    drop_rows(&rows);
}

static void run_samples(void)
{
    for (int M = 1; M <= 32; M *= M == 1 ? 8 : 4) {
        run_sample("greedy", M, 0, 1, 0);
        run_sample("open", M, 1, 1, 0);
        run_sample("k20 p.95", M, 1, 0.95f, 20);
        run_sample("p.95", M, 1, 0.95f, 0);
    }
}

int main(int argc, char **argv)
{
    err e = {0};
    if (argc > 1) only = argv[1];
    must(backend_open(&b, &(backend_options){.name = "cuda", .n_threads = 1}, &e), &e);
    backend_limits l = {.T = 2048,
                        .L = 64,
                        .rows_per_lane = 16,
                        .E = 5120,
                        .K = 5120,
                        .N = 5120,
                        .F = 5120,
                        .V = 248320,
                        .M = 64,
                        .H = 32,
                        .G = 8,
                        .D = 256,
                        .gdn_Hk = 16,
                        .gdn_Hv = 48,
                        .gdn_dk = 128,
                        .gdn_dv = 128,
                        .max_position = 262144};
    must(b->ops->reserve(b, &l, &e), &e);
    noise = mem_new(NOISE);
    uint64_t s = 99;
    for (int i = 0; i < NOISE; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        noise[i] = (uint8_t)(s >> 56);
    }
    printf("%s, %s\n", b->name, b->isa);
    run_attns();
    run_gdns();
    run_draft(1, 100);
    run_draft(1, 5000);
    run_draft(4, 5000);
    run_samples();
    mem_free(noise);
    b->ops->close(b);
    return 0;
}
