/* Prep, rule and norm of few rows in one launch: each step needs no more than a value head's own
 * values, so a block keeps them in shared memory from the projections to the gated outputs. */
#include "backend/cuda/gdn_few.cuh"

#include "backend/cuda/cluster.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/gdn_conv.cuh"
#include "backend/cuda/gdn_norm.cuh"
#include "backend/cuda/gdn_rule.cuh"
#include "backend/cuda/gdn_single.cuh"
#include "backend/cuda/launch_early.cuh"

enum {
    FEW_ROWS = 16, /* of a stage */
    FEW_DIM = 128, /* largest dk and dv */
    FEW_CLUSTER_MAX = 8,
    FEW_ROWS_MAX = 64, /* rows of a call */
};

typedef struct {
    gdn_prep_params prep;
    gdn_norm_params norm;
    float *state;
    bf16 *conv_state; /* prep.conv_state, to be moved */
    bool advance;
} gdn_few_params;

template <int NK> struct gdn_few_stage {
    float k[FEW_ROWS][32 * NK], q[FEW_ROWS][32 * NK]; /* padded with zeros */
    float v[FEW_ROWS][FEW_DIM], o[FEW_ROWS][FEW_DIM];
    float decay[FEW_ROWS], beta[FEW_ROWS], kq[FEW_ROWS];
};

/* First channel of value head hv's queries (kind 0), keys (1) or values (2). */
__device__ static inline int64_t few_channel(const gdn_prep_params &p, int kind, int hv)
{
    int64_t hk = hv / (p.Hv / p.Hk), key_dim = static_cast<int64_t>(p.Hk) * p.dk;
    return kind == 2 ? 2 * key_dim + static_cast<int64_t>(hv) * p.dv : kind * key_dim + hk * p.dk;
}

/* One vector of row `row` of the stage, as gdn_prep_kernel makes it, by a warp; to memory too when
 * `keeps`. */
template <int NK>
__device__ static inline void few_prepare(gdn_few_stage<NK> &s, const gdn_prep_params &p,
                                          const float4 *w, int kind, int row, int64_t t, int index,
                                          int64_t slot, int hv, bool keeps)
{
    int d = (threadIdx.x & 31) * 4, n = kind == 2 ? p.dv : p.dk;
    int64_t ch = few_channel(p, kind, hv) + d;
    float y[4] = {}, sum = 0.0f, scale = 1.0f;
    if (d < n) {
        uint2 x[4];
        gdn_window(x, p.p + t * p.C + ch, p.conv_state + (slot * p.C + ch) * 3, p.C, index);
        gdn_conv(x, w, y);
#pragma unroll
        for (int i = 0; i < 4; i++) sum = __fmaf_rn(y[i], y[i], sum);
    }
    if (kind < 2) {
        scale = __frsqrt_rn(warp_sum(sum) + 1e-6f);
        if (kind == 0) scale *= __frsqrt_rn(static_cast<float>(p.dk));
    }
    uint2 v = {pack_bf16(y[0] * scale, y[1] * scale), pack_bf16(y[2] * scale, y[3] * scale)};
    if (d >= n) v = make_uint2(0, 0);
    if (d < n && keeps) *reinterpret_cast<uint2 *>(p.qkv + t * p.C + ch) = v;
    float *to = kind == 0 ? s.q[row] : kind == 1 ? s.k[row] : s.v[row];
    if (kind == 2 || d < 32 * NK)
        *reinterpret_cast<float4 *>(to + d) = make_float4(bf16_low(v.x), bf16_high(v.x),
                                                          bf16_low(v.y), bf16_high(v.y));
}

/* The gates of row t, by one thread. */
template <int NK>
__device__ static inline void few_gates(gdn_few_stage<NK> &s, const gdn_prep_params &p, int row,
                                        int64_t t, int hv, float neg_A, float dt_bias)
{
    int64_t at = t * p.Hv + hv;
    float beta = act_sigmoid(__bfloat162float(p.b[at]));
    float g = neg_A * gdn_softplus(__bfloat162float(p.a[at]) + dt_bias);
    p.beta[at] = beta;
    p.g[at] = g;
    s.beta[row] = beta;
    s.decay[row] = expf(g);
}

/* conv_state of n channels from ch on, moved by the lane's n_rows rows from `first` on. */
__device__ static inline void few_conv_advance(const gdn_few_params &p, int64_t slot, int64_t first,
                                               int n_rows, int64_t ch, int n)
{
    const gdn_prep_params &in = p.prep;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        bf16 *state = p.conv_state + (slot * in.C + ch + i) * 3, seen[3];
#pragma unroll
        for (int j = 0; j < 3; j++) {
            int index = n_rows - 3 + j;
            seen[j] = index >= 0 ? in.p[(first + index) * in.C + ch + i] : state[3 + index];
        }
#pragma unroll
        for (int j = 0; j < 3; j++) state[j] = seen[j];
    }
}

/* State and conv_state behind the last row. */
template <int NK>
__device__ static inline void few_advance(const gdn_few_params &p, float (&S)[2][NK][4], float *at,
                                          int64_t slot, int64_t first, int n_rows, int hv)
{
    const gdn_prep_params &in = p.prep;
    gdn_state<NK, true>(S, at, threadIdx.x & 7, true, in.dk);
    cluster_wait(); /* all heads of the key head have read conv_state */
    few_conv_advance(p, slot, first, n_rows, few_channel(in, 2, hv), in.dv);
    if (hv % (in.Hv / in.Hk)) return;
    few_conv_advance(p, slot, first, n_rows, few_channel(in, 0, hv), in.dk);
    few_conv_advance(p, slot, first, n_rows, few_channel(in, 1, hv), in.dk);
}

/* gdn_few_kernel: all of a value head of one lane.
 *
 * Does     gdn_prep_kernel, gdn_kernel and gdn_norm_kernel, one after the other, for a few rows
 * Grid     (Hv, L) in clusters of the heads that share a key head; a warp 8 state columns
 * Shared   a stage of 16 rows
 * Needs    dk <= 32 NK, dk and dv multiples of 8 up to FEW_DIM, Hv / Hk <= FEW_CLUSTER_MAX
 * Moves    the state once, or twice when it is stored; projections once a head that reads them
 * Numbers  theirs, bit for bit
 * Why      Each of the three takes 3 to 4 us of a cycle of one lane, and nearly all of that is
 *          waiting for the one before. Heads of a key head meet before conv_state moves: all of
 *          them have read it by then. */
template <int NK> __global__ void __launch_bounds__(4 * FEW_DIM) gdn_few_kernel(gdn_few_params p)
{
    __shared__ __align__(16) gdn_few_stage<NK> s;
    launch_next();
    const gdn_prep_params &in = p.prep;
    int hv = blockIdx.x, l = blockIdx.y, group = in.Hv / in.Hk;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    /* Before there is anything to wait for: weights, and what rows there are, which no kernel
     * writes. Warps w, w + 3, .. make the vectors of one kind. */
    int kind = warp % 3, d = lane * 4;
    float4 conv_w[4];
    if (d < (kind == 2 ? in.dv : in.dk))
        gdn_conv_weights(in, few_channel(in, kind, hv) + d, conv_w);
    float neg_A = in.neg_A[hv], dt_bias = in.dt_bias[hv];
    gdn_norm_lane<GDN_NORM_EACH> norm;
    gdn_norm_weights(norm, p.norm);
    int64_t first = in.lane_row[l], slot = in.lane_slot[l];
    int n_rows = in.lane_row[l + 1] - static_cast<int>(first);
    launch_wait();
    if (n_rows <= 0) return; /* so do all heads of the lane */
    int r = lane & 7, column = warp * 8 + (lane >> 3) * 2;
    float *at = p.state + ((slot * in.Hv + hv) * in.dv + column) * in.dk;
    float S[2][NK][4];
    gdn_state<NK, false>(S, at, r, true, in.dk);
    for (int from = 0; from < n_rows; from += FEW_ROWS) {
        int n = min(n_rows - from, +FEW_ROWS);
        int64_t t = first + from;
        if (warp < n) gdn_norm_gates(norm, p.norm, (t + warp) * in.Hv + hv);
        for (int row = warp / 3; row < n && warp < warps / 3 * 3; row += warps / 3)
            few_prepare<NK>(s, in, conv_w, kind, row, t + row, from + row, slot, hv,
                            kind == 2 || hv % group == 0);
        if (warp == warps - 1 && lane < n) few_gates<NK>(s, in, lane, t + lane, hv, neg_A, dt_bias);
        __syncthreads(); /* rows are prepared; all are done with the outputs before */
        if (p.advance && n == n_rows - from) cluster_arrive(); /* conv_state has been read */
        for (int row = warp; row < n; row += warps) s.kq[row] = gdn_kq<NK>(s.k[row], s.q[row]);
        __syncthreads();
        for (int i = 0; i < n; i++) {
            gdn_row<NK> x;
            gdn_read<NK>(x.k, s.k[i], r);
            gdn_read<NK>(x.q, s.q[i], r);
            x.decay = s.decay[i], x.beta = s.beta[i], x.kq = s.kq[i];
            x.v = *reinterpret_cast<const float2 *>(&s.v[i][column]);
            float2 o = gdn_step<NK, true>(S, x);
            if (r == 0) *reinterpret_cast<float2 *>(&s.o[i][column]) = o;
        }
        if (p.advance && n == n_rows - from) few_advance<NK>(p, S, at, slot, first, n_rows, hv);
        __syncthreads(); /* outputs are there; all are done with the rows */
        for (int row = warp; row < n; row += warps) {
            if (row != warp) gdn_norm_gates(norm, p.norm, (t + row) * in.Hv + hv);
            gdn_norm_head(p.norm, norm, s.o[row], (t + row) * in.Hv + hv);
        }
    }
}

/* A block fills a processor: with half of them idle, three launches of small blocks do as well. */
static bool few_serves(const cuda_backend *cb, const gdn_prep_args *a)
{
    return cb->sm == 90 && a->rows.T <= FEW_ROWS_MAX && a->rows.L > 0 &&
           a->Hv * a->rows.L <= cb->n_sms && a->Hv * a->rows.L * 2 > cb->n_sms &&
           a->dk <= FEW_DIM && a->dv <= FEW_DIM && a->dk % 8 == 0 && a->dv % 8 == 0 &&
           a->dv >= 24 && a->Hv % a->Hk == 0 && a->Hv / a->Hk <= FEW_CLUSTER_MAX;
}

bool gdn_few_serves(const cuda_backend *cb, const gdn_prep_args *a)
{
    return gdn_single_serves(cb, a) || few_serves(cb, a);
}

bool gdn_few_takes(const cuda_backend *cb, const gdn_scan_args *a)
{
    const gdn_prep_args *w = &cb->waiting.prep;
    return cb->waiting.has_prep && w->qkv.ptr == a->qkv.ptr && w->p.ptr == a->p.ptr &&
           w->g.ptr == a->g.ptr && w->beta.ptr == a->beta.ptr &&
           w->conv_state.ptr == a->conv_state.ptr && w->rows.T == a->rows.T &&
           w->rows.L == a->rows.L && w->rows.lane_row.ptr == a->rows.lane_row.ptr &&
           w->rows.lane_slot.ptr == a->rows.lane_slot.ptr && w->Hk == a->Hk && w->Hv == a->Hv &&
           w->dk == a->dk && w->dv == a->dv;
}

status gdn_few_run(cuda_backend *cb, const gdn_scan_args *a)
{
    cb->waiting.has_prep = false;
    if (gdn_single_serves(cb, &cb->waiting.prep)) return gdn_single_run(cb, &cb->waiting.prep, a);
    gdn_few_params p = {};
    p.prep = gdn_prep_params_of(&cb->waiting.prep);
    p.norm = gdn_norm_params_of(a, nullptr);
    p.state = buf_of<float>(a->state);
    p.conv_state = buf_of<bf16>(a->conv_state);
    p.advance = a->advance;
    auto kernel = a->dk <= 32   ? gdn_few_kernel<1>
                  : a->dk <= 64 ? gdn_few_kernel<2>
                                : gdn_few_kernel<4>;
    cudaError_t r = launch_clusters(kernel, dim3(a->Hv, a->rows.L), a->Hv / a->Hk, a->dv * 4,
                                    cb->stream, p);
    return cuda_status(cb, r, "gdn_scan", __FILE__, __LINE__);
}
