/* The draft's context K and V into the ring (ops.h:draft_kv_write_args). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/head_norm.cuh"
#include "backend/cuda/launch_early.cuh"

typedef struct {
    const bf16 *k, *v;
    const float *k_norm;
    bf16 *ring_k, *ring_v;
    int R;
} draft_kv_layer;

typedef struct {
    draft_kv_layer layer[OPS_RINGS_MAX];
    const float *cs;
    const int32_t *row_lane, *row_pos, *lane_row, *lane_slot, *n_commit;
    float eps;
    int T, G, D;
} draft_kv_params;

/* draft_kv_write_kernel: one head's K or V of one row of one layer.
 *
 * Does     the op of ops.h:draft_kv_write_args; unit u of a row: K of head u, then V
 * Grid     (., layers): a warp a (row, unit), HEAD_WARPS a block
 * Shared   a vector in f32 a warp
 * Needs    D even, at most HEAD_MAX
 * Moves    reads and writes each stored vector once
 * Why      a row that a later row of the same call would overwrite is left out: its write and the
 *          later one would race */
__global__ void __launch_bounds__(32 * HEAD_WARPS)
    draft_kv_write_kernel(const __grid_constant__ draft_kv_params p)
{
    launch_join();
    __shared__ float vectors[HEAD_WARPS][HEAD_MAX];
    int warp = threadIdx.x >> 5, units = 2 * p.G;
    int64_t unit = static_cast<int64_t>(blockIdx.x) * HEAD_WARPS + warp, t = unit / units;
    if (t >= p.T) return;
    const draft_kv_layer &layer = p.layer[blockIdx.y];
    int u = static_cast<int>(unit % units), l = p.row_lane[t];
    if (l < 0) return;
    int first = p.lane_row[l], index = static_cast<int>(t) - first;
    int n = p.n_commit ? p.n_commit[l] : p.lane_row[l + 1] - first;
    if (index >= n || index < n - layer.R) return;
    bool is_key = u < p.G;
    int g = is_key ? u : u - p.G;
    int64_t from = (t * p.G + g) * p.D;
    int64_t head = static_cast<int64_t>(p.lane_slot[l]) * p.G + g;
    int64_t to = (head * layer.R + p.row_pos[t] % layer.R) * p.D;
    float *y = vectors[warp];
    head_lane h;
    if (is_key) head_weights(h, layer.k_norm, p.D), head_angles(h, p.cs + t * p.D, p.D / 2);
    head_load((is_key ? layer.k : layer.v) + from, p.D, y);
    if (is_key) head_norm_rotate(y, h, p.eps, p.D, p.D / 2);
    head_store(y, p.D, (is_key ? layer.ring_k : layer.ring_v) + to);
}

extern "C" status cuda_draft_kv_write(backend *b, const draft_kv_write_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->D > HEAD_MAX || a->D % 2)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "draft_kv_write", -1, "head size %d", a->D);
    draft_kv_params p = {};
    for (int i = 0; i < a->n_layers; i++) {
        p.layer[i] = {buf_of<bf16>(a->layer[i].k),       buf_of<bf16>(a->layer[i].v),
                      buf_of<float>(a->layer[i].k_norm), buf_of<bf16>(a->layer[i].ring.k),
                      buf_of<bf16>(a->layer[i].ring.v),  a->layer[i].ring.R};
    }
    p.cs = buf_of<float>(a->cs);
    p.row_lane = buf_of<int32_t>(a->rows.row_lane);
    p.row_pos = buf_of<int32_t>(a->rows.row_pos);
    p.lane_row = buf_of<int32_t>(a->rows.lane_row);
    p.lane_slot = buf_of<int32_t>(a->rows.lane_slot);
    p.n_commit = buf_of<int32_t>(a->n_commit);
    p.eps = a->eps;
    p.T = a->rows.T, p.G = a->G, p.D = a->D;
    int64_t warps = static_cast<int64_t>(p.T) * 2 * p.G;
    if (warps == 0 || a->n_layers == 0) return cb->broken;
    dim3 grid(static_cast<unsigned>(div_up<int64_t>(warps, HEAD_WARPS)), a->n_layers);
    CUDA_TRY(cb, launch_early(cb->sm == 90, draft_kv_write_kernel, grid, 32 * HEAD_WARPS, 0,
                              cb->stream, p));
    return cb->broken;
}
