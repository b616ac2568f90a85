/* The drafter's walk (ops.h:draft_select_args), with the policy and the noise of sample. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/dequant.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/sample_rule.cuh"

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

/* What one warp knows of its candidate at one position; on its way one position ahead. */
typedef struct {
    int id;
    float value; /* unary */
    uint32_t word;
    float succ[SELECT_EACH], r[SELECT_EACH], pred[SELECT_EACH];
} select_candidate;

typedef struct {
    /* Codebook rows of this position's candidates, and of the last one's. */
    float pred[2][OPS_TOPK_MAX][SELECT_RANK_MAX];
    float score[OPS_TOPK_MAX];
    int id[OPS_TOPK_MAX];
    uint32_t word[OPS_TOPK_MAX];
    int chosen;
} select_shared;

/* A codebook row, every 32nd value by lane; zeros behind R. */
__device__ static inline void select_row(float (&x)[SELECT_EACH], const dequant_table &t, int row,
                                         int R)
{
#pragma unroll
    for (int j = 0; j < SELECT_EACH; j++) {
        int m = (threadIdx.x & 31) + 32 * j;
        x[j] = m < R ? dequant_table_at(t, row, m) : 0.0f;
    }
}

/* Start loading candidate c of row `row`. A place without one has id -1 and value -inf. */
__device__ static inline void select_load(select_candidate &x, const select_params &p, int64_t row,
                                          int c, int64_t slot)
{
    x.id = p.ids[row * p.k + c];
    x.value = p.vals[row * p.k + c];
    int id = max(x.id, 0);
    x.word = p.counts ? p.counts[slot * p.V + id] : 0;
    if (!p.has_edges) return;
    select_row(x.succ, p.succ, id, p.R);
    select_row(x.pred, p.pred, id, p.R);
#pragma unroll
    for (int j = 0; j < SELECT_EACH; j++) {
        int m = (threadIdx.x & 31) + 32 * j;
        x.r[j] = m < p.R ? __bfloat162float(p.r[row * p.R + m]) : 0.0f;
    }
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

/* The chosen candidate of position `pos`, by the first warp; lane i holds the path's token i, of
 * which there are n. */
__device__ static inline int select_choose(const select_params &p, const sample_policy &policy,
                                           const select_shared *s, int path, int n, int64_t pos)
{
    int c = threadIdx.x & 31, id = c < p.k ? s->id[c] : INT32_MAX, n_own = 0;
    float y = -INFINITY;
    for (int i = 0; i < n; i++) n_own += __shfl_sync(WARP_ALL, path, i) == id;
    if (c < p.k) {
        y = s->score[c];
        if (p.counts && sample_has_penalty(policy))
            y = sample_penalise(policy, y, s->word[c], n_own);
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
 * Grid     L; a warp a candidate, the first warp chooses
 * Shared   the predecessor rows of all candidates of two positions: whichever is chosen, its row is
 *          there when the next position needs it
 * Needs    k <= OPS_TOPK_MAX, R <= SELECT_RANK_MAX, B <= OPS_ROWS_MAX
 * Moves    two codebook rows a candidate
 * Why      a position's loads do not wait for the choice before it: they are started one ahead */
__global__ void __launch_bounds__(SELECT_THREADS) draft_select_kernel(select_params p)
{
    launch_join();
    __shared__ select_shared s;
    int l = blockIdx.x, c = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int n_draft = min(p.n_draft[l], p.B - 1);
    int32_t *proposals = p.proposals + static_cast<int64_t>(l) * (p.B - 1);
    for (int i = max(n_draft, 0) + threadIdx.x; i < p.B - 1; i += SELECT_THREADS) proposals[i] = -1;
    if (n_draft <= 0) return;
    int64_t slot = p.lane_slot[l], row = static_cast<int64_t>(l) * (p.B - 1);
    const sample_policy &policy = p.policy[slot];
    select_candidate next = {};
    if (c < p.k) select_load(next, p, row, c, slot);
    if (c == 0 && p.has_edges) { /* position 0 has one candidate: the anchor */
        float x[SELECT_EACH];
        select_row(x, p.pred, p.anchor[l], p.R);
#pragma unroll
        for (int j = 0; j < SELECT_EACH; j++) s.pred[0][0][lane + 32 * j] = x[j];
    }
    int chosen = 0, path = -1;
    for (int i = 1; i <= n_draft; i++) {
        select_candidate x = next;
        if (c < p.k && i < n_draft) select_load(next, p, row + i, c, slot);
        __syncthreads(); /* rows of position i - 1 and the path so far are there */
        if (c < p.k) {
            float edge = 0.0f;
            if (p.has_edges) {
#pragma unroll
                for (int j = 0; j < SELECT_EACH; j++) {
                    int m = lane + 32 * j;
                    edge = __fmaf_rn(__fmul_rn(s.pred[(i - 1) & 1][chosen][m], x.r[j]), x.succ[j],
                                     edge);
                    s.pred[i & 1][c][m] = x.pred[j];
                }
                edge = warp_sum(edge);
            }
            float bias = select_bias(p.bias + slot * OPS_BIAS_MAX, policy.n_bias, x.id);
            if (lane == 0) {
                s.score[c] = __fadd_rn(__fadd_rn(x.value, edge), bias);
                s.id[c] = x.id;
                s.word[c] = x.word;
            }
        }
        __syncthreads(); /* all scores are there */
        if (c == 0) {
            int64_t pos = static_cast<int64_t>(p.anchor_pos[l]) + i;
            int best = select_choose(p, policy, &s, path, i - 1, pos), id = s.id[best];
            if (lane == i - 1) path = id;
            if (lane == 0) {
                s.chosen = best;
                proposals[i - 1] = id;
                p.verify_ids[p.lane_row[l] + i] = id;
            }
        }
        __syncthreads(); /* the choice is there */
        chosen = s.chosen;
    }
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
    draft_select_kernel<<<a->L, SELECT_THREADS, 0, cb->stream>>>(p);
    return CUDA_LAUNCHED(cb);
}
