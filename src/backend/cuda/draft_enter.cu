/* The way into a sublayer of the draft (ops.h:draft_enter_args): norm, the convolution's kernel and
 * its side 0. Of up to 8 rows it is one launch. */
#include <math.h>

#include "backend/cuda/cluster.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/linear_stream.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/waiting.cuh"
#include "backend/draft_steps.h"

enum {
    ENTER_WARPS = 4, /* one a (side, tap) */
    ENTER_THREADS = 32 * ENTER_WARPS,
    ENTER_ROWS = 8,    /* the columns of mma */
    ENTER_GROUPS = 16, /* of channels, of a cluster: the outputs of a brick */
    ENTER_GROUP = 16,  /* channels */
    ENTER_CHANNELS = ENTER_GROUPS * ENTER_GROUP,
    ENTER_OWN = 2, /* rows whose norm a block makes */
    ENTER_SLICES_MIN = ENTER_ROWS / ENTER_OWN,
    ENTER_SLICES_MAX = 8, /* blocks of a cluster */
};

/* NORM: threads of rmsnorm_kernel for these rows; BRICKS of a slice, all of them under way at once;
 * EACH: fours of a row that such a thread has. */
template <int NORM, int BRICKS> struct enter_shape {
    static constexpr int CHANNELS = BRICKS * PICK_BRICK_K; /* of a slice */
    static constexpr int EACH = NORM == 512 ? 3 : 2;
    static constexpr int E_MAX = NORM * 4 * EACH;
    static constexpr int WARPS = NORM / 32, TURNS = WARPS / ENTER_WARPS;
};

typedef struct {
    const float *h, *norm_w, *base;
    const uint8_t *bricks;
    bf16 *x, *delta, *y;
    float times, eps;
    int M, B, E, n_groups, n_bricks, slice_bricks, slices;
} enter_params;

template <int NORM, int BRICKS> struct enter_shared {
    using S = enter_shape<NORM, BRICKS>;
    static constexpr int BRICK = dequant_brick_bytes(4, false);
    uint8_t bricks[ENTER_WARPS][BRICKS * BRICK]; /* a warp's, as they lie in memory */
    float w[S::CHANNELS];
    float h[ENTER_ROWS][S::CHANNELS]; /* this block's slice of all rows */
    /* Another block's sums come in the place of this one's rows only when it has all rows' factors,
     * of which this block, as each, has made one behind its reads of them. */
    static_assert(ENTER_SLICES_MAX <= ENTER_ROWS, "each block makes a factor");
    union {
        float rows[ENTER_OWN][S::E_MAX]; /* h whose norm this block makes; behind it: */
        struct {
            uint8_t
                x[BRICKS * ENTER_ROWS * TILE_X_ROW_BYTES]; /* the slice normed, as mma reads it */
            float4 part[ENTER_SLICES_MAX - 1][ENTER_WARPS][32];
        };
    };
    float scale[ENTER_ROWS], sums[ENTER_OWN][S::WARPS];
    float delta[2][ENTER_ROWS][ENTER_GROUPS]; /* of side 0 */
    /* Bytes that come: weights, rows, the slice, all rows' factors, the other slices' sums. */
    uint64_t has_weights, has_rows, has_h, has_scale, has_parts;
};

/* n_bytes, a multiple of 16, by one thread. */
__device__ static inline void enter_copy(void *to, const void *from, int n_bytes, uint64_t *barrier)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    tma_copy(to, from, n_bytes, barrier);
#else
    (void)to, (void)from, (void)n_bytes, (void)barrier;
#endif
}

/* Where channel i of a slice lies in row t of x. */
__device__ static inline int enter_x_at(int t, int i)
{
    return (i / PICK_BRICK_K * ENTER_ROWS + t) * TILE_X_ROW_BYTES +
           ((i % PICK_BRICK_K / 8 ^ (t & 7)) << 4) + i % 8 * 2;
}

/* The factors of rows rank, rank + slices .. to all blocks, with rmsnorm_kernel's sums: a warp
 * stands for some of its. */
template <int NORM, int BRICKS>
__device__ static inline void enter_norm(enter_shared<NORM, BRICKS> &s, const enter_params &p,
                                         int rank)
{
    using S = enter_shape<NORM, BRICKS>;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    cluster_received(&s.has_rows);
    float sums[ENTER_OWN][S::TURNS]; /* all before any is stored: none waits for another */
#pragma unroll
    for (int o = 0; o < ENTER_OWN; o++)
#pragma unroll
        for (int a = 0; a < S::TURNS; a++) {
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < S::EACH; j++) {
                int i = ((warp + a * ENTER_WARPS) * 32 + lane) * 4 + j * NORM * 4;
                float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (i < p.E) x = *reinterpret_cast<const float4 *>(&s.rows[o][i]);
                sum += row_squares(x);
            }
            sums[o][a] = sum;
        }
#pragma unroll
    for (int o = 0; o < ENTER_OWN; o++)
#pragma unroll
        for (int a = 0; a < S::TURNS; a++) sums[o][a] = warp_sum(sums[o][a]);
    if (lane == 0) {
#pragma unroll
        for (int o = 0; o < ENTER_OWN; o++)
#pragma unroll
            for (int a = 0; a < S::TURNS; a++) s.sums[o][warp + a * ENTER_WARPS] = sums[o][a];
    }
    __syncthreads();
    cluster_wait(); /* all blocks have begun */
    int o = threadIdx.x / p.slices, to = threadIdx.x % p.slices, t = rank + o * p.slices;
    if (o < ENTER_OWN && t < ENTER_ROWS) {
        float all = s.sums[o][0];
#pragma unroll
        for (int i = 1; i < S::WARPS; i++) all += s.sums[o][i];
        cluster_post(&s.scale[t], &s.has_scale, to,
                     __frsqrt_rn(all / static_cast<float>(p.E) + p.eps));
    }
}

/* The slice normed, for mma; also to memory, at channel `first`, where that is this block's to do.
 */
template <int NORM, int BRICKS>
__device__ static inline void enter_scale(enter_shared<NORM, BRICKS> &s, const enter_params &p,
                                          int first, int n, bool writes)
{
    constexpr int FOURS = enter_shape<NORM, BRICKS>::CHANNELS / 4;
#pragma unroll 4
    for (int k = threadIdx.x; k < ENTER_ROWS * FOURS; k += ENTER_THREADS) {
        int t = k / FOURS, i = k % FOURS * 4;
        float4 v = *reinterpret_cast<const float4 *>(&s.h[t][i]);
        float4 u = *reinterpret_cast<const float4 *>(&s.w[i]);
        float scale = s.scale[t];
        uint2 r = {pack_bf16(v.x * scale * u.x, v.y * scale * u.y),
                   pack_bf16(v.z * scale * u.z, v.w * scale * u.w)};
        *reinterpret_cast<uint2 *>(s.x + enter_x_at(t, i)) = r;
        if (writes && t < p.M && i < n)
            *reinterpret_cast<uint2 *>(p.x + int64_t(t) * p.E + first + i) = r;
    }
    __syncthreads();
}

/* A warp's outputs, all slices added in order, to memory and, of side 0, to shared memory. */
template <int NORM, int BRICKS>
__device__ static inline void enter_store(enter_shared<NORM, BRICKS> &s, const enter_params &p,
                                          const float (&acc)[4], int rank, int group)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float sum[4] = {};
    for (int j = 0; j < p.slices; j++) {
        float4 v = make_float4(acc[0], acc[1], acc[2], acc[3]);
        if (j != rank) v = s.part[j - (j > rank)][warp][lane];
        if (j == 0) {
            sum[0] = v.x, sum[1] = v.y, sum[2] = v.z, sum[3] = v.w;
        } else {
            sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
        }
    }
#pragma unroll
    for (int v = 0; v < 4; v++) {
        int t = (lane & 3) * 2 + (v & 1), g = (lane >> 2) + v / 2 * 8;
        bf16 d = __float2bfloat16_rn(sum[v] * p.times);
        if (t < p.M) p.delta[int64_t(t * 4 + warp) * p.n_groups + group + g] = d;
        if (warp < 2) s.delta[warp][t][g] = __bfloat162float(d);
    }
    __syncthreads();
}

/* draft_enter_kernel: up to 8 rows.
 *
 * Does     rmsnorm_kernel, linear_stream_kernel of the convolution's kernel and draft_conv_kernel
 *          of side 0, bit for bit
 * Grid     (clusters * slices), a cluster for 16 groups of channels, a block for a slice of K; in a
 *          block a warp for a side and tap. The block whose slice has the cluster's channels adds
 *          the slices up and convolves
 * Needs    weights of 4 bits in groups of 64; groups of 16 channels
 * Moves    each weight once, before the kernel in front is over; h twice for each cluster: rows for
 *          their norms, slices for the products */
template <int NORM, int BRICKS>
__global__ void __launch_bounds__(ENTER_THREADS)
    draft_enter_kernel(const __grid_constant__ enter_params p)
{
    constexpr int BRICK = enter_shared<NORM, BRICKS>::BRICK;
    extern __shared__ __align__(128) uint8_t shared[];
    enter_shared<NORM, BRICKS> &s = *reinterpret_cast<enter_shared<NORM, BRICKS> *>(shared);
    launch_next();
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, rank = cluster_rank();
    int cluster = blockIdx.x / p.slices, group = cluster * ENTER_GROUPS;
    int first = rank * p.slice_bricks, n = min(p.slice_bricks, p.n_bricks - first);
    int row_bytes = n * PICK_BRICK_K * 4,
        meet = group / (p.slice_bricks * PICK_BRICK_K / ENTER_GROUP);
    if (threadIdx.x == 0) {
        cluster_expect(&s.has_weights, ENTER_WARPS * n * BRICK + row_bytes);
        int n_own = (rank < p.M) + (rank + p.slices < p.M);
        cluster_expect(&s.has_rows, n_own * p.E * 4);
        cluster_expect(&s.has_h, p.M * row_bytes);
        cluster_expect(&s.has_scale, ENTER_ROWS * 4);
        cluster_expect(&s.has_parts, (p.slices - 1) * static_cast<int>(sizeof s.part[0]));
    }
    __syncthreads(); /* the barriers stand */
    cluster_arrive();
    if (lane == 0) {
        int64_t block = (warp * p.n_groups + group) / PICK_BRICK_N;
        enter_copy(s.bricks[warp], p.bricks + (block * p.n_bricks + first) * BRICK, n * BRICK,
                   &s.has_weights);
        if (warp == 0) enter_copy(s.w, p.norm_w + first * PICK_BRICK_K, row_bytes, &s.has_weights);
    }
    __syncwarp();
    /* Four channels of the cluster's, of half of the rows. */
    int channel = threadIdx.x % (ENTER_CHANNELS / 4) * 4;
    int from_t = threadIdx.x / (ENTER_CHANNELS / 4) * (ENTER_ROWS / 2);
    int64_t at = int64_t(cluster) * ENTER_CHANNELS + channel;
    float4 base[2] = {*reinterpret_cast<const float4 *>(p.base + at),
                      *reinterpret_cast<const float4 *>(p.base + p.E + at)};
    launch_wait();
    if (lane == 0) {
        int own = rank + warp * p.slices;
        if (warp < ENTER_OWN && own < p.M)
            enter_copy(s.rows[warp], p.h + int64_t(own) * p.E, p.E * 4, &s.has_rows);
        for (int t = warp; t < p.M; t += ENTER_WARPS)
            enter_copy(s.h[t], p.h + int64_t(t) * p.E + first * PICK_BRICK_K, row_bytes, &s.has_h);
    }
    __syncwarp();
    enter_norm(s, p, rank);
    cluster_received(&s.has_weights);
    cluster_received(&s.has_h);
    cluster_received(&s.has_scale);
    enter_scale(s, p, first * PICK_BRICK_K, n * PICK_BRICK_K, cluster == 0);
    float acc[1][1][4] = {};
    constexpr int X_BRICK = ENTER_ROWS * TILE_X_ROW_BYTES;
    const uint8_t *bricks = s.bricks[warp];
    stream_brick<4, false> w0 = stream_read<4, false>(bricks), w1;
    uint32_t b0[2][1][4], b1[2][1][4];
    stream_load_b<1>(b0, s.x);
    for (int j = 0; j < n; j += 2) { /* each a brick ahead */
        w1 = stream_read<4, false>(bricks + (j + 1) * BRICK);
        stream_load_b<1>(b1, s.x + (j + 1) * X_BRICK);
        stream_step<4, 1, false>(acc[0], w0, b0);
        if (j + 1 == n) break;
        int next = min(j + 2, BRICKS - 1);
        w0 = stream_read<4, false>(bricks + next * BRICK);
        stream_load_b<1>(b0, s.x + next * X_BRICK);
        stream_step<4, 1, false>(acc[0], w1, b1);
    }
    if (rank != meet) {
        float4 v = make_float4(acc[0][0][0], acc[0][0][1], acc[0][0][2], acc[0][0][3]);
        cluster_post_four(&s.part[rank - (rank > meet)][warp][lane], &s.has_parts, meet, v);
        return;
    }
    cluster_received(&s.has_parts); /* the sums of all slices */
    enter_store(s, p, acc[0][0], rank, group);
    int i = cluster * ENTER_CHANNELS - first * PICK_BRICK_K + channel, g = channel / ENTER_GROUP;
#pragma unroll
    for (int k = 0; k < ENTER_ROWS / 2; k++) {
        int t = from_t + k;
        if (t >= p.M) break;
        float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        int n_taps = t % p.B == 0 ? 1 : 2; /* history is empty before a block */
#pragma unroll
        for (int tau = 0; tau < 2; tau++) {
            if (tau >= n_taps) break;
            float d = s.delta[tau][t][g];
            uint2 u = *reinterpret_cast<const uint2 *>(s.x + enter_x_at(t - tau, i));
            c[0] = __fmaf_rn(base[tau].x + d, bf16_low(u.x), c[0]);
            c[1] = __fmaf_rn(base[tau].y + d, bf16_high(u.x), c[1]);
            c[2] = __fmaf_rn(base[tau].z + d, bf16_low(u.y), c[2]);
            c[3] = __fmaf_rn(base[tau].w + d, bf16_high(u.y), c[3]);
        }
        *reinterpret_cast<uint2 *>(p.y + t * int64_t(p.E) + at) = make_uint2(pack_bf16(c[0], c[1]),
                                                                             pack_bf16(c[2], c[3]));
    }
}

template <int NORM, int BRICKS> static status enter_launch(cuda_backend *cb, const enter_params &p)
{
    constexpr int BYTES = static_cast<int>(sizeof(enter_shared<NORM, BRICKS>));
    auto kernel = draft_enter_kernel<NORM, BRICKS>;
    CUDA_TRY(cb, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    dim3 grid(static_cast<unsigned>(p.n_groups / ENTER_GROUPS * p.slices));
    CUDA_TRY(cb, launch_clusters_with(kernel, grid, p.slices, ENTER_THREADS, BYTES, cb->stream, p));
    return cb->broken;
}

/* Whether rows of this shape fit a kernel: threads of their norm, bricks of a slice. */
template <int NORM, int BRICKS> static bool enter_fits(const draft_enter_args *a, pick_split split)
{
    return cuda_pick_norm_threads(a->E) == NORM && a->E <= enter_shape<NORM, BRICKS>::E_MAX &&
           split.slice_bricks == BRICKS;
}

static bool enter_is_few(const cuda_backend *cb, const draft_enter_args *a, pick_split split)
{
    const dev_weight *w = a->kernel;
    return cb->sm == 90 && a->L * a->B <= ENTER_ROWS && w->type == DTYPE_AFFINE && w->bits == 4 &&
           w->group == 64 && a->group == ENTER_GROUP && a->E % ENTER_CHANNELS == 0 &&
           split.slices >= ENTER_SLICES_MIN && split.slices <= ENTER_SLICES_MAX &&
           vec_is_whole(a->h) && vec_is_whole(a->norm) && vec_is_whole(a->base) &&
           vec_is_whole(a->x) && vec_is_whole(a->y);
}

static status own_norm(backend *b, const rmsnorm_args *a)
{
    return norm_run(cuda_of(b), a);
}

static const draft_steps steps = {own_norm, cuda_any_linear, cuda_draft_conv, nullptr, nullptr};

extern "C" status cuda_draft_enter(backend *b, const draft_enter_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->L * a->B == 0) return cb->broken;
    const dev_weight *w = a->kernel;
    pick_split split = cuda_pick_split(w->N, w->K, false);
    bool is_large = enter_fits<512, 16>(a, split), is_small = enter_fits<256, 8>(a, split);
    if (!enter_is_few(cb, a, split) || (!is_large && !is_small))
        return draft_steps_enter(&steps, b, a);
    enter_params p = {};
    p.h = buf_of<float>(a->h);
    p.norm_w = buf_of<float>(a->norm);
    p.base = buf_of<float>(a->base);
    p.bricks = buf_of<uint8_t>(w->data);
    p.x = buf_of<bf16>(a->x);
    p.delta = buf_of<bf16>(a->delta);
    p.y = buf_of<bf16>(a->y);
    p.times = ldexpf(1.0f, w->layout);
    p.eps = a->eps;
    p.M = a->L * a->B, p.B = a->B, p.E = a->E, p.n_groups = a->E / ENTER_GROUP;
    p.n_bricks = split.n_bricks, p.slice_bricks = split.slice_bricks, p.slices = split.slices;
    return is_large ? enter_launch<512, 16>(cb, p) : enter_launch<256, 8>(cb, p);
}
