/* tags: threads */
/* Panels and tiles: every format against the formula, and equal bits for every tile shape. */
#include "backend/backend_priv.h"
#include "backend/cpu/cpu_priv.h"
#include "base/arena.h"
#include "block_bytes.h"
#include "cpu_tables.h"
#include "tensor/block.h"
#include "tensor/block_encode.h"
#include "tensor/half.h"
#include "tensor/quant.h"

typedef struct {
    int bits, group; /* bits 0: not AFFINE */
    dtype type;      /* of scales, or of the elements */
    int N, K;
} weight_case;

static const weight_case cases[] = {
    {4, 64, DTYPE_BF16, 70, 192},  {4, 64, DTYPE_F32, 33, 128},   {4, 64, DTYPE_F16, 96, 64},
    {4, 32, DTYPE_BF16, 80, 96},   {4, 128, DTYPE_BF16, 99, 256}, {2, 64, DTYPE_BF16, 96, 128},
    {3, 32, DTYPE_BF16, 96, 160},  {5, 64, DTYPE_BF16, 96, 128},  {6, 128, DTYPE_BF16, 96, 256},
    {8, 64, DTYPE_BF16, 1100, 64}, {8, 32, DTYPE_F16, 1100, 96},  {8, 64, DTYPE_BF16, 5, 192},
    {4, 64, DTYPE_BF16, 16, 192},  {0, 0, DTYPE_F32, 37, 100},    {0, 0, DTYPE_BF16, 96, 130},
    {0, 0, DTYPE_F16, 17, 64},     {0, 0, DTYPE_Q6_K, 70, 512},   {0, 0, DTYPE_Q6_K, 40, 256},
    {0, 0, DTYPE_Q2_K, 80, 256},   {0, 0, DTYPE_Q3_K, 65, 512},   {0, 0, DTYPE_NVFP4, 99, 192},
    {0, 0, DTYPE_Q4_0, 96, 160},   {0, 0, DTYPE_Q8_0, 81, 96},    {0, 0, DTYPE_Q4_K, 66, 256},
    {0, 0, DTYPE_Q4_0, 96, 192},   {0, 0, DTYPE_Q8_0, 81, 128},   {0, 0, DTYPE_Q4_K, 99, 768},
    {0, 0, DTYPE_Q5_K, 81, 512},   {0, 0, DTYPE_IQ4_NL, 70, 192}, {0, 0, DTYPE_IQ4_XS, 113, 512},
};
enum { N_CASES = sizeof cases / sizeof *cases, T = 150 };

static tensor random_weight(arena *mem, const weight_case *c, uint64_t *seed)
{
    int64_t n = (int64_t)c->N * c->K;
    tensor t = {.type = c->type, .n_dims = 2, .shape = {c->N, c->K}};
    if (c->bits) {
        int64_t n_scales = n / c->group, size = c->type == DTYPE_F32 ? 4 : 2;
        t.n_bytes = c->N * quant_affine_row_bytes(c->K, c->bits);
        t.type = DTYPE_AFFINE;
        t.scale_type = c->type;
        t.bits = c->bits;
        t.group = c->group;
        uint8_t *codes = arena_new(mem, (size_t)t.n_bytes);
        for (int64_t i = 0; i < t.n_bytes; i++) codes[i] = (uint8_t)test_random(seed);
        t.data = codes;
        char *s[2];
        for (int p = 0; p < 2; p++) {
            s[p] = arena_new(mem, (size_t)(n_scales * size));
            for (int64_t i = 0; i < n_scales; i++) {
                float v = (float)test_normal(seed) * 0.1f;
                uint16_t h = c->type == DTYPE_BF16 ? half_to_bf16(v) : half_to_f16(v);
                memcpy(s[p] + i * size, size == 4 ? (void *)&v : (void *)&h, (size_t)size);
            }
        }
        t.scales = s[0];
        t.biases = s[1];
        return t;
    }
    if (dtype_is_block(c->type)) {
        t.n_bytes = block_row_bytes(c->type, n);
        uint8_t *blocks = arena_new(mem, (size_t)t.n_bytes);
        float *row = arena_new(mem, (size_t)c->K * sizeof *row);
        for (int i = 0; i < c->N; i++) {
            fill_normal(seed, row, c->K, 1);
            block_encode_row(c->type, row, c->K, blocks + i * block_row_bytes(c->type, c->K));
        }
        t.data = blocks;
        return t;
    }
    int64_t size = c->type == DTYPE_F32 ? 4 : 2;
    t.n_bytes = n * size;
    char *data = arena_new(mem, (size_t)t.n_bytes);
    for (int64_t i = 0; i < n; i++) {
        float v = (float)test_normal(seed);
        uint16_t h = c->type == DTYPE_BF16 ? half_to_bf16(v) : half_to_f16(v);
        memcpy(data + i * size, size == 4 ? (void *)&v : (void *)&h, (size_t)size);
    }
    t.data = data;
    return t;
}

static backend *open_backend(const char *isa, int n_threads)
{
    backend *b;
    err e;
    backend_options o = {.name = "cpu", .n_threads = n_threads};
    backend_limits l = {.T = T, .K = 4096, .N = 4096, .E = 4096};
    CHECK_OK(cpu_backend_open(&b, isa, &o, &e), &e);
    CHECK_OK(b->ops->reserve(b, &l, &e), &e);
    return b;
}

static void run_linear(backend *b, const dev_weight *w, const float *x, int rows, float *y)
{
    linear_args a = {.x = {(void *)(uintptr_t)x, 0}, .T = rows, .n_parts = 1};
    a.part[0].w = w;
    a.part[0].y = (dev_buf){y, 0};
    a.part[0].out = LINEAR_F32;
    assert_int_equal(b->ops->linear(b, &a), ERR_OK);
}

/* What the kernel promises: activations quantised per group, everything behind that exact. */
static double exact_output(const cpu_backend *c, const dev_weight *w, const tensor *t,
                           const float *x, int n, double *size)
{
    static float row[4096], scale[256], sum[256];
    static int8_t q[4096];
    panel_format f = cpu_weight_format(w);
    double y = 0;
    *size = 0;
    tensor_row_f32(t, n, row);
    bool is_int8 = panel_is_int8(f.kind);
    if (is_int8) c->k->quantise(x, w->K, f.group, q, scale, sum);
    for (int64_t k = 0; k < w->K; k++) {
        double v = is_int8 ? (double)q[k] * (double)scale[k / f.group] : (double)x[k];
        y += (double)row[k] * v;
        *size += fabs((double)row[k] * v);
    }
    return y;
}

TEST(every_format_follows_its_formula)
{
    uint64_t seed = test_seed();
    backend *b = open_backend(NULL, 1);
    for (int i = 0; i < N_CASES; i++) {
        const weight_case *wc = &cases[i];
        arena mem;
        dev_weight w;
        err e;
        arena_init(&mem, 0);
        tensor t = random_weight(&mem, wc, &seed);
        CHECK_OK(b->ops->weight_open(b, &t, WEIGHT_LINEAR, &w, &e), &e);
        float *x = arena_new(&mem, (size_t)(T * wc->K) * 4),
              *y = arena_new(&mem, (size_t)(T * wc->N) * 4);
        fill_normal(&seed, x, (int64_t)T * wc->K, 1);
        run_linear(b, &w, x, T, y);
        for (int r = 0; r < T; r += 7) {
            for (int n = 0; n < wc->N; n++) {
                double size, want = exact_output(cpu_of(b), &w, &t, x + r * wc->K, n, &size);
                if (fabs((double)y[r * wc->N + n] - want) > 3e-6 * size + 1e-6)
                    fail_msg("case %d row %d output %d: %g, want %g", i, r, n,
                             (double)y[r * wc->N + n], want);
            }
        }
        b->ops->weight_close(b, &w);
        arena_fini(&mem);
    }
    b->ops->close(b);
}

TEST(small_and_8bit_linears_keep_f32_activations)
{
    uint64_t seed = test_seed();
    backend *b = open_backend(NULL, 1);
    static const panel_kind want[N_CASES] = {
        [0] = PANEL_Q4,   [1] = PANEL_FQ4,  [9] = PANEL_Q8,    [11] = PANEL_FQ8,
        [12] = PANEL_FQ4, [13] = PANEL_F32, [14] = PANEL_BF16, [15] = PANEL_F16};
    static const int checked[] = {0, 1, 9, 11, 12, 13, 14, 15};
    for (size_t i = 0; i < sizeof checked / sizeof *checked; i++) {
        arena mem;
        dev_weight w;
        err e;
        arena_init(&mem, 0);
        tensor t = random_weight(&mem, &cases[checked[i]], &seed);
        CHECK_OK(b->ops->weight_open(b, &t, WEIGHT_LINEAR, &w, &e), &e);
        assert_int_equal(cpu_weight_format(&w).kind, want[checked[i]]);
        b->ops->weight_close(b, &w);
        arena_fini(&mem);
    }
    b->ops->close(b);
}

/* Sums over the file's own groups, each rounded as the kernels say (kern_lin_priv.h). */
static float sum_of_groups(const cpu_backend *c, dtype type, const uint8_t *file_row,
                           const float *x, int K)
{
    enum { MOST = 1024 };
    static uint8_t codes[MOST];
    static int8_t q[MOST];
    static float scales[MOST / 16], offsets[MOST / 16], xs[MOST / 16], sums[MOST / 16];
    int group = block_affine_of(type).group;
    float y = 0;
    block_affine_row(type, file_row, K, codes, scales, offsets);
    c->k->quantise(x, K, group, q, xs, sums);
    for (int g = 0; g < K / group; g++) {
        int dot = 0;
        for (int k = g * group; k < (g + 1) * group; k++) dot += codes[k] * q[k];
        y = fmaf((float)dot, scales[g] * xs[g], y);
        y = fmaf(offsets[g], sums[g], y);
    }
    return y;
}

TEST(own_forms_of_blocks_have_the_bits_of_their_groups)
{
    enum { N = 99, K = 768, ROWS = 21 };
    static const struct {
        dtype type;
        panel_kind kind;
        int bits_of_8; /* a weight, times 8 */
    } kinds[] = {{DTYPE_Q4_0, PANEL_Q4_0, 36},    {DTYPE_Q8_0, PANEL_Q8_0, 68},
                 {DTYPE_Q4_K, PANEL_Q4_K, 36},    {DTYPE_Q5_K, PANEL_Q5_K, 44},
                 {DTYPE_Q6_K, PANEL_Q6_K, 53},    {DTYPE_IQ4_NL, PANEL_IQ4_NL, 36},
                 {DTYPE_IQ4_XS, PANEL_IQ4_XS, 35}};
    static uint8_t bytes[N * K * 2];
    static float x[ROWS * K], y[ROWS * N];
    uint64_t seed = test_seed();
    const cpu_kernels *k[CPU_TABLES];
    int n_tables = cpu_tables(k);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        tensor t = {.type = kinds[i].type, .n_dims = 2, .shape = {N, K}, .data = bytes};
        int64_t row_bytes = block_row_bytes(t.type, K);
        t.n_bytes = N * row_bytes;
        block_bytes_fill(t.type, bytes, t.n_bytes, &seed);
        fill_normal(&seed, x, ROWS * K, 1);
        for (int table = 0; table < n_tables; table++) {
            backend *b = open_backend(k[table]->isa, 1);
            dev_weight w;
            err e;
            CHECK_OK(b->ops->weight_open(b, &t, WEIGHT_LINEAR, &w, &e), &e);
            assert_int_equal(cpu_weight_format(&w).kind, kinds[i].kind);
            assert_int_equal(w.n_bytes, (N + 15) / 16 * 16 * K / 64 * kinds[i].bits_of_8);
            run_linear(b, &w, x, ROWS, y);
            for (int r = 0; r < ROWS; r++)
                for (int n = 0; n < N; n++) {
                    float want = sum_of_groups(cpu_of(b), t.type, bytes + n * row_bytes, x + r * K,
                                               K);
                    if (memcmp(&want, &y[r * N + n], sizeof want) != 0)
                        fail_msg("%s on %s, row %d output %d: %a, want %a", dtype_name(t.type),
                                 k[table]->isa, r, n, (double)y[r * N + n], (double)want);
                }
            b->ops->weight_close(b, &w);
            b->ops->close(b);
        }
    }
}

/* One reference run, then every number of rows, several threads, every instruction set. */
TEST(a_row_has_the_same_bits_in_every_company)
{
    uint64_t seed = test_seed();
    const cpu_kernels *k[CPU_TABLES];
    int n_tables = cpu_tables(k);
    for (int i = 0; i < N_CASES; i++) {
        const weight_case *wc = &cases[i];
        arena mem;
        err e;
        arena_init(&mem, 0);
        tensor t = random_weight(&mem, wc, &seed);
        size_t row_bytes = (size_t)wc->N * 4;
        float *x = arena_new(&mem, (size_t)(T * wc->K) * 4), *y = arena_new(&mem, T * row_bytes),
              *want = arena_new(&mem, T * row_bytes);
        fill_normal(&seed, x, (int64_t)T * wc->K, 1);
        for (int table = 0; table < n_tables; table++) {
            backend *b = open_backend(k[table]->isa, 1 + table);
            dev_weight w;
            CHECK_OK(b->ops->weight_open(b, &t, WEIGHT_LINEAR, &w, &e), &e);
            if (table == 0) run_linear(b, &w, x, T, want);
            for (int rows = 1; rows <= T; rows += rows < 14 ? 1 : 17) {
                memset(y, 0xff, T * row_bytes);
                run_linear(b, &w, x + (T - rows) * wc->K, rows, y);
                check_same("linear", k[table], y, want + (T - rows) * wc->N,
                           (size_t)rows * row_bytes);
            }
            b->ops->weight_close(b, &w);
            b->ops->close(b);
        }
        arena_fini(&mem);
    }
}
