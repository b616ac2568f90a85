/* Paged attention (ops.h:attn_args): one arithmetic for 1 row and for a prompt. */
#include "backend/cuda/attn_few_run.cuh"
#include "backend/cuda/attn_pair.cuh"
#include "backend/cuda/attn_priv.cuh"
#include "backend/cuda/attn_wide.cuh"
#include "backend/cuda/cuda_check.cuh"

/* The merge of n_rows rows from p.first_head on. */
template <int D> static status attn_launch_merge(cuda_backend *cb, const attn_params &p, int n_rows)
{
    constexpr int COLUMNS = attn_merge_columns<D>;
    auto kernel = attn_merge_kernel<D>;
    CUDA_TRY(cb, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      ATTN_SPLIT_MAX * COLUMNS * 4));
    CUDA_TRY(cb, launch_early(cb->sm == 90, kernel, dim3(n_rows * p.H, D / COLUMNS),
                              ATTN_MERGE_THREADS, p.n_segments * COLUMNS * 4, cb->stream, p));
    return CUDA_LAUNCHED(cb);
}

template <int D, kv_format F, int MT, int MG, int NW, bool Q_IN_REGS>
static status attn_launch(cuda_backend *cb, const attn_params &p, const attn_plan &plan)
{
    constexpr int BYTES = attn_layout<D, F, MT, MG, NW>::BYTES;
    if (BYTES > cb->smem_block_max)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "attn", -1,
                       "needs %d bytes of shared memory a block, this device has %d", BYTES,
                       cb->smem_block_max);
    auto kernel = attn_kernel<D, F, MT, MG, NW, Q_IN_REGS>;
    CUDA_TRY(cb, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    dim3 grid(plan.n_tiles, p.G, plan.is_folded ? 1 : plan.n_segments);
    kernel<<<grid, 32 * NW * MG, BYTES, cb->stream>>>(p);
    TRY(CUDA_LAUNCHED(cb));
    if (plan.is_folded) return ERR_OK;
    return attn_launch_merge<D>(cb, p, p.T);
}

/* The row that a part's first tile begins with. */
static int attn_part_row(const attn_plan &plan, int R, int tile)
{
    return tile * plan.few_pairs / R;
}

/* Some rows on sm_90, split: `kernel` with its Shape for blocks of plan.few_pairs, as many tiles at
 * a time as scratch has room for. */
template <typename Shape>
static status attn_launch_few_as(cuda_backend *cb, const attn_params &p, const attn_plan &plan,
                                 void (*kernel)(attn_params))
{
    CUDA_TRY(cb, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      Shape::BYTES));
    for (int tile = 0; tile < plan.n_tiles; tile += plan.part_tiles) {
        int n = min(plan.n_tiles - tile, plan.part_tiles), row = attn_part_row(plan, p.R, tile);
        bool is_last = tile + n == plan.n_tiles;
        int end = is_last ? p.T : attn_part_row(plan, p.R, tile + n);
        attn_params own = p;
        own.first_tile = tile;
        own.first_head = row * p.H;
        int64_t skipped = static_cast<int64_t>(own.first_head) * p.n_segments;
        own.part -= skipped * Shape::sizes::D;
        own.part_ms -= skipped;
        kernel<<<dim3(n, p.G, plan.n_segments), Shape::THREADS, Shape::BYTES, cb->stream>>>(own);
        TRY(CUDA_LAUNCHED(cb));
        TRY(attn_launch_merge<Shape::sizes::D>(cb, own, end - row));
    }
    return ERR_OK;
}

template <kv_format F>
static status attn_launch_few(cuda_backend *cb, const attn_params &p, const attn_plan &plan)
{
    switch (plan.few_pairs) {
    case 8:
        if constexpr (F == KV_BF16)
            return attn_launch_few_as<attn_few_shape<F, 8>>(cb, p, plan, attn_few_kernel<F, 8>);
        else
            return attn_launch_few_as<attn_pair_shape<F, 8>>(cb, p, plan, attn_pair_kernel<F, 8>);
    case 16:
        return attn_launch_few_as<attn_pair_shape<F, 16>>(cb, p, plan, attn_pair_kernel<F, 16>);
    case 32: return attn_launch_few_as<attn_few_shape<F, 32>>(cb, p, plan, attn_few_kernel<F, 32>);
    case 48: return attn_launch_few_as<attn_few_shape<F, 48>>(cb, p, plan, attn_few_kernel<F, 48>);
    default: return attn_launch_few_as<attn_few_shape<F, 64>>(cb, p, plan, attn_few_kernel<F, 64>);
    }
}

template <kv_format F>
static status attn_launch_wide(cuda_backend *cb, const attn_params &p, const attn_plan &plan)
{
    using S = attn_wide_shape;
    auto kernel = attn_wide_kernel<F>;
    CUDA_TRY(cb,
             cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::BYTES));
    kernel<<<dim3(p.G, plan.n_tiles), S::THREADS, S::BYTES, cb->stream>>>(p);
    return CUDA_LAUNCHED(cb);
}

/* Narrow tiles only where the models need them: D 256 with a cache that decode uses; elsewhere
 * surplus blocks end at once. Queries stay in registers where that was faster
 * (bench/notes_cuda_attn.md). */
template <int D, kv_format F>
static status attn_launch_tile(cuda_backend *cb, const attn_params &p, const attn_plan &plan)
{
    if constexpr (D == attn_wide_shape::D && F != KV_F32) {
        if (plan.few_pairs) return attn_launch_few<F>(cb, p, plan);
        if (plan.m_tiles == 8) return attn_launch_wide<F>(cb, p, plan);
        if (plan.is_folded && plan.m_tiles == 2)
            return attn_launch<D, F, 1, 2, 4, true>(cb, p, plan);
        if (!plan.is_folded) {
            if (plan.m_tiles == 1) return attn_launch<D, F, 1, 1, 8, F == KV_BF16>(cb, p, plan);
            if (plan.m_tiles == 2) return attn_launch<D, F, 2, 1, 8, false>(cb, p, plan);
            if (plan.m_tiles == 3) return attn_launch<D, F, 3, 1, 4, false>(cb, p, plan);
        }
    }
    if (plan.is_folded) return attn_launch<D, F, 2, 2, 4, false>(cb, p, plan);
    return attn_launch<D, F, 4, 1, 4, false>(cb, p, plan);
}

template <int D>
static status attn_launch_format(cuda_backend *cb, const attn_params &p, const attn_plan &plan,
                                 kv_format f)
{
    switch (f) {
    case KV_INT8:
        if constexpr (D % 64 == 0) return attn_launch_tile<D, KV_INT8>(cb, p, plan);
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "attn", -1, "int8 with head size %d", D);
    case KV_BF16: return attn_launch_tile<D, KV_BF16>(cb, p, plan);
    default: return attn_launch_tile<D, KV_F32>(cb, p, plan);
    }
}

extern "C" status cuda_attn(backend *b, const attn_args *a)
{
    cuda_backend *cb = cuda_of(b);
    const ops_rows *r = &a->rows;
    if (r->T < 1 || r->L < 1) return cb->broken;
    bool has_wide = cb->sm == 90 && a->D == attn_wide_shape::D && a->kv.format != KV_F32 &&
                    cb->smem_block_max >= attn_wide_shape::BYTES;
    attn_plan plan = attn_pick(r->T, r->L, r->max_rows, r->max_len, a->G, a->H / a->G, a->D,
                               has_wide, cb->scratch.n_bytes - 256);
    attn_params p = {};
    p.q = buf_of<bf16>(a->q);
    p.qg = buf_of<bf16>(a->qg);
    p.k = buf_of<uint8_t>(a->kv.k);
    p.v = buf_of<uint8_t>(a->kv.v);
    p.k_scale = buf_of<float>(a->kv.k_scale);
    p.v_scale = buf_of<float>(a->kv.v_scale);
    p.row_lane = buf_of<int32_t>(r->row_lane);
    p.row_pos = buf_of<int32_t>(r->row_pos);
    p.lane_row = buf_of<int32_t>(r->lane_row);
    p.lane_slot = buf_of<int32_t>(r->lane_slot);
    p.table = buf_of<int32_t>(r->table);
    p.out = buf_of<bf16>(a->out);
    p.T = r->T, p.L = r->L, p.H = a->H, p.G = a->G;
    attn_params_set_R(&p);
    if (!plan.is_folded) {
        p.part = scratch_at<float>(cb, 0);
        bool has_parts = plan.part_tiles < plan.n_tiles;
        int rows = has_parts ? attn_part_row(plan, p.R, plan.part_tiles) : r->T;
        int64_t n_cells = (int64_t)rows * a->H * plan.n_segments;
        p.part_ms = scratch_at<float2>(cb, scratch_round(n_cells * a->D * 4));
    }
    p.c = a->scale * ATTN_LOG2E;
    p.unit = a->kv.format == KV_INT8 ? 1.0f / ATTN_INT8_UNIT : 1.0f;
    p.table_stride = r->table_stride;
    p.n_segments = plan.n_segments;
    p.has_gate = a->has_gate;
    switch (a->D) {
    case 32: return attn_launch_format<32>(cb, p, plan, a->kv.format);
    case 64: return attn_launch_format<64>(cb, p, plan, a->kv.format);
    case 96: return attn_launch_format<96>(cb, p, plan, a->kv.format);
    case 128: return attn_launch_format<128>(cb, p, plan, a->kv.format);
    case 256: return attn_launch_format<256>(cb, p, plan, a->kv.format);
    default:
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "attn", -1,
                       "head size %d, this build has 32, 64, 96, 128 and 256", a->D);
    }
}

/* Room to split every verify call, within bounds. Longer calls are split a part at a time or fold
 * (attn_pick). */
extern "C" int64_t cuda_attn_scratch(const backend_limits *l)
{
    const int64_t most = 192ll << 20;
    if (l->H < 1 || l->max_position < 1) return 0;
    int64_t rows = (int64_t)l->L * (l->rows_per_lane > 0 ? l->rows_per_lane : 1);
    if (rows > l->T && l->T > 0) rows = l->T;
    int64_t n_bytes =
        attn_split_bytes(rows * l->H, attn_segment_of((int)l->max_position - 1) + 1, l->D) + 512;
    return n_bytes < most ? n_bytes : most;
}
