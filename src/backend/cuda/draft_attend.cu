/* The draft's attention from its input (ops.h:draft_attend_args). Of one lane the projections leave
 * their slices' sums, and one kernel adds, norms, rotates and attends. */
#include <math.h>

#include "backend/cuda/cluster.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/draft_attn_priv.cuh"
#include "backend/cuda/head_norm.cuh"
#include "backend/cuda/linear_tile_priv.h"
#include "backend/cuda/waiting.cuh"
#include "backend/draft_steps.h"

enum {
    ATTEND_D = 128,
    ATTEND_BLOCKS = 8, /* of a cluster, which has a KV head */
    ATTEND_GROUPS = 2, /* of four warps in a block, each with parts of its own */
    ATTEND_WARPS = 4 * ATTEND_GROUPS,
    ATTEND_THREADS = 32 * ATTEND_WARPS,
    ATTEND_AT_ONCE = ATTEND_BLOCKS * ATTEND_GROUPS, /* parts */
    ATTEND_TURNS = 3,
    ATTEND_PARTS = ATTEND_TURNS * ATTEND_AT_ONCE,
    ATTEND_MT = 2,
    ATTEND_PAIRS = 16 * ATTEND_MT,                 /* (row, query head) of a KV head */
    ATTEND_OWN = ATTEND_PAIRS / ATTEND_BLOCKS,     /* whose parts a block adds up */
    ATTEND_VECTORS = ATTEND_BLOCKS * ATTEND_WARPS, /* of q, k and v */
    ATTEND_PIECES = ATTEND_D / 8,
};
using attend_shape = attn_shape<ATTEND_D, 2, 4>;

typedef struct {
    draft_attn_params a;
    const float *sums[3]; /* of q, k, v: f32 [slices, M, N] */
    float times[3];
    int slices[3];
    const float *q_norm, *k_norm, *cs;
    float eps;
    int n_turns;
} attend_params;

/* A part's K and V; its result takes K's place. */
typedef struct {
    char k[attend_shape::TILE], v[attend_shape::TILE];
} attend_tile;

struct alignas(16) attend_shared {
    float2 ms[ATTEND_TURNS][ATTEND_GROUPS][ATTEND_PAIRS]; /* (max, sum) */
    char q[ATTEND_PAIRS * attend_shape::Q_STRIDE];
    union {
        char p[ATTEND_GROUPS][ATTEND_PAIRS * attend_shape::P_STRIDE];
        float vector[ATTEND_WARPS][ATTEND_D]; /* before that */
    };
    float max[ATTEND_GROUPS][ATTEND_PAIRS * 8], sum[ATTEND_GROUPS][ATTEND_PAIRS * 8];
    attend_tile tile[ATTEND_TURNS][ATTEND_GROUPS]; /* as many turns as a call needs */
};

/* The parts of a lane's context, a tile each, and behind them the block's own rows. */
typedef struct {
    int from, p, n; /* context [from, p) in n parts */
} attend_context;

/* Where part i is attended to: parts are dealt out to blocks first. */
typedef struct {
    int block, group, turn;
} attend_place;
__device__ static inline attend_place attend_place_of(int part)
{
    return {part % ATTEND_BLOCKS, part / ATTEND_BLOCKS % ATTEND_GROUPS, part / ATTEND_AT_ONCE};
}

/* Start copying a part of the context, by its group; rows behind its end become zeros. */
__device__ static inline void attend_fetch(attend_tile &t, const draft_attn_params &a,
                                           const attend_context &x, int part, int64_t head)
{
    int tid = threadIdx.x % DRAFT_THREADS, chunk = tid % ATTEND_PIECES, row = tid / ATTEND_PIECES;
    int pos = x.from + part * OPS_BLOCK + row, place = pos % a.R;
    constexpr int STEP = DRAFT_THREADS / ATTEND_PIECES;
#pragma unroll
    for (int i = 0; i < OPS_BLOCK / STEP; i++) {
        bool on = pos < x.p;
        int64_t cell = on ? (head * a.R + place) * ATTEND_D + chunk * 8 : 0;
        copy_async_16(t.k + attn_k_at<ATTEND_PIECES>(row, chunk), a.ring_k + cell, on);
        copy_async_16(t.v + attn_v_at<ATTEND_PIECES>(row, chunk), a.ring_v + cell, on);
        row += STEP, pos += STEP, place += STEP;
        if (place >= a.R) place -= a.R;
    }
}

/* Zeros for what is no row of the block's own. */
__device__ static inline void attend_clear(attend_tile &t, int B)
{
    int tid = threadIdx.x % DRAFT_THREADS;
    for (int i = B * ATTEND_PIECES + tid; i < OPS_BLOCK * ATTEND_PIECES; i += DRAFT_THREADS) {
        int row = i / ATTEND_PIECES, chunk = i % ATTEND_PIECES;
        *reinterpret_cast<uint4 *>(t.k + attn_k_at<ATTEND_PIECES>(row, chunk)) = uint4{};
        *reinterpret_cast<uint4 *>(t.v + attn_v_at<ATTEND_PIECES>(row, chunk)) = uint4{};
    }
}

/* The vector of q (kind 0), k or v (2) that a warp makes: the KV head's q first, a row's heads side
 * by side. */
typedef struct {
    int kind, index, row; /* kind 3: none */
    int64_t at;           /* its first float in a slice */
} attend_vector;

__device__ static inline attend_vector attend_vector_of(const draft_attn_params &a, int i, int l,
                                                        int g)
{
    int n_heads = a.H / a.G, n_q = a.B * n_heads;
    attend_vector v = {};
    if (i < n_q) {
        v.index = i, v.row = i / n_heads;
        v.at = (int64_t(l * a.B + v.row) * a.H + g * n_heads + i % n_heads) * ATTEND_D;
        return v;
    }
    i -= n_q;
    v.kind = i < a.B ? 1 : i < 2 * a.B ? 2 : 3;
    v.index = v.row = v.kind == 1 ? i : i - a.B;
    v.at = (int64_t(l * a.B + v.row) * a.G + g) * ATTEND_D;
    return v;
}

/* The lane's four values of a vector: all slices added in order and rounded. */
__device__ static inline void attend_sum(const float4 (&part)[WAITING_SLICES], int slices,
                                         float times, float *y)
{
    float4 sum = waiting_add_slices(part, slices);
    uint32_t lo = pack_bf16(sum.x * times, sum.y * times);
    uint32_t hi = pack_bf16(sum.z * times, sum.w * times);
    float4 r = {bf16_low(lo), bf16_high(lo), bf16_low(hi), bf16_high(hi)};
    *reinterpret_cast<float4 *>(y + (threadIdx.x & 31) * 4) = r;
    __syncwarp();
}

/* A finished vector to where it is read: q to all blocks, k and v to the own rows' tile. */
__device__ static inline void attend_send(attend_shared &s, const attend_vector &v, const float *y,
                                          attend_place own)
{
    int piece = threadIdx.x & 15, half = threadIdx.x >> 4 & 1;
    const float *x = y + piece * 8;
    float4 r = {__uint_as_float(pack_bf16(x[0], x[1])), __uint_as_float(pack_bf16(x[2], x[3])),
                __uint_as_float(pack_bf16(x[4], x[5])), __uint_as_float(pack_bf16(x[6], x[7]))};
    if (v.kind == 0) {
        char *at = s.q + v.index * attend_shape::Q_STRIDE + piece * 16;
#pragma unroll
        for (int b = 0; b < ATTEND_BLOCKS; b += 2)
            cluster_send_four(reinterpret_cast<float4 *>(at), b + half, r);
        return;
    }
    attend_tile &t = s.tile[own.turn][own.group];
    char *at = v.kind == 1 ? t.k + attn_k_at<ATTEND_PIECES>(v.row, piece)
                           : t.v + attn_v_at<ATTEND_PIECES>(v.row, piece);
    if (half == 0) cluster_send_four(reinterpret_cast<float4 *>(at), own.block, r);
}

/* One part by its group; all threads of the block take part. */
__device__ static inline void attend_part(attend_shared &s, const attend_params &p,
                                          const attend_context &x, int part, int turn)
{
    int lane = threadIdx.x & 31, group = threadIdx.x / DRAFT_THREADS, warp = threadIdx.x >> 5 & 3;
    draft_span span = {x.p, 0, 0, part == x.n};
    if (part < x.n) {
        span.begin = x.from + part * OPS_BLOCK;
        span.end = min(span.begin + OPS_BLOCK, x.p);
    } else if (part == x.n) {
        span.end = p.a.B;
    }
    attend_tile &t = s.tile[turn][group];
    attn_meet meet = {s.max[group], s.sum[group], s.p[group]};
    float acc[ATTEND_MT][attend_shape::NT][4];
    attn_pairs<ATTEND_MT> pairs;
    attn_clear(acc);
    attn_pairs_reset(pairs);
    attn_queries<ATTEND_D, 2, ATTEND_MT, false> queries;
    attn_q_open(queries, s.q, lane);
    draft_see<ATTEND_MT>(pairs, p.a, span, 0, span.begin, lane);
    attn_tile<ATTEND_D, 2, ATTEND_MT, 4>(acc, pairs, queries, t.k, t.v, p.a.c, nullptr, nullptr,
                                         meet, warp, lane);
    if (part > x.n) return;
    constexpr int N = ATTEND_D / 16;
    int c = lane & 3;
#pragma unroll
    for (int mt = 0; mt < ATTEND_MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int pair = mt * 16 + h * 8 + (lane >> 2);
            float y[N];
            attn_columns(y, acc, mt, h);
            /* All have read K: a barrier behind the scores says so. */
            attn_store_floats<N>(reinterpret_cast<float *>(t.k) + pair * ATTEND_D +
                                     warp * (ATTEND_D / 4) + N * c,
                                 y);
            if (warp == 0 && c == 0)
                s.ms[turn][group][pair] = make_float2(pairs.max[mt][h], pairs.sum[mt][h]);
        }
}

/* (max, sum) of a pair's part. */
__device__ static inline float2 attend_ms(attend_shared &s, int part, int pair)
{
    attend_place at = attend_place_of(part);
    return cluster_read_two(&s.ms[at.turn][at.group][pair], at.block);
}

/* draft_reduce_head for two columns of a pair. */
__device__ static inline uint32_t attend_merge(attend_shared &s, const attend_context &x, int pair,
                                               int column)
{
    int lane = threadIdx.x & 31;
    float2 part[2], own = attend_ms(s, x.n, pair);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        part[i] = make_float2(-INFINITY, 0.0f);
        if (lane + 32 * i < x.n) part[i] = attend_ms(s, lane + 32 * i, pair);
    }
    draft_weights w = draft_weights_from(part, own);
    float2 y = {};
    int at = (pair * ATTEND_D + column) * 4;
#pragma unroll 8
    for (int i = 0; i < x.n; i++) {
        float weight = __shfl_sync(WARP_ALL, i < 32 ? w.w[0] : w.w[1], i & 31);
        attend_place from = attend_place_of(i);
        float2 v = cluster_read_two(s.tile[from.turn][from.group].k + at, from.block);
        y.x = __fmaf_rn(v.x, weight, y.x), y.y = __fmaf_rn(v.y, weight, y.y);
    }
    attend_place from = attend_place_of(x.n);
    float2 v = cluster_read_two(s.tile[from.turn][from.group].k + at, from.block);
    y.x = __fmaf_rn(v.x, w.block, y.x) * w.inv_sum;
    y.y = __fmaf_rn(v.y, w.block, y.y) * w.inv_sum;
    return pack_bf16(y.x, y.y);
}

/* draft_attend_kernel: a lane's block and KV head.
 *
 * Does     the merge of the projections' slices, draft_attn_prep_kernel, draft_attn_kernel and
 *          draft_reduce_kernel, bit for bit where a part of those is one tile
 * Grid     (ATTEND_BLOCKS, G, L) in clusters of ATTEND_BLOCKS; a warp makes one vector of q, k or
 *          v, a group of four attends to one part a turn
 * Shared   all tiles of a block's parts, the queries of all
 * Needs    D 128, at most ATTEND_PAIRS pairs, ATTEND_VECTORS vectors and ATTEND_PARTS parts; R at
 *          least a tile
 * Moves    the sums and each visible ring row once
 * Why      It is a chain of short steps: the other blocks' shared memory is nearer than a launch.
 */
__global__ void __launch_bounds__(ATTEND_THREADS)
    draft_attend_kernel(const __grid_constant__ attend_params p)
{
    extern __shared__ __align__(128) char attend_bytes[];
    attend_shared &s = *reinterpret_cast<attend_shared *>(attend_bytes);
    launch_next();
    cluster_arrive_only();
    const draft_attn_params &a = p.a;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, rank = cluster_rank();
    int group = threadIdx.x / DRAFT_THREADS, g = blockIdx.y, l = blockIdx.z;
    int n_heads = a.H / a.G, n_q = a.B * n_heads;
    attend_vector vector = attend_vector_of(a, warp * ATTEND_BLOCKS + rank, l, g);
    bool turns = vector.kind < 2;
    head_lane head;
    if (turns) head_weights(head, vector.kind == 0 ? p.q_norm : p.k_norm, ATTEND_D);
    int slices = 0, step = 0;
    float times = 0.0f;
    const float *from = nullptr, *cs = p.cs + (int64_t(l) * a.B + vector.row) * ATTEND_D;
    if (vector.kind < 3) {
        slices = p.slices[vector.kind], times = p.times[vector.kind];
        from = p.sums[vector.kind] + vector.at + lane * 4;
        step = a.L * a.B * (vector.kind == 0 ? a.H : a.G) * ATTEND_D;
    }
    for (int i = n_q * attend_shape::Q_STRIDE / 16 + threadIdx.x;
         i < ATTEND_PAIRS * attend_shape::Q_STRIDE / 16; i += ATTEND_THREADS)
        *reinterpret_cast<uint4 *>(s.q + i * 16) = uint4{};
    launch_wait();
    attend_context x = {};
    x.p = a.anchor_pos[l];
    int slot = a.lane_slot[l], begin = a.ctx_begin[l];
    float4 parts[WAITING_SLICES];
#pragma unroll
    for (int j = 0; j < WAITING_SLICES; j++) {
        if (j < slices) parts[j] = waiting_four(from + j * step);
    }
    if (turns) head_angles(head, cs, ATTEND_D / 2);
    x.from = draft_context_from(a, x.p, begin);
    x.n = div_up(x.p - x.from, static_cast<int>(OPS_BLOCK));
    for (int turn = 0; turn < p.n_turns; turn++) {
        int part = (turn * ATTEND_GROUPS + group) * ATTEND_BLOCKS + rank;
        if (part < x.n) attend_fetch(s.tile[turn][group], a, x, part, int64_t(slot) * a.G + g);
        if (part == x.n) attend_clear(s.tile[turn][group], a.B);
    }
    copy_async_commit();
    if (slices > 0) attend_sum(parts, slices, times, s.vector[warp]);
    if (turns) head_norm_rotate(s.vector[warp], head, p.eps, ATTEND_D, ATTEND_D / 2);
    __syncwarp();
    cluster_wait(); /* all blocks have begun */
    if (vector.kind < 3) attend_send(s, vector, s.vector[warp], attend_place_of(x.n));
    copy_async_wait<0>();
    __syncwarp();
    cluster_arrive();
    cluster_wait(); /* all vectors and this block's tiles are there */
    for (int turn = 0; turn < p.n_turns; turn++) {
        int first = turn * ATTEND_AT_ONCE + rank;
        if (first > x.n) break;
        if (turn > 0) __syncthreads(); /* all are done with the turn before */
        attend_part(s, p, x, first + group * ATTEND_BLOCKS, turn);
    }
    __syncwarp();
    cluster_arrive();
    cluster_wait(); /* all parts are there */
    int pair = rank * ATTEND_OWN + warp / 2, column = (warp & 1) * 64 + lane * 2;
    uint32_t y = 0;
    if (pair < n_q) y = attend_merge(s, x, pair, column);
    __syncwarp();
    cluster_arrive(); /* behind those reads, but not behind this write */
    int64_t row = int64_t(l) * a.B + pair / n_heads;
    bf16 *to = a.out + (row * a.H + g * n_heads + pair % n_heads) * ATTEND_D + column;
    if (pair < n_q) *reinterpret_cast<uint32_t *>(to) = y;
    __syncwarp();
    cluster_wait(); /* nobody leaves whose parts are still read */
}

/* Whether a linear's slices can be left, beside the others of the call, for the kernel above. */
static bool attend_can_leave(const cuda_backend *cb, const dev_weight *w, const bf16 *x, int T,
                             int64_t n_tiles, pick_tile tile)
{
    bool is_bricks = w->type == DTYPE_AFFINE || w->type == DTYPE_BF16; /* not GGUF's */
    return is_bricks && linear_can_leave(cb, w, x, T) &&
           cuda_pick_is_split(n_tiles, cuda_pick_split(w->N, w->K, false).slices, tile);
}

static bool attend_is_few(const cuda_backend *cb, const draft_attend_args *a)
{
    const draft_attn_args *t = &a->attn;
    const dev_weight *w[3] = {a->q, a->k, a->v};
    int M = t->L * t->B, context = t->ring.R;
    if (t->window > 0 && t->window < context) context = t->window;
    int n_splits = div_up(context, static_cast<int>(OPS_BLOCK));
    if (cb->sm != 90 || t->L != 1 || t->D != ATTEND_D || t->H % t->G || t->ring.R < OPS_BLOCK ||
        t->B * (t->H / t->G) > ATTEND_PAIRS || t->B * (t->H / t->G + 2) > ATTEND_VECTORS ||
        n_splits >= ATTEND_PARTS || draft_splits(cb, t) != n_splits || a->prep.M != M)
        return false;
    pick_tile tile = cuda_pick_tile(cb->sm, linear_weight_bits(a->q), M);
    int64_t n_tiles = 0, sums = 0;
    for (int i = 0; i < 3; i++) {
        n_tiles += div_up<int64_t>(w[i]->N, tile.outputs);
        sums += cuda_pick_split(w[i]->N, w[i]->K, false).slices * w[i]->N;
    }
    for (int i = 0; i < 3; i++) {
        if (!attend_can_leave(cb, w[i], buf_of<bf16>(a->x), M, n_tiles, tile)) return false;
    }
    return sums * M * 4 <= linear_partial_bytes(M) && vec_is_whole(a->prep.cs) &&
           vec_is_whole(t->ring.k) && vec_is_whole(t->ring.v);
}

static const draft_steps steps = {nullptr, cuda_any_linear, nullptr, cuda_draft_attn_prep,
                                  cuda_draft_attn};

extern "C" status cuda_draft_attend(backend *b, const draft_attend_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->attn.L < 1 || a->attn.B < 1) return cb->broken;
    if (!attend_is_few(cb, a)) return draft_steps_attend(&steps, b, a);
    const dev_weight *w[3] = {a->q, a->k, a->v};
    int M = a->prep.M;
    TRY(cuda_need(cb, "draft_attend", linear_partial_bytes(M)));
    attend_params p = {};
    linear_piece pieces[3];
    int64_t at = 0;
    for (int i = 0; i < 3; i++) {
        float *sums = scratch_at<float>(cb, at);
        p.sums[i] = sums;
        p.times[i] = ldexpf(1.0f, w[i]->layout);
        p.slices[i] = cuda_pick_split(w[i]->N, w[i]->K, false).slices;
        at += p.slices[i] * w[i]->N * M * 4;
        pieces[i] = {w[i], nullptr, buf_of<bf16>(a->x), M, nullptr, sums, TILE_OUT_SLICES};
    }
    TRY(linear_run(cb, pieces, 3, nullptr, nullptr));
    p.a = draft_attn_params_of(&a->attn);
    p.a.n_splits = draft_splits(cb, &a->attn);
    p.q_norm = buf_of<float>(a->prep.q_norm);
    p.k_norm = buf_of<float>(a->prep.k_norm);
    p.cs = buf_of<float>(a->prep.cs);
    p.eps = a->prep.eps;
    p.n_turns = p.a.n_splits / ATTEND_AT_ONCE + 1;
    constexpr int TURN = static_cast<int>(sizeof(attend_tile)) * ATTEND_GROUPS;
    constexpr int BYTES = static_cast<int>(sizeof(attend_shared));
    CUDA_TRY(cb, cudaFuncSetAttribute(draft_attend_kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    dim3 grid(ATTEND_BLOCKS, static_cast<unsigned>(p.a.G), static_cast<unsigned>(p.a.L));
    CUDA_TRY(cb, launch_clusters_with(draft_attend_kernel, grid, ATTEND_BLOCKS, ATTEND_THREADS,
                                      BYTES - (ATTEND_TURNS - p.n_turns) * TURN, cb->stream, p));
    return cb->broken;
}
