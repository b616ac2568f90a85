/* Marking a prompt's tokens for the repetition penalty (ops.h:count_prompt_args). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"

/* count_prompt_kernel: one row.
 *
 * Does     counts[slot][ids[t]] |= SAMPLE_IN_PROMPT
 * Grid     a thread a row
 * Why      rows may share a token; an integer or gives one result in any order */
__global__ void count_prompt_kernel(const int32_t *ids, const int32_t *row_lane,
                                    const int32_t *lane_slot, uint32_t *counts, int T, int V)
{
    launch_join();
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= T || row_lane[t] < 0) return;
    atomicOr(counts + static_cast<int64_t>(lane_slot[row_lane[t]]) * V + ids[t], SAMPLE_IN_PROMPT);
}

extern "C" status cuda_count_prompt(backend *b, const count_prompt_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->rows.T < 1) return cb->broken;
    count_prompt_kernel<<<div_up(a->rows.T, 128), 128, 0, cb->stream>>>(
        buf_of<int32_t>(a->rows.ids), buf_of<int32_t>(a->rows.row_lane),
        buf_of<int32_t>(a->rows.lane_slot), buf_of<uint32_t>(a->counts), a->rows.T, a->V);
    return CUDA_LAUNCHED(cb);
}
