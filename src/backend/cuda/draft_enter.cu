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
    /* Of what reads y, fetched meanwhile: memory has little else to do from the launch in front of
     * this one to the one behind it. */
    ENTER_AHEAD_BYTES = 20 << 20,
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
    ahead_spans ahead;
} enter_params;

template <int NORM, int BRICKS> struct enter_shared {
    using S = enter_shape<NORM, BRICKS>;
    float h[ENTER_ROWS][S::CHANNELS]; /* this block's slice of all rows */
    float w[S::CHANNELS];
    uint8_t x[BRICKS * ENTER_ROWS * TILE_X_ROW_BYTES]; /* the same normed, as mma reads it */
    float4 part[ENTER_SLICES_MAX - 1][ENTER_WARPS][32];
    float scale[ENTER_ROWS], sums[ENTER_OWN][S::WARPS];
    float delta[2][ENTER_ROWS][ENTER_GROUPS]; /* of side 0 */
};

/* Where channel i of a slice lies in row t of x. */
__device__ static inline int enter_x_at(int t, int i)
{
    return (i / PICK_BRICK_K * ENTER_ROWS + t) * TILE_X_ROW_BYTES +
           ((i % PICK_BRICK_K / 8 ^ (t & 7)) << 4) + i % 8 * 2;
}

/* Start bringing this block's slice of h; zeros where there is none. */
template <int NORM, int BRICKS>
__device__ static inline void enter_fetch(enter_shared<NORM, BRICKS> &s, const enter_params &p,
                                          int first, int n)
{
    constexpr int FOURS = enter_shape<NORM, BRICKS>::CHANNELS / 4;
#pragma unroll
    for (int k = threadIdx.x; k < ENTER_ROWS * FOURS; k += ENTER_THREADS) {
        int t = k / FOURS, i = k % FOURS * 4;
        bool on = t < p.M && i < n;
        copy_async_16(&s.h[t][i], on ? p.h + int64_t(t) * p.E + first + i : p.h, on);
    }
    copy_async_commit();
}

/* The factors of rows rank, rank + slices .. to all blocks, with rmsnorm_kernel's sums: a warp
 * stands for some of its. */
template <int NORM, int BRICKS>
__device__ static inline void enter_norm(enter_shared<NORM, BRICKS> &s, const enter_params &p,
                                         int rank)
{
    using S = enter_shape<NORM, BRICKS>;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float4 v[ENTER_OWN][S::TURNS][S::EACH];
#pragma unroll
    for (int o = 0; o < ENTER_OWN; o++) {
        int t = rank + o * p.slices;
#pragma unroll
        for (int a = 0; a < S::TURNS; a++)
#pragma unroll
            for (int j = 0; j < S::EACH; j++) {
                int i = ((warp + a * ENTER_WARPS) * 32 + lane) * 4 + j * NORM * 4;
                v[o][a][j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (t < p.M && i < p.E)
                    v[o][a][j] = *reinterpret_cast<const float4 *>(p.h + int64_t(t) * p.E + i);
            }
    }
#pragma unroll
    for (int o = 0; o < ENTER_OWN; o++)
#pragma unroll
        for (int a = 0; a < S::TURNS; a++) {
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < S::EACH; j++) {
                float4 x = v[o][a][j];
                sum += (x.x * x.x + x.y * x.y) + (x.z * x.z + x.w * x.w);
            }
            sum = warp_sum(sum);
            if (lane == 0) s.sums[o][warp + a * ENTER_WARPS] = sum;
        }
    __syncthreads();
    cluster_wait(); /* all blocks have begun */
    int o = threadIdx.x / p.slices, to = threadIdx.x % p.slices, t = rank + o * p.slices;
    if (o < ENTER_OWN && t < ENTER_ROWS) {
        float all = s.sums[o][0];
#pragma unroll
        for (int i = 1; i < S::WARPS; i++) all += s.sums[o][i];
        cluster_send(&s.scale[t], to, __frsqrt_rn(all / static_cast<float>(p.E) + p.eps));
    }
    copy_async_wait<0>();
    cluster_arrive();
    cluster_wait(); /* the factors of all rows and the slice are there */
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
 * Moves    each weight once, before the kernel in front is over; h once for each cluster */
template <int NORM, int BRICKS>
__global__ void __launch_bounds__(ENTER_THREADS)
    draft_enter_kernel(const __grid_constant__ enter_params p)
{
    using S = enter_shape<NORM, BRICKS>;
    constexpr int BRICK = dequant_brick_bytes(4, false);
    extern __shared__ __align__(128) uint8_t shared[];
    enter_shared<NORM, BRICKS> &s = *reinterpret_cast<enter_shared<NORM, BRICKS> *>(shared);
    launch_next();
    cluster_arrive();
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, rank = cluster_rank();
    int cluster = blockIdx.x / p.slices, group = cluster * ENTER_GROUPS;
    int first = rank * p.slice_bricks, n = min(p.slice_bricks, p.n_bricks - first);
    int64_t block = (warp * p.n_groups + group) / PICK_BRICK_N;
    stream_source<4> source = stream_source_init<4>(p.bricks +
                                                    (block * p.n_bricks + first) * BRICK);
    stream_brick<4, false> w[BRICKS];
#pragma unroll
    for (int j = 0; j < BRICKS; j++) {
        if (j < n) stream_load<4, false>(w[j], source, j);
    }
    for (int i = threadIdx.x * 4; i < S::CHANNELS; i += ENTER_THREADS * 4) {
        bool on = i < n * PICK_BRICK_K;
        copy_async_16(&s.w[i], on ? p.norm_w + first * PICK_BRICK_K + i : p.norm_w, on);
    }
    /* Four channels of the cluster's, of half of the rows. */
    int channel = threadIdx.x % (ENTER_CHANNELS / 4) * 4;
    int from_t = threadIdx.x / (ENTER_CHANNELS / 4) * (ENTER_ROWS / 2);
    int64_t at = int64_t(cluster) * ENTER_CHANNELS + channel;
    float4 base[2] = {*reinterpret_cast<const float4 *>(p.base + at),
                      *reinterpret_cast<const float4 *>(p.base + p.E + at)};
    ahead_fetch(p.ahead);
    launch_wait();
    enter_fetch(s, p, first * PICK_BRICK_K, n * PICK_BRICK_K);
    enter_norm(s, p, rank);
    enter_scale(s, p, first * PICK_BRICK_K, n * PICK_BRICK_K, cluster == 0);
    float acc[1][1][4] = {};
#pragma unroll
    for (int j = 0; j < BRICKS; j++) {
        if (j >= n) break;
        uint32_t b[2][1][4];
#pragma unroll
        for (int v = 0; v < 2; v++) {
            load_matrix_x4(b[v][0], s.x + (j * ENTER_ROWS + (lane & 7)) * TILE_X_ROW_BYTES +
                                        ((v * 4 + (lane >> 3) ^ (lane & 7)) << 4));
        }
        stream_step<4, 1, false>(acc[0], w[j], b);
    }
    int meet = cluster * ENTER_CHANNELS / (p.slice_bricks * PICK_BRICK_K);
    if (rank != meet) {
        float4 v = make_float4(acc[0][0][0], acc[0][0][1], acc[0][0][2], acc[0][0][3]);
        cluster_send_four(&s.part[rank - (rank > meet)][warp][lane], meet, v);
    }
    cluster_arrive();
    cluster_wait(); /* the sums of all are there */
    if (rank != meet) return;
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

/* The beginnings of what the blocks of the op behind read. */
static ahead_spans enter_ahead(const draft_enter_args *a)
{
    ahead_spans s = {};
    for (const dev_weight *w : a->next) {
        if (!w || (w->type != DTYPE_AFFINE && w->type != DTYPE_BF16)) continue;
        pick_split split = cuda_pick_split(w->N, w->K, false);
        int64_t brick = dequant_brick_bytes(linear_weight_bits(w), w->group == 32);
        ahead_add(&s, w->data.ptr, split.n_bricks * brick, div_up<int64_t>(w->N, PICK_BRICK_N),
                  split.slices, split.slice_bricks * brick);
    }
    ahead_fit(&s, ENTER_AHEAD_BYTES);
    return s;
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
    p.ahead = enter_ahead(a);
    p.n_bricks = split.n_bricks, p.slice_bricks = split.slice_bricks, p.slices = split.slices;
    return is_large ? enter_launch<512, 16>(cb, p) : enter_launch<256, 8>(cb, p);
}
