/* sample_rule: a lane's policy on one logit, and the noise. Shared by sample and draft_select, so
 * that proposal and verified token see the same arithmetic.
 *
 * Values y and z are f32, rounded once an operation; noise and the sum z + gumbel are double. */
#ifndef RIPTIDE_BACKEND_CUDA_SAMPLE_RULE_CUH
#define RIPTIDE_BACKEND_CUDA_SAMPLE_RULE_CUH

#include "backend/cuda/reduce.cuh"
#include "base/rng.h"

/* A choice: the largest value, ties to the lower id. SAMPLE_NONE loses against everything. */
typedef struct {
    double v;
    int id;
} sample_choice;

__device__ static inline sample_choice sample_none()
{
    sample_choice c = {-INFINITY, INT32_MAX};
    return c;
}

__device__ static inline sample_choice sample_better(sample_choice a, sample_choice b)
{
    return b.v > a.v || (b.v == a.v && b.id < a.id) ? b : a;
}

__device__ static inline sample_choice sample_warp_best(sample_choice c)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        sample_choice o = {__shfl_xor_sync(WARP_ALL, c.v, d), __shfl_xor_sync(WARP_ALL, c.id, d)};
        c = sample_better(c, o);
    }
    return c;
}

/* The best over a block; `shared` holds a place a warp; all threads get it. */
template <int WARPS>
__device__ static inline sample_choice sample_block_best(sample_choice c, sample_choice *shared)
{
    c = sample_warp_best(c);
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = c;
    __syncthreads();
    c = shared[0];
    for (int i = 1; i < WARPS; i++) c = sample_better(c, shared[i]);
    __syncthreads(); /* all have read before `shared` is written again */
    return c;
}

/* ---- penalties ---------------------------------------------------------------------------- */

__host__ __device__ static inline bool sample_has_penalty(const sample_policy &p)
{
    return p.repetition != 1.0f || p.frequency != 0.0f || p.presence != 0.0f;
}

/* Repetition for what was counted or in the prompt, then frequency and presence. */
__device__ static inline float sample_penalise(const sample_policy &p, float y, uint32_t word,
                                               int n_more)
{
    int count = static_cast<int>(word & ~SAMPLE_IN_PROMPT) + n_more;
    if (count > 0 || (word & SAMPLE_IN_PROMPT))
        y = y > 0.0f ? __fdiv_rn(y, p.repetition) : __fmul_rn(y, p.repetition);
    if (count > 0)
        y = __fsub_rn(y, __fadd_rn(__fmul_rn(p.frequency, static_cast<float>(count)), p.presence));
    return y;
}

/* z; the +0 makes -0 and +0 one value, so that they tie in every comparison of bits. */
__device__ static inline float sample_scale(const sample_policy &p, float y)
{
    return p.temperature == 1.0f ? __fadd_rn(y, 0.0f)
                                 : __fadd_rn(__fdiv_rn(y, p.temperature), 0.0f);
}

/* The smallest z that min_p keeps beside the largest. */
__device__ static inline float sample_least(const sample_policy &p, float max)
{
    if (p.min_p <= 0.0f) return -INFINITY;
    return __double2float_ru(static_cast<double>(max) + log(static_cast<double>(p.min_p)));
}

/* ---- ids that need a look-up -------------------------------------------------------------- */

enum {
    SPECIAL_SLOTS = 2048, /* twice OPS_BIAS_MAX + OPS_ROWS_MAX, nearly: short probes */
    SPECIAL_EMPTY = -1,
};

/* Biases and the block's own tokens, by id: open addressing in shared memory. */
typedef struct {
    int id[SPECIAL_SLOTS];
    float bias[SPECIAL_SLOTS];
    int n_own[SPECIAL_SLOTS];
} sample_special;

__device__ static inline int special_slot(int id)
{
    return static_cast<int>((static_cast<uint32_t>(id) * 0x9e3779b1u) >> 21);
}

/* The slot of `id`, taken if it has none yet. */
__device__ static inline int special_take(sample_special *s, int id)
{
    int at = special_slot(id);
    for (;;) {
        int was = atomicCAS(&s->id[at], SPECIAL_EMPTY, id);
        if (was == SPECIAL_EMPTY || was == id) return at;
        at = (at + 1) % SPECIAL_SLOTS;
    }
}

/* Fill the table; all threads of the block take part. Bias ids are distinct (a map's keys). Own
 * tokens are ids[first .. last]. */
__device__ static inline void special_fill(sample_special *s, const sample_bias *bias, int n_bias,
                                           const int32_t *ids, int first, int last)
{
    for (int i = threadIdx.x; i < SPECIAL_SLOTS; i += blockDim.x) {
        s->id[i] = SPECIAL_EMPTY;
        s->bias[i] = 0.0f;
        s->n_own[i] = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n_bias; i += blockDim.x)
        s->bias[special_take(s, bias[i].id)] = bias[i].value;
    for (int t = first + static_cast<int>(threadIdx.x); t <= last; t += blockDim.x)
        atomicAdd(&s->n_own[special_take(s, ids[t])], 1);
    __syncthreads();
}

/* The slot of `id`, or -1. */
__device__ static inline int special_find(const sample_special *s, int id)
{
    int at = special_slot(id);
    for (;;) {
        int found = s->id[at];
        if (found == id) return at;
        if (found == SPECIAL_EMPTY) return -1;
        at = (at + 1) % SPECIAL_SLOTS;
    }
}

/* ---- a row -------------------------------------------------------------------------------- */

/* What one sampled row needs to make y and z of any id. */
typedef struct {
    sample_policy policy;
    const float *logits;
    const uint32_t *mask, *counts; /* NULL: everything is allowed; no penalties */
    const sample_special *special; /* NULL: no biases and no own tokens */
    rng_key key;
} sample_row;

/* y of an id: masked, biased, penalised. */
__device__ static inline float sample_adjusted(const sample_row &r, int id, float y)
{
    if (r.mask && !(r.mask[id >> 5] >> (id & 31) & 1)) return -INFINITY;
    int n_own = 0;
    if (r.special) {
        int at = special_find(r.special, id);
        if (at >= 0) {
            y = __fadd_rn(y, r.special->bias[at]);
            n_own = r.special->n_own[at];
        }
    }
    if (r.counts) y = sample_penalise(r.policy, y, r.counts[id], n_own);
    return y;
}

/* ---- noise -------------------------------------------------------------------------------- */

/* Within 1e-4 of rng_gumbel: finds the ids that are worth the exact number. */
__device__ static inline float sample_gumbel_near(uint32_t bits)
{
    const float unit = 1.0f / 4294967296.0f;
    float w; /* -log(1 - v), v = (bits + 0.5) / 2^32 */
    if (bits < (1u << 28)) {
        float v = (static_cast<float>(bits) + 0.5f) * unit;
        w = v * (1.0f + v * (0.5f + v * (1.0f / 3.0f + v * (0.25f + v * 0.2f))));
    } else {
        w = -__logf((static_cast<float>(~bits) + 0.5f) * unit);
    }
    return -__logf(w);
}

/* How far below the largest z + sample_gumbel_near the exact winner can lie, and more. */
__device__ static inline float sample_margin(float z, float max)
{
    return 2e-3f + 1e-6f * (fabsf(z) + fabsf(max));
}

__device__ static inline sample_choice sample_noisy(const rng_key &key, int id, float z)
{
    sample_choice c = {
        static_cast<double>(z) + rng_gumbel(rng_bits(key, static_cast<uint32_t>(id))), id};
    return c;
}

#endif
