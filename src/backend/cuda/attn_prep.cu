/* Query and key norms, rotation, and storing K and V in the cache (ops.h:attn_prep_args). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/head_norm.cuh"
#include "backend/cuda/launch_early.cuh"

typedef struct {
    const bf16 *qg, *k, *v;
    const float *q_norm, *k_norm, *cs;
    bf16 *q;
    void *cache_k, *cache_v;
    float *k_scale, *v_scale;
    const int32_t *row_lane, *row_pos, *lane_slot, *table;
    kv_format format;
    float eps;
    int T, H, G, D, n_pairs, q_stride, table_stride;
} attn_prep_params;

/* Symmetric int8 (quant.h): the scale is max|y| / 127, codes round half to even. A NaN makes the
 * scale NaN, so that it is not lost in the cache. */
__device__ static inline void kv_store_int8(const float *y, int D, int8_t *out, float *scale)
{
    int lane = threadIdx.x & 31;
    float most = 0.0f;
    bool is_nan = false;
    for (int d = lane; d < D; d += 32) {
        most = fmaxf(most, fabsf(y[d]));
        is_nan |= isnan(y[d]);
    }
    float s = __fdiv_rn(warp_max(most), 127.0f);
    if (__any_sync(WARP_ALL, is_nan)) s = __int_as_float(0x7fc00000);
    for (int d = 4 * lane; d < D; d += 128) {
        uint32_t codes = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float q = s > 0.0f ? rintf(__fdiv_rn(y[d + i], s)) : 0.0f;
            q = fminf(fmaxf(q, -127.0f), 127.0f);
            codes |= (static_cast<uint32_t>(static_cast<int>(q)) & 0xffu) << (8 * i);
        }
        *reinterpret_cast<uint32_t *>(out + d) = codes;
    }
    if (lane == 0) *scale = s;
}

/* One vector into cell `cell` of a cache. */
__device__ static inline void kv_store(kv_format format, const float *y, int D, int64_t cell,
                                       void *data, float *scale)
{
    if (format == KV_INT8) {
        kv_store_int8(y, D, static_cast<int8_t *>(data) + cell * D, scale + cell);
    } else if (format == KV_BF16) {
        head_store(y, D, static_cast<bf16 *>(data) + cell * D);
    } else {
        float *to = static_cast<float *>(data) + cell * D;
        for (int d = threadIdx.x & 31; d < D; d += 32) to[d] = y[d];
    }
}

/* attn_prep_kernel: one head's vector of one row.
 *
 * Does     the op of ops.h:attn_prep_args; unit u of a row: q head u, then k and v of each KV head
 * Grid     a warp a (row, unit), HEAD_WARPS a block
 * Shared   a vector in f32 a warp
 * Needs    D a multiple of 4, at most HEAD_MAX
 * Moves    reads and writes each vector once
 * Numbers  f32; q and k rounded once, from the rotated f32 values */
__global__ void __launch_bounds__(32 * HEAD_WARPS) attn_prep_kernel(attn_prep_params p)
{
    launch_next();
    __shared__ float vectors[HEAD_WARPS][HEAD_MAX];
    int warp = threadIdx.x >> 5, units = p.H + 2 * p.G;
    int64_t unit = static_cast<int64_t>(blockIdx.x) * HEAD_WARPS + warp, t = unit / units;
    if (t >= p.T) return;
    /* Before there is anything to wait for: weights, and what rows there are, which no kernel
     * writes. */
    int u = static_cast<int>(unit - t * units), lane_of_row = p.row_lane[t], pos = p.row_pos[t];
    bool is_query = u < p.H, is_key = !is_query && u < p.H + p.G;
    int g = u - p.H - (is_key ? 0 : p.G);
    head_lane h;
    if (is_query || is_key) head_weights(h, is_query ? p.q_norm : p.k_norm, p.D);
    int64_t cell = 0;
    if (!is_query && lane_of_row >= 0) {
        int64_t at = static_cast<int64_t>(p.lane_slot[lane_of_row]) * p.table_stride;
        cell = (static_cast<int64_t>(p.table[at + pos / OPS_BLOCK]) * p.G + g) * OPS_BLOCK +
               pos % OPS_BLOCK;
    }
    launch_wait();
    if (lane_of_row < 0) return;
    float *y = vectors[warp];
    if (is_query || is_key) head_angles(h, p.cs + t * p.n_pairs * 2, p.n_pairs);
    head_load(is_query ? p.qg + (t * p.H + u) * p.q_stride
                       : (is_key ? p.k : p.v) + (t * p.G + g) * p.D,
              p.D, y);
    if (is_query || is_key) head_norm_rotate(y, h, p.eps, p.D, p.n_pairs);
    if (is_query) {
        head_store(y, p.D, p.q + (t * p.H + u) * p.D);
    } else {
        kv_store(p.format, y, p.D, cell, is_key ? p.cache_k : p.cache_v,
                 is_key ? p.k_scale : p.v_scale);
    }
}

extern "C" status cuda_attn_prep(backend *b, const attn_prep_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->D > HEAD_MAX || a->D % 4)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "attn_prep", -1, "head size %d", a->D);
    attn_prep_params p = {};
    p.qg = buf_of<bf16>(a->qg);
    p.k = buf_of<bf16>(a->k);
    p.v = buf_of<bf16>(a->v);
    p.q_norm = buf_of<float>(a->q_norm);
    p.k_norm = buf_of<float>(a->k_norm);
    p.cs = buf_of<float>(a->cs);
    p.q = buf_of<bf16>(a->q);
    p.cache_k = a->kv.k.ptr;
    p.cache_v = a->kv.v.ptr;
    p.k_scale = buf_of<float>(a->kv.k_scale);
    p.v_scale = buf_of<float>(a->kv.v_scale);
    p.row_lane = buf_of<int32_t>(a->rows.row_lane);
    p.row_pos = buf_of<int32_t>(a->rows.row_pos);
    p.lane_slot = buf_of<int32_t>(a->rows.lane_slot);
    p.table = buf_of<int32_t>(a->rows.table);
    p.format = a->kv.format;
    p.eps = a->eps;
    p.T = a->rows.T, p.H = a->H, p.G = a->G, p.D = a->D;
    p.n_pairs = a->n_pairs;
    p.q_stride = a->has_gate ? 2 * a->D : a->D;
    p.table_stride = a->rows.table_stride;
    int64_t warps = static_cast<int64_t>(p.T) * (p.H + 2 * p.G);
    if (warps == 0) return cb->broken;
    launch_early(cb->sm == 90, attn_prep_kernel, dim3(div_up<int64_t>(warps, HEAD_WARPS)),
                 32 * HEAD_WARPS, 0, cb->stream, p);
    return CUDA_LAUNCHED(cb);
}
