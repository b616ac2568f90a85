/* moe_sort: uses by expert, in order within an expert, and the tiles that they are cut into.
 *
 * Many uses are sorted by many blocks, each with a run of them: one launch counts each run's uses
 * of every expert, the next finds from all counts where a run's uses go. No place depends on who
 * comes first. */
#include "backend/cuda/moe_few.cuh"

#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"

enum {
    SORT_USES = 256, /* of a block at a time, a thread each */
    SORT_WARPS = SORT_USES / 32,
    SORT_AHEAD = 16, /* runs whose counts are under way at once */
    SORT_GATE_ROWS = SORT_WARPS / MOE_GATE_WARPS,
    SORT_TILE_STEP = 8, /* rows of an expert's tiles but the last are a multiple: wgmma's N */
};

/* Uses cut into runs of `run`, whole turns of SORT_USES. */
typedef struct {
    const int32_t *ids;
    int n_uses, X, K;
    int run, n_runs;
    int *counts; /* [n_runs, X] */
} sort_params;

/* moe_count_kernel: uses of every expert in each run; and the gate, which has nothing to do with
 * it but is over as soon.
 *
 * Grid     a block a run, then one for every two rows of the gate; block 256
 * Shared   a count an expert */
__global__ void __launch_bounds__(SORT_USES) moe_count_kernel(sort_params p, moe_gate gate)
{
    extern __shared__ int count[]; /* [X] */
    __shared__ float sums[SORT_WARPS];
    launch_next();
    int block = static_cast<int>(blockIdx.x) - p.n_runs;
    if (block >= 0) {
        moe_gate_fetch(gate);
        launch_wait();
        int64_t t = block * SORT_GATE_ROWS + (threadIdx.x >> 5) / MOE_GATE_WARPS;
        moe_gate_x x = {gate.x + t * gate.K, gate.K};
        moe_gate_row(gate, t < gate.T ? t : -1, x, sums);
        return;
    }
    for (int e = threadIdx.x; e < p.X; e += SORT_USES) count[e] = 0;
    launch_wait();
    __syncthreads(); /* counts are zero */
    int begin = blockIdx.x * p.run, end = min(p.n_uses, begin + p.run);
    for (int u = begin + threadIdx.x; u < end; u += SORT_USES) atomicAdd(&count[p.ids[u]], 1);
    __syncthreads(); /* all are counted */
    for (int e = threadIdx.x; e < p.X; e += SORT_USES)
        p.counts[int64_t(blockIdx.x) * p.X + e] = count[e];
}

/* Uses of expert e in all runs, and in those before this block's. */
__device__ static inline int2 sort_totals(const sort_params &p, int e)
{
    int2 n = {0, 0};
    for (int from = 0; from < p.n_runs; from += SORT_AHEAD) {
        int v[SORT_AHEAD];
#pragma unroll
        for (int i = 0; i < SORT_AHEAD; i++)
            v[i] = from + i < p.n_runs ? p.counts[int64_t(from + i) * p.X + e] : 0;
#pragma unroll
        for (int i = 0; i < SORT_AHEAD; i++) {
            n.x += v[i];
            if (from + i < static_cast<int>(blockIdx.x)) n.y += v[i];
        }
    }
    return n;
}

/* The tiles of expert e, the first of them number `tile`: alike, but the last may have fewer rows.
 */
__device__ static inline void sort_cut(const moe_sorted &to, int e, int place, int count, int tile,
                                       int n_tiles)
{
    if (n_tiles == 0) return;
    int rows = (count + n_tiles - 1) / n_tiles;
    rows = min(to.columns, (rows + SORT_TILE_STEP - 1) / SORT_TILE_STEP * SORT_TILE_STEP);
    for (int at = 0; at < count; at += rows)
        to.tiles[tile++] = tile_rows{e, place + at, min(rows, count - at)};
}

/* moe_place_kernel: where the uses of each run go, and the tiles.
 *
 * Grid     a block a run; a thread an expert, and the first 256 a use at a time
 * Shared   place[expert] of the next use; count[warp][expert], then that warp's place
 * Needs    X <= 1024, ids in [0, X), counts of all runs
 * Moves    all counts into every block: they are few, and a launch between would take longer */
__global__ void moe_place_kernel(sort_params p, moe_sorted to)
{
    extern __shared__ int place[]; /* [1 + SORT_WARPS][X] */
    __shared__ unsigned long long sums[32];
    int *counts = place + p.X, e = threadIdx.x, warp = e >> 5, lane = e & 31;
    launch_join();
    int2 n = e < p.X ? sort_totals(p, e) : make_int2(0, 0);
    /* Places and tiles before this expert: running sums of both in one word. */
    int n_tiles = (n.x + to.columns - 1) / to.columns;
    uint64_t before = block_sum_before(static_cast<uint64_t>(n_tiles) << 32 | n.x, sums);
    int first = static_cast<int>(before), tile = static_cast<int>(before >> 32);
    if (e < p.X) place[e] = first + n.y;
    if (blockIdx.x == 0 && e < p.X) {
        sort_cut(to, e, first, n.x, tile, n_tiles);
        if (e == p.X - 1) *to.n_tiles = tile + n_tiles;
    }
    if (blockIdx.x == 0 && e > 0 && e < MOE_COUNTS) to.n_tiles[e] = 0;
    int begin = blockIdx.x * p.run, end = min(p.n_uses, begin + p.run);
    for (int from = begin; from < end; from += SORT_USES) {
        for (int i = threadIdx.x; i < SORT_WARPS * p.X; i += blockDim.x) counts[i] = 0;
        __syncthreads(); /* counts are zero, places stand */
        int u = from + e, id = -1, ahead = 0;
        if (warp < SORT_WARPS) {
            if (u < end) id = p.ids[u];
            uint32_t same = __match_any_sync(WARP_ALL, id);
            ahead = __popc(same & ((1u << lane) - 1));
            if (id >= 0 && ahead == 0) counts[warp * p.X + id] = __popc(same);
        }
        __syncthreads(); /* counts of all warps */
        if (e < p.X) {
            int at = place[e];
#pragma unroll
            for (int w = 0; w < SORT_WARPS; w++) {
                int k = counts[w * p.X + e];
                counts[w * p.X + e] = at;
                at += k;
            }
            place[e] = at;
        }
        __syncthreads(); /* places of all warps */
        if (id >= 0) {
            int at = counts[warp * p.X + id] + ahead;
            to.use_row[at] = u / p.K;
            to.use[at] = u;
        }
        __syncthreads(); /* read before they are counts again */
    }
}

/* moe_sort_few_kernel: the same for few uses.
 *
 * Does     moe_sort_few
 * Grid     one block of X threads, rounded up to warps
 * Needs    X <= 1024, MOE_FEW uses at most */
__global__ void moe_sort_few_kernel(const int32_t *ids, int n_uses, int X, int K, moe_sorted to)
{
    launch_join();
    __shared__ int expert[MOE_FEW], sums[32];
    for (int u = threadIdx.x; u < n_uses; u += blockDim.x) expert[u] = ids[u];
    __syncthreads(); /* the experts of all uses */
    moe_sort_few(to, expert, n_uses, X, K, sums);
}

status moe_sort_run(cuda_backend *cb, const moe_uses *a, const moe_sorted *to, const moe_gate *gate)
{
    bool is_early = cb->sm == 90;
    if (a->n <= MOE_FEW) {
        launch_early(is_early, moe_sort_few_kernel, dim3(1), div_up(a->X, 32) * 32, 0, cb->stream,
                     a->ids, a->n, a->X, a->K, *to);
        TRY(CUDA_LAUNCHED(cb));
        return gate ? moe_gate_run(cb, gate) : ERR_OK;
    }
    int turns = div_up<int>(a->n, SORT_USES), word = static_cast<int>(sizeof(int));
    sort_params p = {a->ids, a->n, a->X, a->K, 0, 0, a->counts};
    p.run = div_up<int>(turns, MOE_RUNS) * SORT_USES;
    p.n_runs = div_up(a->n, p.run);
    int gate_blocks = gate ? div_up<int>(gate->T, SORT_GATE_ROWS) : 0;
    launch_early(is_early, moe_count_kernel, dim3(p.n_runs + gate_blocks), SORT_USES, a->X * word,
                 cb->stream, p, gate ? *gate : moe_gate{});
    TRY(CUDA_LAUNCHED(cb));
    int threads = a->X > SORT_USES ? div_up(a->X, 32) * 32 : static_cast<int>(SORT_USES);
    launch_early(is_early, moe_place_kernel, dim3(p.n_runs), threads,
                 (1 + SORT_WARPS) * a->X * word, cb->stream, p, *to);
    return CUDA_LAUNCHED(cb);
}
