/* Every table of kernels gives the bits of the first, at odd sizes too. */
#include "cpu_tables.h"

enum { N = 700 };

static uint64_t seed;

TEST(rows)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    static const int sizes[] = {1, 7, 16, 63, 64, 65, 100, 256, 699};
    float x[N], w[N], y[N], normed[N], gated[N];
    seed = test_seed();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int m = sizes[s];
        float dot = 0, max = 0;
        double sum = 0;
        fill_normal(&seed, x, N, 1);
        fill_normal(&seed, w, N, 1);
        for (int i = 0; i < n; i++) {
            memset(y, 0x5a, sizeof y);
            k[i]->rmsnorm(x, w, 1e-6f, m, y);
            assert_true(((unsigned char *)(y + m))[0] == 0x5a);
            if (i == 0) memcpy(normed, y, sizeof y);
            check_same("rmsnorm", k[i], y, normed, sizeof y);
            float d = k[i]->dot(x, w, m), top = k[i]->max(x, m);
            double e = k[i]->sum_exp(x, m, top);
            if (i == 0) {
                dot = d;
                max = top;
                sum = e;
            }
            check_same("dot", k[i], &d, &dot, sizeof d);
            check_same("max", k[i], &top, &max, sizeof top);
            check_same("sum_exp", k[i], &e, &sum, sizeof e);
            memcpy(y, x, sizeof y);
            k[i]->gate(y, w, m);
            if (i == 0) memcpy(gated, y, sizeof y);
            check_same("gate", k[i], y, gated, sizeof y);
        }
    }
}

TEST(quantising)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    float x[640], scale[CPU_TABLES][40] = {{0}}, sum[CPU_TABLES][40] = {{0}};
    int8_t q[CPU_TABLES][640];
    seed = test_seed();
    fill_normal(&seed, x, 640, 3);
    for (int i = 64; i < 128; i++) x[i] = 0;
    x[200] = 1e-38f;
    for (int group = 16; group <= 64; group *= 2) {
        for (int i = 0; i < n; i++) {
            k[i]->quantise(x, 640, group, q[i], scale[i], sum[i]);
            check_same("quantise", k[i], q[i], q[0], sizeof q[0]);
            check_same("scales", k[i], scale[i], scale[0], sizeof scale[0]);
            check_same("sums", k[i], sum[i], sum[0], sizeof sum[0]);
        }
        for (int i = 0; i < 640; i++) {
            float s = scale[0][i / group];
            assert_true(fabsf((float)q[0][i] * s - x[i]) <= 0.5001f * s);
        }
    }
}

TEST(cache_formats)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    float x[256];
    char cell[CPU_TABLES][1024];
    seed = test_seed();
    fill_normal(&seed, x, 256, 2);
    for (int kind = 0; kind < KERNEL_KV_KINDS; kind++) {
        float scale[CPU_TABLES];
        memset(cell, 0, sizeof cell);
        for (int i = 0; i < n; i++) {
            scale[i] = k[i]->kv_store[kind](x, 256, cell[i]);
            check_same("kv_store", k[i], cell[i], cell[0], sizeof cell[0]);
            check_same("kv scale", k[i], &scale[i], &scale[0], sizeof scale[0]);
        }
    }
}

/* Scores, softmax and values of one tile. */
static void run_tile(const cpu_kernels *k, int kind, int n_q, int n_pos, int D, const float *q,
                     const void *cache, const float *scales, float *acc)
{
    const float *rows[9];
    float s[9 * ATTN_TILE], correct[9];
    for (int i = 0; i < n_q; i++) rows[i] = q + i * D;
    attn_tile t = {.q = rows,
                   .k = cache,
                   .v = cache,
                   .k_scale = scales,
                   .s = s,
                   .acc = acc,
                   .correct = correct,
                   .scale = 0.25f,
                   .n_q = n_q,
                   .n_pos = n_pos,
                   .D = D};
    memset(s, 0x7f, sizeof s);
    k->attn_scores[kind](&t);
    for (int i = 0; i < n_q; i++) {
        attn_run run = {i % 2 ? -INFINITY : 0.5f, i % 2 ? 0.0f : 2.0f};
        correct[i] = k->attn_softmax(s + i * ATTN_TILE, i % 3, n_pos - i % 2, kind ? NULL : scales,
                                     &run);
    }
    k->attn_values[kind](&t);
}

TEST(attention_tiles)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    static const int shape[][3] = {{1, 1, 16}, {2, 5, 64}, {5, 64, 256}, {9, 37, 128}, {4, 63, 48}};
    static float x[ATTN_TILE * 256], q[9 * 256], scales[ATTN_TILE], acc[CPU_TABLES][9 * 256];
    static char cache[ATTN_TILE * 256 * 4];
    seed = test_seed();
    fill_normal(&seed, q, 9 * 256, 1);
    fill_normal(&seed, x, ATTN_TILE * 256, 1);
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
        int n_q = shape[s][0], n_pos = shape[s][1], D = shape[s][2];
        for (int kind = 0; kind < KERNEL_KV_KINDS; kind++) {
            int size = kind == KERNEL_KV_I8 ? 1 : kind == KERNEL_KV_BF16 ? 2 : 4;
            for (int j = 0; j < ATTN_TILE; j++)
                scales[j] = k[0]->kv_store[kind](x + j * D, D, cache + j * D * size);
            for (int i = 0; i < n; i++) {
                for (int j = 0; j < 9 * 256; j++) acc[i][j] = (float)j;
                run_tile(k[i], kind, n_q, n_pos, D, q, cache, scales, acc[i]);
                check_same("attention", k[i], acc[i], acc[0], sizeof acc[0]);
            }
        }
    }
}

TEST(delta_rule)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    enum { T = 5, DK = 37, ROW = 2 * DK + 32 };
    static float rows[T * ROW], start[2 * DK * 16], S[CPU_TABLES][2 * DK * 16],
        out[CPU_TABLES][T * 32];
    float g[T], beta[T];
    seed = test_seed();
    fill_normal(&seed, rows, T * ROW, 0.3);
    fill_normal(&seed, start, 2 * DK * 16, 1);
    for (int t = 0; t < T; t++) {
        g[t] = (float)-test_uniform(&seed);
        beta[t] = (float)test_uniform(&seed);
    }
    for (int slices = 1; slices <= 2; slices++) {
        memset(out, 0, sizeof out);
        for (int i = 0; i < n; i++) {
            memcpy(S[i], start, sizeof start);
            gdn_run r = {.state = S[i],
                         .q = rows,
                         .k = rows + DK,
                         .v = rows + 2 * DK,
                         .g = g,
                         .beta = beta,
                         .out = out[i],
                         .row_stride = ROW,
                         .gate_stride = 1,
                         .out_stride = 32,
                         .T = T,
                         .dk = DK,
                         .n_slices = slices};
            k[i]->gdn_slices(&r);
            check_same("state", k[i], S[i], S[0], sizeof start);
            check_same("out", k[i], out[i], out[0], sizeof out[0]);
        }
    }
}

TEST(convolution_and_gates)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    float p[4][100], w[400], y[CPU_TABLES][100], conv[100], g[CPU_TABLES][21], beta[CPU_TABLES][21],
        a[21], b[21], na[21], dt[21];
    seed = test_seed();
    for (int i = 0; i < 4; i++) fill_normal(&seed, p[i], 100, 1);
    fill_normal(&seed, w, 400, 1);
    fill_normal(&seed, a, 21, 15);
    fill_normal(&seed, b, 21, 5);
    fill_normal(&seed, na, 21, 1);
    fill_normal(&seed, dt, 21, 1);
    const float *columns[4] = {p[0], p[1], p[2], p[3]};
    for (int i = 0; i < n; i++) {
        k[i]->gdn_conv(columns, w, 100, y[i]);
        if (i == 0) memcpy(conv, y[0], sizeof conv);
        check_same("conv", k[i], y[i], conv, sizeof conv);
        k[i]->gdn_unit(y[i], 100, 0.1f);
        k[i]->gdn_gates(a, b, na, dt, 21, g[i], beta[i]);
        check_same("g", k[i], g[i], g[0], sizeof g[0]);
        check_same("beta", k[i], beta[i], beta[0], sizeof beta[0]);
        k[i]->gdn_out(y[i], p[0], w, 1e-6f, 100);
        check_same("unit and gated norm", k[i], y[i], y[0], sizeof y[0]);
    }
    for (int i = 0; i < 21; i++) { /* model-spec G4 */
        double x = (double)a[i] + (double)dt[i], s = x > 20 ? x : log1p(exp(x));
        assert_true(fabs((double)g[0][i] - (double)na[i] * s) <=
                    1e-6 * (1 + fabs((double)na[i] * s)));
    }
}

TEST(passes_over_logits)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    static float x[1000], y[CPU_TABLES][1000];
    uint32_t mask[32];
    rng_key key = rng_row_key(1, 2, 3);
    seed = test_seed();
    fill_normal(&seed, x, 1000, 3);
    x[77] = x[900] = 50;
    for (int i = 0; i < 32; i++) mask[i] = (uint32_t)test_random(&seed);
    static const int sizes[] = {1, 15, 17, 64, 999, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        cpu_best greedy = {0}, drawn = {0};
        memset(y, 0, sizeof y);
        for (int i = 0; i < n; i++) {
            cpu_best b = k[i]->argmax(x, sizes[s]);
            cpu_best d = k[i]->gumbel_argmax(x, sizes[s], 40, 0.7f, -1.0f, key);
            k[i]->masked_div(x, sizes[s], mask, 0.7f, y[i]);
            if (i == 0) {
                greedy = b;
                drawn = d;
            }
            check_same("argmax", k[i], &b, &greedy, sizeof b);
            check_same("gumbel_argmax", k[i], &d, &drawn, sizeof d);
            check_same("masked_div", k[i], y[i], y[0], sizeof y[0]);
        }
        if (sizes[s] == 1000) assert_int_equal(greedy.id, 77); /* the lower of two */
        for (int i = 0; i < sizes[s]; i++)
            assert_true(mask[i / 32] >> (i % 32) & 1 ? y[0][i] == x[i] / 0.7f
                                                     : y[0][i] == -INFINITY);
    }
}

/* What the pass over all ids adds to a logit is what a single id gets alone: the drafter's noise
 * is the target's. */
TEST(noise_alone_is_noise_in_the_pass)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    rng_key key = rng_row_key(9, 0, 77);
    float zeros[200] = {0}, best = -INFINITY;
    int32_t at = -1;
    for (int from = 0; from < 200; from += 16) {
        int32_t ids[16];
        float noise[16];
        for (int i = 0; i < 16; i++) ids[i] = from + i;
        k[0]->gumbel16(ids, key, noise);
        for (int i = 0; i < 16 && from + i < 200; i++)
            if (noise[i] > best) {
                best = noise[i];
                at = from + i;
            }
    }
    for (int i = 0; i < n; i++) {
        cpu_best b = k[i]->gumbel_argmax(zeros, 200, 0, 1, -1, key);
        assert_int_equal(b.id, at);
        assert_true(b.value == best);
    }
}

/* The bound that lets most ids go unlooked at never hides the winner. */
TEST(the_winner_is_the_winner_over_all_ids)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    enum { V = 3000 };
    static float x[V];
    seed = test_seed();
    for (int rep = 0; rep < 40; rep++) {
        rng_key key = rng_row_key(test_random(&seed), 0, rep);
        fill_normal(&seed, x, V, rep % 4);
        cpu_best want = {-INFINITY, -1};
        for (int from = 0; from < V; from += 16) {
            int32_t ids[16];
            float noise[16];
            for (int i = 0; i < 16; i++) ids[i] = from + i;
            k[0]->gumbel16(ids, key, noise);
            for (int i = 0; i < 16 && from + i < V; i++)
                if (x[from + i] / 0.8f + noise[i] > want.value)
                    want = (cpu_best){x[from + i] / 0.8f + noise[i], from + i};
        }
        for (int i = 0; i < n; i++) {
            cpu_best b = k[i]->gumbel_argmax(x, V, 0, 0.8f, -INFINITY, key);
            assert_int_equal(b.id, want.id);
            assert_true(b.value == want.value);
        }
    }
}
