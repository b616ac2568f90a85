/* linear_launch.cuh: from (width, tile) to a kernel; included once a width by linear_bits*.cu. */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_LAUNCH_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_LAUNCH_CUH

#include "backend/cuda/linear_deep.cuh"
#include "backend/cuda/linear_middle.cuh"
#include "backend/cuda/linear_stream.cuh"
#include "backend/cuda/linear_tile.cuh"
#include "backend/cuda/linear_wide.cuh"

typedef struct {
    void (*kernel)(const tile_args);                  /* stream, tile */
    void (*wide)(const tile_args, const CUtensorMap); /* or this one */
    int threads, shared;
    int sums; /* more of shared memory, for slices that meet in a cluster */
} tile_choice;

template <int BITS, int NT> static tile_choice stream_choice(bool has_two)
{
    using S = stream_shape<NT>;
    tile_choice c = {linear_stream_kernel<BITS, NT, false>, nullptr, S::THREADS, S::SHARED,
                     S::SUMS};
    if constexpr (BITS != DEQUANT_BF16) {
        if (has_two) c.kernel = linear_stream_kernel<BITS, NT, true>;
    }
    return c;
}
/* bricks: the most of a block. */
template <int BITS> static tile_choice deep_choice(int outputs, int bricks, bool has_two)
{
    int threads = outputs * 2;
    return {has_two ? linear_deep_kernel<BITS, true> : linear_deep_kernel<BITS, false>, nullptr,
            threads, deep_shared(threads, bricks, dequant_brick_bytes(BITS, has_two)), 0};
}
template <int BITS, int NT, int WN> static tile_choice block_choice(void)
{
    using S = tile_shape<BITS, NT, WN>;
    return {linear_tile_kernel<BITS, NT, WN>, nullptr, S::THREADS, S::SHARED, 0};
}
template <int BITS, int COLUMNS> static tile_choice wide_choice(bool has_slices)
{
    if (has_slices) {
        using S = wide_shape<BITS, COLUMNS, true>;
        return {nullptr, linear_wide_kernel<BITS, COLUMNS, true>, S::THREADS, S::SHARED, 0};
    }
    using S = wide_shape<BITS, COLUMNS, false>;
    return {nullptr, linear_wide_kernel<BITS, COLUMNS, false>, S::THREADS, S::SHARED, 0};
}
template <int BITS, int COLUMNS, int GROUPS> static tile_choice middle_choice(void)
{
    using S = middle_shape<BITS, COLUMNS, GROUPS>;
    return {nullptr, linear_middle_kernel<BITS, COLUMNS, GROUPS>, S::THREADS, S::SHARED, 0};
}
template <int BITS> static tile_choice middle_choice_of(pick_tile t)
{
    constexpr int MANY = PICK_MIDDLE_OUTPUTS / 64, FEW = PICK_MIDDLE_NARROW / 64;
    if (t.columns == 32) {
        return t.outputs == PICK_MIDDLE_NARROW ? middle_choice<BITS, 32, FEW>()
                                               : middle_choice<BITS, 32, MANY>();
    }
    return t.outputs == PICK_MIDDLE_NARROW ? middle_choice<BITS, 64, FEW>()
                                           : middle_choice<BITS, 64, MANY>();
}

template <int BITS>
static tile_choice choice_of(pick_tile t, bool has_slices, bool has_two, int bricks)
{
    if constexpr (BITS == PICK_DEEP_BITS) {
        if (t.kernel == PICK_DEEP) return deep_choice<BITS>(t.outputs, bricks, has_two);
    }
    if constexpr (BITS == PICK_MIDDLE_BITS) {
        if (t.kernel == PICK_MIDDLE) return middle_choice_of<BITS>(t);
    }
    if (t.kernel == PICK_STREAM) {
        if (t.columns == 8) return stream_choice<BITS, 1>(has_two);
        return t.columns == 16 ? stream_choice<BITS, 2>(has_two) : stream_choice<BITS, 4>(has_two);
    }
    if (t.kernel == PICK_WIDE) {
        if (t.columns == 32) return wide_choice<BITS, 32>(has_slices);
        if constexpr (BITS <= 6) {
            if (t.columns == 128) return wide_choice<BITS, 128>(has_slices);
        }
        if constexpr (BITS == 4) {
            if (t.columns == PICK_ROUNDS_COLUMNS) {
                return wide_choice<BITS, PICK_ROUNDS_COLUMNS>(has_slices);
            }
            if (t.columns == 96) { /* experts alone, which have one slice */
                using S = wide_shape<BITS, 96, false>;
                return {nullptr, linear_wide_kernel<BITS, 96, false>, S::THREADS, S::SHARED, 0};
            }
        }
        return wide_choice<BITS, 64>(has_slices);
    }
    if (t.columns == 32) return block_choice<BITS, 4, 1>();
    if (t.columns == 64) return block_choice<BITS, 8, 1>();
    return block_choice<BITS, 8, 2>();
}

template <int BITS>
cudaError_t linear_tile_launch(const tile_launch *l, const tile_args *a, const CUtensorMap *map)
{
    tile_choice c = choice_of<BITS>(l->tile, l->has_slices, a->has_two_groups, l->bricks);
    if (c.wide) {
        return launch_early(l->is_early, c.wide, l->grid, c.threads, c.shared, l->stream, *a, *map);
    }
    if (a->cluster) {
        return launch_clusters_with(c.kernel, l->grid, a->cluster, c.threads, c.shared + c.sums,
                                    l->stream, *a);
    }
    return launch_early(l->is_early, c.kernel, l->grid, c.threads, c.shared, l->stream, *a);
}

template <int BITS> static cudaError_t choice_open(pick_tile tile, int bricks = 0)
{
    for (int way = 0; way < 4; way++) {
        tile_choice c = choice_of<BITS>(tile, way & 1, way & 2, bricks);
        const void *kernel = c.wide ? reinterpret_cast<const void *>(c.wide)
                                    : reinterpret_cast<const void *>(c.kernel);
        cudaError_t r = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             c.shared + c.sums);
        if (r != cudaSuccess) return r;
    }
    return cudaSuccess;
}

template <int BITS> cudaError_t linear_tile_open(int sm)
{
    for (int64_t T = 8; T <= 128; T += 8) {
        /* Rows that are not whole pieces fall back to sm_80's kernels, as widely as experts. */
        cudaError_t r = choice_open<BITS>(cuda_pick_tile(80, BITS, T));
        if (r == cudaSuccess) r = choice_open<BITS>(cuda_pick_experts_tile(80, BITS, T));
        if (r == cudaSuccess) r = choice_open<BITS>(cuda_pick_tile(sm, BITS, T));
        if (r == cudaSuccess) r = choice_open<BITS>(cuda_pick_experts_tile(sm, BITS, T));
        if (r != cudaSuccess) return r;
    }
    if (sm != 90 || BITS != 4) return cudaSuccess;
    cudaError_t r = choice_open<BITS>({PICK_WIDE, PICK_ROUNDS_COLUMNS, 2 * PICK_GROUP_N});
    for (int columns = 32; columns <= PICK_MIDDLE_ROWS && r == cudaSuccess; columns *= 2) {
        r = choice_open<BITS>({PICK_MIDDLE, columns, PICK_MIDDLE_NARROW});
        /* cuda_pick_middle's way out. */
        if (r == cudaSuccess) r = choice_open<BITS>({PICK_WIDE, columns, 2 * PICK_GROUP_N});
    }
    if (r != cudaSuccess) return r;
    /* The most shared memory: the longest slices. */
    int outputs = PICK_DEEP_ALL_BRICKS_MAX / PICK_DEEP_BRICKS_MAX * PICK_BRICK_N;
    return choice_open<BITS>({PICK_DEEP, PICK_DEEP_COLUMNS, outputs}, PICK_DEEP_BRICKS_MAX);
}

#endif
