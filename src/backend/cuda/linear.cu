/* linear: dense linears and the gated pair, as launches of linear_tile. */
#include "backend/cuda/act.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/dequant.cuh"
#include "backend/cuda/linear_tile_priv.h"

/* Rows of a gate and up whose formats differ that are kept in f32 at a time. */
enum { SWIGLU_APART_ROWS = 64, SILU_THREADS = 256 };

int linear_weight_bits(const dev_weight *w)
{
    return w->type == DTYPE_AFFINE ? w->bits : DEQUANT_BF16;
}

bool linear_is_pair(const dev_weight *gate, const dev_weight *up)
{
    return linear_weight_bits(gate) == linear_weight_bits(up) && gate->group == up->group &&
           gate->N == up->N && gate->K == up->K;
}

static bool has_same_format(const dev_weight *a, const dev_weight *b)
{
    return linear_weight_bits(a) == linear_weight_bits(b) && a->group == b->group;
}

/* Room for the partial sums of any split launch of at most T rows. */
int64_t linear_partial_bytes(int64_t T)
{
    int64_t floats = int64_t(PICK_BLOCKS_WANTED) * PICK_GROUP_N * (T <= 8 ? 8 : T <= 16 ? 16 : 64);
    return floats * PICK_SLICES_MAX * static_cast<int64_t>(sizeof(float));
}

static int part_groups(const linear_piece *piece, pick_tile tile)
{
    int64_t per_tile = piece->up ? tile.outputs / 2 : tile.outputs;
    return static_cast<int>(div_up(piece->w->N, per_tile));
}

static void part_init(tile_part *p, const linear_piece *piece, pick_tile tile, int brick_bytes)
{
    const dev_weight *w = piece->w;
    pick_split split = cuda_pick_split(w->N, w->K, w->X);
    *p = tile_part{};
    p->bricks[0] = buf_of<uint8_t>(w->data);
    if (piece->up) p->bricks[1] = buf_of<uint8_t>(piece->up->data);
    p->y = piece->y;
    p->N = w->N;
    p->out = piece->out;
    p->n_groups = part_groups(piece, tile);
    p->slices = split.slices;
    p->slice_bricks = split.slice_bricks;
    p->expert_bytes = div_up<int64_t>(w->N, PICK_BRICK_N) * split.n_bricks * brick_bytes;
}

/* What all parts of a launch share. */
static void args_init(tile_args *t, cuda_backend *cb, const bf16 *x, int T, const dev_weight *w,
                      const tile_experts *experts, float *partial)
{
    *t = tile_args{};
    t->x = x;
    t->ldx = w->K;
    t->K = w->K;
    t->T = T;
    t->n_bricks = cuda_pick_split(w->N, w->K, w->X).n_bricks;
    t->has_two_groups = w->group == 32;
    t->brick_bytes = dequant_brick_bytes(linear_weight_bits(w), w->group == 32);
    t->is_x_odd = w->K % 8 != 0 || reinterpret_cast<uintptr_t>(x) % 16 != 0;
    t->partial = partial;
    t->counters = buf_of<uint32_t>(cb->counters);
    if (experts) {
        t->tiles = experts->tiles;
        t->n_tiles = experts->n_tiles;
        t->x_row = experts->x_row;
        t->y_row = experts->y_row;
    }
}

static cudaError_t launch_bits(int bits, pick_tile tile, bool has_slices, dim3 grid,
                               const tile_args *t, const CUtensorMap *map, cudaStream_t stream)
{
    switch (bits) {
    case 2: return linear_tile_launch<2>(tile, has_slices, grid, t, map, stream);
    case 3: return linear_tile_launch<3>(tile, has_slices, grid, t, map, stream);
    case 4: return linear_tile_launch<4>(tile, has_slices, grid, t, map, stream);
    case 5: return linear_tile_launch<5>(tile, has_slices, grid, t, map, stream);
    case 6: return linear_tile_launch<6>(tile, has_slices, grid, t, map, stream);
    case 8: return linear_tile_launch<8>(tile, has_slices, grid, t, map, stream);
    default: return linear_tile_launch<DEQUANT_BF16>(tile, has_slices, grid, t, map, stream);
    }
}

/* The map of x [T, K] in boxes of a brick's K by a tile's rows. */
static status map_init(cuda_backend *cb, CUtensorMap *map, const tile_args *t, pick_tile tile)
{
    cuuint64_t size[2] = {static_cast<cuuint64_t>(t->K), static_cast<cuuint64_t>(t->T)};
    cuuint64_t stride[1] = {static_cast<cuuint64_t>(t->ldx) * 2};
    cuuint32_t box[2] = {PICK_BRICK_K, static_cast<cuuint32_t>(tile.columns)}, step[2] = {1, 1};
    auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(cb->map_encode);
    CUresult r = encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<bf16 *>(t->x), size,
                        stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return cuda_status(cb, r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue, "tensor map",
                       __FILE__, __LINE__);
}

/* One launch: pieces of one format. */
static status run_format(cuda_backend *cb, tile_args *t, const linear_piece *pieces,
                         const int *index, int n, pick_tile tile, int row_tiles)
{
    int64_t n_tiles = 0, partial = 0;
    int blocks = 0, counters = 0;
    bool has_slices = false;
    for (int i = 0; i < n; i++) {
        n_tiles += int64_t(part_groups(&pieces[index[i]], tile)) * row_tiles;
    }
    for (int i = 0; i < n; i++) {
        tile_part *p = &t->part[i];
        part_init(p, &pieces[index[i]], tile, t->brick_bytes);
        p->is_split = cuda_pick_is_split(n_tiles, p->slices, tile);
        p->block_begin = blocks;
        blocks += p->n_groups * (p->is_split ? p->slices : 1);
        has_slices |= !p->is_split && p->slices > 1;
        if (!p->is_split) continue;
        p->counter_begin = counters;
        p->partial_begin = partial;
        counters += p->n_groups * row_tiles;
        partial += int64_t(p->n_groups) * row_tiles * p->slices * tile.outputs * tile.columns;
    }
    DASSERT(counters <= CUDA_COUNTERS);
    ASSERT(row_tiles <= 65535 && (tile.kernel != PICK_WIDE || blocks <= 65535));
    t->n_parts = n;
    dim3 grid(blocks, row_tiles);
    CUtensorMap map;
    if (tile.kernel == PICK_WIDE) {
        grid = dim3(row_tiles, blocks);
        TRY(map_init(cb, &map, t, tile));
    }
    cudaError_t r = launch_bits(linear_weight_bits(pieces[index[0]].w), tile, has_slices, grid, t,
                                &map, cb->stream);
    return cuda_status(cb, r, "linear", __FILE__, __LINE__);
}

status linear_run(cuda_backend *cb, const bf16 *x, int T, const linear_piece *pieces, int n,
                  const tile_experts *experts, float *partial)
{
    bool is_done[OPS_PARTS_MAX] = {};
    for (int i = 0; i < n; i++) {
        int index[OPS_PARTS_MAX], m = 0;
        for (int j = i; j < n; j++) {
            if (is_done[j] || !has_same_format(pieces[i].w, pieces[j].w)) continue;
            is_done[j] = true;
            index[m++] = j;
        }
        if (m == 0) continue;
        pick_tile tile = experts ? experts->tile
                                 : cuda_pick_tile(cb->sm, linear_weight_bits(pieces[i].w), T);
        int row_tiles = experts ? experts->n_tiles_max : div_up(T, tile.columns);
        tile_args t;
        args_init(&t, cb, x, T, pieces[i].w, experts, partial);
        if (tile.kernel == PICK_WIDE && (t.is_x_odd || t.x_row)) {
            tile = pick_tile{PICK_TILE, tile.columns, PICK_GROUP_N};
        }
        TRY(run_format(cb, &t, pieces, index, m, tile, row_tiles));
    }
    return ERR_OK;
}

status linear_open(cuda_backend *cb)
{
    if (cb->sm == 90) {
        cudaDriverEntryPointQueryResult found;
        CUDA_TRY(cb, cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &cb->map_encode,
                                                      12000, cudaEnableDefault, &found));
        if (found != cudaDriverEntryPointSuccess) {
            return cuda_status(cb, cudaErrorNotSupported, "cuTensorMapEncodeTiled", __FILE__,
                               __LINE__);
        }
    }
    CUDA_TRY(cb, linear_tile_open<2>(cb->sm));
    CUDA_TRY(cb, linear_tile_open<3>(cb->sm));
    CUDA_TRY(cb, linear_tile_open<4>(cb->sm));
    CUDA_TRY(cb, linear_tile_open<5>(cb->sm));
    CUDA_TRY(cb, linear_tile_open<6>(cb->sm));
    CUDA_TRY(cb, linear_tile_open<8>(cb->sm));
    CUDA_TRY(cb, linear_tile_open<DEQUANT_BF16>(cb->sm));
    return ERR_OK;
}

/* ---- the ops ------------------------------------------------------------------------------ */

static int64_t limit_rows(const backend_limits *l)
{
    return l->M > l->T ? l->M : l->T;
}

int64_t cuda_linear_scratch(const backend_limits *l)
{
    return linear_partial_bytes(limit_rows(l));
}

status cuda_linear(backend *b, const linear_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->T == 0 || a->n_parts == 0) return cb->broken;
    TRY(cuda_need(cb, "linear", linear_partial_bytes(a->T)));
    linear_piece pieces[OPS_PARTS_MAX];
    for (int i = 0; i < a->n_parts; i++) {
        pieces[i] = linear_piece{a->part[i].w, nullptr, a->part[i].y.ptr, a->part[i].out};
    }
    return linear_run(cb, buf_of<bf16>(a->x), a->T, pieces, a->n_parts, nullptr,
                      scratch_at<float>(cb, 0));
}

/* silu_mul_kernel: y = silu(gate) * up, one value a thread. */
__global__ void silu_mul_kernel(const float *gate, const float *up, bf16 *y, int64_t n)
{
    int64_t i = int64_t(blockIdx.x) * SILU_THREADS + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16_rn(act_silu(gate[i]) * up[i]);
}

status linear_silu_mul(cuda_backend *cb, const float *gate, const float *up, bf16 *y, int64_t n)
{
    silu_mul_kernel<<<static_cast<unsigned>(div_up<int64_t>(n, SILU_THREADS)), SILU_THREADS, 0,
                      cb->stream>>>(gate, up, y, n);
    return CUDA_LAUNCHED(cb);
}

int64_t linear_swiglu_bytes(int64_t T, int64_t F)
{
    return scratch_round(linear_partial_bytes(T)) + 2 * SWIGLU_APART_ROWS * F * 4;
}

int64_t cuda_linear_swiglu_scratch(const backend_limits *l)
{
    int64_t F = l->F > l->shared_F ? l->F : l->shared_F;
    return linear_swiglu_bytes(limit_rows(l), F > l->N ? F : l->N);
}

status linear_swiglu_run(cuda_backend *cb, const bf16 *x, int T, const dev_weight *gate,
                         const dev_weight *up, bf16 *y, int64_t scratch)
{
    float *partial = scratch_at<float>(cb, scratch);
    if (linear_is_pair(gate, up)) {
        linear_piece pair = {gate, up, y, TILE_OUT_SWIGLU};
        return linear_run(cb, x, T, &pair, 1, nullptr, partial);
    }
    int64_t F = gate->N;
    float *g = scratch_at<float>(cb, scratch + scratch_round(linear_partial_bytes(T)));
    float *u = g + SWIGLU_APART_ROWS * F;
    for (int t = 0; t < T; t += SWIGLU_APART_ROWS) {
        int n = T - t < SWIGLU_APART_ROWS ? T - t : SWIGLU_APART_ROWS;
        linear_piece apart[2] = {{gate, nullptr, g, LINEAR_F32}, {up, nullptr, u, LINEAR_F32}};
        TRY(linear_run(cb, x + t * gate->K, n, apart, 2, nullptr, partial));
        TRY(linear_silu_mul(cb, g, u, y + t * F, n * F));
    }
    return ERR_OK;
}

status cuda_linear_swiglu(backend *b, const linear_swiglu_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->T == 0) return cb->broken;
    TRY(cuda_need(cb, "linear_swiglu", linear_swiglu_bytes(a->T, a->gate->N)));
    return linear_swiglu_run(cb, buf_of<bf16>(a->x), a->T, a->gate, a->up, buf_of<bf16>(a->y), 0);
}
