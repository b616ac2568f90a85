/* moe_wide: the launches of moe_wide.cuh. */
#include "backend/cuda/moe_wide.cuh"

#include <math.h>

#include "backend/cuda/cuda_check.cuh"

static bool is_fit(const dev_weight *w)
{
    return linear_weight_bits(w) == 4 && w->group != 32 && w->K % moe_wide_shape::STAGE_K == 0 &&
           w->N % PICK_BRICK_N == 0;
}

bool moe_wide_can(const cuda_backend *cb, const moe_ffn_args *a, const bf16 *x)
{
    if (cb->sm != 90 || reinterpret_cast<uintptr_t>(x) % 16 != 0) return false;
    /* 32 outputs of a warp are stored whole. */
    return is_fit(a->gate) && is_fit(a->up) && is_fit(a->down) && a->down->N % 32 == 0 &&
           linear_is_pair(a->gate, a->up);
}

/* The map of a weight's bricks: a row is 16 outputs' bricks along K, a box two bricks of `blocks`
 * such rows. */
static status map_init(cuda_backend *cb, CUtensorMap *map, const dev_weight *w, int X, int blocks)
{
    using S = moe_wide_shape;
    cuuint64_t row = static_cast<cuuint64_t>(w->K / PICK_BRICK_K) * S::BRICK;
    cuuint64_t size[2] = {row / 8, static_cast<cuuint64_t>(w->N / PICK_BRICK_N) * X};
    cuuint32_t box[2] = {S::BRICKS / 8, static_cast<cuuint32_t>(blocks)}, step[2] = {1, 1};
    auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(cb->map_encode);
    CUresult r = encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT64, 2, w->data.ptr, size, &row, box, step,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return cuda_status(cb, r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue, "tensor map",
                       __FILE__, __LINE__);
}

bool moe_wide_can_share(const moe_ffn_args *a)
{
    if (!a->s_gate || !is_fit(a->s_gate) || !is_fit(a->s_up) || !is_fit(a->s_down)) return false;
    if (!linear_is_pair(a->s_gate, a->s_up) || a->s_gate->N != a->gate->N) return false;
    return cuda_pick_split(a->s_down->N, a->s_down->K, false).slices == 1;
}

template <bool IS_PAIR>
static status run(cuda_backend *cb, const moe_wide_args *a, const moe_wide_maps *maps)
{
    cudaError_t r = launch_early(true, moe_wide_kernel<IS_PAIR>, dim3(cb->n_sms),
                                 moe_wide_shape::THREADS, moe_wide_shape::SHARED, cb->stream, *a,
                                 *maps);
    return cuda_status(cb, r, "experts", __FILE__, __LINE__);
}

static moe_wide_args args_of(const moe_wide_tiles *t, const dev_weight *w, int outputs)
{
    moe_wide_args m = {};
    m.t = *t;
    m.N = w->N;
    m.K = w->K;
    m.n_blocks = static_cast<int>(w->N / PICK_BRICK_N);
    m.n_groups = static_cast<int>(div_up<int64_t>(w->N, outputs));
    return m;
}

/* The shared expert's T rows as tiles before the experts'. */
static void share_rows(moe_wide_args *m, const dev_weight *w, int T)
{
    pick_split split = cuda_pick_split(w->N, w->K, false);
    bool has_slices = split.slices > 1;
    m->slice_stages = has_slices ? split.slice_bricks / moe_wide_shape::STAGE_BRICKS : 0;
    m->shared_T = T;
    m->shared_columns = has_slices ? MOE_WIDE_ROWS / 2 : MOE_WIDE_ROWS;
    m->shared_tiles = div_up(T, m->shared_columns);
}

status moe_wide_gate_up(cuda_backend *cb, const moe_ffn_args *a, const moe_wide_tiles *t,
                        const bf16 *x, const int *x_row, bf16 *act, const moe_wide_extra *shared)
{
    constexpr int BLOCKS = moe_wide_shape::BLOCKS / 2;
    moe_wide_args m = args_of(t, a->gate, BLOCKS * PICK_BRICK_N);
    moe_wide_maps maps = {};
    m.experts = {x, act, {ldexpf(1.0f, a->gate->layout), ldexpf(1.0f, a->up->layout)}};
    m.x_row = x_row;
    TRY(map_init(cb, &maps.experts[0], a->gate, a->X, BLOCKS));
    TRY(map_init(cb, &maps.experts[1], a->up, a->X, BLOCKS));
    if (shared) {
        share_rows(&m, a->s_gate, shared->T);
        m.shared = {
            x, shared->act, {ldexpf(1.0f, a->s_gate->layout), ldexpf(1.0f, a->s_up->layout)}};
        TRY(map_init(cb, &maps.shared[0], a->s_gate, 1, BLOCKS));
        TRY(map_init(cb, &maps.shared[1], a->s_up, 1, BLOCKS));
    }
    return run<true>(cb, &m, &maps);
}

status moe_wide_down(cuda_backend *cb, const moe_ffn_args *a, const moe_wide_tiles *t,
                     const bf16 *act, const int *use, float *product, const moe_wide_extra *shared)
{
    constexpr int BLOCKS = moe_wide_shape::BLOCKS;
    moe_wide_args m = args_of(t, a->down, BLOCKS * PICK_BRICK_N);
    moe_wide_maps maps = {};
    m.experts = {act, product, {ldexpf(1.0f, a->down->layout)}};
    m.y_row = use;
    TRY(map_init(cb, &maps.experts[0], a->down, a->X, BLOCKS));
    if (shared) {
        share_rows(&m, a->s_down, shared->T);
        m.shared = {shared->act, shared->product, {ldexpf(1.0f, a->s_down->layout)}};
        TRY(map_init(cb, &maps.shared[0], a->s_down, 1, BLOCKS));
    }
    return run<false>(cb, &m, &maps);
}

status moe_wide_open(cuda_backend *cb)
{
    if (cb->sm != 90) return ERR_OK;
    CUDA_TRY(cb, cudaFuncSetAttribute(moe_wide_kernel<true>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      moe_wide_shape::SHARED));
    CUDA_TRY(cb, cudaFuncSetAttribute(moe_wide_kernel<false>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      moe_wide_shape::SHARED));
    return ERR_OK;
}
