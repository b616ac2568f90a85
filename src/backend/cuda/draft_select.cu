/* The drafter's walk (ops.h:draft_select_args), with the policy and the noise of sample. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/dequant.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/sample_rule.cuh"
#include "backend/cuda/vec_load.cuh"

enum {
    SELECT_RANK_MAX = 256,
    SELECT_EACH = SELECT_RANK_MAX / 32, /* codebook values of a lane */
    SELECT_THREADS = 32 * OPS_TOPK_MAX, /* a warp a candidate */
};

typedef struct {
    const int32_t *ids, *anchor, *anchor_pos, *lane_slot, *lane_row, *n_draft;
    const float *vals;
    const bf16 *r;
    dequant_table pred, succ;
    const sample_policy *policy;
    const sample_bias *bias;
    const uint32_t *counts;
    int32_t *proposals, *verify_ids;
    int B, k, R, V;
    bool has_edges;
} select_params;

/* Codebook rows of a position's candidates, and its row of r; zeros behind R. T is bf16 where the
 * tables are, which then come as they are, else f32. */
template <typename T> struct select_place {
    T pred[OPS_TOPK_MAX][SELECT_RANK_MAX], succ[OPS_TOPK_MAX][SELECT_RANK_MAX];
    bf16 r[SELECT_RANK_MAX];
};

/* Places of shared memory, position i in place i % PLACES: 3 are enough; SELECT_PLACES, where there
 * is room, hold all of a block of 8, which then are on their way at once. */
enum { SELECT_PLACES = 8, SELECT_PLACES_LEAST = 3 };

typedef struct {
    int id[OPS_ROWS_MAX][OPS_TOPK_MAX]; /* of position i + 1 */
    float score[2][OPS_TOPK_MAX]; /* by turns: the slowest warp may still read the last ones */
} select_shared;

/* Start filling a row of a place by one warp, from row `row` of a table. */
__device__ static inline void select_stage_row(bf16 *to, const dequant_table &t, int row, int R)
{
    int m = (threadIdx.x & 31) * SELECT_EACH;
    copy_async_16(to + m, t.data + row * t.row_bytes + (m < R ? m : 0) * 2, m < R);
}
__device__ static inline void select_stage_row(float *to, const dequant_table &t, int row, int R)
{
    for (int m = threadIdx.x & 31; m < SELECT_RANK_MAX; m += 32)
        to[m] = m < R ? dequant_table_at(t, row, m) : 0.0f;
}

/* The same of r; whole pieces where T says so. */
template <typename T> __device__ static inline void select_stage_r(bf16 *to, const bf16 *r, int R)
{
    if constexpr (sizeof(T) == 2) {
        int m = (threadIdx.x & 31) * SELECT_EACH;
        copy_async_16(to + m, r + (m < R ? m : 0), m < R);
    } else {
        for (int m = threadIdx.x & 31; m < SELECT_RANK_MAX; m += 32)
            to[m] = m < R ? r[m] : __float2bfloat16_rn(0.0f);
    }
}

/* Start loading what position i needs of candidate c, whose ids lane i - 1 holds. Position 0 has
 * one candidate, the anchor; nobody follows the last. */
template <typename T, int PLACES>
__device__ static inline void select_stage(select_place<T> *places, const select_params &p, int i,
                                           int n_draft, int c, int ids)
{
    if (!p.has_edges || i > n_draft || c >= p.k) return;
    select_place<T> &to = places[i % PLACES];
    int l = blockIdx.x;
    if (i == 0) {
        if (c == 0) select_stage_row(to.pred[0], p.pred, p.anchor[l], p.R);
        return;
    }
    int id = max(__shfl_sync(WARP_ALL, ids, i - 1), 0);
    if (i < n_draft) select_stage_row(to.pred[c], p.pred, id, p.R);
    select_stage_row(to.succ[c], p.succ, id, p.R);
    int64_t row = static_cast<int64_t>(l) * (p.B - 1) + i - 1;
    if (c == 0) select_stage_r<T>(to.r, p.r + row * p.R, p.R);
}

/* A lane's values of a staged row. */
__device__ static inline void select_values(float (&x)[SELECT_EACH], const bf16 *row)
{
    uint4 v = *reinterpret_cast<const uint4 *>(row + (threadIdx.x & 31) * SELECT_EACH);
    uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < SELECT_EACH; j++) x[j] = j % 2 ? bf16_high(w[j / 2]) : bf16_low(w[j / 2]);
}
__device__ static inline void select_values(float (&x)[SELECT_EACH], const float *row)
{
#pragma unroll
    for (int j = 0; j < SELECT_EACH; j++) x[j] = row[(threadIdx.x & 31) * SELECT_EACH + j];
}

/* The edge from a predecessor to candidate c, by one warp. */
template <typename T>
__device__ static inline float select_edge(const T *pred, const select_place<T> &at, int c)
{
    float a[SELECT_EACH], b[SELECT_EACH], r[SELECT_EACH], edge = 0.0f;
    select_values(a, pred);
    select_values(b, at.succ[c]);
    select_values(r, at.r);
#pragma unroll
    for (int j = 0; j < SELECT_EACH; j++) edge = __fmaf_rn(__fmul_rn(a[j], r[j]), b[j], edge);
    return warp_sum(edge);
}

/* The bias of an id, found by a warp; ids of a lane's biases are distinct. */
__device__ static inline float select_bias(const sample_bias *bias, int n, int id)
{
    for (int from = 0; from < n; from += 32) {
        int i = from + (threadIdx.x & 31);
        float value = i < n && bias[i].id == id ? bias[i].value : 0.0f;
        unsigned hit = __ballot_sync(WARP_ALL, i < n && bias[i].id == id);
        if (hit) return __shfl_sync(WARP_ALL, value, __ffs(hit) - 1);
    }
    return 0.0f;
}

/* Whether candidate `lane` survives the filters; one warp, lanes from k on have z -inf. */
__device__ static inline bool select_survives(const sample_policy &p, float z, int id)
{
    float max = warp_max(z);
    bool on = z >= sample_least(p, max) && z > -INFINITY;
    unsigned all = __ballot_sync(WARP_ALL, on);
    double mass = on ? exp(static_cast<double>(z) - static_cast<double>(max)) : 0.0;
    int n = __popc(all), rank = 0;
    for (int j = 0; j < OPS_TOPK_MAX; j++) {
        float z_j = __shfl_sync(WARP_ALL, z, j);
        int id_j = __shfl_sync(WARP_ALL, id, j);
        if ((all >> j & 1) && (z_j > z || (z_j == z && id_j < id))) rank++;
    }
    if (p.top_k > 0 && p.top_k < n) on = on && rank < p.top_k;
    if (p.top_p < 1.0f) {
        double total = 0.0, above = 0.0;
        unsigned kept = __ballot_sync(WARP_ALL, on);
        for (int j = 0; j < OPS_TOPK_MAX; j++) {
            double m = __shfl_sync(WARP_ALL, mass, j);
            int rank_j = __shfl_sync(WARP_ALL, rank, j);
            if (!(kept >> j & 1)) continue;
            total += m;
            if (rank_j < rank) above += m;
        }
        on = on && (rank == 0 || above < static_cast<double>(p.top_p) * total);
    }
    return on;
}

/* The chosen candidate of position i (`pos` of the lane), by any warp; counts: the lane's own, NULL
 * without penalties. Lane j holds the path's token j, of which there are i - 1. */
__device__ static inline int select_choose(const select_params &p, const sample_policy &policy,
                                           const uint32_t *counts, const select_shared &s, int path,
                                           int i, int64_t pos)
{
    int c = threadIdx.x & 31, id = c < p.k ? s.id[i - 1][c] : INT32_MAX;
    float y = c < p.k ? s.score[i & 1][c] : -INFINITY;
    if (counts) {
        int n_own = 0;
        for (int j = 0; j < i - 1; j++) n_own += __shfl_sync(WARP_ALL, path, j) == id;
        if (c < p.k) y = sample_penalise(policy, y, counts[max(id, 0)], n_own);
    }
    sample_choice best = sample_none();
    if (policy.temperature > 0.0f) {
        float z = sample_scale(policy, y);
        bool on = select_survives(policy, z, id);
        if (on) {
            rng_key key = rng_row_key(policy.seed, policy.choice, pos);
            best = sample_noisy(key, id, z);
            best.id = c; /* ties go to the better unary rank */
        }
    } else if (c < p.k) {
        best.v = static_cast<double>(y);
        best.id = c;
    }
    best = sample_warp_best(best);
    return best.id < p.k ? best.id : 0;
}

/* draft_select_kernel: one lane's walk.
 *
 * Does     the op of ops.h:draft_select_args
 * Grid     L; a warp a candidate; every warp chooses for itself, so that a position is one barrier
 * Shared   PLACES positions: the predecessor rows of all candidates, as any may be chosen
 * Needs    k <= OPS_TOPK_MAX, R <= SELECT_RANK_MAX, B <= OPS_ROWS_MAX; with T bf16 whole 16-byte
 *          pieces of rows
 * Moves    two codebook rows a candidate
 * Why      loads wait for ids alone, never for a choice: they are started before the walk */
template <typename T, int PLACES>
__global__ void __launch_bounds__(SELECT_THREADS) draft_select_kernel(select_params p)
{
    launch_join();
    extern __shared__ __align__(16) char staged[];
    __shared__ select_shared s;
    select_place<T> *places = reinterpret_cast<select_place<T> *>(staged);
    int l = blockIdx.x, c = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int n_draft = min(p.n_draft[l], p.B - 1);
    int32_t *proposals = p.proposals + static_cast<int64_t>(l) * (p.B - 1);
    for (int i = max(n_draft, 0) + threadIdx.x; i < p.B - 1; i += SELECT_THREADS) proposals[i] = -1;
    if (n_draft <= 0) return;
    int64_t slot = p.lane_slot[l], row = static_cast<int64_t>(l) * (p.B - 1);
    /* Candidate c of position lane + 1. A place without one has id -1 and value -inf. */
    int ids = -1;
    float value = 0.0f;
    if (c < p.k && lane < n_draft) {
        ids = p.ids[(row + lane) * p.k + c];
        value = p.vals[(row + lane) * p.k + c];
        s.id[lane][c] = ids;
    }
#pragma unroll
    for (int i = 0; i < PLACES - 1; i++) {
        select_stage<T, PLACES>(places, p, i, n_draft, c, ids);
        copy_async_commit();
    }
    const sample_policy policy = p.policy[slot];
    const uint32_t *counts = p.counts && sample_has_penalty(policy) ? p.counts + slot * p.V
                                                                    : nullptr;
    int64_t anchor_pos = p.anchor_pos[l];
    int first_row = p.lane_row[l], chosen = 0, path = -1;
    copy_async_wait<PLACES - 3>();
    __syncthreads(); /* positions 0 and 1 are there for all */
    for (int i = 1; i <= n_draft; i++) {
        /* In the place of position i - 2, which all have left. */
        select_stage<T, PLACES>(places, p, i + PLACES - 2, n_draft, c, ids);
        copy_async_commit();
        if (c < p.k) {
            float edge = 0.0f;
            if (p.has_edges)
                edge = select_edge<T>(places[(i - 1) % PLACES].pred[chosen], places[i % PLACES], c);
            int id = __shfl_sync(WARP_ALL, ids, i - 1);
            float unary = __shfl_sync(WARP_ALL, value, i - 1);
            float bias = select_bias(p.bias + slot * OPS_BIAS_MAX, policy.n_bias, id);
            if (lane == 0) s.score[i & 1][c] = __fadd_rn(__fadd_rn(unary, edge), bias);
        }
        copy_async_wait<PLACES - 3>();
        __syncthreads(); /* all scores are there, and position i + 1 */
        chosen = select_choose(p, policy, counts, s, path, i, anchor_pos + i);
        int id = s.id[i - 1][chosen];
        if (lane == i - 1) path = id;
        if (threadIdx.x == 0) {
            proposals[i - 1] = id;
            p.verify_ids[first_row + i] = id;
        }
    }
}

template <typename T, int PLACES>
static status select_launch(cuda_backend *cb, const select_params &p, int L)
{
    constexpr int BYTES = PLACES * static_cast<int>(sizeof(select_place<T>));
    CUDA_TRY(cb, cudaFuncSetAttribute(draft_select_kernel<T, PLACES>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    return cuda_status(cb,
                       launch_early(cb->sm == 90, draft_select_kernel<T, PLACES>, dim3(L),
                                    SELECT_THREADS, p.has_edges ? BYTES : 0, cb->stream, p),
                       "draft_select", __FILE__, __LINE__);
}

/* Whether rows can be copied as they are. */
static bool select_is_whole(const dequant_table *t, int R)
{
    return t->type == DTYPE_BF16 && R % 8 == 0 && t->K % 8 == 0 &&
           reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
}

extern "C" status cuda_draft_select(backend *b, const draft_select_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->k > OPS_TOPK_MAX || a->R > SELECT_RANK_MAX || a->B > OPS_ROWS_MAX)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "draft_select", -1,
                       "%d candidates, rank %d, block %d", a->k, a->R, a->B);
    if (a->L < 1 || a->B < 2) return cb->broken;
    select_params p = {};
    p.ids = buf_of<int32_t>(a->ids);
    p.vals = buf_of<float>(a->vals);
    p.r = buf_of<bf16>(a->r);
    p.has_edges = a->pred != nullptr;
    if (p.has_edges) {
        p.pred = dequant_table_of(a->pred);
        p.succ = dequant_table_of(a->succ);
    }
    p.anchor = buf_of<int32_t>(a->anchor);
    p.anchor_pos = buf_of<int32_t>(a->anchor_pos);
    p.lane_slot = buf_of<int32_t>(a->lane_slot);
    p.lane_row = buf_of<int32_t>(a->lane_row);
    p.n_draft = buf_of<int32_t>(a->n_draft);
    p.policy = buf_of<sample_policy>(a->lanes.policy);
    p.bias = buf_of<sample_bias>(a->lanes.bias);
    p.counts = buf_of<uint32_t>(a->lanes.counts);
    p.proposals = buf_of<int32_t>(a->proposals);
    p.verify_ids = buf_of<int32_t>(a->verify_ids);
    p.B = a->B, p.k = a->k, p.R = a->R, p.V = a->V;
    bool is_whole = p.has_edges && select_is_whole(&p.pred, a->R) &&
                    select_is_whole(&p.succ, a->R) && reinterpret_cast<uintptr_t>(p.r) % 16 == 0;
    int64_t most = SELECT_PLACES * sizeof(select_place<bf16>) + sizeof(select_shared);
    if (!is_whole) return select_launch<float, SELECT_PLACES_LEAST>(cb, p, a->L);
    if (most > cb->smem_block_max) return select_launch<bf16, SELECT_PLACES_LEAST>(cb, p, a->L);
    return select_launch<bf16, SELECT_PLACES>(cb, p, a->L);
}
