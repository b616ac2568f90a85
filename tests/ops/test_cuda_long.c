/* What the op table's small cases don't reach on a GPU: long histories, prompts that fill the chip
 * (another way to run the same arithmetic), and a vocabulary of real size. Skips without a GPU. */
#include <stdlib.h>

#include "backend/backend.h"
#include "support/test.h"
#include "tensor/half.h"

static backend *open_named(const char *name, const backend_limits *l)
{
    backend *b;
    err e = {0};
    if (backend_open(&b, &(backend_options){.name = name, .n_threads = 2}, &e) != ERR_OK) {
        print_message("%s: %s\n", name, e.msg);
        return NULL;
    }
    CHECK_OK(b->ops->reserve(b, l, &e), &e);
    return b;
}

static dev_buf put(backend *b, const void *bytes, int64_t n)
{
    dev_buf d;
    err e = {0};
    CHECK_OK(b->ops->alloc(b, n, &d, &e), &e);
    if (bytes) CHECK_OK(b->ops->upload(b, d, bytes, n), &b->last);
    return d;
}

/* ---- attention ---------------------------------------------------------------------------- */

typedef struct {
    int H, G, D, n_pos;
    kv_format format;
    uint16_t *q, *qg; /* of every position */
    void *k, *v;
    float *k_scale, *v_scale;
    int32_t *table;
} history;

/* n bf16 numbers, either sign, size 0.5 to 2. */
static uint16_t *random_bf16(int64_t n, uint64_t *s)
{
    uint16_t *x = malloc((size_t)(n + 3) * 2);
    for (int64_t i = 0; i < n; i += 4) {
        uint64_t r = test_random(s) & 0x80ff80ff80ff80ffULL;
        r |= 0x3f003f003f003f00ULL;
        memcpy(x + i, &r, 8);
    }
    return x;
}

static void *random_cache(const history *h, int64_t n, uint64_t *s)
{
    if (h->format == KV_BF16) return random_bf16(n, s);
    if (h->format == KV_INT8) {
        int8_t *x = malloc((size_t)n + 7);
        for (int64_t i = 0; i < n; i += 8) {
            uint64_t r = test_random(s);
            memcpy(x + i, &r, 8);
        }
        return x;
    }
    float *x = malloc((size_t)n * 4);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(test_uniform(s) * 4 - 2);
    return x;
}

static history history_new(kv_format format, int H, int G, int n_pos, uint64_t s)
{
    history h = {.H = H, .G = G, .D = 256, .n_pos = n_pos, .format = format};
    int n_blocks = n_pos / OPS_BLOCK + 1;
    int64_t n_q = (int64_t)n_pos * H * h.D, cells = (int64_t)n_blocks * G * OPS_BLOCK;
    h.q = random_bf16(n_q, &s);
    h.qg = random_bf16(2 * n_q, &s);
    h.k = random_cache(&h, cells * h.D, &s);
    h.v = random_cache(&h, cells * h.D, &s);
    h.k_scale = malloc((size_t)cells * 4);
    h.v_scale = malloc((size_t)cells * 4);
    for (int64_t i = 0; i < cells; i++) {
        h.k_scale[i] = (float)(0.004 + 0.02 * test_uniform(&s));
        h.v_scale[i] = (float)(0.004 + 0.02 * test_uniform(&s));
    }
    h.table = malloc((size_t)n_blocks * 4);
    for (int i = 0; i < n_blocks; i++) h.table[i] = i; /* then shuffled */
    for (int i = n_blocks - 1; i > 0; i--) {
        int j = (int)(test_random(&s) % (uint64_t)(i + 1)), moved = h.table[i];
        h.table[i] = h.table[j];
        h.table[j] = moved;
    }
    return h;
}

static void history_free(history *h)
{
    free(h->q);
    free(h->qg);
    free(h->k);
    free(h->v);
    free(h->k_scale);
    free(h->v_scale);
    free(h->table);
}

typedef struct {
    dev_buf k, v, k_scale, v_scale, table;
} device_cache;

static device_cache cache_put(backend *b, const history *h)
{
    int64_t n_blocks = h->n_pos / OPS_BLOCK + 1, cells = n_blocks * h->G * OPS_BLOCK;
    int64_t size = h->format == KV_INT8 ? 1 : h->format == KV_BF16 ? 2 : 4;
    device_cache c = {put(b, h->k, cells * h->D * size), put(b, h->v, cells * h->D * size),
                      put(b, h->k_scale, cells * 4), put(b, h->v_scale, cells * 4),
                      put(b, h->table, n_blocks * 4)};
    return c;
}

static void cache_drop(backend *b, device_cache *c)
{
    b->ops->release(b, &c->k);
    b->ops->release(b, &c->v);
    b->ops->release(b, &c->k_scale);
    b->ops->release(b, &c->v_scale);
    b->ops->release(b, &c->table);
}

/* Rows [first, first + T) of the history in one call; the result is the caller's. n_kernels: how
 * many the call takes; NULL is fine. */
static uint16_t *attend_counted(backend *b, const history *h, const device_cache *c, int first,
                                int T, int64_t *n_kernels)
{
    int64_t row = (int64_t)h->H * h->D;
    int32_t *lane = calloc((size_t)T, 4), *pos = malloc((size_t)T * 4);
    for (int t = 0; t < T; t++) pos[t] = first + t;
    dev_buf q = put(b, h->q + first * row, T * row * 2),
            qg = put(b, h->qg + first * row * 2, T * row * 4);
    dev_buf row_lane = put(b, lane, T * 4), row_pos = put(b, pos, T * 4);
    dev_buf lane_row = put(b, (int32_t[]){0, T}, 8), lane_slot = put(b, (int32_t[]){0}, 4);
    dev_buf out = put(b, NULL, T * row * 2);
    CHECK_OK(b->ops->fill(b, out, 0xff, T * row * 2), &b->last);
    attn_args a = {.q = q,
                   .qg = qg,
                   .kv = {h->format, c->k, c->v, c->k_scale, c->v_scale},
                   .rows = {.T = T,
                            .L = 1,
                            .max_rows = T,
                            .max_len = first + T,
                            .row_lane = row_lane,
                            .row_pos = row_pos,
                            .lane_row = lane_row,
                            .lane_slot = lane_slot,
                            .table = c->table,
                            .table_stride = h->n_pos / OPS_BLOCK + 1},
                   .out = out,
                   .scale = 0.0625f,
                   .H = h->H,
                   .G = h->G,
                   .D = h->D,
                   .has_gate = true};
    CHECK_OK(b->ops->attn(b, &a), &b->last);
    if (n_kernels) { /* once more, as a graph of its own */
        CHECK_OK(b->ops->graph_begin(b, 1), &b->last);
        CHECK_OK(b->ops->attn(b, &a), &b->last);
        CHECK_OK(b->ops->graph_end(b), &b->last);
        *n_kernels = b->n_nodes;
    }
    uint16_t *y = malloc((size_t)(T * row) * 2);
    CHECK_OK(b->ops->download(b, y, out, T * row * 2), &b->last);
    dev_buf *all[] = {&q, &qg, &row_lane, &row_pos, &lane_row, &lane_slot, &out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) b->ops->release(b, all[i]);
    free(lane);
    free(pos);
    return y;
}

static uint16_t *attend(backend *b, const history *h, const device_cache *c, int first, int T)
{
    return attend_counted(b, h, c, first, T, NULL);
}

static double cache_at(const history *h, const void *data, const float *scale, int64_t cell, int d)
{
    int64_t i = cell * h->D + d;
    if (h->format == KV_INT8) return (double)scale[cell] * ((const int8_t *)data)[i];
    if (h->format == KV_BF16) return (double)half_from_bf16(((const uint16_t *)data)[i]);
    return (double)((const float *)data)[i];
}

/* Head `head` of position pos in double. */
static void attend_double(const history *h, int pos, int head, double *out)
{
    int g = head / (h->H / h->G);
    double *score = malloc((size_t)(pos + 1) * sizeof *score), max = -INFINITY, sum = 0;
    const uint16_t *q = h->q + ((int64_t)pos * h->H + head) * h->D;
    const uint16_t *gate = h->qg + ((int64_t)pos * h->H + head) * 2 * h->D + h->D;
    for (int d = 0; d < h->D; d++) out[d] = 0;
    for (int p = 0; p <= pos; p++) {
        int64_t cell = ((int64_t)h->table[p / OPS_BLOCK] * h->G + g) * OPS_BLOCK + p % OPS_BLOCK;
        score[p] = 0;
        for (int d = 0; d < h->D; d++)
            score[p] += (double)half_from_bf16(q[d]) * cache_at(h, h->k, h->k_scale, cell, d) / 16;
        if (score[p] > max) max = score[p];
    }
    for (int p = 0; p <= pos; p++) {
        int64_t cell = ((int64_t)h->table[p / OPS_BLOCK] * h->G + g) * OPS_BLOCK + p % OPS_BLOCK;
        double w = exp(score[p] - max);
        sum += w;
        for (int d = 0; d < h->D; d++) out[d] += w * cache_at(h, h->v, h->v_scale, cell, d);
    }
    for (int d = 0; d < h->D; d++) out[d] /= sum * (1 + exp(-(double)half_from_bf16(gate[d])));
    free(score);
}

static double distance(const uint16_t *got, const double *want, int n)
{
    double diff = 0, norm = 0;
    for (int i = 0; i < n; i++) {
        double x = (double)half_from_bf16(got[i]) - want[i];
        diff += x * x;
        norm += want[i] * want[i];
    }
    return sqrt(diff / norm);
}

static const backend_limits wide = {.T = 2400,
                                    .L = 4,
                                    .rows_per_lane = 16,
                                    .E = 1024,
                                    .K = 1024,
                                    .N = 1024,
                                    .F = 1024,
                                    .V = 248320,
                                    .M = 16,
                                    .H = 24,
                                    .G = 4,
                                    .D = 256,
                                    .max_position = 65536};
/* Scratch too small to split anything long, or many rows at once. */
#define NARROW(rows)                                                                          \
    {                                                                                         \
        .T = (rows), .L = 1, .rows_per_lane = 1, .E = 64, .K = 64, .N = 64, .F = 64, .V = 64, \
        .M = 1, .H = 1, .G = 1, .D = 32, .max_position = 64                                   \
    }
static const backend_limits narrow = NARROW(16), narrowest = NARROW(8);

static void check_rows(backend *b, const history *h, const device_cache *c, const uint16_t *all,
                       int first, int T)
{
    int64_t row = (int64_t)h->H * h->D;
    uint16_t *y = attend(b, h, c, first, T);
    for (int64_t i = 0; i < T * row; i++) {
        if (y[i] != all[first * row + i])
            fail_msg("H %d G %d format %d: position %lld of a call of %d rows has other bits", h->H,
                     h->G, (int)h->format, (long long)(first + i / row), T);
    }
    free(y);
}

/* A prompt of 2,304 rows at once (folded in registers) against slices of it (split). */
TEST(a_prompt_has_the_bits_of_its_slices)
{
    static const struct {
        kv_format f;
        int H, G;
    } shapes[] = {
        {KV_INT8, 24, 4}, {KV_BF16, 24, 4}, {KV_BF16, 16, 2}, {KV_INT8, 16, 2}, {KV_F32, 24, 4}};
    uint64_t seed = test_seed();
    backend *b = open_named("cuda", &wide);
    if (!b) TEST_SKIP("no GPU");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        history h = history_new(shapes[i].f, shapes[i].H, shapes[i].G, 2304, seed + i);
        device_cache c = cache_put(b, &h);
        uint16_t *all = attend(b, &h, &c, 0, 2304);
        static const int slices[][2] = {{0, 1},     {1, 2},    {126, 4},  {128, 1},  {1000, 8},
                                        {2040, 16}, {2047, 1}, {2048, 1}, {2049, 5}, {2303, 1},
                                        {2297, 7},  {500, 70}, {63, 1},   {64, 3}};
        for (size_t k = 0; k < sizeof slices / sizeof *slices; k++)
            check_rows(b, &h, &c, all, slices[k][0], slices[k][1]);
        double want[256], worst = 0;
        static const int some[] = {0, 5, 64, 127, 128, 1300, 2303};
        for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
            int head = (int)(k * 5) % h.H;
            attend_double(&h, some[k], head, want);
            worst = fmax(worst, distance(all + ((int64_t)some[k] * h.H + head) * 256, want, 256));
        }
        print_message("H %d G %d format %d: %.1e from double\n", h.H, h.G, (int)h.format, worst);
        assert_true(worst < 6e-3);
        free(all);
        cache_drop(b, &c);
        history_free(&h);
    }
    b->ops->close(b);
}

/* 1 to 16 rows behind 8,690 positions, split: blocks of 8, 4 and 2 tiles, for every number of
 * pairs; against 16 rows folded. */
TEST(few_rows_have_the_bits_of_a_fold)
{
    enum { FIRST = 8690, MOST = 16 };
    static const struct {
        kv_format f;
        int H, G;
    } shapes[] = {{KV_INT8, 24, 4}, {KV_BF16, 24, 4}, {KV_BF16, 16, 2}, {KV_INT8, 16, 2}};
    static const int rows[] = {1, 2, 3, 4, 5, 6, 8, MOST};
    uint64_t seed = test_seed();
    backend *split = open_named("cuda", &wide);
    if (!split) TEST_SKIP("no GPU");
    backend *fold = open_named("cuda", &narrowest);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        history h = history_new(shapes[i].f, shapes[i].H, shapes[i].G, FIRST + MOST, seed + i);
        device_cache a = cache_put(split, &h), c = cache_put(fold, &h);
        uint16_t *y = attend(fold, &h, &c, FIRST, MOST);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            int n = rows[k];
            int64_t row = (int64_t)h.H * h.D;
            uint16_t *x = attend(split, &h, &a, FIRST + MOST - n, n);
            if (memcmp(x, y + (MOST - n) * row, (size_t)(n * row) * 2) != 0)
                fail_msg("H %d G %d format %d: %d rows have other bits", h.H, h.G, (int)h.format,
                         n);
            free(x);
        }
        free(y);
        cache_drop(split, &a);
        cache_drop(fold, &c);
        history_free(&h);
    }
    split->ops->close(split);
    fold->ops->close(fold);
}

/* 100 rows behind 8,690 positions: split in parts of 32 or 64 rows, as there is room for their
 * sums, against all at once. */
TEST(rows_in_parts_have_the_bits_of_all_at_once)
{
    enum { FIRST = 8690, ROWS = 100 };
    static const struct {
        kv_format f;
        int H, G;
    } shapes[] = {{KV_INT8, 6, 1}, {KV_BF16, 8, 1}, {KV_INT8, 5, 1}};
    uint64_t seed = test_seed();
    backend *whole = open_named("cuda", &wide);
    if (!whole) TEST_SKIP("no GPU");
    backend *parts = open_named("cuda", &narrow);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        history h = history_new(shapes[i].f, shapes[i].H, shapes[i].G, FIRST + ROWS, seed + i);
        device_cache a = cache_put(whole, &h), c = cache_put(parts, &h);
        int64_t at_once, in_parts;
        uint16_t *x = attend_counted(whole, &h, &a, FIRST, ROWS, &at_once);
        uint16_t *y = attend_counted(parts, &h, &c, FIRST, ROWS, &in_parts);
        assert_int_equal(at_once, 2);
        assert_true(in_parts == 4 || in_parts == 6 || in_parts == 8);
        if (memcmp(x, y, (size_t)(ROWS * h.H * h.D) * 2) != 0)
            fail_msg("H %d G %d format %d: other bits", h.H, h.G, (int)h.format);
        free(x);
        free(y);
        cache_drop(whole, &a);
        cache_drop(parts, &c);
        history_free(&h);
    }
    whole->ops->close(whole);
    parts->ops->close(parts);
}

/* 16 rows behind 40,000 positions, split, folded, and at the end of a prompt of 400; and against
 * double. */
TEST(a_long_history_is_right_either_way)
{
    uint64_t seed = test_seed();
    backend *split = open_named("cuda", &wide);
    if (!split) TEST_SKIP("no GPU");
    backend *fold = open_named("cuda", &narrow);
    static const kv_format formats[] = {KV_INT8, KV_BF16};
    for (int f = 0; f < 2; f++) {
        history h = history_new(formats[f], 24, 4, 40016, seed + (uint64_t)f);
        device_cache a = cache_put(split, &h), c = cache_put(fold, &h);
        uint16_t *x = attend(split, &h, &a, 40000, 16), *y = attend(fold, &h, &c, 40000, 16);
        assert_memory_equal(x, y, 16 * 24 * 256 * 2);
        uint16_t *z = attend(split, &h, &a, 40016 - 400, 400);
        assert_memory_equal(x, z + (400 - 16) * 24 * 256, 16 * 24 * 256 * 2);
        free(z);
        double want[256];
        attend_double(&h, 40007, 13, want);
        double d = distance(x + (7 * 24 + 13) * 256, want, 256);
        print_message("40,007 positions, format %d: %.1e from double\n", (int)h.format, d);
        assert_true(d < 6e-3);
        free(x);
        free(y);
        cache_drop(split, &a);
        cache_drop(fold, &c);
        history_free(&h);
    }
    split->ops->close(split);
    fold->ops->close(fold);
}

/* ---- sampling ----------------------------------------------------------------------------- */

enum { V = 248320, M = 12 };

/* Settings whose z is exact in f32, so that a backend in f32 must choose ref's token. */
static const sample_policy policies[M] = {
    {.seed = 1, .temperature = 1, .top_p = 1, .repetition = 1},
    {.seed = 2, .temperature = 1, .top_p = 0.95f, .top_k = 20, .repetition = 1},
    {.seed = 3, .temperature = 2, .top_p = 0.9f, .repetition = 1},
    {.seed = 4, .temperature = 0.5f, .top_p = 1, .top_k = 50000, .repetition = 1},
    {.seed = 5, .temperature = 1, .top_p = 1, .min_p = 0.1f, .repetition = 1},
    {.seed = 6, .temperature = 0, .top_p = 1, .repetition = 1},
    {.seed = 7, .temperature = 1, .top_p = 0.7f, .top_k = 100000, .repetition = 1},
    {.seed = 8, .temperature = 2, .top_p = 0.99f, .min_p = 0.0001f, .repetition = 1},
    {.seed = 9, .temperature = 1, .top_p = 1, .top_k = 3000, .repetition = 1, .presence = 0.5f},
    {.seed = 10, .temperature = 1, .top_p = 0.5f, .repetition = 2, .frequency = 0.25f},
    {.seed = 11, .temperature = 4, .top_p = 0.999f, .repetition = 1},
    {.seed = 12, .temperature = 1, .top_p = 1, .top_k = 1, .repetition = 1},
};

typedef struct {
    int32_t token[M], top_ids[M * OPS_TOP_LOGPROBS];
    float logprob[M], top[M * OPS_TOP_LOGPROBS];
} sampled;

static void draw(backend *b, const float *logits, const uint32_t *counts, sampled *out)
{
    int32_t iota[M + 1], pos[M];
    for (int i = 0; i <= M; i++) iota[i] = i;
    for (int i = 0; i < M; i++) pos[i] = 1000 + i;
    dev_buf x = put(b, logits, (int64_t)M * V * 4), n = put(b, iota, sizeof iota);
    dev_buf p = put(b, pos, sizeof pos), pol = put(b, policies, sizeof policies);
    dev_buf bias = put(b, NULL, M * OPS_BIAS_MAX * (int64_t)sizeof(sample_bias));
    dev_buf cnt = put(b, counts, (int64_t)M * V * 4), token = put(b, NULL, sizeof out->token);
    dev_buf lp = put(b, NULL, sizeof out->logprob), ids = put(b, NULL, sizeof out->top_ids);
    dev_buf top = put(b, NULL, sizeof out->top);
    sample_args a = {.logits = x,
                     .row = n,
                     .rows = {.T = M,
                              .L = M,
                              .max_rows = 1,
                              .max_len = 2000,
                              .ids = n,
                              .row_lane = n,
                              .row_pos = p,
                              .lane_row = n,
                              .lane_slot = n},
                     .lanes = {pol, bias, cnt},
                     .token = token,
                     .logprob = lp,
                     .top_ids = ids,
                     .top_logprobs = top,
                     .M = M,
                     .V = V};
    CHECK_OK(b->ops->sample(b, &a), &b->last);
    CHECK_OK(b->ops->download(b, out->token, token, sizeof out->token), &b->last);
    CHECK_OK(b->ops->download(b, out->logprob, lp, sizeof out->logprob), &b->last);
    CHECK_OK(b->ops->download(b, out->top_ids, ids, sizeof out->top_ids), &b->last);
    CHECK_OK(b->ops->download(b, out->top, top, sizeof out->top), &b->last);
    dev_buf *all[] = {&x, &n, &p, &pol, &bias, &cnt, &token, &lp, &ids, &top};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) b->ops->release(b, all[i]);
}

/* kind 0: spread like a language model's; 1: nearly flat, thousands within 1/64; 2: few distinct
 * values; 3: all equal. */
static void fill_logits(float *x, int kind, uint64_t *s)
{
    for (int64_t i = 0; i < (int64_t)M * V; i++) {
        double n = test_normal(s);
        x[i] = kind == 0   ? (float)(n * 2.5 + (test_random(s) % 5000 == 0 ? 12 : 0))
               : kind == 1 ? (float)(n * 0.05)
               : kind == 2 ? (float)(rint(n * 2) / 2)
                           : 1.5f;
    }
}

TEST(a_real_vocabulary_gives_the_tokens_of_ref)
{
    uint64_t s = test_seed();
    backend *b = open_named("cuda", &wide);
    if (!b) TEST_SKIP("no GPU");
    backend *ref = open_named("ref", &wide);
    float *logits = malloc((size_t)M * V * 4);
    uint32_t *counts = calloc((size_t)M * V, 4);
    for (int64_t i = 0; i < (int64_t)M * V; i++) {
        uint64_t r = test_random(&s);
        counts[i] = r % 16 == 0 ? (uint32_t)(r >> 8) % 3 : 0;
        if ((r >> 16) % 16 == 0) counts[i] |= SAMPLE_IN_PROMPT;
    }
    sampled *x = calloc(2, sizeof *x), *y = x + 1;
    for (int kind = 0; kind < 4; kind++) {
        fill_logits(logits, kind, &s);
        draw(b, logits, counts, x);
        draw(ref, logits, counts, y);
        for (int m = 0; m < M; m++) {
            if (x->token[m] != y->token[m])
                fail_msg("kind %d policy %d: token %d, ref %d", kind, m, x->token[m], y->token[m]);
            if (fabs((double)x->logprob[m] - (double)y->logprob[m]) > 1e-5)
                fail_msg("kind %d policy %d: logprob %.8g, ref %.8g", kind, m,
                         (double)x->logprob[m], (double)y->logprob[m]);
        }
        for (int i = 0; i < M * OPS_TOP_LOGPROBS; i++) {
            if (x->top_ids[i] != y->top_ids[i] || fabs((double)(x->top[i] - y->top[i])) > 1e-5)
                fail_msg("kind %d top %d: id %d %.7g, ref %d %.7g", kind, i, x->top_ids[i],
                         (double)x->top[i], y->top_ids[i], (double)y->top[i]);
        }
    }
    free(x);
    free(counts);
    free(logits);
    b->ops->close(b);
    ref->ops->close(ref);
}
