/* Routing, sort and gate of few rows: three launches of one or two blocks, of which each is over
 * before it has begun to be busy, as one. */
#include "backend/cuda/moe_few.cuh"

#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/moe_route.cuh"
#include "backend/cuda/waiting.cuh"

enum { FEW_EXPERTS = 256, GATE_THREADS = 256, GATE_ROWS = GATE_THREADS / 32 / MOE_GATE_WARPS };

typedef struct {
    const float *logits;
    int32_t *ids;
    float *w;
    int T, X, K;
    moe_sorted to;
    moe_gate gate;
} moe_few_params;

/* moe_few_kernel
 *
 * Does     moe_route_row of all rows, then moe_sort_few of their ids; moe_gate_row
 * Grid     one block, and one for every two rows of the gate; a warp a row, a thread an expert
 * Shared   the uses' experts
 * Needs    X <= FEW_EXPERTS, MOE_FEW uses at most
 * Numbers  those of the ops apart */
__global__ void __launch_bounds__(FEW_EXPERTS) moe_few_kernel(moe_few_params p)
{
    __shared__ int expert[MOE_FEW], sums[FEW_EXPERTS / 32];
    launch_next();
    if (blockIdx.x > 0) moe_gate_fetch(p.gate);
    launch_wait();
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (blockIdx.x > 0) {
        __shared__ float gate[FEW_EXPERTS / 32];
        int t = (blockIdx.x - 1) * GATE_ROWS + warp / MOE_GATE_WARPS;
        moe_gate_x x = {p.gate.x + t * p.gate.K, p.gate.K};
        moe_gate_row(p.gate, t < p.gate.T ? t : -1, x, gate);
        return;
    }
    for (int t = warp; t < p.T; t += FEW_EXPERTS / 32) {
        moe_routed r = moe_route_row<FEW_EXPERTS / 32>(p.logits + int64_t(t) * p.X, p.X, p.K);
        if (lane >= p.K) continue;
        p.ids[t * p.K + lane] = r.id;
        p.w[t * p.K + lane] = r.w;
        expert[t * p.K + lane] = r.id;
    }
    __syncthreads(); /* the experts of all uses */
    moe_sort_few(p.to, expert, p.T * p.K, p.X, p.K, sums);
}

/* moe_gate_kernel: moe_gate_row of all rows, two a block. */
__global__ void __launch_bounds__(GATE_THREADS) moe_gate_kernel(moe_gate p)
{
    __shared__ float gate[GATE_THREADS / 32];
    launch_join();
    int64_t t = int64_t(blockIdx.x) * GATE_ROWS + (threadIdx.x >> 5) / MOE_GATE_WARPS;
    moe_gate_x x = {p.x + t * p.K, p.K};
    moe_gate_row(p, t < p.T ? t : -1, x, gate);
}

bool moe_few_serves(const cuda_backend *cb, const moe_route_args *a)
{
    return cb->sm == 90 && a->T <= WAITING_ROWS && a->T * a->K <= MOE_FEW && a->X <= FEW_EXPERTS;
}

bool moe_few_takes(const cuda_backend *cb, const moe_ffn_args *a)
{
    const moe_route_args *r = &cb->waiting.route;
    return cb->waiting.has_route && r->ids.ptr == a->ids.ptr && r->w.ptr == a->w.ptr &&
           r->T == a->T && r->X == a->X && r->K == a->K;
}

status moe_few_run(cuda_backend *cb, const moe_sorted *to, const moe_gate *gate)
{
    const moe_route_args *a = &cb->waiting.route;
    cb->waiting.has_route = false;
    moe_few_params p = {};
    p.logits = buf_of<float>(a->logits);
    p.ids = buf_of<int32_t>(a->ids);
    p.w = buf_of<float>(a->w);
    p.T = a->T, p.X = a->X, p.K = a->K;
    p.to = *to;
    if (gate) p.gate = *gate;
    launch_early(true, moe_few_kernel, dim3(1 + div_up<int>(p.gate.T, GATE_ROWS)), FEW_EXPERTS, 0,
                 cb->stream, p);
    return CUDA_LAUNCHED(cb);
}

status moe_gate_run(cuda_backend *cb, const moe_gate *gate)
{
    launch_early(cb->sm == 90, moe_gate_kernel, dim3(div_up<int>(gate->T, GATE_ROWS)), GATE_THREADS,
                 0, cb->stream, *gate);
    return CUDA_LAUNCHED(cb);
}
