/* sample_pick: which ids survive top_k and top_p, exactly, without sorting a row.
 *
 * Ids are ordered by a key that no two share: z's bits made monotone, then the lower id. A cut is
 * the least key that survives. One pass makes a histogram over the distance from the largest z
 * (bins of 1/64, monotone in z); the bin where a count or a mass is reached holds the cut. Its
 * members, usually few, are gathered and compared with each other; a bin too full for that is
 * narrowed by further histograms over the key's bytes.
 *
 * Masses are integers, exp(z - max) in units of 2^-40: sums are exact and have no order.
 *
 * A pass goes over one of three sources: the whole row, the row's raw logits, or the candidates
 * that the scan left behind, which hold every id with z at or above a bound. */
#ifndef RIPTIDE_BACKEND_CUDA_SAMPLE_PICK_CUH
#define RIPTIDE_BACKEND_CUDA_SAMPLE_PICK_CUH

#include "backend/cuda/sample_rule.cuh"

enum {
    PICK_THREADS = 1024,
    PICK_WARPS = PICK_THREADS / 32,
    PICK_BINS = 4096, /* four a thread in scans */
    PICK_PER_UNIT = 64,
    PICK_LIST = 1024, /* one a thread */
    PICK_AHEAD = 8,   /* logits that a thread has on their way */
    PICK_SLOTS = 64,  /* room for a chunk's candidates */
};

typedef unsigned long long u64;

/* Counts and masses; a mass's carry goes from low to high. */
template <int N> struct pick_bins {
    uint32_t count[N], low[N], high[N];
};

typedef struct {
    pick_bins<PICK_BINS> bins;
    pick_bins<256> bytes; /* of pick_narrow, beside the histogram that is still wanted */
    u64 key[PICK_LIST], key_mass[PICK_LIST];
    u64 warp[PICK_WARPS];
    sample_choice choice[PICK_WARPS];
    u64 found_before, found_extra;
    int n_list, found_bin;
    sample_special special;
} pick_shared;

/* Larger z, then lower id. */
__device__ static inline u64 pick_key(float z, int id)
{
    uint32_t u = __float_as_uint(z);
    u ^= u >> 31 ? 0xffffffffu : 0x80000000u;
    return static_cast<u64>(u) << 32 | static_cast<uint32_t>(~id);
}
__device__ static inline int pick_key_id(u64 key)
{
    return static_cast<int>(~static_cast<uint32_t>(key));
}
__device__ static inline float pick_key_z(u64 key)
{
    uint32_t u = static_cast<uint32_t>(key >> 32);
    u ^= u >> 31 ? 0x80000000u : 0xffffffffu;
    return __uint_as_float(u);
}

__device__ static inline int pick_bin(float z, float max)
{
    return min(static_cast<int>(__fmul_rn(__fsub_rn(max, z), PICK_PER_UNIT)), PICK_BINS - 1);
}

constexpr double PICK_MASS_ONE = 1099511627776.0; /* 2^40 */

__device__ static inline u64 pick_mass(float z, float max)
{
    return __double2ull_rn(static_cast<double>(expf(__fsub_rn(z, max))) * PICK_MASS_ONE);
}

/* ---- histograms --------------------------------------------------------------------------- */

template <int N> __device__ static inline void pick_clear(pick_bins<N> &b)
{
    for (int i = threadIdx.x; i < N; i += PICK_THREADS) {
        b.count[i] = 0;
        b.low[i] = 0;
        b.high[i] = 0;
    }
    __syncthreads();
}

template <int N> __device__ static inline void pick_add(pick_bins<N> &b, int at, u64 mass)
{
    atomicAdd(&b.count[at], 1u);
    uint32_t low = static_cast<uint32_t>(mass), high = static_cast<uint32_t>(mass >> 32);
    if (low) {
        uint32_t was = atomicAdd(&b.low[at], low);
        if (was + low < was) high++; /* this addition wrapped, and no other counts that */
    }
    if (high) atomicAdd(&b.high[at], high);
}

template <int N> __device__ static inline u64 pick_bin_mass(const pick_bins<N> &b, int at)
{
    return static_cast<u64>(b.high[at]) << 32 | b.low[at];
}

/* ---- sums over the block ------------------------------------------------------------------ */

/* Sum over all threads; all get it. */
__device__ static inline u64 pick_sum(u64 v, pick_shared *s)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(WARP_ALL, v, d);
    if ((threadIdx.x & 31) == 0) s->warp[threadIdx.x >> 5] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < PICK_WARPS; i++) v += s->warp[i];
    __syncthreads(); /* all have read before the next sum is written */
    return v;
}

/* The least of all threads; all get it. */
__device__ static inline u64 pick_min(u64 v, pick_shared *s)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        u64 x = __shfl_xor_sync(WARP_ALL, v, d);
        v = x < v ? x : v;
    }
    if ((threadIdx.x & 31) == 0) s->warp[threadIdx.x >> 5] = v;
    __syncthreads();
    for (int i = 0; i < PICK_WARPS; i++) v = s->warp[i] < v ? s->warp[i] : v;
    __syncthreads(); /* all have read before the next one is written */
    return v;
}

/* Sum of v over the threads before this one. */
__device__ static inline u64 pick_before(u64 v, pick_shared *s)
{
    return block_sum_before(v, s->warp);
}

/* Where a running sum over the bins reaches `want`. */
typedef struct {
    int bin;
    u64 before; /* of what `want` counts, in the bins before */
    u64 other;  /* of the other kind (mass for counts, counts for mass), in the bins before */
} pick_place;

/* By count, or by mass when by_mass; want is at least 1 and at most the total. */
template <int N>
__device__ static inline pick_place pick_find(pick_shared *s, const pick_bins<N> &b, bool by_mass,
                                              u64 want)
{
    u64 own[4], extra[4], sum = 0, sum_extra = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int bin = threadIdx.x * 4 + i;
        u64 c = bin < N ? b.count[bin] : 0, m = bin < N ? pick_bin_mass(b, bin) : 0;
        own[i] = by_mass ? m : c;
        extra[i] = by_mass ? c : m;
        sum += own[i];
        sum_extra += extra[i];
    }
    u64 before = pick_before(sum, s), before_extra = pick_before(sum_extra, s);
    if (before < want && want <= before + sum) { /* one thread */
        int i = 0;
        while (before + own[i] < want) {
            before += own[i];
            before_extra += extra[i];
            i++;
        }
        s->found_bin = threadIdx.x * 4 + i;
        s->found_before = before;
        s->found_extra = before_extra;
    }
    __syncthreads();
    pick_place p = {s->found_bin, s->found_before, s->found_extra};
    __syncthreads(); /* all have read before the next search writes */
    return p;
}

/* ---- passes ------------------------------------------------------------------------------- */

typedef enum {
    PICK_ROW,  /* all ids: adjusted, scaled, at least `least` */
    PICK_RAW,  /* all ids' raw logits but NaN */
    PICK_LEFT, /* the scan's candidates that are at least `least` */
} pick_kind;

/* Where z comes from. */
typedef struct {
    const sample_row *row;
    float max, least;
    int V;
    const u64 *left;       /* candidates' keys [n_chunks, PICK_SLOTS] */
    const int32_t *n_left; /* of each chunk; every stride-th word */
    int n_chunks, stride;
} pick_source;

/* z of an id with raw logit x; false when it takes no part. */
template <pick_kind KIND>
__device__ static inline bool pick_value(const pick_source &f, int id, float x, float &z)
{
    if (KIND == PICK_RAW) {
        z = __fadd_rn(x, 0.0f);
        return z == z;
    }
    z = sample_scale(f.row->policy, sample_adjusted(*f.row, id, x));
    return z >= f.least && z > -INFINITY;
}

/* Call fn(z, id) for every member of the source, in no order. */
template <pick_kind KIND, typename FN>
__device__ static inline void pick_each(const pick_source &f, FN fn)
{
    if constexpr (KIND == PICK_LEFT) {
        for (int i = threadIdx.x; i < f.n_chunks * PICK_SLOTS; i += PICK_THREADS) {
            if (i % PICK_SLOTS >= f.n_left[i / PICK_SLOTS * f.stride]) continue;
            float z = pick_key_z(f.left[i]);
            if (z >= f.least) fn(z, pick_key_id(f.left[i]));
        }
    } else {
        for (int from = threadIdx.x; from < f.V; from += PICK_THREADS * PICK_AHEAD) {
            float x[PICK_AHEAD];
#pragma unroll
            for (int i = 0; i < PICK_AHEAD; i++) {
                int id = from + i * PICK_THREADS;
                x[i] = id < f.V ? f.row->logits[id] : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < PICK_AHEAD; i++) {
                int id = from + i * PICK_THREADS;
                float z;
                if (id < f.V && pick_value<KIND>(f, id, x[i], z)) fn(z, id);
            }
        }
    }
}

/* Counts and masses of all bins. */
template <pick_kind KIND>
__device__ static inline void pick_histogram(const pick_source &f, pick_shared *s)
{
    pick_clear(s->bins);
    pick_each<KIND>(f, [&](float z, int) {
        pick_add(s->bins, pick_bin(z, f.max), KIND == PICK_RAW ? 0 : pick_mass(z, f.max));
    });
    __syncthreads();
}

/* Counts and masses by byte `shift` of the key, among the keys of bin `bin` that are at least
 * `floor` and agree with `prefix` above that byte. Larger bytes come first. */
template <pick_kind KIND>
__device__ static inline void pick_narrow(const pick_source &f, pick_shared *s, int bin, u64 floor,
                                          u64 prefix, int shift)
{
    pick_clear(s->bytes);
    pick_each<KIND>(f, [&](float z, int id) {
        if (pick_bin(z, f.max) != bin) return;
        u64 key = pick_key(z, id);
        if (key < floor || (shift < 56 && (key ^ prefix) >> (shift + 8) != 0)) return;
        pick_add(s->bytes, 255 - static_cast<int>(key >> shift & 255),
                 KIND == PICK_RAW ? 0 : pick_mass(z, f.max));
    });
    __syncthreads();
}

/* Gather the keys of bins first .. last that are at least `floor` and agree with `prefix` from
 * bit `shift` on. There are at most PICK_LIST. */
template <pick_kind KIND>
__device__ static inline void pick_gather(const pick_source &f, pick_shared *s, int first, int last,
                                          u64 floor, u64 prefix, int shift)
{
    if (threadIdx.x == 0) s->n_list = 0;
    __syncthreads();
    pick_each<KIND>(f, [&](float z, int id) {
        int bin = pick_bin(z, f.max);
        if (bin < first || bin > last) return;
        u64 key = pick_key(z, id);
        if (key < floor || (shift < 64 && (key ^ prefix) >> shift != 0)) return;
        int at = atomicAdd(&s->n_list, 1); /* any order: whoever reads compares keys */
        s->key[at] = key;
        s->key_mass[at] = KIND == PICK_RAW ? 0 : pick_mass(z, f.max);
    });
    __syncthreads();
}

/* ---- decisions ---------------------------------------------------------------------------- */

/* What stands before list entry `at` in descending order: entries and their mass. */
typedef struct {
    u64 rank, mass;
} pick_above;

__device__ static inline pick_above pick_above_of(const pick_shared *s, int at)
{
    pick_above a = {0, 0};
    u64 own = s->key[at];
    for (int j = 0; j < s->n_list; j++) {
        if (s->key[j] > own) {
            a.rank++;
            a.mass += s->key_mass[j];
        }
    }
    return a;
}

/* The part of the target mass that top_p asks for: at least 1, at most all. */
__device__ static inline u64 pick_want(float top_p, u64 total)
{
    u64 want = __double2ull_ru(static_cast<double>(top_p) * static_cast<double>(total));
    want = want < total ? want : total;
    return want > 1 ? want : 1;
}

/* The least key kept in bin `bin` when `want` more (entries, or mass) are wanted from its n_keys
 * keys at or above `floor`; *kept_mass is the mass of those kept. For a bin of any size. */
template <pick_kind KIND>
__device__ static inline u64 pick_cut(const pick_source &f, pick_shared *s, int bin, u64 n_keys,
                                      u64 floor, bool by_mass, u64 want, u64 *kept_mass)
{
    u64 prefix = 0, mass_before = 0;
    int shift = 64;
    while (n_keys > PICK_LIST) {
        shift -= 8;
        pick_narrow<KIND>(f, s, bin, floor, prefix, shift);
        pick_place p = pick_find(s, s->bytes, by_mass, want);
        want -= p.before;
        mass_before += by_mass ? p.before : p.other;
        prefix |= static_cast<u64>(255 - p.bin) << shift;
        n_keys = s->bytes.count[p.bin];
        __syncthreads(); /* all have read before the counts are cleared */
    }
    pick_gather<KIND>(f, s, bin, bin, floor, prefix, shift);
    u64 cut = ~0ull, mass = 0;
    int at = threadIdx.x;
    if (at < s->n_list) {
        pick_above a = pick_above_of(s, at);
        if ((by_mass ? a.mass : a.rank) < want) {
            mass = s->key_mass[at];
            cut = s->key[at];
        }
    }
    *kept_mass = mass_before + pick_sum(mass, s);
    return pick_min(cut, s);
}

#endif
