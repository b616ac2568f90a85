/* Coupled sampling (ops.h:sample_args). A first kernel goes over all logits once, cut in chunks:
 * enough for greedy and unfiltered lanes; of lanes with filters it keeps each chunk's largest. A
 * second one finishes each row; where the kept ones don't suffice it goes over the row again
 * (sample_pick.cuh). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/sample_pick.cuh"

enum {
    SCAN_THREADS = 256,
    SCAN_EACH = 16,
    SCAN_CHUNK = SCAN_THREADS * SCAN_EACH, /* logits of a block: the order of sums follows it */
    SCAN_KEPT = 32, /* of a chunk, at least; ties may make it more, PICK_SLOTS at most */
};

/* What one chunk of a row found. */
typedef struct {
    sample_choice best;  /* greedy: y; unfiltered: z + noise; filtered: z */
    float max, sum;      /* of the raw logits: largest, and sum of exp(x - max) */
    float z_sum, bound;  /* filtered: sum of exp(z - best); all z >= bound are kept */
    int32_t n_left, pad; /* kept, or more than PICK_SLOTS */
} sample_part;

/* A finished row's raw logits. */
typedef struct {
    double log_sum; /* log of the sum of exp(x) */
    float max;
} sample_total;

typedef struct {
    const float *logits;
    const int32_t *row, *ids, *row_lane, *row_pos, *lane_row, *lane_slot;
    const sample_policy *policy;
    const sample_bias *bias;
    const uint32_t *counts, *mask;
    sample_part *part;   /* [M, n_chunks] */
    sample_total *total; /* [M] */
    u64 *left;           /* keys of what filtered lanes keep [M, n_chunks, PICK_SLOTS] */
    int32_t *token, *top_ids;
    float *logprob, *top_logprobs;
    int M, V, n_chunks;
    bool is_prompt;
} sample_params;

typedef enum { SAMPLE_GREEDY, SAMPLE_OPEN, SAMPLE_FILTERED } sample_mode;

__device__ static inline sample_mode sample_mode_of(const sample_policy &p, int V)
{
    if (!(p.temperature > 0.0f)) return SAMPLE_GREEDY;
    bool has_top_k = p.top_k > 0 && p.top_k < V;
    return has_top_k || p.top_p < 1.0f || p.min_p > 0.0f ? SAMPLE_FILTERED : SAMPLE_OPEN;
}

/* The policy of sampled row m, or NULL for padding. */
__device__ static inline const sample_policy *sample_policy_of(const sample_params &p, int m)
{
    int lane = p.row_lane[p.row[m]];
    return lane < 0 ? nullptr : p.policy + p.lane_slot[lane];
}

/* Everything about sampled row m; all threads of the block take part. */
__device__ static inline void sample_row_open(sample_row &r, const sample_params &p, int m,
                                              sample_special *special)
{
    int row = p.row[m], lane = p.row_lane[row];
    int64_t slot = p.lane_slot[lane];
    r.policy = p.policy[slot];
    r.logits = p.logits + static_cast<int64_t>(m) * p.V;
    r.mask = p.mask && r.policy.has_mask ? p.mask + static_cast<int64_t>(m) * div_up(p.V, 32)
                                         : nullptr;
    r.counts = p.counts && sample_has_penalty(r.policy) ? p.counts + slot * p.V : nullptr;
    int first = p.lane_row[lane] + 1, last = r.counts && !p.is_prompt ? row : first - 1;
    r.special = r.policy.n_bias > 0 || last >= first ? special : nullptr;
    if (r.special)
        special_fill(special, p.bias + slot * OPS_BIAS_MAX, r.policy.n_bias, p.ids, first, last);
    r.key = rng_row_key(r.policy.seed, r.policy.choice, static_cast<int64_t>(p.row_pos[row]) + 1);
}

/* ---- the pass over all logits ------------------------------------------------------------- */

/* The best z + noise of the thread's SCAN_EACH values: the exact noise is made only for those that
 * an estimate finds near the block's best. */
__device__ static inline sample_choice sample_noisy_best(const sample_row &r, int first,
                                                         const float (&z)[SCAN_EACH], float *shared)
{
    float near[SCAN_EACH], most = -INFINITY;
#pragma unroll
    for (int i = 0; i < SCAN_EACH; i++) {
        uint32_t bits = rng_bits(r.key, static_cast<uint32_t>(first + i * SCAN_THREADS));
        near[i] = z[i] + sample_gumbel_near(bits);
        most = fmaxf(most, near[i]);
    }
    most = block_max<SCAN_THREADS / 32>(most, shared);
    sample_choice best = sample_none();
#pragma unroll
    for (int i = 0; i < SCAN_EACH; i++) {
        if (!(near[i] >= most - sample_margin(z[i], most)) || z[i] == -INFINITY) continue;
        best = sample_better(best, sample_noisy(r.key, first + i * SCAN_THREADS, z[i]));
    }
    return best;
}

typedef struct {
    float most[SCAN_THREADS];
    float bound;
    int n;
} scan_kept;

/* Keep the chunk's largest z: all at or above the SCAN_KEPT-th largest of the threads' maxima,
 * which the SCAN_KEPT largest of the chunk are among. */
__device__ static inline void sample_keep(sample_part &part, const float (&z)[SCAN_EACH], int first,
                                          int V, u64 *left, scan_kept *kept)
{
    float most = -INFINITY;
#pragma unroll
    for (int i = 0; i < SCAN_EACH; i++) most = fmaxf(most, z[i]);
    kept->most[threadIdx.x] = most;
    if (threadIdx.x == 0) kept->n = 0;
    __syncthreads();
    int rank = 0;
    for (int t = 0; t < SCAN_THREADS; t += 4) {
        float4 x = *reinterpret_cast<const float4 *>(&kept->most[t]);
        float m[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            rank += m[i] > most || (m[i] == most && t + i < static_cast<int>(threadIdx.x));
    }
    if (rank == SCAN_KEPT - 1) kept->bound = most;
    __syncthreads();
    part.bound = kept->bound;
#pragma unroll
    for (int i = 0; i < SCAN_EACH; i++) {
        int id = first + i * SCAN_THREADS;
        if (id >= V || !(z[i] >= part.bound) || z[i] == -INFINITY) continue;
        int at = atomicAdd(&kept->n, 1); /* any order: keys are compared later */
        if (at < PICK_SLOTS) left[at] = pick_key(z[i], id);
    }
    __syncthreads();
    part.n_left = kept->n;
}

/* sample_scan_kernel: one chunk of one row.
 *
 * Does     the chunk's winner for greedy and unfiltered lanes, its largest z and the sum of weights
 *          for filtered ones, and with logprobs its part of the log-sum-exp
 * Grid     (chunks, M); block 256, SCAN_EACH logits a thread in registers
 * Shared   biases and own tokens, when the lane has any
 * Moves    reads each logit once, with penalties each count, with a mask each mask word
 * Numbers  sample_rule.cuh; the winner is exact in double */
__global__ void __launch_bounds__(SCAN_THREADS) sample_scan_kernel(sample_params p)
{
    launch_join();
    __shared__ sample_special special;
    __shared__ float shared[SCAN_THREADS / 32];
    __shared__ sample_choice choices[SCAN_THREADS / 32];
    __shared__ __align__(16) scan_kept kept;
    int m = blockIdx.y, first = blockIdx.x * SCAN_CHUNK + threadIdx.x;
    const sample_policy *policy = sample_policy_of(p, m);
    if (!policy) return;
    sample_row r;
    sample_row_open(r, p, m, &special);
    sample_mode mode = sample_mode_of(r.policy, p.V);
    sample_part part = {sample_none(), -INFINITY, 0.0f, 0.0f, -INFINITY, 0, 0};
    float x[SCAN_EACH];
#pragma unroll
    for (int i = 0; i < SCAN_EACH; i++) {
        int id = first + i * SCAN_THREADS;
        x[i] = id < p.V ? r.logits[id] : -INFINITY;
        part.max = fmaxf(part.max, x[i]);
    }
    if (p.total) {
        part.max = block_max<SCAN_THREADS / 32>(part.max, shared);
        float base = part.max == -INFINITY ? 0.0f : part.max;
#pragma unroll
        for (int i = 0; i < SCAN_EACH; i++) part.sum += expf(x[i] - base);
        part.sum = block_sum<SCAN_THREADS / 32>(part.sum, shared);
    }
#pragma unroll
    for (int i = 0; i < SCAN_EACH; i++) {
        int id = first + i * SCAN_THREADS;
        if (id >= p.V) continue;
        x[i] = sample_adjusted(r, id, x[i]);
        if (mode != SAMPLE_GREEDY) x[i] = sample_scale(r.policy, x[i]);
    }
    if (mode == SAMPLE_OPEN) {
        part.best = sample_noisy_best(r, first, x, shared);
    } else {
#pragma unroll
        for (int i = 0; i < SCAN_EACH; i++) {
            int id = first + i * SCAN_THREADS;
            sample_choice c = {static_cast<double>(x[i]), id};
            if (id < p.V) part.best = sample_better(part.best, c);
        }
    }
    part.best = sample_block_best<SCAN_THREADS / 32>(part.best, choices);
    int64_t chunk = static_cast<int64_t>(m) * p.n_chunks + blockIdx.x;
    if (mode == SAMPLE_FILTERED && part.best.v > -INFINITY) {
        float max = static_cast<float>(part.best.v);
#pragma unroll
        for (int i = 0; i < SCAN_EACH; i++)
            part.z_sum += x[i] >= -INFINITY ? expf(x[i] - max) : 0.0f;
        part.z_sum = block_sum<SCAN_THREADS / 32>(part.z_sum, shared);
        sample_keep(part, x, first, p.V, p.left + chunk * PICK_SLOTS, &kept);
    }
    if (threadIdx.x == 0) p.part[chunk] = part;
}
/* ---- filters ------------------------------------------------------------------------------ */

/* The winner among the list's entries that top_k (0: off) and top_p leave; an entry a thread. */
__device__ static inline sample_choice pick_from_list(const sample_row &r, pick_shared *s,
                                                      u64 top_k, u64 total)
{
    static_assert(PICK_LIST == PICK_THREADS, "an entry a thread");
    int at = threadIdx.x;
    pick_above above = {0, 0};
    bool on = at < s->n_list;
    if (on) above = pick_above_of(s, at);
    if (top_k) {
        on = on && above.rank < top_k;
        total = pick_sum(on ? s->key_mass[at] : 0, s);
    }
    if (r.policy.top_p < 1.0f) on = on && above.mass < pick_want(r.policy.top_p, total);
    if (!on) return sample_none();
    return sample_noisy(r.key, pick_key_id(s->key[at]), pick_key_z(s->key[at]));
}

/* The winner among all members of the source whose key is at least `cut`, by another pass. */
template <pick_kind KIND>
__device__ static inline sample_choice pick_from_source(const pick_source &f, u64 cut)
{
    sample_choice best = sample_none();
    pick_each<KIND>(f, [&](float z, int id) {
        if (pick_key(z, id) < cut) return;
        float near = z + sample_gumbel_near(rng_bits(f.row->key, static_cast<uint32_t>(id)));
        if (static_cast<double>(near) < best.v - static_cast<double>(sample_margin(z, near)))
            return;
        best = sample_better(best, sample_noisy(f.row->key, id, z));
    });
    return best;
}

/* Counts and mass of the whole histogram. */
__device__ static inline void pick_totals(pick_shared *s, u64 *n, u64 *mass)
{
    u64 own = 0, own_mass = 0;
#pragma unroll
    for (int i = 0; i < PICK_BINS / PICK_THREADS; i++) {
        int bin = threadIdx.x * (PICK_BINS / PICK_THREADS) + i;
        own += s->bins.count[bin];
        own_mass += pick_bin_mass(s->bins, bin);
    }
    *n = pick_sum(own, s);
    *mass = pick_sum(own_mass, s);
}

/* This thread's best survivor, behind pick_histogram. top_k 0: off. `total` is the mass that top_p
 * is a part of when top_k is off. */
template <pick_kind KIND>
__device__ static inline sample_choice sample_survivor(const pick_source &f, pick_shared *s,
                                                       u64 top_k, u64 total)
{
    float top_p = f.row->policy.top_p;
    if (!top_k && !(top_p < 1.0f)) return pick_from_source<KIND>(f, 0);
    u64 want = top_k ? top_k : pick_want(top_p, total);
    pick_place at = pick_find(s, s->bins, !top_k, want);
    u64 n_bin = s->bins.count[at.bin];
    if ((top_k ? at.before : at.other) + n_bin <= PICK_LIST) {
        pick_gather<KIND>(f, s, 0, at.bin, 0, 0, 64);
        return pick_from_list(*f.row, s, top_k, total);
    }
    u64 kept = 0, cut = pick_cut<KIND>(f, s, at.bin, n_bin, 0, !top_k, want - at.before, &kept);
    if (top_k && top_p < 1.0f) {
        want = pick_want(top_p, at.other + kept);
        at = pick_find(s, s->bins, true, want);
        cut = pick_cut<KIND>(f, s, at.bin, s->bins.count[at.bin], cut, true, want - at.before,
                             &kept);
    }
    return pick_from_source<KIND>(f, cut);
}

/* The mass of a row from its chunks' sums, in one order; all threads get it. */
__device__ static inline u64 sample_z_mass(const sample_part *part, int n, float max)
{
    double sum = 0.0;
    for (int i = threadIdx.x & 31; i < n; i += 32)
        if (part[i].best.v > -INFINITY)
            sum += static_cast<double>(part[i].z_sum) *
                   exp(part[i].best.v - static_cast<double>(max));
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(WARP_ALL, sum, d);
    return __double2ull_rn(sum * PICK_MASS_ONE);
}

/* This thread's best survivor of a lane with filters. */
__device__ static inline sample_choice sample_filter(const sample_row &r, const sample_params &p,
                                                     const sample_part *part, const u64 *left,
                                                     float max, pick_shared *s)
{
    const sample_policy &policy = r.policy;
    float least = sample_least(policy, max), bound = -INFINITY;
    bool overflows = false;
    for (int i = threadIdx.x & 31; i < p.n_chunks; i += 32) { /* every warp for itself */
        bound = fmaxf(bound, part[i].bound);
        overflows |= part[i].n_left > PICK_SLOTS;
    }
    bound = warp_max(bound);
    overflows = __any_sync(WARP_ALL, overflows);
    u64 n, mass, top_k = policy.top_k > 0 ? static_cast<u64>(policy.top_k) : 0;
    if (!overflows) {
        pick_source f = {&r,
                         max,
                         fmaxf(least, bound),
                         p.V,
                         left,
                         &part->n_left,
                         p.n_chunks,
                         static_cast<int>(sizeof(sample_part) / sizeof(int32_t))};
        pick_histogram<PICK_LEFT>(f, s);
        pick_totals(s, &n, &mass);
        if (n == 0) return sample_none();
        if (least >= bound) return sample_survivor<PICK_LEFT>(f, s, top_k < n ? top_k : 0, mass);
        if (top_k && top_k <= n) return sample_survivor<PICK_LEFT>(f, s, top_k, mass);
        if (!top_k && policy.top_p < 1.0f && policy.min_p <= 0.0f) {
            u64 total = sample_z_mass(part, p.n_chunks, max);
            if (mass >= pick_want(policy.top_p, total))
                return sample_survivor<PICK_LEFT>(f, s, 0, total);
        }
    }
    pick_source f = {&r, max, least, p.V, nullptr, nullptr, 0, 0};
    if (!top_k && !(policy.top_p < 1.0f)) return pick_from_source<PICK_ROW>(f, 0);
    pick_histogram<PICK_ROW>(f, s);
    pick_totals(s, &n, &mass);
    if (n == 0) return sample_none();
    return sample_survivor<PICK_ROW>(f, s, top_k < n ? top_k : 0, mass);
}

/* ---- finishing a row ---------------------------------------------------------------------- */

/* Largest raw logit and log-sum-exp of a row from its chunks, in one order; by one warp. */
__device__ static inline sample_total sample_total_of(const sample_part *part, int n)
{
    sample_total t;
    float max = -INFINITY;
    for (int i = threadIdx.x & 31; i < n; i += 32) max = fmaxf(max, part[i].max);
    t.max = warp_max(max);
    double base = t.max == -INFINITY ? 0.0 : static_cast<double>(t.max), sum = 0.0;
    for (int i = threadIdx.x & 31; i < n; i += 32) {
        float m = part[i].max;
        if (m > -INFINITY)
            sum += static_cast<double>(part[i].sum) * exp(static_cast<double>(m) - base);
    }
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(WARP_ALL, sum, d);
    t.log_sum = base + log(sum);
    return t;
}

/* sample_finish_kernel: one row's token and log-probability.
 *
 * Does     the merge of the chunks; for filtered lanes the filters and the draw among survivors
 * Grid     M; block PICK_THREADS
 * Shared   pick_shared: the histogram, a list and the ids that need a look-up
 * Moves    filtered lanes read what the scan kept. Where a cut lies below that (a large top_k, a
 *          flat top_p) they read the row again: two to four times, up to nine times more where
 *          thousands of logits lie within 1/64
 * Numbers  exact: counts, integer masses and a total order; independent of all other rows */
__global__ void __launch_bounds__(PICK_THREADS) sample_finish_kernel(sample_params p)
{
    launch_join();
    extern __shared__ __align__(16) char raw[];
    pick_shared *s = reinterpret_cast<pick_shared *>(raw);
    int m = blockIdx.x;
    const sample_policy *policy = sample_policy_of(p, m);
    if (!policy) return;
    const sample_part *part = p.part + static_cast<int64_t>(m) * p.n_chunks;
    sample_choice best = sample_none();
    for (int i = threadIdx.x; i < p.n_chunks; i += PICK_THREADS)
        best = sample_better(best, part[i].best);
    best = sample_block_best<PICK_WARPS>(best, s->choice);
    if (sample_mode_of(*policy, p.V) == SAMPLE_FILTERED) {
        sample_row r;
        sample_row_open(r, p, m, &s->special);
        const u64 *left = p.left + static_cast<int64_t>(m) * p.n_chunks * PICK_SLOTS;
        best = sample_filter(r, p, part, left, static_cast<float>(best.v), s);
        best = sample_block_best<PICK_WARPS>(best, s->choice);
    }
    /* Nothing is allowed, or nothing is a number: the lowest id, as on ref. */
    int token = best.id < p.V ? best.id : 0;
    if (threadIdx.x == 0) p.token[m] = token;
    if (!p.total || threadIdx.x >= 32) return;
    sample_total t = sample_total_of(part, p.n_chunks);
    if (threadIdx.x != 0) return;
    p.total[m] = t;
    if (p.logprob) {
        double x = static_cast<double>(p.logits[static_cast<int64_t>(m) * p.V + token]);
        p.logprob[m] = static_cast<float>(x - t.log_sum);
    }
}

/* sample_top_kernel: the OPS_TOP_LOGPROBS largest raw logits of one row, descending.
 *
 * Does     top_ids and top_logprobs of ops.h:sample_args
 * Grid     M; block PICK_THREADS
 * Shared   pick_shared
 * Moves    reads the row twice, as sample_finish_kernel */
__global__ void __launch_bounds__(PICK_THREADS) sample_top_kernel(sample_params p)
{
    launch_join();
    extern __shared__ __align__(16) char raw[];
    pick_shared *s = reinterpret_cast<pick_shared *>(raw);
    int m = blockIdx.x;
    if (!sample_policy_of(p, m)) return;
    sample_row r = {};
    r.logits = p.logits + static_cast<int64_t>(m) * p.V;
    sample_total t = p.total[m];
    pick_source f = {&r, t.max, 0.0f, p.V, nullptr, nullptr, 0, 0};
    int32_t *ids = p.top_ids + static_cast<int64_t>(m) * OPS_TOP_LOGPROBS;
    float *out = p.top_logprobs + static_cast<int64_t>(m) * OPS_TOP_LOGPROBS;
    u64 n, mass;
    pick_histogram<PICK_RAW>(f, s);
    pick_totals(s, &n, &mass);
    u64 want = n < OPS_TOP_LOGPROBS ? n : static_cast<u64>(OPS_TOP_LOGPROBS);
    if (threadIdx.x >= want && threadIdx.x < OPS_TOP_LOGPROBS) {
        ids[threadIdx.x] = -1;
        out[threadIdx.x] = -INFINITY;
    }
    if (want == 0) return;
    pick_place at = pick_find(s, s->bins, false, want);
    u64 n_bin = s->bins.count[at.bin], cut = 0, kept;
    if (at.before + n_bin > PICK_LIST)
        cut = pick_cut<PICK_RAW>(f, s, at.bin, n_bin, 0, false, want - at.before, &kept);
    pick_gather<PICK_RAW>(f, s, 0, at.bin, cut, 0, 64);
    for (int i = threadIdx.x; i < s->n_list; i += PICK_THREADS) {
        u64 rank = pick_above_of(s, i).rank;
        if (rank >= want) continue;
        ids[rank] = pick_key_id(s->key[i]);
        out[rank] = static_cast<float>(static_cast<double>(pick_key_z(s->key[i])) - t.log_sum);
    }
}

/* ---- launch ------------------------------------------------------------------------------- */

/* Scratch of a call: parts, kept keys, totals. */
typedef struct {
    int64_t left, total, n_bytes; /* offsets of the later two; parts come first */
} sample_layout;

static sample_layout sample_layout_of(int64_t M, int V)
{
    int64_t chunks = M * div_up(V, static_cast<int>(SCAN_CHUNK));
    sample_layout l;
    l.left = scratch_round(chunks * static_cast<int64_t>(sizeof(sample_part)));
    l.total = l.left + scratch_round(chunks * PICK_SLOTS * static_cast<int64_t>(sizeof(u64)));
    l.n_bytes = l.total + M * static_cast<int64_t>(sizeof(sample_total));
    return l;
}

static sample_params sample_params_of(cuda_backend *cb, const sample_args *a)
{
    sample_params p = {};
    p.logits = buf_of<float>(a->logits);
    p.row = buf_of<int32_t>(a->row);
    p.ids = buf_of<int32_t>(a->rows.ids);
    p.row_lane = buf_of<int32_t>(a->rows.row_lane);
    p.row_pos = buf_of<int32_t>(a->rows.row_pos);
    p.lane_row = buf_of<int32_t>(a->rows.lane_row);
    p.lane_slot = buf_of<int32_t>(a->rows.lane_slot);
    p.policy = buf_of<sample_policy>(a->lanes.policy);
    p.bias = buf_of<sample_bias>(a->lanes.bias);
    p.counts = buf_of<uint32_t>(a->lanes.counts);
    p.mask = buf_of<uint32_t>(a->mask);
    sample_layout at = sample_layout_of(a->M, a->V);
    p.part = scratch_at<sample_part>(cb, 0);
    p.left = scratch_at<u64>(cb, at.left);
    if (a->logprob.ptr || a->top_ids.ptr) p.total = scratch_at<sample_total>(cb, at.total);
    p.token = buf_of<int32_t>(a->token);
    p.top_ids = buf_of<int32_t>(a->top_ids);
    p.logprob = buf_of<float>(a->logprob);
    p.top_logprobs = buf_of<float>(a->top_logprobs);
    p.M = a->M, p.V = a->V;
    p.n_chunks = div_up(a->V, static_cast<int>(SCAN_CHUNK));
    p.is_prompt = a->is_prompt;
    return p;
}

extern "C" status cuda_sample(backend *b, const sample_args *a)
{
    constexpr int BYTES = sizeof(pick_shared);
    cuda_backend *cb = cuda_of(b);
    if (a->M < 1) return cb->broken;
    ASSERT(a->M <= 65535);
    TRY(cuda_need(cb, "sample", sample_layout_of(a->M, a->V).n_bytes));
    sample_params p = sample_params_of(cb, a);
    sample_scan_kernel<<<dim3(p.n_chunks, a->M), SCAN_THREADS, 0, cb->stream>>>(p);
    TRY(CUDA_LAUNCHED(cb));
    CUDA_TRY(cb, cudaFuncSetAttribute(sample_finish_kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    sample_finish_kernel<<<a->M, PICK_THREADS, BYTES, cb->stream>>>(p);
    TRY(CUDA_LAUNCHED(cb));
    if (!a->top_ids.ptr) return ERR_OK;
    CUDA_TRY(cb, cudaFuncSetAttribute(sample_top_kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    sample_top_kernel<<<a->M, PICK_THREADS, BYTES, cb->stream>>>(p);
    return CUDA_LAUNCHED(cb);
}

extern "C" int64_t cuda_sample_scratch(const backend_limits *l)
{
    int64_t M = l->M > l->T ? l->M : l->T;
    return l->V > 0 ? sample_layout_of(M, static_cast<int>(l->V)).n_bytes : 0;
}
