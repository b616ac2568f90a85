/* attention_sweep: paged attention with the queries kept in registers against queries staged once
 * in shared memory, and, for few rows on Hopper, against the kernel turned round (attn_few.cuh),
 * over histories, shapes, lanes, formats.
 *
 * All variants are instances of the product's kernels; their outputs must have equal digests. The
 * register variant takes 16 pairs a block (its registers hold no more), so K and V pass through
 * the cache once for every 16 (row, head) pairs; the shared one up to 64, as does attn_few's. */
#include "backend/cuda/attn_few_run.cuh"
#include "backend/cuda/attn_pair.cuh"
#include "backend/cuda/attn_priv.cuh"
#include "trial.cuh"

enum { SWEEP_D = 256, SWEEP_ROWS_VERIFY = 8, SWEEP_ROWS_PREFILL = 256, SWEEP_FLUSH = 128 << 20 };

typedef struct {
    const char *shape;
    int H, G;
} sweep_shape;
static const sweep_shape shapes[] = {{"27b", 24, 4}, {"35b", 16, 2}};
static const int histories[] = {0, 2048, 8192, 24576, 49152, 131072};

typedef struct {
    attn_params p;
    int rows, R; /* rows a lane */
    bool is_prefill;
    void *owned[16];
    int n_owned;
} sweep_case;

static void *own(sweep_case *c, void *p)
{
    c->owned[c->n_owned++] = p;
    return p;
}

static const int32_t *own_ints(sweep_case *c, const int32_t *x, int64_t n)
{
    return static_cast<const int32_t *>(own(c, trial_copy(x, n * 4)));
}

/* L lanes whose `rows` new rows stand behind `history` positions; tables are shuffled. */
static sweep_case sweep_open(const sweep_shape *s, kv_format f, int L, int history, int rows)
{
    sweep_case c = {};
    int T = L * rows, len = history + rows, stride = len / OPS_BLOCK + 1, n_blocks = L * stride;
    int32_t *x = static_cast<int32_t *>(malloc((T + n_blocks + L + 1) * sizeof(int32_t)));
    c.rows = rows;
    c.R = s->H / s->G;
    c.p.T = T, c.p.L = L, c.p.H = s->H, c.p.G = s->G;
    attn_params_set_R(&c.p);
    c.p.table_stride = stride;
    c.p.n_segments = attn_segment_of(len - 1) + 1;
    c.p.c = 0.0625f * ATTN_LOG2E;
    c.p.unit = f == KV_INT8 ? 1.0f / ATTN_INT8_UNIT : 1.0f;
    c.p.has_gate = true;
    for (int t = 0; t < T; t++) x[t] = t / rows;
    c.p.row_lane = own_ints(&c, x, T);
    for (int t = 0; t < T; t++) x[t] = history + t % rows;
    c.p.row_pos = own_ints(&c, x, T);
    for (int l = 0; l <= L; l++) x[l] = l * rows;
    c.p.lane_row = own_ints(&c, x, L + 1);
    for (int l = 0; l < L; l++) x[l] = l;
    c.p.lane_slot = own_ints(&c, x, L);
    for (int i = 0; i < n_blocks; i++) x[i] = static_cast<int32_t>((i * 7919ll + 13) % n_blocks);
    if (n_blocks % 7919 == 0) exit(2);
    c.p.table = own_ints(&c, x, n_blocks);
    free(x);
    int64_t cells = static_cast<int64_t>(n_blocks) * s->G * OPS_BLOCK,
            q = static_cast<int64_t>(T) * s->H * SWEEP_D;
    trial_type type = f == KV_INT8 ? TRIAL_I8 : TRIAL_BF16;
    c.p.q = static_cast<bf16 *>(own(&c, trial_new(TRIAL_BF16, q, 2, 1)));
    c.p.qg = static_cast<bf16 *>(own(&c, trial_new(TRIAL_BF16, q * 2, 2, 2)));
    c.p.k = static_cast<uint8_t *>(own(&c, trial_new(type, cells * SWEEP_D, 1, 3)));
    c.p.v = static_cast<uint8_t *>(own(&c, trial_new(type, cells * SWEEP_D, 1, 4)));
    c.p.k_scale = static_cast<float *>(own(&c, trial_new(TRIAL_CODES, cells, 1, 5)));
    c.p.v_scale = static_cast<float *>(own(&c, trial_new(TRIAL_CODES, cells, 1, 6)));
    c.p.out = static_cast<bf16 *>(own(&c, trial_new(TRIAL_BF16, q, 1, 7)));
    if (rows <= SWEEP_ROWS_VERIFY) {
        int64_t parts = static_cast<int64_t>(T) * s->H * c.p.n_segments;
        c.p.part = static_cast<float *>(own(&c, trial_new(TRIAL_F32, parts * SWEEP_D, 1, 8)));
        c.p.part_ms = static_cast<float2 *>(own(&c, trial_new(TRIAL_F32, parts * 2, 1, 9)));
    }
    return c;
}

static void sweep_close(sweep_case *c)
{
    for (int i = 0; i < c->n_owned; i++) TRIAL_TRY(cudaFree(c->owned[i]));
}

static void merge(const sweep_case *c, bool is_early)
{
    constexpr int COLUMNS = attn_merge_columns<SWEEP_D>;
    TRIAL_TRY(cudaFuncSetAttribute(attn_merge_kernel<SWEEP_D>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   ATTN_SPLIT_MAX * COLUMNS * 4));
    TRIAL_TRY(launch_early(is_early, attn_merge_kernel<SWEEP_D>,
                           dim3(c->p.T * c->p.H, SWEEP_D / COLUMNS), ATTN_MERGE_THREADS,
                           c->p.n_segments * COLUMNS * 4, nullptr, c->p));
}

template <kv_format F, int MT, int MG, int NW, bool Q_IN_REGS>
static void launch(const sweep_case *c)
{
    using layout = attn_layout<SWEEP_D, F, MT, MG, NW>;
    auto kernel = attn_kernel<SWEEP_D, F, MT, MG, NW, Q_IN_REGS>;
    TRIAL_TRY(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, layout::BYTES));
    dim3 grid(div_up(c->rows * c->R, static_cast<int>(layout::ROWS)) * c->p.L, c->p.G,
              MG > 1 ? 1 : c->p.n_segments);
    kernel<<<grid, 32 * NW * MG, layout::BYTES>>>(c->p);
    if (MG == 1) merge(c, false);
    TRIAL_TRY(cudaGetLastError());
}

template <typename Shape>
static void launch_split(const sweep_case *c, void (*kernel)(attn_params), int n_pairs)
{
    TRIAL_TRY(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::BYTES));
    dim3 grid(div_up(c->rows * c->R, n_pairs) * c->p.L, c->p.G, c->p.n_segments);
    kernel<<<grid, Shape::THREADS, Shape::BYTES>>>(c->p);
    TRIAL_TRY(cudaGetLastError());
    merge(c, true);
}

template <kv_format F, int N> static void launch_pair(const sweep_case *c)
{
    launch_split<attn_pair_shape<F, N>>(c, attn_pair_kernel<F, N>, N);
}

template <kv_format F, int N> static void launch_few(const sweep_case *c)
{
    launch_split<attn_few_shape<F, N>>(c, attn_few_kernel<F, N>, N);
}

template <kv_format F> static void run_few(const sweep_case *c)
{
    int pairs = c->rows * c->R;
    if (pairs <= 8 && F == KV_BF16)
        launch_few<F, 8>(c);
    else if (pairs <= 8)
        launch_pair<F, 8>(c);
    else if (pairs <= 16)
        launch_pair<F, 16>(c);
    else if (pairs <= 32)
        launch_few<F, 32>(c);
    else if (pairs <= 48)
        launch_few<F, 48>(c);
    else
        launch_few<F, 64>(c);
}

template <kv_format F> static void run_registers(const sweep_case *c)
{
    if (c->is_prefill)
        launch<F, 1, 2, 4, true>(c);
    else
        launch<F, 1, 1, 8, true>(c);
}

template <kv_format F> static void run_shared(const sweep_case *c)
{
    int pairs = c->rows * c->R;
    if (c->is_prefill)
        launch<F, 2, 2, 4, false>(c);
    else if (pairs <= 16)
        launch<F, 1, 1, 8, false>(c);
    else if (pairs <= 48)
        launch<F, 3, 1, 4, false>(c);
    else
        launch<F, 4, 1, 4, false>(c);
}

typedef void (*variant)(const sweep_case *c);

/* Median ms over `samples` runs, the second-level cache emptied before each. */
static float measure(variant run, const sweep_case *c, void *flush, int samples)
{
    float t[101];
    trial_clock clock = trial_clock_new();
    for (int i = -1; i < samples; i++) {
        TRIAL_TRY(cudaMemsetAsync(flush, i & 1, SWEEP_FLUSH));
        TRIAL_TRY(cudaEventRecord(clock.from));
        run(c);
        TRIAL_TRY(cudaEventRecord(clock.to));
        float ms = trial_ms(&clock);
        if (i >= 0) t[i] = ms;
    }
    trial_clock_free(&clock);
    return trial_median(t, samples);
}

static bool sweep_one(const sweep_shape *s, kv_format f, int L, int history, int rows, void *flush,
                      int samples, const char *only)
{
    char name[96];
    const char *format = f == KV_INT8 ? "int8" : "bf16";
    const char *mode = rows == 1 ? "decode" : rows <= SWEEP_ROWS_VERIFY ? "verify" : "prefill";
    snprintf(name, sizeof name, "%s %s %s L%d history %d", s->shape, mode, format, L, history);
    if (!strstr(name, only)) return true;
    sweep_case c = sweep_open(s, f, L, history, rows);
    c.is_prefill = rows > SWEEP_ROWS_VERIFY;
    variant runs[3] = {f == KV_INT8 ? run_registers<KV_INT8> : run_registers<KV_BF16>,
                       f == KV_INT8 ? run_shared<KV_INT8> : run_shared<KV_BF16>,
                       f == KV_INT8 ? run_few<KV_INT8> : run_few<KV_BF16>};
    int64_t n = static_cast<int64_t>(c.p.T) * c.p.H * SWEEP_D * 2;
    uint64_t digest[3];
    float ms[3] = {0, 0, 0}, best = INFINITY;
    int variants = c.is_prefill ? 2 : 3;
    bool same = true;
    for (int k = 0; k < variants; k++) {
        TRIAL_TRY(cudaMemset(c.p.out, 0xff, n));
        runs[k](&c);
        digest[k] = trial_digest(c.p.out, n);
        same &= digest[k] == digest[0];
        ms[k] = measure(runs[k], &c, flush, samples);
        best = fminf(best, ms[k]);
    }
    double bytes = static_cast<double>(L) * (history + rows) * c.p.G * 2 * SWEEP_D *
                   (f == KV_INT8 ? 1 : 2);
    printf("{\"program\":\"attention-sweep\",\"shape\":\"%s\",\"mode\":\"%s\",\"kv\":\"%s\","
           "\"lanes\":%d,\"rows\":%d,\"history\":%d,\"registers_us\":%.2f,\"shared_us\":%.2f,"
           "\"few_us\":%.2f,\"kv_gb_s\":%.0f,\"digest\":\"%016llx\",\"equal\":%s}\n",
           s->shape, mode, format, L, rows, history, ms[0] * 1e3, ms[1] * 1e3, ms[2] * 1e3,
           bytes / best * 1e-6, static_cast<unsigned long long>(digest[1]),
           same ? "true" : "false");
    fflush(stdout);
    sweep_close(&c);
    return same;
}

int attention_sweep_main(int argc, char **argv)
{
    const char *only = "";
    int samples = 21;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--samples") == 0 && i + 1 < argc)
            samples = atoi(argv[++i]);
        else
            only = argv[i];
    }
    if (samples < 1 || samples > 101) return 2;
    void *flush = nullptr;
    TRIAL_TRY(cudaMalloc(&flush, SWEEP_FLUSH));
    bool ok = true;
    for (const sweep_shape &s : shapes)
        for (int f = 0; f < 2; f++)
            for (int rows = 1; rows <= SWEEP_ROWS_PREFILL;
                 rows = rows == 1 ? SWEEP_ROWS_VERIFY : rows * 32)
                for (int L = 1; L <= 4; L += 3)
                    for (int history : histories)
                        ok &= sweep_one(&s, f ? KV_BF16 : KV_INT8, L, history, rows, flush, samples,
                                        only);
    TRIAL_TRY(cudaFree(flush));
    return ok ? 0 : 1;
}
