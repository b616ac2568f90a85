/* gdn_rule: the recurrent delta rule, its arithmetic and the kernel for short prompts, decode,
 * verify and commit.
 *
 *   S <- exp(g) S;  m = S^T k;  d = beta (v - m);  S <- S + k d^T;  o = S^T q
 *
 * computed from the state before the row, so that both sums over dk meet in one exchange:
 *
 *   m = exp(g) (S^T k);  o = exp(g) (S^T q) + d (k . q);  S <- exp(g) S + k d^T
 *
 * Columns of the state [dk, dv] do not touch each other, so a warp owns 8 of them for all dk and
 * keeps them in registers through all rows of the call: lane (r, c) = (lane % 8, lane / 8) holds
 * rows 32 n + 4 r + e (e = 0..3) of columns 2 c and 2 c + 1. In memory a head's state is [dv, dk].
 * Every product and sum is written out with its rounding, so the bits of a row depend on the state
 * before it and its own inputs alone, however rows are cut into calls. */
#ifndef RIPTIDE_BACKEND_CUDA_GDN_RULE_CUH
#define RIPTIDE_BACKEND_CUDA_GDN_RULE_CUH

#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vec_load.cuh"

enum {
    GDN_THREADS = 128,
    GDN_COLUMNS = 32, /* state columns of a block: 8 a warp */
};

typedef struct {
    const bf16 *qkv, *p;
    const float *g, *beta;
    float *state;
    bf16 *conv_state;
    const int32_t *lane_row, *lane_slot, *n_commit; /* n_commit NULL: all rows of the lane */
    float *o;                                       /* f32 [T, Hv, dv], scan only */
    int64_t C;
    int Hk, Hv, dk, dv;
    bool advance;
} gdn_params;

/* n values of the state into the second-level cache, which is allowed while an earlier kernel may
 * still write them. n is a multiple of 4. */
__device__ static inline void gdn_ahead(const float *at, int n)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (threadIdx.x == blockDim.x - 1)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"(n * 4) : "memory");
#else
    (void)at, (void)n;
#endif
}

/* Rows staged at a time, as f32: keys and queries padded to 32 NK, the block's values, gates. */
template <int NK> struct gdn_stage {
    static constexpr int ROWS = NK > 4 ? 8 : 16;
    float k[ROWS][32 * NK], q[ROWS][32 * NK], v[ROWS][GDN_COLUMNS], decay[ROWS], beta[ROWS];
    float kq[ROWS]; /* k . q, when outputs are wanted */
};

/* A thread's part of the next stage while it is on the way from memory. */
template <int NK> struct gdn_fetch {
    static constexpr int ROWS = gdn_stage<NK>::ROWS;
    static constexpr int PIECES = 2 * ROWS * 4 * NK; /* 8 values each: keys, then queries */
    static constexpr int EACH = PIECES / GDN_THREADS;
    static_assert(PIECES % GDN_THREADS == 0, "every thread has the same number of pieces");
    uint4 kq[EACH], v;
    float gate;
};

/* 8 values to shared memory. Half of the lanes write their second four first: 8 lanes then meet
 * all banks once. */
__device__ static inline void gdn_unpack(float *to, uint4 v)
{
    float4 *f = reinterpret_cast<float4 *>(to);
    int turn = threadIdx.x >> 2 & 1;
    float4 lo = make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y));
    float4 hi = make_float4(bf16_low(v.z), bf16_high(v.z), bf16_low(v.w), bf16_high(v.w));
    f[turn] = turn ? hi : lo;
    f[turn ^ 1] = turn ? lo : hi;
}

/* Start loading rows first .. first + n (n <= ROWS) of value head hv. */
template <int NK>
__device__ static inline void gdn_fetch_rows(gdn_fetch<NK> &f, const gdn_params &p, int64_t first,
                                             int n, int hv, int column)
{
    constexpr int A_ROW = 4 * NK;
    int hk = hv / (p.Hv / p.Hk);
    int64_t key_dim = static_cast<int64_t>(p.Hk) * p.dk;
#pragma unroll
    for (int i = 0; i < gdn_fetch<NK>::EACH; i++) {
        int piece = threadIdx.x + i * GDN_THREADS;
        int row = piece % (gdn_fetch<NK>::ROWS * A_ROW) / A_ROW, at = piece % A_ROW * 8;
        bool is_key = piece < gdn_fetch<NK>::ROWS * A_ROW;
        const bf16 *from = p.qkv + (first + row) * p.C + (is_key ? key_dim : 0) +
                           static_cast<int64_t>(hk) * p.dk + at;
        f.kq[i] = row < n && at < p.dk ? *reinterpret_cast<const uint4 *>(from)
                                       : make_uint4(0, 0, 0, 0);
    }
    constexpr int V_ROW = GDN_COLUMNS / 8;
    int row = threadIdx.x / V_ROW, at = column + threadIdx.x % V_ROW * 8;
    f.v = make_uint4(0, 0, 0, 0);
    if (row < n && at < p.dv)
        f.v = *reinterpret_cast<const uint4 *>(p.qkv + (first + row) * p.C + 2 * key_dim +
                                               static_cast<int64_t>(hv) * p.dv + at);
    int i = threadIdx.x % gdn_fetch<NK>::ROWS;
    f.gate = 0.0f;
    if (threadIdx.x < 2 * gdn_fetch<NK>::ROWS && i < n)
        f.gate = (threadIdx.x < gdn_fetch<NK>::ROWS ? p.g : p.beta)[(first + i) * p.Hv + hv];
}

template <int NK>
__device__ static inline void gdn_stage_rows(gdn_stage<NK> &s, const gdn_fetch<NK> &f)
{
    constexpr int A_ROW = 4 * NK, ROWS = gdn_stage<NK>::ROWS;
#pragma unroll
    for (int i = 0; i < gdn_fetch<NK>::EACH; i++) {
        int piece = threadIdx.x + i * GDN_THREADS;
        int row = piece % (ROWS * A_ROW) / A_ROW, at = piece % A_ROW * 8;
        gdn_unpack(piece < ROWS * A_ROW ? &s.k[row][at] : &s.q[row][at], f.kq[i]);
    }
    constexpr int V_ROW = GDN_COLUMNS / 8;
    if (threadIdx.x < ROWS * V_ROW)
        gdn_unpack(&s.v[threadIdx.x / V_ROW][threadIdx.x % V_ROW * 8], f.v);
    if (threadIdx.x < ROWS)
        s.decay[threadIdx.x] = expf(f.gate);
    else if (threadIdx.x < 2 * ROWS)
        s.beta[threadIdx.x - ROWS] = f.gate;
}

/* The lane's part of sum a[n][e] * x[n][e]: four chains over n, joined. */
template <int NK>
__device__ static inline float gdn_dot(const float (&a)[NK][4], const float (&x)[NK][4])
{
    float sum[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        sum[e] = __fmul_rn(a[0][e], x[0][e]);
#pragma unroll
        for (int n = 1; n < NK; n++) sum[e] = __fmaf_rn(a[n][e], x[n][e], sum[e]);
    }
    return __fadd_rn(__fadd_rn(sum[0], sum[1]), __fadd_rn(sum[2], sum[3]));
}

/* N sums over the 8 lanes of a column, side by side. */
template <int N> __device__ static inline void gdn_join(float (&x)[N])
{
#pragma unroll
    for (int step = 1; step < 8; step <<= 1) {
        float other[N];
#pragma unroll
        for (int i = 0; i < N; i++) other[i] = __shfl_xor_sync(WARP_ALL, x[i], step);
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = __fadd_rn(x[i], other[i]);
    }
}

template <int NK> __device__ static inline void gdn_read(float (&x)[NK][4], const float *row, int r)
{
#pragma unroll
    for (int n = 0; n < NK; n++) {
        float4 v = *reinterpret_cast<const float4 *>(row + 32 * n + 4 * r);
        x[n][0] = v.x, x[n][1] = v.y, x[n][2] = v.z, x[n][3] = v.w;
    }
}

/* sum + a . b */
__device__ static inline float gdn_dot_four(float4 a, float4 b, float sum)
{
    sum = __fmaf_rn(a.x, b.x, sum);
    sum = __fmaf_rn(a.y, b.y, sum);
    sum = __fmaf_rn(a.z, b.z, sum);
    return __fmaf_rn(a.w, b.w, sum);
}

/* The lane's part of k . q: four values of every 128 in a row. */
template <int NK> __device__ static inline float gdn_kq_part(const float *k, const float *q)
{
    int lane = threadIdx.x & 31;
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < (NK + 3) / 4; n++) {
        int i = 128 * n + 4 * lane;
        if (NK < 4 && i >= 32 * NK) break;
        float4 a = *reinterpret_cast<const float4 *>(k + i);
        float4 b = *reinterpret_cast<const float4 *>(q + i);
        sum = gdn_dot_four(a, b, sum);
    }
    return sum;
}

/* k . q of a row in shared memory, by a warp; all lanes have it. */
template <int NK> __device__ static inline float gdn_kq(const float *k, const float *q)
{
    float sum = gdn_kq_part<NK>(k, q);
#pragma unroll
    for (int step = 16; step > 0; step >>= 1)
        sum = __fadd_rn(sum, __shfl_xor_sync(WARP_ALL, sum, step));
    return sum;
}

/* k . q of the stage's rows: a warp's rows side by side, as each waits for its exchanges. */
template <int NK> __device__ static inline void gdn_stage_kq(gdn_stage<NK> &s)
{
    constexpr int WARPS = GDN_THREADS / 32, EACH = gdn_stage<NK>::ROWS / WARPS;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    float sum[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++)
        sum[j] = gdn_kq_part<NK>(s.k[warp + j * WARPS], s.q[warp + j * WARPS]);
#pragma unroll
    for (int step = 16; step > 0; step >>= 1)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            sum[j] = __fadd_rn(sum[j], __shfl_xor_sync(WARP_ALL, sum[j], step));
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (lane == 0) s.kq[warp + j * WARPS] = sum[j];
}

/* What a lane needs of a row. */
template <int NK> struct gdn_row {
    float k[NK][4], q[NK][4], decay, beta, kq;
    float2 v;
};

template <int NK, bool WANTS_O>
__device__ static inline void gdn_row_load(gdn_row<NK> &x, const gdn_stage<NK> &s, int row, int r,
                                           int column)
{
    gdn_read<NK>(x.k, s.k[row], r);
    if (WANTS_O) gdn_read<NK>(x.q, s.q[row], r);
    x.decay = s.decay[row];
    x.beta = s.beta[row];
    if (WANTS_O) x.kq = s.kq[row];
    x.v = *reinterpret_cast<const float2 *>(&s.v[row][column]);
}

/* One position for the lane's two columns; o is made when WANTS_O. */
template <int NK, bool WANTS_O>
__device__ static inline float2 gdn_step(float (&S)[2][NK][4], const gdn_row<NK> &x)
{
    float dot[WANTS_O ? 4 : 2];
    float2 o = make_float2(0.0f, 0.0f);
    dot[0] = gdn_dot<NK>(S[0], x.k);
    dot[1] = gdn_dot<NK>(S[1], x.k);
    if (WANTS_O) {
        dot[2] = gdn_dot<NK>(S[0], x.q);
        dot[3] = gdn_dot<NK>(S[1], x.q);
    }
    gdn_join(dot);
    float d0 = __fmul_rn(x.beta, __fsub_rn(x.v.x, __fmul_rn(x.decay, dot[0])));
    float d1 = __fmul_rn(x.beta, __fsub_rn(x.v.y, __fmul_rn(x.decay, dot[1])));
#pragma unroll
    for (int n = 0; n < NK; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            S[0][n][e] = __fmaf_rn(S[0][n][e], x.decay, __fmul_rn(x.k[n][e], d0));
            S[1][n][e] = __fmaf_rn(S[1][n][e], x.decay, __fmul_rn(x.k[n][e], d1));
        }
    if (WANTS_O) {
        o.x = __fmaf_rn(d0, x.kq, __fmul_rn(x.decay, dot[2]));
        o.y = __fmaf_rn(d1, x.kq, __fmul_rn(x.decay, dot[3]));
    }
    return o;
}

/* A row's outputs, and on to the next row's. */
template <bool WANTS_O>
__device__ static inline void gdn_leave(float *&o, int64_t step, bool stores, float2 y)
{
    if (!WANTS_O) return;
    if (stores) *reinterpret_cast<float2 *>(o) = y;
    o += step;
}

/* The lane's two columns from or to memory, where a head's state is [dv, dk]: eight lanes read 128
 * bytes of a column. dk is a multiple of 4, dv of 2. */
template <int NK, bool STORES>
__device__ static inline void gdn_state(float (&S)[2][NK][4], float *at, int r, bool on, int dk)
{
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int n = 0; n < NK; n++) {
            int i = 32 * n + 4 * r;
            float4 *four = reinterpret_cast<float4 *>(at + j * dk + i);
            float(&x)[4] = S[j][n];
            if (STORES) {
                if (on && i < dk) *four = make_float4(x[0], x[1], x[2], x[3]);
            } else {
                float4 v = on && i < dk ? *four : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
            }
        }
}

/* The last three columns of p that the lane has seen after its first n rows, for a share of the
 * channels: block part of parts. */
__device__ static inline void gdn_conv_advance(const gdn_params &p, int64_t slot, int64_t first,
                                               int n, int part, int parts)
{
    for (int64_t ch = part * GDN_THREADS + threadIdx.x; ch < p.C; ch += parts * GDN_THREADS) {
        bf16 *state = p.conv_state + (slot * p.C + ch) * 3, seen[3];
#pragma unroll
        for (int i = 0; i < 3; i++) {
            int index = n - 3 + i;
            seen[i] = index >= 0 ? p.p[(first + index) * p.C + ch] : state[3 + index];
        }
#pragma unroll
        for (int i = 0; i < 3; i++) state[i] = seen[i];
    }
}

/* gdn_kernel: the rule for 32 state columns of one value head of one lane.
 *
 * Does     the recurrence of ops.h:gdn_scan_args (WANTS_O; o in f32 for gdn_norm_kernel) and of
 *          ops.h:gdn_commit_args. With `advance` state and conv_state are moved
 * Grid     (dv / 32 rounded up, and with `advance` one more for conv_state, Hv, L); 4 warps
 * Shared   two stages of 8 or 16 rows
 * Needs    dk <= 32 NK, dk and dv multiples of 8
 * Moves    the state once, or twice when it is stored; rows once a block
 * Numbers  f32 state and sums, in the order of gdn_dot and gdn_join
 * Why      a chunked rule would be cheaper for prompts, but not the same arithmetic as decode. Long
 *          prompts have a kernel of their own (gdn_long.cu), with the same bits */
template <int NK, bool WANTS_O>
__global__ void __launch_bounds__(GDN_THREADS) gdn_kernel(gdn_params p)
{
    launch_next();
    constexpr int ROWS = gdn_stage<NK>::ROWS;
    __shared__ __align__(16) gdn_stage<NK> stages[2];
    int hv = blockIdx.y, l = blockIdx.z, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int64_t first = p.lane_row[l], slot = p.lane_slot[l];
    int n_rows = p.lane_row[l + 1] - static_cast<int>(first);
    int block_column = blockIdx.x * GDN_COLUMNS, n_columns = min(p.dv - block_column, +GDN_COLUMNS);
    float *state = p.state + ((slot * p.Hv + hv) * p.dv + block_column) * p.dk;
    if (!WANTS_O && n_rows > 0 && n_columns > 0) gdn_ahead(state, n_columns * p.dk);
    launch_wait();
    int n_given = n_rows; /* rows are asked for before it is known how many of them count */
    if (p.n_commit) n_rows = min(n_rows, p.n_commit[l]);
    if (n_columns <= 0) {
        if (n_rows > 0) gdn_conv_advance(p, slot, first, n_rows, hv, gridDim.y);
        return;
    }
    int r = lane & 7, column = warp * 8 + (lane >> 3) * 2;
    bool on = block_column + column < p.dv;
    float *at = state + static_cast<int64_t>(column) * p.dk;
    gdn_fetch<NK> fetch;
    gdn_fetch_rows<NK>(fetch, p, first, min(n_given, ROWS), hv, block_column);
    float S[2][NK][4];
    gdn_state<NK, false>(S, at, r, on && n_given > 0, p.dk);
    if (n_rows <= 0) return;

    /* Outputs go to a running pointer behind a plain predicate: anything more between two rows is a
     * branch, and the compiler then keeps them from overlapping. */
    int64_t o_step = static_cast<int64_t>(p.Hv) * p.dv;
    float *o = p.o + first * o_step + static_cast<int64_t>(hv) * p.dv + block_column + column;
    bool stores = r == 0 && on;

    for (int from = 0; from < n_rows; from += ROWS) {
        gdn_stage<NK> &s = stages[from / ROWS & 1];
        gdn_stage_rows<NK>(s, fetch);
        __syncthreads(); /* the stage is filled; all are done with the other one */
        if (WANTS_O) {
            gdn_stage_kq(s);
            __syncthreads(); /* k . q is there for all */
        }
        int n = min(n_rows - from, ROWS), next = from + ROWS;
        if (next < n_rows)
            gdn_fetch_rows<NK>(fetch, p, first + next, min(n_rows - next, ROWS), hv, block_column);
#pragma unroll 2
        for (int i = 0; i < n; i++) {
            gdn_row<NK> x;
            gdn_row_load<NK, WANTS_O>(x, s, i, r, column);
            gdn_leave<WANTS_O>(o, o_step, stores, gdn_step<NK, WANTS_O>(S, x));
        }
    }
    if (p.advance) gdn_state<NK, true>(S, at, r, on, p.dk);
}

/* Launch gdn_kernel for L lanes. A commit begins early: its states are known before it may run. */
template <bool WANTS_O>
static status gdn_launch(cuda_backend *cb, const gdn_params &p, int L, const char *op)
{
    if (p.dk > 256 || p.dk % 8 || p.dv % 8)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, op, -1, "head sizes %d and %d", p.dk, p.dv);
    if (L < 1) return cb->broken;
    dim3 grid(div_up<int>(p.dv, GDN_COLUMNS) + (p.advance ? 1 : 0), p.Hv, L);
    auto kernel = p.dk <= 32    ? gdn_kernel<1, WANTS_O>
                  : p.dk <= 64  ? gdn_kernel<2, WANTS_O>
                  : p.dk <= 128 ? gdn_kernel<4, WANTS_O>
                                : gdn_kernel<8, WANTS_O>;
    cudaError_t r = launch_early(!WANTS_O && cb->sm == 90, kernel, grid, GDN_THREADS, 0, cb->stream,
                                 p);
    return cuda_status(cb, r, op, __FILE__, __LINE__);
}

#endif
