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
    ROUTER_ROWS = 8, /* a warp each, and the columns of mma */
    ROUTER_EACH = 2, /* fours of a row that a lane has */
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
    float squares[ROUTER_ROWS][ROUTER_BLOCKS];
    float logits[ROUTER_ROWS][ROUTER_X];
    float4 part[ROUTER_SLICES][ROUTER_SIDE][32];
    int expert[ROUTER_ROWS * 32], sums[ROUTER_THREADS / 32];
    float gate[ROUTER_THREADS / 32];
};

/* This block's columns of row t: h with what waits, normed as rmsnorm_waiting_kernel does, into x
 * and into the tile of x of every block; by warp t of every block. */
__device__ static inline void router_norm(const moe_router_params &p, moe_router_shared &s,
                                          uint8_t *tile, const float4 (&u)[ROUTER_EACH], int t)
{
    int lane = threadIdx.x & 31, first = (blockIdx.x * 32 + lane) * 4;
    float4 v[ROUTER_EACH];
    float sum = 0.0f;
    if (t < p.T) {
#pragma unroll
        for (int j = 0; j < ROUTER_EACH; j++) {
            int i = first + j * ROUTER_THREADS * 4;
            if (i < p.E) v[j] = waiting_add(p.sums, t, i);
        }
#pragma unroll
        for (int j = 0; j < ROUTER_EACH; j++) {
            int i = first + j * ROUTER_THREADS * 4;
            if (i >= p.E) break;
            *reinterpret_cast<float4 *>(p.sums.h + int64_t(t) * p.E + i) = v[j];
            sum += (v[j].x * v[j].x + v[j].y * v[j].y) + (v[j].z * v[j].z + v[j].w * v[j].w);
        }
        sum = warp_sum(sum);
    }
    cluster_wait(); /* all blocks have begun */
    if (t < p.T && lane < ROUTER_BLOCKS) cluster_send(&s.squares[t][blockIdx.x], lane, sum);
    cluster_arrive();
    cluster_wait(); /* the squares of all are there */
    if (t < p.T) {
        float all = s.squares[t][0];
#pragma unroll
        for (int i = 1; i < ROUTER_BLOCKS; i++) all += s.squares[t][i];
        float scale = __frsqrt_rn(all / static_cast<float>(p.E) + p.eps);
#pragma unroll
        for (int j = 0; j < ROUTER_EACH; j++) {
            int i = first + j * ROUTER_THREADS * 4;
            if (i >= p.E) break;
            uint2 r = {pack_bf16(v[j].x * scale * u[j].x, v[j].y * scale * u[j].y),
                       pack_bf16(v[j].z * scale * u[j].z, v[j].w * scale * u[j].w)};
            *reinterpret_cast<uint2 *>(p.x + int64_t(t) * p.E + i) = r;
            int piece = i % PICK_BRICK_K / 8;
            uint8_t *at = tile + (i / PICK_BRICK_K * ROUTER_ROWS + t) * TILE_X_ROW_BYTES +
                          ((piece ^ (t & 7)) << 4) + i % 8 * 2;
#pragma unroll
            for (int b = 0; b < ROUTER_BLOCKS; b++) cluster_send_two(at, b, r);
        }
    }
    cluster_arrive();
    cluster_wait(); /* x is there */
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
 * Numbers  those of the ops apart */
template <int BITS>
__global__ void __launch_bounds__(ROUTER_THREADS, 1) moe_router_kernel(const moe_router_params p)
{
    extern __shared__ __align__(128) uint8_t tile[];
    __shared__ moe_router_shared s;
    constexpr int BRICK = dequant_brick_bytes(BITS, false);
    launch_next();
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
    float4 u[ROUTER_EACH];
#pragma unroll
    for (int j = 0; j < ROUTER_EACH; j++) {
        int i = (blockIdx.x * 32 + lane) * 4 + j * ROUTER_THREADS * 4;
        if (i < p.E) u[j] = *reinterpret_cast<const float4 *>(p.norm_w + i);
    }
    if (p.gate.T > 0) moe_gate_fetch(p.gate);
    if (p.T < ROUTER_ROWS) router_clear(p, tile);
    launch_wait();
    router_norm(p, s, tile, u, warp);
    float acc[1][4] = {};
#pragma unroll
    for (int j = 0; j < ROUTER_BRICKS; j++) {
        if (j >= n) break;
        uint32_t b[2][1][4];
#pragma unroll
        for (int v = 0; v < 2; v++) {
            int row = lane & 7, piece = v * 4 + (lane >> 3);
            load_matrix_x4(b[v][0], tile + ((first + j) * ROUTER_ROWS + row) * TILE_X_ROW_BYTES +
                                        ((piece ^ row) << 4));
        }
        stream_step<BITS, 1, false>(acc, w[j], b);
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
            p.logits[int64_t(t) * p.X + e] = v[i];
            cluster_send(&s.logits[t][e], 0, v[i]);
        }
    }
    cluster_arrive();
    if (blockIdx.x > 0) {
        int t = (blockIdx.x - 1) * ROUTER_GATE_ROWS + warp / MOE_GATE_WARPS;
        moe_gate_row(p.gate, t < p.gate.T ? t : -1, s.gate);
    }
    cluster_wait(); /* the logits of all are there */
    if (blockIdx.x > 0) return;
    if (warp < p.T) {
        moe_routed r = moe_route_row<ROUTER_X / 32>(s.logits[warp], p.X, p.K);
        if (lane < p.K) {
            p.ids[warp * p.K + lane] = r.id;
            p.w[warp * p.K + lane] = r.w;
            s.expert[warp * p.K + lane] = r.id;
        }
    }
    __syncthreads(); /* the experts of all uses */
    moe_sort_few(p.to, s.expert, p.T * p.K, p.X, p.K, s.sums);
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
    if (gate) p.gate = *gate;
    wait->sums.h = nullptr;
    wait->has_norm = wait->has_router = wait->has_route = false;
    return cuda_status(cb, router_launch(cb, linear_weight_bits(w), p), "moe_ffn", __FILE__,
                       __LINE__);
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
