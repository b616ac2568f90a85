/* The delta rule over many rows: few blocks whose warps have one thing to do. */
#include "backend/cuda/gdn_long.cuh"

#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/gdn_lane.cuh"

enum {
    LONG_DIM = 128, /* dk */
    LONG_ROWS = 8,  /* of a stage */
    LONG_HEADS = 2, /* value heads that a block touches at most */
    LONG_FROM = 32, /* rows a lane from which it pays */
    LONG_KEY_WARPS = LONG_ROWS,
};

template <int WARPS> struct gdn_long_stage {
    float k[LONG_ROWS][LONG_DIM], q[LONG_ROWS][LONG_DIM];
    float v[LONG_ROWS][WARPS * GDN_WARP_COLUMNS];
    float4 gates[LONG_ROWS][LONG_HEADS]; /* decay, beta, k . q */
};

/* What a thread brings: four queries and keys of row `row`, four values of row v_row, the gates of
 * one head of row gate_row; a row that is none of its is below the stage. Pointers run along. */
struct gdn_long_source {
    const bf16 *q, *v;
    const float *g, *beta;
    int64_t key_dim;
    int row, v_row, v_at, gate_row, gate_head;
    uint2 next_q, next_k, next_v; /* on their way */
    float next_g, next_beta;
};

template <int WARPS>
__device__ static inline void long_open(gdn_long_source &f, const gdn_params &p, int64_t first,
                                        int64_t key_head, int64_t column, int head, int heads)
{
    constexpr int COLUMNS = WARPS * GDN_WARP_COLUMNS, NONE = LONG_ROWS * 1024 * 1024;
    int thread = threadIdx.x, group = p.Hv / p.Hk;
    f.key_dim = static_cast<int64_t>(p.Hk) * LONG_DIM;
    f.row = thread >> 5;
    f.q = p.qkv + (first + f.row) * p.C + key_head * LONG_DIM + 4 * (thread & 31);
    if (f.row >= LONG_KEY_WARPS) f.row = NONE;
    if (WARPS > LONG_KEY_WARPS) thread -= 32 * LONG_KEY_WARPS; /* the others bring the rest */
    int piece = thread < 0 ? NONE : thread;
    f.v_row = piece / (COLUMNS / 4), f.v_at = piece % (COLUMNS / 4) * 4;
    f.v = p.qkv + (first + f.v_row) * p.C + 2 * f.key_dim + key_head * group * p.dv + column +
          f.v_at;
    if (f.v_row >= LONG_ROWS) f.v_row = NONE;
    piece -= LONG_ROWS * COLUMNS / 4;
    f.gate_row = piece < 0 ? NONE : piece / LONG_HEADS, f.gate_head = piece % LONG_HEADS;
    if (f.gate_row >= LONG_ROWS || f.gate_head >= heads) f.gate_row = NONE;
    int64_t at = (first + f.gate_row) * p.Hv + key_head * group + head + f.gate_head;
    f.g = p.g + at, f.beta = p.beta + at;
}

/* Start loading the next stage, of n rows. */
__device__ static inline void long_fetch(gdn_long_source &f, const gdn_params &p, int n)
{
    f.next_q = f.next_k = f.next_v = make_uint2(0, 0);
    f.next_g = f.next_beta = 0.0f;
    if (f.row < n) {
        f.next_q = *reinterpret_cast<const uint2 *>(f.q);
        f.next_k = *reinterpret_cast<const uint2 *>(f.q + f.key_dim);
    }
    if (f.v_row < n) f.next_v = *reinterpret_cast<const uint2 *>(f.v);
    if (f.gate_row < n) f.next_g = *f.g, f.next_beta = *f.beta;
    f.q += LONG_ROWS * p.C, f.v += LONG_ROWS * p.C;
    f.g += LONG_ROWS * p.Hv, f.beta += LONG_ROWS * p.Hv;
}

__device__ static inline float4 long_four(uint2 v)
{
    return make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y));
}

/* What was fetched, to its stage; the lane's part of its row's k . q comes back. */
template <int WARPS>
__device__ static inline float long_put(gdn_long_stage<WARPS> &s, const gdn_long_source &f)
{
    float4 k = long_four(f.next_k), q = long_four(f.next_q);
    if (f.row < LONG_ROWS) {
        int at = 4 * (threadIdx.x & 31);
        *reinterpret_cast<float4 *>(&s.k[f.row][at]) = k;
        *reinterpret_cast<float4 *>(&s.q[f.row][at]) = q;
    }
    if (f.v_row < LONG_ROWS)
        *reinterpret_cast<float4 *>(&s.v[f.v_row][f.v_at]) = long_four(f.next_v);
    if (f.gate_row < LONG_ROWS)
        *reinterpret_cast<float2 *>(&s.gates[f.gate_row][f.gate_head]) = make_float2(expf(f.next_g),
                                                                                     f.next_beta);
    return gdn_dot_four(k, q, 0.0f); /* gdn_kq_part of a row of 128 */
}
template <int WARPS>
__device__ static inline void long_put_kq(gdn_long_stage<WARPS> &s, const gdn_long_source &f,
                                          float kq)
{
    int lane = threadIdx.x & 31;
    if (f.row < LONG_ROWS && lane < LONG_HEADS) s.gates[f.row][lane].z = kq;
}
__device__ static inline float long_kq_step(float kq, int step)
{
    return __fadd_rn(kq, __shfl_xor_sync(WARP_ALL, kq, step));
}

template <int WARPS>
__device__ static inline float long_row(float (&S)[4][4], const gdn_long_stage<WARPS> &s, int row,
                                        int r, int column, int head)
{
    gdn_lane_row<4> x;
    gdn_read<4>(x.k, s.k[row], r);
    gdn_read<4>(x.q, s.q[row], r);
    float4 gates = s.gates[row][head];
    x.decay = gates.x, x.beta = gates.y, x.kq = gates.z;
    x.v = s.v[row][column];
    return gdn_lane_step<4, true>(S, x);
}

/* gdn_long_kernel: the rule for some state columns of one key head's value heads of one lane.
 *
 * Does     what gdn_kernel does, o in f32
 * Grid     (columns of a group / (4 WARPS), and with `advance` one more for conv_state, Hk, L); a
 *          warp for 4 columns
 * Shared   two stages of 8 rows: one is computed, the other filled
 * Needs    dk = LONG_DIM, whole blocks of columns, dv a multiple of 4 and at least a block's
 * Moves    the state twice, rows once a block
 * Numbers  gdn_kernel's, bit for bit
 * Why      A processor has 46 (27B) or 31 (35B) columns, which are 12 or 8 warps here, one block on
 *          each of 128 processors; with gdn_kernel's 8 columns a warp some have twice what others
 *          have. What is not the recurrence counts: a third of all instructions was bringing rows.
 *          Here a warp brings one row's keys and queries with two loads, makes their product from
 *          registers, and meets over it between the rows of the stage before */
template <int WARPS> __global__ void __launch_bounds__(32 * WARPS, 1) gdn_long_kernel(gdn_params p)
{
    launch_join();
    constexpr int COLUMNS = WARPS * GDN_WARP_COLUMNS;
    __shared__ __align__(16) gdn_long_stage<WARPS> stages[2];
    int l = blockIdx.z, lane = threadIdx.x & 31, r = lane >> 2, group = p.Hv / p.Hk;
    int64_t first = p.lane_row[l], slot = p.lane_slot[l], key_head = blockIdx.y;
    int n_rows = p.lane_row[l + 1] - static_cast<int>(first);
    if (n_rows <= 0) return;
    int block_column = blockIdx.x * COLUMNS;
    if (block_column >= group * p.dv) {
        gdn_conv_advance(p, slot, first, n_rows, blockIdx.y, gridDim.y);
        return;
    }
    int column = (threadIdx.x >> 5) * GDN_WARP_COLUMNS + (lane & 3);
    int first_head = block_column / p.dv, head = (block_column + column) / p.dv - first_head;
    int heads = (block_column + COLUMNS - 1) / p.dv - first_head + 1;
    gdn_long_source f;
    long_open<WARPS>(f, p, first, key_head, block_column, first_head, heads);
    long_fetch(f, p, n_rows);
    int64_t in_row = key_head * group * p.dv + block_column + column, o_step = int64_t(p.Hv) * p.dv;
    float *state = p.state + (slot * o_step + in_row) * LONG_DIM;
    float S[4][4];
    gdn_lane_load<4>(S, state, r, LONG_DIM);
    float kq = long_put(stages[0], f);
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) kq = long_kq_step(kq, step);
    long_put_kq(stages[0], f, kq);
    int left = n_rows;
    long_fetch(f, p, left - LONG_ROWS);
    float *o = p.o + first * o_step + in_row;
    int now = 0;
    for (; left >= LONG_ROWS; left -= LONG_ROWS, now ^= 1) {
        __syncthreads(); /* stage `now` is filled; all are done with the other one */
        const gdn_long_stage<WARPS> &s = stages[now];
        gdn_long_stage<WARPS> &next = stages[now ^ 1];
        kq = long_put(next, f);
        long_fetch(f, p, left - 2 * LONG_ROWS);
#pragma unroll
        for (int i = 0; i < LONG_ROWS / 2; i++) {
            kq = long_kq_step(kq, 16 >> i);
            float y = long_row(S, s, i, r, column, head);
            if (r == 0) *o = y;
            o += o_step;
        }
        kq = long_kq_step(kq, 1);
        long_put_kq(next, f, kq);
#pragma unroll
        for (int i = LONG_ROWS / 2; i < LONG_ROWS; i++) {
            float y = long_row(S, s, i, r, column, head);
            if (r == 0) *o = y;
            o += o_step;
        }
    }
    __syncthreads(); /* the last stage is filled */
#pragma unroll 1
    for (int i = 0; i < left; i++) {
        float y = long_row(S, stages[now], i, r, column, head);
        if (r == 0) *o = y;
        o += o_step;
    }
    if (p.advance) gdn_lane_store<4>(S, state, r, LONG_DIM);
}

/* Warps of a block: as many columns as give no processor two blocks, else the larger block. */
static int long_warps(const cuda_backend *cb, const gdn_params &p, int L)
{
    int columns = p.Hv / p.Hk * p.dv;
    if (columns % 32 == 0 && p.dv >= 32 && columns / 32 * p.Hk * L <= cb->n_sms) return 8;
    if (columns % 48 == 0 && p.dv >= 48) return 12;
    return columns % 32 == 0 && p.dv >= 32 ? 8 : 0;
}

bool gdn_long_serves(const cuda_backend *cb, const gdn_params &p, int T, int L)
{
    return L > 0 && T >= LONG_FROM * L && p.dk == LONG_DIM && p.dv % GDN_WARP_COLUMNS == 0 &&
           long_warps(cb, p, L) > 0;
}

status gdn_long_run(cuda_backend *cb, const gdn_params &p, int L)
{
    int warps = long_warps(cb, p, L);
    dim3 grid(p.Hv / p.Hk * p.dv / (warps * GDN_WARP_COLUMNS) + (p.advance ? 1 : 0), p.Hk, L);
    if (warps == 12)
        gdn_long_kernel<12><<<grid, 32 * 12, 0, cb->stream>>>(p);
    else
        gdn_long_kernel<8><<<grid, 32 * 8, 0, cb->stream>>>(p);
    return CUDA_LAUNCHED(cb);
}
