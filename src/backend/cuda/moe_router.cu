/* Norm, router, routing, sort and the shared expert's gate of few rows, in one cluster of blocks.
 *
 * Apart these are four launches, none of which has more to do than to wait for the one before. */
#include <math.h>

#include "backend/cuda/moe_router.cuh"

#include "backend/cuda/cluster.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/linear_stream.cuh"
#include "backend/cuda/moe_route.cuh"
#include "backend/cuda/waiting.cuh"

enum {
    ROUTER_BLOCKS = 8, /* of the cluster: each stands for a warp of rmsnorm_kernel's block */
    ROUTER_THREADS = 256,
    ROUTER_ROOM = 384, /* threads that would have a processor's registers: blocks of the linear in
                          front are still there when this one begins */
    ROUTER_ROWS = 8,   /* a warp each, and the columns of mma */
    ROUTER_EACH = 2,   /* fours of a row that a lane of rmsnorm_kernel has: here a warp each */
    ROUTER_TURNS = ROUTER_ROWS * ROUTER_EACH * 32 / ROUTER_THREADS, /* rows of a pair of warps */
    ROUTER_E = ROUTER_THREADS * 4 * ROUTER_EACH,
    ROUTER_SLICES = 4, /* warps along K */
    ROUTER_SIDE = 2,   /* 16-output blocks of a block, warps side by side */
    ROUTER_X = ROUTER_BLOCKS * ROUTER_SIDE * PICK_BRICK_N, /* experts */
    ROUTER_BRICKS = 8, /* of a slice, all of them under way at once */
    ROUTER_X_BYTES = ROUTER_E / PICK_BRICK_K * ROUTER_ROWS * TILE_X_ROW_BYTES,
    ROUTER_GATE_ROWS = ROUTER_THREADS / 32 / MOE_GATE_WARPS,
};

typedef struct {
    waiting_sums sums;
    const float *norm_w;
    bf16 *x; /* the normed rows, for the experts */
    float eps;
    int T, E, X, K;
    const uint8_t *bricks;
    float times;
    int n_bricks, slice_bricks;
    float *logits;
    int32_t *ids;
    float *w;
    moe_sorted to;
    moe_gate gate;
} moe_router_params;

struct moe_router_shared {
    float squares[ROUTER_ROWS][ROUTER_BLOCKS], second[ROUTER_ROWS][32];
    float logits[ROUTER_ROWS][ROUTER_X];
    float4 part[ROUTER_SLICES][ROUTER_SIDE][32];
    int expert[ROUTER_ROWS * 32], sums[ROUTER_THREADS / 32];
    float gate[ROUTER_THREADS / 32];
    uint64_t has_squares, has_x, has_logits; /* barriers: they have come from all blocks */
};

/* Where columns k .. k + 7 of row t lie in the tile of x. */
__device__ static inline int router_tile_at(int t, int k)
{
    int piece = k % PICK_BRICK_K / 8;
    return (k / PICK_BRICK_K * ROUTER_ROWS + t) * TILE_X_ROW_BYTES + ((piece ^ (t & 7)) << 4);
}

/* Row t of the tile for the gate (moe_gate_x). */
struct router_gate_x {
    const uint8_t *tile;
    int t;
    __device__ inline float2 pair(int k) const
    {
        uint32_t v = *reinterpret_cast<const uint32_t *>(tile + router_tile_at(t, k) + k % 8 * 2);
        return make_float2(bf16_low(v), bf16_high(v));
    }
};

/* The two warps of a pair. */
__device__ static inline void router_meet(int pair)
{
    constexpr int N = 32 * ROUTER_EACH; /* an id in a register would reserve all barriers */
    switch (pair) {
    case 0: asm volatile("bar.sync 1, %0;" ::"n"(N) : "memory"); break;
    case 1: asm volatile("bar.sync 2, %0;" ::"n"(N) : "memory"); break;
    case 2: asm volatile("bar.sync 3, %0;" ::"n"(N) : "memory"); break;
    default: asm volatile("bar.sync 4, %0;" ::"n"(N) : "memory"); break;
    }
}

/* This block's columns of all rows: h with what waits, normed as rmsnorm_waiting_kernel does, into
 * x and into the tile of x of every block. A row by a pair of warps, as many as there are rows for.
 */
__device__ static inline void router_norm(const moe_router_params &p, moe_router_shared &s,
                                          uint8_t *tile, float4 u)
{
    constexpr int PAIRS = ROUTER_ROWS / ROUTER_TURNS;
    int lane = threadIdx.x & 31, pair = threadIdx.x / (32 * ROUTER_EACH);
    int turn = threadIdx.x / 32 % ROUTER_EACH;
    int i = (blockIdx.x * 32 + lane) * 4 + turn * ROUTER_THREADS * 4;
    float4 v[ROUTER_TURNS];
    float square[ROUTER_TURNS];
#pragma unroll
    for (int j = 0; j < ROUTER_TURNS; j++) {
        int t = pair + j * PAIRS;
        square[j] = 0.0f;
        if (t >= p.T) break;
        if (i < p.E) {
            v[j] = waiting_add(p.sums, t, i);
            square[j] = row_squares(v[j]);
        }
        if (turn > 0) s.second[t][lane] = square[j];
    }
    router_meet(pair); /* the second warp's squares */
    if (pair >= p.T) return;
#pragma unroll
    for (int j = 0; j < ROUTER_TURNS; j++) {
        int t = pair + j * PAIRS;
        if (t >= p.T) break;
        if (turn == 0) {
            float sum = 0.0f;
            sum += square[j];
            sum = warp_sum(sum + s.second[t][lane]);
            if (lane < ROUTER_BLOCKS)
                cluster_post(&s.squares[t][blockIdx.x], &s.has_squares, lane, sum);
        }
        if (i < p.E) *reinterpret_cast<float4 *>(p.sums.h + int64_t(t) * p.E + i) = v[j];
    }
    cluster_received(&s.has_squares); /* of all rows */
#pragma unroll
    for (int j = 0; j < ROUTER_TURNS; j++) {
        int t = pair + j * PAIRS;
        if (t >= p.T || i >= p.E) break;
        float all = s.squares[t][0];
#pragma unroll
        for (int b = 1; b < ROUTER_BLOCKS; b++) all += s.squares[t][b];
        float scale = __frsqrt_rn(all / static_cast<float>(p.E) + p.eps);
        uint2 r = {pack_bf16(v[j].x * scale * u.x, v[j].y * scale * u.y),
                   pack_bf16(v[j].z * scale * u.z, v[j].w * scale * u.w)};
        uint8_t *at = tile + router_tile_at(t, i) + i % 8 * 2;
#pragma unroll
        for (int b = 0; b < ROUTER_BLOCKS; b++) cluster_post_two(at, &s.has_x, b, r);
        *reinterpret_cast<uint2 *>(p.x + int64_t(t) * p.E + i) = r;
    }
}

/* The A operands of a brick, which stream_step makes on the way: here while x is on its way. */
template <int BITS>
__device__ static inline void router_widen(uint32_t (&a)[4][4], const stream_brick<BITS, false> &w)
{
#pragma unroll
    for (int f = 0; f < 4; f++) {
        if constexpr (BITS == DEQUANT_BF16) {
            uint4 v = w.fragment[f];
            a[f][0] = v.x, a[f][1] = v.y, a[f][2] = v.z, a[f][3] = v.w;
        } else {
            lane_scales scales = dequant_scales(w.scale[0]);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                a[f][j] = dequant_pair<BITS>(w.codes, f * 4 + j, scales.scale[j & 1],
                                             scales.bias[j & 1]);
            }
        }
    }
}

/* Zeros for the rows of the tile that no row of x fills. */
__device__ static inline void router_clear(const moe_router_params &p, uint8_t *tile)
{
    int n = p.n_bricks * (ROUTER_ROWS - p.T) * (TILE_X_ROW_BYTES / 16);
    for (int i = threadIdx.x; i < n; i += ROUTER_THREADS) {
        int piece = i % (TILE_X_ROW_BYTES / 16), row = i / (TILE_X_ROW_BYTES / 16);
        int brick = row / (ROUTER_ROWS - p.T), t = p.T + row % (ROUTER_ROWS - p.T);
        *reinterpret_cast<uint4 *>(tile + (brick * ROUTER_ROWS + t) * TILE_X_ROW_BYTES +
                                   piece * 16) = make_uint4(0, 0, 0, 0);
    }
}

/* moe_router_kernel
 *
 * Does     rmsnorm_waiting_kernel, linear_stream_kernel of the router, moe_route_row,
 *          moe_sort_few, moe_gate_row
 * Grid     one cluster of ROUTER_BLOCKS: each norms its share of the columns of all rows, then has
 *          32 of the router's outputs; the first routes and sorts, the others have the gate
 * Shared   all of x as the stream kernel cuts it; sums and logits that blocks send one another
 * Needs    T <= ROUTER_ROWS, rmsnorm_kernel's block of ROUTER_THREADS, E <= ROUTER_E, X <=
 *          ROUTER_X, K <= 32; the router's slices ROUTER_SLICES at most, of ROUTER_BRICKS at most
 * Moves    the router's weight once, before there is anything to wait for
 * Numbers  those of the ops apart
 * Why      What is on the way from the sums to the sorted experts is waited for: words go from
 * block to block without a meeting of all, codes are widened while x is on its way, and what memory
 * gets leaves behind what the other blocks wait for */
template <int BITS>
__global__ void __launch_bounds__(ROUTER_ROOM, 1) moe_router_kernel(const moe_router_params p)
{
    extern __shared__ __align__(128) uint8_t tile[];
    __shared__ moe_router_shared s;
    constexpr int BRICK = dequant_brick_bytes(BITS, false);
    launch_next();
    if (threadIdx.x == 0) {
        cluster_expect(&s.has_squares, p.T * ROUTER_BLOCKS * 4);
        cluster_expect(&s.has_x, p.T * p.E * 2);
        if (blockIdx.x == 0) cluster_expect(&s.has_logits, p.T * p.X * 4);
    }
    if (p.T < ROUTER_ROWS) router_clear(p, tile);
    cluster_arrive();
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int slice = warp / ROUTER_SIDE, side = warp % ROUTER_SIDE;
    int block = blockIdx.x * ROUTER_SIDE + side, n_blocks = (p.X + PICK_BRICK_N - 1) / PICK_BRICK_N;
    int first = slice * p.slice_bricks, n = min(p.n_bricks - first, p.slice_bricks);
    stream_source<BITS> source = stream_source_init<BITS>(
        p.bricks + (int64_t(min(block, n_blocks - 1)) * p.n_bricks + first) * BRICK);
    stream_brick<BITS, false> w[ROUTER_BRICKS];
#pragma unroll
    for (int j = 0; j < ROUTER_BRICKS; j++) {
        if (j < n) stream_load<BITS, false>(w[j], source, j);
    }
    float4 u = {};
    int column = (blockIdx.x * 32 + lane) * 4 + warp % ROUTER_EACH * ROUTER_THREADS * 4;
    if (column < p.E) u = *reinterpret_cast<const float4 *>(p.norm_w + column);
    if (p.gate.T > 0) moe_gate_fetch(p.gate);
    cluster_wait(); /* all blocks have begun, their barriers stand, the tile's zeros too */
    launch_wait();
    router_norm(p, s, tile, u);
    uint32_t a[ROUTER_BRICKS][4][4];
#pragma unroll
    for (int j = 0; j < ROUTER_BRICKS; j++) {
        if (j < n) router_widen<BITS>(a[j], w[j]);
    }
    cluster_received(&s.has_x);
    float acc[1][4] = {};
#pragma unroll
    for (int j = 0; j < ROUTER_BRICKS; j++) {
        if (j >= n) break;
#pragma unroll
        for (int v = 0; v < 2; v++) {
            uint32_t b[4];
            int row = lane & 7, piece = v * 4 + (lane >> 3);
            load_matrix_x4(b, tile + ((first + j) * ROUTER_ROWS + row) * TILE_X_ROW_BYTES +
                                  ((piece ^ row) << 4));
            mma_bf16(acc[0], a[j][2 * v], b[0], b[1]);
            mma_bf16(acc[0], a[j][2 * v + 1], b[2], b[3]);
        }
    }
    s.part[slice][side][lane] = make_float4(acc[0][0], acc[0][1], acc[0][2], acc[0][3]);
    __syncthreads(); /* sums of all slices */
    if (slice == 0 && block < n_blocks) {
        float4 sum = s.part[0][side][lane];
        for (int i = 1; i * p.slice_bricks < p.n_bricks; i++) {
            float4 v = s.part[i][side][lane];
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        float v[4] = {sum.x * p.times, sum.y * p.times, sum.z * p.times, sum.w * p.times};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int e = block * PICK_BRICK_N + (lane >> 2) + i / 2 * 8, t = (lane & 3) * 2 + i % 2;
            if (e >= p.X || t >= p.T) continue;
            cluster_post(&s.logits[t][e], &s.has_logits, 0, v[i]);
            p.logits[int64_t(t) * p.X + e] = v[i];
        }
    }
    if (blockIdx.x > 0) {
        int t = (blockIdx.x - 1) * ROUTER_GATE_ROWS + warp / MOE_GATE_WARPS;
        moe_gate_row(p.gate, t < p.gate.T ? t : -1, router_gate_x{tile, t}, s.gate);
        return;
    }
    moe_routed r = {};
    if (warp < p.T) {
        cluster_received(&s.has_logits);
        r = moe_route_pick<ROUTER_X / 32>(s.logits[warp], p.X, p.K);
        if (lane < p.K) s.expert[warp * p.K + lane] = r.id;
    }
    __syncthreads(); /* the experts of all uses */
    if (!moe_sort_is_short(p.to, p.T * p.K, p.K)) {
        moe_sort_few(p.to, s.expert, p.T * p.K, p.X, p.K, s.sums);
    } else if (warp == ROUTER_THREADS / 32 - 1) { /* which has no row, most of the time */
        moe_sort_warp(p.to, s.expert, p.T * p.K, p.K);
    }
    if (warp >= p.T) return;
    float weight = moe_route_weight(r.w, p.K);
    if (lane >= p.K) return;
    p.ids[warp * p.K + lane] = r.id;
    p.w[warp * p.K + lane] = weight;
}

static_assert(ROUTER_X <= ROUTER_THREADS, "a thread sorts an expert");
static_assert((ROUTER_BLOCKS - 1) * ROUTER_GATE_ROWS >= ROUTER_ROWS, "the gate has a warp a row");

bool moe_router_wants_norm(const cuda_backend *cb, const rmsnorm_args *a)
{
    return cb->sm == 90 && a->T <= ROUTER_ROWS && a->E <= ROUTER_E && a->E % PICK_BRICK_K == 0 &&
           cuda_pick_norm_threads(a->E) == ROUTER_THREADS;
}

bool moe_router_wants_linear(const cuda_backend *cb, const linear_args *a)
{
    if (!cb->waiting.has_norm || a->n_parts != 1 || a->part[0].out != LINEAR_F32) return false;
    const rmsnorm_args *norm = &cb->waiting.norm;
    const dev_weight *w = a->part[0].w;
    if (a->x.ptr != norm->y.ptr || a->T != norm->T || w->K != norm->E) return false;
    if (w->N > ROUTER_X || w->group == 32) return false;
    if (w->type != DTYPE_BF16 && (w->type != DTYPE_AFFINE || (w->bits != 4 && w->bits != 8)))
        return false;
    pick_split split = cuda_pick_split(w->N, w->K, false);
    return split.slices <= ROUTER_SLICES && split.slice_bricks <= ROUTER_BRICKS;
}

bool moe_router_wants_route(const cuda_backend *cb, const moe_route_args *a)
{
    return cb->waiting.has_router && a->logits.ptr == cb->waiting.router.part[0].y.ptr &&
           a->T == cb->waiting.router.T && a->X == cb->waiting.router_w.N;
}

static cudaError_t router_launch(cuda_backend *cb, int bits, const moe_router_params &p)
{
    auto kernel = bits == 4   ? moe_router_kernel<4>
                  : bits == 8 ? moe_router_kernel<8>
                              : moe_router_kernel<DEQUANT_BF16>;
    return launch_clusters_with(kernel, dim3(ROUTER_BLOCKS), ROUTER_BLOCKS, ROUTER_THREADS,
                                ROUTER_X_BYTES, cb->stream, p);
}

status moe_router_run(cuda_backend *cb, const moe_sorted *to, const moe_gate *gate)
{
    cuda_waiting *wait = &cb->waiting;
    const dev_weight *w = &wait->router_w;
    pick_split split = cuda_pick_split(w->N, w->K, false);
    moe_router_params p = {};
    p.sums = wait->sums;
    p.norm_w = buf_of<float>(wait->norm.w);
    p.x = buf_of<bf16>(wait->norm.y);
    p.eps = wait->norm.eps;
    p.T = wait->route.T, p.E = wait->norm.E, p.X = wait->route.X, p.K = wait->route.K;
    p.bricks = buf_of<uint8_t>(w->data);
    p.times = ldexpf(1.0f, w->layout);
    p.n_bricks = split.n_bricks, p.slice_bricks = split.slice_bricks;
    p.logits = buf_of<float>(wait->route.logits);
    p.ids = buf_of<int32_t>(wait->route.ids);
    p.w = buf_of<float>(wait->route.w);
    p.to = *to;
    bool has_rows = gate && gate->x == p.x && gate->T == p.T; /* of the gate, in the tile */
    if (has_rows) p.gate = *gate;
    wait->sums.h = nullptr;
    wait->has_norm = wait->has_router = wait->has_route = false;
    cudaError_t r = router_launch(cb, linear_weight_bits(w), p);
    TRY(cuda_status(cb, r, "moe_ffn", __FILE__, __LINE__));
    return gate && !has_rows ? moe_gate_run(cb, gate) : ERR_OK;
}

status moe_router_open(cuda_backend *cb)
{
    if (cb->sm != 90) return ERR_OK;
    const int bytes = ROUTER_X_BYTES;
    const auto what = cudaFuncAttributeMaxDynamicSharedMemorySize;
    CUDA_TRY(cb, cudaFuncSetAttribute(moe_router_kernel<4>, what, bytes));
    CUDA_TRY(cb, cudaFuncSetAttribute(moe_router_kernel<8>, what, bytes));
    CUDA_TRY(cb, cudaFuncSetAttribute(moe_router_kernel<DEQUANT_BF16>, what, bytes));
    return ERR_OK;
}
