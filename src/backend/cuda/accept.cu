/* Accept and cut (ops.h:accept_args). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"

typedef struct {
    const int32_t *ids, *lane_row, *lane_slot, *token, *max_new;
    const sample_policy *policy;
    uint32_t *counts; /* NULL: not kept */
    int32_t *n_commit, *emitted;
    int L, V;
} accept_params;

__device__ static inline bool accept_is_eos(const sample_policy &p, int32_t id)
{
    bool found = false;
    for (int i = 0; i < p.n_eos; i++) found |= p.eos[i] == id;
    return found;
}

/* accept_kernel: one lane.
 *
 * Does     the op of ops.h:accept_args
 * Grid     a thread a lane
 * Needs    at most OPS_ROWS_MAX rows a lane
 * Why      a lane's tokens may repeat, and no other lane has its slot: plain additions in order */
__global__ void accept_kernel(accept_params p)
{
    launch_join();
    int l = blockIdx.x * blockDim.x + threadIdx.x;
    if (l >= p.L) return;
    int first = p.lane_row[l], n_rows = min(p.lane_row[l + 1] - first, (int)OPS_ROWS_MAX), n = 0;
    const int32_t *token = p.token + first;
    uint32_t *counts = nullptr;
    if (n_rows > 0) {
        int64_t slot = p.lane_slot[l];
        const sample_policy &policy = p.policy[slot];
        if (p.counts) counts = p.counts + slot * p.V;
        int most = min(n_rows, p.max_new[l]);
        bool ends = false;
        while (!ends) {
            ends = n + 1 >= most || p.ids[first + n + 1] != token[n] ||
                   accept_is_eos(policy, token[n]);
            n++;
        }
    }
    for (int i = 0; i < OPS_ROWS_MAX; i++) p.emitted[l * OPS_ROWS_MAX + i] = i < n ? token[i] : -1;
    for (int i = 0; counts && i < n; i++) counts[token[i]]++;
    p.n_commit[l] = n;
}

extern "C" status cuda_accept(backend *b, const accept_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->rows.L < 1) return cb->broken;
    accept_params p = {};
    p.ids = buf_of<int32_t>(a->rows.ids);
    p.lane_row = buf_of<int32_t>(a->rows.lane_row);
    p.lane_slot = buf_of<int32_t>(a->rows.lane_slot);
    p.token = buf_of<int32_t>(a->token);
    p.max_new = buf_of<int32_t>(a->max_new);
    p.policy = buf_of<sample_policy>(a->lanes.policy);
    p.counts = buf_of<uint32_t>(a->lanes.counts);
    p.n_commit = buf_of<int32_t>(a->n_commit);
    p.emitted = buf_of<int32_t>(a->emitted);
    p.L = a->rows.L, p.V = a->V;
    accept_kernel<<<div_up(p.L, 32), 32, 0, cb->stream>>>(p);
    return CUDA_LAUNCHED(cb);
}
