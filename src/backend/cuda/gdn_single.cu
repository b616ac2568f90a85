/* Prep, rule and norm of one lane's rows in one launch: no step needs more than a key head's own
 * values, so a cluster keeps them in shared memory from the projections to the gated outputs. */
#include "backend/cuda/gdn_single.cuh"

#include "backend/cuda/cluster.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/gdn_conv.cuh"
#include "backend/cuda/gdn_lane.cuh"
#include "backend/cuda/gdn_norm.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/tma.cuh"

enum {
    SINGLE_ROWS = 3,  /* of a call: with more three launches are as fast */
    SINGLE_DIM = 128, /* largest dk and dv */
    SINGLE_WARPS_MIN = 4,
    SINGLE_WARPS_MAX = 12,
    SINGLE_COLUMNS_MAX = SINGLE_WARPS_MAX * GDN_WARP_COLUMNS, /* of a block */
    SINGLE_GROUP_MAX = 8,                                     /* value heads of a key head */
    SINGLE_CLUSTER_MAX = 8,
};

typedef struct {
    gdn_prep_params prep;
    gdn_norm_params norm;
    float *state;
    bf16 *conv_state; /* prep.conv_state, to be moved */
    int log_blocks;   /* of the blocks of a key head: its cluster */
    int group;        /* value heads of a key head */
    int columns;      /* state columns of a block */
    int teams;        /* three warps that prepare rows: queries, keys, values */
    bool advance;
} gdn_single_params;

template <int NK> struct gdn_single_shared {
    float k[SINGLE_ROWS][32 * NK], q[SINGLE_ROWS][32 * NK]; /* padded with zeros */
    float v[SINGLE_ROWS][SINGLE_COLUMNS_MAX];
    float2 gates[SINGLE_ROWS][SINGLE_GROUP_MAX];      /* decay and beta of a row's heads */
    float o[SINGLE_CLUSTER_MAX * SINGLE_COLUMNS_MAX]; /* all heads of the block's share of rows */
    uint64_t outputs;                                 /* barrier: they have come */
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 /* no other device is asked */

/* One vector of a row from its window, as gdn_prep_kernel makes it, by a warp: four channels of a
 * lane. kind: 0 q, 1 k, 2 v. */
__device__ static inline uint2 single_vector(const uint2 (&x)[4], const float4 *w, int kind,
                                             bool on, int dk)
{
    float y[4] = {}, sum = 0.0f, scale = 1.0f;
    if (on) gdn_conv(x, w, y);
#pragma unroll
    for (int i = 0; i < 4; i++) sum = __fmaf_rn(y[i], y[i], sum);
    if (kind < 2) scale = __frsqrt_rn(warp_sum(sum) + 1e-6f);
    if (kind == 0) scale *= __frsqrt_rn(static_cast<float>(dk));
    return make_uint2(pack_bf16(y[0] * scale, y[1] * scale), pack_bf16(y[2] * scale, y[3] * scale));
}

/* v to the word of block `block` of the cluster that lies where `at` lies in this one; that block's
 * barrier at `barrier` counts its 4 bytes. */
__device__ static inline void single_send(uint32_t at, uint32_t barrier, int block, float v)
{
    asm volatile(
        "{.reg .u32 a, b;\n"
        "mapa.shared::cluster.u32 a, %0, %2;\n"
        "mapa.shared::cluster.u32 b, %1, %2;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [a], %3, [b];}" ::"r"(at),
        "r"(barrier), "r"(block), "r"(__float_as_uint(v)));
}

/* As cluster_arrive for who has only read: nothing that was written is waited for. */
__device__ static inline void single_arrive()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/* gdn_single_kernel: all of a key head of one lane by a cluster.
 *
 * Does     gdn_prep_kernel, gdn_kernel and gdn_norm_kernel, one after the other, for a few rows
 * Grid     (blocks of a key head, Hk) in clusters of the first; a block has an equal part of the
 *          group's state columns, a warp 4 of them. The last warp makes the gates, the others in
 *          teams of three queries, keys and values of every teams-th row; block i norms all heads
 *          of rows i, i + blocks, ..
 * Shared   the rows; outputs of the block's rows, which come from all blocks
 * Needs    dk <= 32 NK, dk and dv multiples of 8 up to SINGLE_DIM, 4 to 12 warps a block
 * Moves    the state once, or twice when it is stored; projections once a block that reads them
 * Numbers  theirs, bit for bit
 * Why      Each of the three takes 3 to 4 us of a cycle of one lane, and nearly all of that is
 *          waiting for the one before. What runs once is bound by fetching its instructions, so
 *          every step stands here once, in loops that are not unrolled. conv_state moves when all
 *          blocks of the cluster have read it. */
template <int NK>
__global__ void __launch_bounds__(32 * SINGLE_WARPS_MAX, 2) gdn_single_kernel(gdn_single_params p)
{
    __shared__ __align__(16) gdn_single_shared<NK> s;
    launch_next();
    const gdn_prep_params &in = p.prep;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5, r = lane >> 2;
    int rank = blockIdx.x, blocks = 1 << p.log_blocks;
    if (threadIdx.x == 0) {
        tma_barrier_init(&s.outputs, 1);
        tma_barrier_fence();
    }
    cluster_arrive();
    /* Before there is anything to wait for: weights, and what rows there are, which no kernel
     * writes. */
    int64_t first = in.lane_row[0], slot = in.lane_slot[0];
    int n = in.lane_row[1] - static_cast<int>(first);
    int head = blockIdx.y * p.group, column = rank * p.columns; /* first of the group, the block */
    float *state = p.state + ((slot * in.Hv + head) * in.dv + column) * in.dk;
    if (n > 0) gdn_ahead(state, p.columns * in.dk);

    int team = warp / 3, kind = warp - 3 * team, d = 4 * lane;
    bool is_value = kind == 2, prepares = team < p.teams;
    int ch = is_value ? 2 * in.Hk * in.dk + head * in.dv + column
                      : (kind * in.Hk + static_cast<int>(blockIdx.y)) * in.dk;
    bool on = prepares && d < (is_value ? p.columns : in.dk);
    const bf16 *rows = in.p + first * in.C + ch + d;
    bf16 *old = p.conv_state + (slot * in.C + ch + d) * 3;
    if (on && n > 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(old));
    float4 conv_w[4] = {};
    if (on) gdn_conv_weights(in, ch + d, conv_w);

    bool is_gate_warp = warp == warps - 1;
    int gate_row = lane / p.group, gate_head = lane - gate_row * p.group;
    float neg_A = 0.0f, dt_bias = 0.0f;
    if (is_gate_warp) neg_A = in.neg_A[head + gate_head], dt_bias = in.dt_bias[head + gate_head];
    int norm_row = warp / p.group, norm_head = warp - norm_row * p.group; /* row: of the block's */
    gdn_norm_lane<4> norm;
    gdn_norm_weights(norm, p.norm);

    int in_block = warp * GDN_WARP_COLUMNS + (lane & 3);
    int own_head = (column + in_block) / in.dv, own_d = column + in_block - own_head * in.dv;
    state += static_cast<int64_t>(in_block) * in.dk;
    uint32_t o_at = shared_address(s.o) + static_cast<uint32_t>(4 * (own_head * in.dv + own_d));
    uint32_t o_row = static_cast<uint32_t>(4 * p.group * in.dv),
             barrier = shared_address(&s.outputs);
    cluster_wait(); /* all blocks have begun, and their barriers stand */
    launch_wait();
    if (n <= 0) return; /* so do all blocks of the cluster */

    float S[NK][4];
    uint2 x[4] = {}; /* the window of the warp's last row */
    int row = team, own_rows = n > rank ? ((n - rank - 1) >> p.log_blocks) + 1 : 0;
    if (on && row < n) gdn_window(x, rows + row * in.C, old, in.C, row);
    gdn_lane_load<NK>(S, state, r, in.dk);
    if (norm_row < own_rows) {
        int64_t of = (first + rank + (norm_row << p.log_blocks)) * in.Hv + head + norm_head;
        gdn_norm_gates(norm, p.norm, of);
    }
    if (threadIdx.x == 0 && own_rows > 0) tma_arrive_expect(&s.outputs, own_rows * o_row);
    if (is_gate_warp && gate_row < n) { /* 32 lanes are rows enough */
        int64_t at = (first + gate_row) * in.Hv + head + gate_head;
        float beta = act_sigmoid(__bfloat162float(in.b[at]));
        float g = neg_A * gdn_softplus(__bfloat162float(in.a[at]) + dt_bias);
        s.gates[gate_row][gate_head] = make_float2(expf(g), beta);
        if (rank == 0) in.beta[at] = beta, in.g[at] = g;
    }
#pragma unroll 1
    for (; prepares && row < n;) {
        uint2 y = single_vector(x, conv_w, kind, on, in.dk);
        float *to = kind == 0 ? s.q[row] : kind == 1 ? s.k[row] : s.v[row];
        if (d < (is_value ? p.columns : 32 * NK))
            *reinterpret_cast<float4 *>(to + d) = make_float4(bf16_low(y.x), bf16_high(y.x),
                                                              bf16_low(y.y), bf16_high(y.y));
        if (on && (is_value || rank == 0))
            *reinterpret_cast<uint2 *>(in.qkv + (first + row) * in.C + ch + d) = y;
        row += p.teams;
        if (row >= n) break;
        if (on) gdn_window(x, rows + row * in.C, old, in.C, row);
    }
    __syncthreads(); /* rows are prepared */
    single_arrive(); /* conv_state has been read */
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        gdn_lane_row<NK> y;
        gdn_read<NK>(y.k, s.k[i], r);
        gdn_read<NK>(y.q, s.q[i], r);
        float2 gates = s.gates[i][own_head];
        y.decay = gates.x, y.beta = gates.y, y.kq = gdn_kq<NK>(s.k[i], s.q[i]);
        y.v = s.v[i][in_block];
        float o = gdn_lane_step<NK, true>(S, y);
        if (r == 0) single_send(o_at + (i >> p.log_blocks) * o_row, barrier, i & (blocks - 1), o);
    }
    if (p.advance) gdn_lane_store<NK>(S, state, r, in.dk);
    if (norm_row < own_rows) {
        tma_wait(&s.outputs, 0);
        int i = norm_row, h = norm_head;
#pragma unroll 1
        for (;;) {
            int64_t of = (first + rank + (i << p.log_blocks)) * in.Hv + head + h;
            gdn_norm_head(p.norm, norm, s.o + (i * p.group + h) * in.dv, of);
            h += warps;
            while (h >= p.group) h -= p.group, i++;
            if (i >= own_rows) break;
            gdn_norm_gates(norm, p.norm, (first + rank + (i << p.log_blocks)) * in.Hv + head + h);
        }
    }
    cluster_wait(); /* all blocks have read conv_state */
    if (p.advance && on && (n - 1) % p.teams == team && (is_value || rank == 0))
        gdn_window_end(x, old);
}
#else
template <int NK> __global__ void gdn_single_kernel(gdn_single_params)
{
}
#endif

/* Blocks of a key head's cluster as a power of two, -1 when none fit: as many as give each at least
 * SINGLE_WARPS_MIN warps. */
static int single_log_blocks(int Hk, int Hv, int dv)
{
    int columns = Hv / Hk * dv;
    for (int log = 3; log >= 0; log--) {
        int warps = columns / GDN_WARP_COLUMNS >> log;
        if (columns % (GDN_WARP_COLUMNS << log) == 0 && warps >= SINGLE_WARPS_MIN)
            return warps <= SINGLE_WARPS_MAX ? log : -1;
    }
    return -1;
}

bool gdn_single_serves(const cuda_backend *cb, const gdn_prep_args *a)
{
    return cb->sm == 90 && a->rows.L == 1 && a->rows.T <= SINGLE_ROWS && a->dk <= SINGLE_DIM &&
           a->dv <= SINGLE_DIM && a->dk % 8 == 0 && a->dv % 8 == 0 && a->Hv % a->Hk == 0 &&
           a->Hv / a->Hk <= SINGLE_GROUP_MAX && single_log_blocks(a->Hk, a->Hv, a->dv) >= 0;
}

status gdn_single_run(cuda_backend *cb, const gdn_prep_args *prep, const gdn_scan_args *a)
{
    gdn_single_params p = {};
    p.prep = gdn_prep_params_of(prep);
    p.norm = gdn_norm_params_of(a, nullptr);
    p.state = buf_of<float>(a->state);
    p.conv_state = buf_of<bf16>(a->conv_state);
    p.log_blocks = single_log_blocks(a->Hk, a->Hv, a->dv);
    p.group = a->Hv / a->Hk;
    p.columns = p.group * a->dv >> p.log_blocks;
    int warps = p.columns / GDN_WARP_COLUMNS;
    p.teams = (warps - 1) / 3;
    p.advance = a->advance;
    auto kernel = a->dk <= 32   ? gdn_single_kernel<1>
                  : a->dk <= 64 ? gdn_single_kernel<2>
                                : gdn_single_kernel<4>;
    cudaError_t r = launch_clusters(kernel, dim3(1u << p.log_blocks, a->Hk), 1 << p.log_blocks,
                                    warps * 32, cb->stream, p);
    return cuda_status(cb, r, "gdn_scan", __FILE__, __LINE__);
}
