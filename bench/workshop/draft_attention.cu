/* draft_attention: the product's reduction of the draft's attention, which writes the output
 * projection's input itself, against a reduction into head-major f32 rows and a reorder.
 *
 * B1 to B4 lanes; empty, partial and full histories. Ring slots that no row may see hold NaN. The
 * output takes the memory of the consumed queries, with a tail behind that must stay untouched.
 * Outputs of both must be equal byte for byte. Times: rounds A B B A of graphs of 256 repeats. */
#include "backend/cuda/draft_attn_priv.cuh"
#include "trial.cuh"

enum {
    DRAFT_B = 8,
    DRAFT_H = 32,
    DRAFT_G = 8,
    DRAFT_D = 128,
    DRAFT_W = 2048,
    DRAFT_REPEATS = 256,
    DRAFT_TAIL = 4096,
    DRAFT_TAIL_BYTE = 0x5a,
};

/* reduce_rows_kernel: like the product's reduction, but into f32 [L, G, B R, D]. */
__global__ void __launch_bounds__(32 * DRAFT_REDUCE_WARPS)
    reduce_rows_kernel(draft_attn_params a, float *rows)
{
    constexpr int N = DRAFT_D / 32;
    int64_t head = static_cast<int64_t>(blockIdx.x) * DRAFT_REDUCE_WARPS + (threadIdx.x >> 5);
    if (head >= static_cast<int64_t>(a.L) * a.B * a.H) return;
    float y[N];
    draft_reduce_head<DRAFT_D>(a, head, y);
    int R = a.H / a.G, h = static_cast<int>(head % a.H);
    int64_t row = head / a.H, l = row / a.B, i = row % a.B;
    int64_t to = ((l * a.G + h / R) * a.B + i) * R + h % R;
    reinterpret_cast<float4 *>(rows + to * DRAFT_D)[threadIdx.x & 31] = make_float4(y[0], y[1],
                                                                                    y[2], y[3]);
}

/* reorder_kernel: f32 [L, G, B R, D] to bf16 [L B, H D]. */
__global__ void __launch_bounds__(128) reorder_kernel(draft_attn_params a, const float *rows)
{
    int64_t head = static_cast<int64_t>(blockIdx.x) * 4 + (threadIdx.x >> 5);
    if (head >= static_cast<int64_t>(a.L) * a.B * a.H) return;
    int R = a.H / a.G, h = static_cast<int>(head % a.H);
    int64_t row = head / a.H, l = row / a.B, i = row % a.B;
    int64_t from = ((l * a.G + h / R) * a.B + i) * R + h % R;
    float4 y = reinterpret_cast<const float4 *>(rows + from * DRAFT_D)[threadIdx.x & 31];
    reinterpret_cast<uint2 *>(a.out + head * DRAFT_D)[threadIdx.x & 31] = make_uint2(
        pack_bf16(y.x, y.y), pack_bf16(y.z, y.w));
}

/* spoil_kernel: NaN in every ring slot outside positions [from, to). */
__global__ void spoil_kernel(bf16 *ring, int rows, int from, int to)
{
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        int slot = static_cast<int>(r % DRAFT_W);
        bool is_seen = false;
        for (int pos = slot; pos < to; pos += DRAFT_W) is_seen |= pos >= from;
        if (!is_seen) ring[r * DRAFT_D + threadIdx.x] = __ushort_as_bfloat16(0x7fc0);
    }
}

typedef struct {
    draft_attn_params a;
    float *rows;
    uint8_t *memory; /* queries, then output, and a tail */
    int64_t n_out;
    void *owned[16];
    int n_owned;
} draft_case;

static void *own(draft_case *c, void *p)
{
    c->owned[c->n_owned++] = p;
    return p;
}

static const int32_t *own_same(draft_case *c, int value, int L, int step)
{
    int32_t x[4];
    for (int l = 0; l < L; l++) x[l] = value + l * step;
    return static_cast<const int32_t *>(own(c, trial_copy(x, L * 4)));
}

static draft_case draft_open(int L, int pos)
{
    draft_case c = {};
    int64_t rows = static_cast<int64_t>(L) * DRAFT_B,
            ring = static_cast<int64_t>(L) * DRAFT_G * DRAFT_W;
    int context = pos < DRAFT_W ? pos : DRAFT_W, most = div_up(264, L * DRAFT_G);
    c.a.L = L, c.a.B = DRAFT_B, c.a.H = DRAFT_H, c.a.G = DRAFT_G, c.a.R = DRAFT_W;
    c.a.window = DRAFT_W;
    c.a.n_splits = most < DRAFT_W / OPS_BLOCK ? most : DRAFT_W / OPS_BLOCK;
    c.a.c = 0.08838835f * ATTN_LOG2E;
    c.n_out = rows * DRAFT_H * DRAFT_D * 2;
    c.memory = static_cast<uint8_t *>(own(&c, trial_new(TRIAL_I8, c.n_out + DRAFT_TAIL, 1, 1)));
    c.a.q = c.a.out = reinterpret_cast<bf16 *>(c.memory);
    c.a.k = static_cast<bf16 *>(own(&c, trial_new(TRIAL_BF16, rows * DRAFT_G * DRAFT_D, 1, 2)));
    c.a.v = static_cast<bf16 *>(own(&c, trial_new(TRIAL_BF16, rows * DRAFT_G * DRAFT_D, 1, 3)));
    bf16 *rk = static_cast<bf16 *>(own(&c, trial_new(TRIAL_BF16, ring * DRAFT_D, 1, 4)));
    bf16 *rv = static_cast<bf16 *>(own(&c, trial_new(TRIAL_BF16, ring * DRAFT_D, 1, 5)));
    spoil_kernel<<<512, DRAFT_D>>>(rk, static_cast<int>(ring), pos - context, pos);
    spoil_kernel<<<512, DRAFT_D>>>(rv, static_cast<int>(ring), pos - context, pos);
    c.a.ring_k = rk;
    c.a.ring_v = rv;
    c.a.lane_slot = own_same(&c, 0, L, 1);
    c.a.anchor_pos = own_same(&c, pos, L, 0);
    c.a.ctx_begin = own_same(&c, 0, L, 0);
    int64_t cells = rows * DRAFT_H * (c.a.n_splits + 1);
    c.a.part = static_cast<float *>(own(&c, trial_new(TRIAL_F32, cells * DRAFT_D, 1, 6)));
    c.a.part_ms = static_cast<float2 *>(own(&c, trial_new(TRIAL_F32, cells * 2, 1, 7)));
    c.rows = static_cast<float *>(own(&c, trial_new(TRIAL_F32, rows * DRAFT_H * DRAFT_D, 1, 8)));
    return c;
}

static void draft_close(draft_case *c)
{
    for (int i = 0; i < c->n_owned; i++) TRIAL_TRY(cudaFree(c->owned[i]));
}

/* Fresh queries in the memory that the output will take, and the parts from them. */
static void make_parts(const draft_case *c)
{
    using layout = draft_layout<DRAFT_D, 2>;
    auto kernel = draft_attn_kernel<DRAFT_D, 2>;
    trial_noise_kernel<<<512, 256>>>(c->memory, c->n_out / 2, TRIAL_BF16, 2, 9);
    TRIAL_TRY(cudaMemset(c->memory + c->n_out, DRAFT_TAIL_BYTE, DRAFT_TAIL));
    TRIAL_TRY(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, layout::BYTES));
    dim3 grid(c->a.n_splits + 1, DRAFT_G, c->a.L);
    kernel<<<grid, DRAFT_THREADS, layout::BYTES>>>(c->a);
    TRIAL_TRY(cudaGetLastError());
}

static void run_fused(const draft_case *c, cudaStream_t s)
{
    int blocks = c->a.L * DRAFT_B * DRAFT_H / DRAFT_REDUCE_WARPS;
    draft_reduce_kernel<DRAFT_D><<<blocks, 32 * DRAFT_REDUCE_WARPS, 0, s>>>(c->a);
}

static void run_reorder(const draft_case *c, cudaStream_t s)
{
    int blocks = c->a.L * DRAFT_B * DRAFT_H / DRAFT_REDUCE_WARPS;
    reduce_rows_kernel<<<blocks, 32 * DRAFT_REDUCE_WARPS, 0, s>>>(c->a, c->rows);
    reorder_kernel<<<blocks, 128, 0, s>>>(c->a, c->rows);
}

typedef void (*variant)(const draft_case *c, cudaStream_t s);

static cudaGraphExec_t graph_of(variant run, const draft_case *c, cudaStream_t s)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    TRIAL_TRY(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < DRAFT_REPEATS; i++) run(c, s);
    TRIAL_TRY(cudaStreamEndCapture(s, &graph));
    TRIAL_TRY(cudaGraphInstantiate(&exec, graph, 0));
    TRIAL_TRY(cudaGraphDestroy(graph));
    return exec;
}

/* The digest of a variant's output; exits when the tail was touched or a NaN came through. */
static uint64_t output_of(variant run, const draft_case *c)
{
    uint8_t tail[DRAFT_TAIL];
    make_parts(c);
    run(c, nullptr);
    TRIAL_TRY(cudaGetLastError());
    TRIAL_TRY(cudaMemcpy(tail, c->memory + c->n_out, DRAFT_TAIL, cudaMemcpyDeviceToHost));
    for (int i = 0; i < DRAFT_TAIL; i++)
        if (tail[i] != DRAFT_TAIL_BYTE) {
            fprintf(stderr, "draft-attention: byte %d behind the output was written\n", i);
            exit(1);
        }
    uint16_t *host = static_cast<uint16_t *>(malloc(c->n_out));
    TRIAL_TRY(cudaMemcpy(host, c->memory, c->n_out, cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < c->n_out / 2; i++)
        if ((host[i] & 0x7fff) >= 0x7f80) {
            fprintf(stderr, "draft-attention: value %lld is not finite\n",
                    static_cast<long long>(i));
            exit(1);
        }
    free(host);
    return trial_digest(c->memory, c->n_out);
}

/* Medians of a graph's ms a round, in the order A B B A; spread: the larger relative disagreement
 * of the two rounds of one variant, as a median over rounds. */
static void compare(const draft_case *c, int rounds, float *a_us, float *b_us, float *spread)
{
    cudaStream_t s;
    TRIAL_TRY(cudaStreamCreate(&s));
    cudaGraphExec_t exec[2] = {graph_of(run_fused, c, s), graph_of(run_reorder, c, s)};
    trial_clock clock = trial_clock_new();
    static float t[2][512], d[256];
    static const int order[4] = {0, 1, 1, 0};
    int n[2] = {0, 0};
    for (int round = -1; round < rounds; round++) {
        float ms[4];
        for (int i = 0; i < 4; i++) {
            TRIAL_TRY(cudaEventRecord(clock.from, s));
            TRIAL_TRY(cudaGraphLaunch(exec[order[i]], s));
            TRIAL_TRY(cudaEventRecord(clock.to, s));
            ms[i] = trial_ms(&clock);
            if (round >= 0) t[order[i]][n[order[i]]++] = ms[i];
        }
        float da = fabsf(ms[0] - ms[3]) / ms[0], db = fabsf(ms[1] - ms[2]) / ms[1];
        if (round >= 0) d[round] = da > db ? da : db;
    }
    *a_us = trial_median(t[0], n[0]) * 1e3f / DRAFT_REPEATS;
    *b_us = trial_median(t[1], n[1]) * 1e3f / DRAFT_REPEATS;
    *spread = trial_median(d, rounds);
    for (int i = 0; i < 2; i++) cudaGraphExecDestroy(exec[i]);
    trial_clock_free(&clock);
    cudaStreamDestroy(s);
}

int draft_attention_main(int argc, char **argv)
{
    static const int positions[] = {0, 100, 5000};
    int rounds = 20;
    bool ok = true;
    if (argc > 2 && strcmp(argv[1], "--rounds") == 0) rounds = atoi(argv[2]);
    if (rounds < 1 || rounds > 256) return 2;
    for (int L = 1; L <= 4; L++)
        for (int pos : positions) {
            draft_case c = draft_open(L, pos);
            uint64_t fused = output_of(run_fused, &c), apart = output_of(run_reorder, &c);
            float a, b, spread;
            make_parts(&c);
            compare(&c, rounds, &a, &b, &spread);
            ok &= fused == apart;
            printf("{\"program\":\"draft-attention\",\"lanes\":%d,\"position\":%d,\"splits\":%d,"
                   "\"fused_us\":%.3f,\"reduce_reorder_us\":%.3f,\"ratio\":%.2f,\"spread\":%.3f,"
                   "\"rounds\":%d,\"repeats\":%d,\"digest\":\"%016llx\",\"equal\":%s}\n",
                   L, pos, c.a.n_splits, a, b, b / a, spread, rounds, DRAFT_REPEATS,
                   static_cast<unsigned long long>(fused), fused == apart ? "true" : "false");
            fflush(stdout);
            draft_close(&c);
        }
    return ok ? 0 : 1;
}
