/* linear: dense linears and the gated pair, as launches of linear_tile. */
#include <math.h>

#include "backend/cuda/act.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/dequant.cuh"
#include "backend/cuda/linear_tile_priv.h"
#include "backend/cuda/waiting.cuh"

/* Rows of a gate and up whose formats differ that are kept in f32 at a time. */
enum { SWIGLU_APART_ROWS = 64, SILU_THREADS = 256 };
/* What the next launch reads is fetched ahead when it is less than AHEAD_BYTES: larger launches
 * keep the memory busy by themselves, and are slowed by what is fetched (bench/notes_cuda.md). A
 * launch that itself reads less than AHEAD_LIGHT_BYTES starts with that, others end with it. */
enum { AHEAD_BYTES = 16 << 20, AHEAD_LIGHT_BYTES = 8 << 20 };

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
    int64_t floats = PICK_SLICE_FLOATS / 64 * (T <= 8 ? 8 : T <= 16 ? 16 : 64);
    return floats * PICK_SLICES_MAX * static_cast<int64_t>(sizeof(float));
}

static int part_groups(const linear_piece *piece, pick_tile tile)
{
    int64_t per_tile = piece->up ? tile.outputs / 2 : tile.outputs;
    return static_cast<int>(div_up(piece->w->N, per_tile));
}

static int part_row_tiles(const linear_piece *piece, pick_tile tile)
{
    return piece->experts ? piece->experts->n_tiles_max : div_up(piece->T, tile.columns);
}

static bool is_odd(const linear_piece *piece)
{
    return piece->w->K % 8 != 0 || reinterpret_cast<uintptr_t>(piece->x) % 16 != 0;
}

static void part_init(tile_part *p, const linear_piece *piece, pick_tile tile, int brick_bytes)
{
    const dev_weight *w = piece->w;
    pick_split split = cuda_pick_split(w->N, w->K, w->use == WEIGHT_EXPERTS);
    *p = tile_part{};
    p->bricks[0] = buf_of<uint8_t>(w->data);
    p->times[0] = ldexpf(1.0f, w->layout);
    if (piece->up) {
        p->bricks[1] = buf_of<uint8_t>(piece->up->data);
        p->times[1] = ldexpf(1.0f, piece->up->layout);
    }
    p->N = w->N;
    p->K = w->K;
    p->expert_bytes = div_up<int64_t>(w->N, PICK_BRICK_N) * split.n_bricks * brick_bytes;
    p->n_bricks = split.n_bricks;
    p->n_groups = part_groups(piece, tile);
    p->slices = split.slices;
    p->slice_bricks = split.slice_bricks;
    p->x = piece->x;
    p->is_x_odd = is_odd(piece);
    p->T = piece->T;
    p->row_tiles = part_row_tiles(piece, tile);
    p->y = piece->y;
    p->out = piece->out;
    if (piece->out == TILE_OUT_SLICES) {
        p->out = LINEAR_F32;
        p->slice_step = piece->T * w->N;
        p->times[0] = 1.0f;
    }
    if (piece->experts) {
        p->tiles = piece->experts->tiles;
        p->n_tiles = piece->experts->n_tiles;
        p->x_row = piece->experts->x_row;
        p->y_row = piece->experts->y_row;
    }
}

static cudaError_t launch_bits(int bits, const tile_launch *l, const tile_args *t,
                               const CUtensorMap *map)
{
    switch (bits) {
    case 2: return linear_tile_launch<2>(l, t, map);
    case 3: return linear_tile_launch<3>(l, t, map);
    case 4: return linear_tile_launch<4>(l, t, map);
    case 5: return linear_tile_launch<5>(l, t, map);
    case 6: return linear_tile_launch<6>(l, t, map);
    case 8: return linear_tile_launch<8>(l, t, map);
    default: return linear_tile_launch<DEQUANT_BF16>(l, t, map);
    }
}

/* The map of x [T, K] in boxes of a brick's K by a tile's rows. */
static status map_init(cuda_backend *cb, CUtensorMap *map, const tile_part *p, pick_tile tile)
{
    cuuint64_t size[2] = {static_cast<cuuint64_t>(p->K), static_cast<cuuint64_t>(p->T)};
    cuuint64_t stride[1] = {static_cast<cuuint64_t>(p->K) * 2};
    cuuint32_t box[2] = {PICK_BRICK_K, static_cast<cuuint32_t>(tile.columns)}, step[2] = {1, 1};
    auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(cb->map_encode);
    CUresult r = encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<bf16 *>(p->x), size,
                        stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return cuda_status(cb, r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue, "tensor map",
                       __FILE__, __LINE__);
}

/* What a launch reads from its beginning, as if for one row; experts are not known before. */
static ahead_spans ahead_own(const cuda_backend *cb, const tile_args *t, int bits)
{
    ahead_spans own = {};
    pick_tile tile = cuda_pick_tile(cb->sm, bits, 1);
    int64_t n_tiles = 0;
    for (int i = 0; i < t->n_parts; i++) n_tiles += div_up<int64_t>(t->part[i].N, tile.outputs);
    for (int i = 0; i < t->n_parts; i++) {
        const tile_part *p = &t->part[i];
        if (p->tiles) continue;
        bool is_split = cuda_pick_is_split(n_tiles, p->slices, tile);
        int64_t row_bytes = int64_t(p->n_bricks) * t->brick_bytes;
        for (int h = 0; h < 2 && p->bricks[h]; h++) {
            ahead_add(&own, p->bricks[h], row_bytes, div_up<int64_t>(p->N, PICK_BRICK_N),
                      is_split ? p->slices : 1,
                      is_split ? int64_t(p->slice_bricks) * t->brick_bytes : row_bytes);
        }
    }
    return own;
}

static bool is_few(pick_tile tile)
{
    return tile.kernel == PICK_STREAM || tile.kernel == PICK_DEEP;
}

/* What the next launch reads, if it is known, and whether this one leaves room for it. */
static void ahead_init(cuda_backend *cb, tile_args *t, int bits, pick_tile tile)
{
    ahead_spans own = ahead_own(cb, t, bits);
    t->ahead = ahead_note(&cb->ahead, t->part[0].bricks[0], &own);
    bool is_small = ahead_total(&t->ahead) <= AHEAD_BYTES;
    if (cb->sm != 90 || !is_few(tile) || !is_small) t->ahead.n = 0;
    ahead_fit(&t->ahead, AHEAD_BYTES);
    t->is_light = !t->has_experts && ahead_total(&own) < AHEAD_LIGHT_BYTES;
}

/* Blocks of a cluster in which the slices of a split launch meet: the most slices of a part, which
 * those of the other parts divide; 0: they meet in memory, or in the op behind. */
static int cluster_of(const cuda_backend *cb, const tile_args *t, pick_tile tile)
{
    int most = 1;
    if (cb->sm != 90 || tile.kernel != PICK_STREAM || tile.columns > LINEAR_CLUSTER_COLUMNS)
        return 0;
    for (int i = 0; i < t->n_parts; i++) {
        const tile_part *p = &t->part[i];
        if (p->tiles || p->slice_step > 0) return 0;
        if (p->is_split && p->slices > most) most = p->slices;
    }
    for (int i = 0; i < t->n_parts; i++) {
        if (t->part[i].is_split && most % t->part[i].slices) return 0;
    }
    return most > 1 && most <= LINEAR_CLUSTER_MAX ? most : 0;
}

/* Bricks of K that a block multiplies. */
static int part_bricks(const tile_part *p)
{
    return p->is_split ? p->slice_bricks : p->n_bricks;
}

/* The tile for t's launch of PICK_STREAM: that, or one of PICK_DEEP. */
static pick_tile deep_tile(const cuda_backend *cb, const tile_args *t, int bits, pick_tile tile)
{
    if (cb->sm != 90 || tile.kernel != PICK_STREAM || tile.columns != PICK_DEEP_COLUMNS ||
        bits != PICK_DEEP_BITS)
        return tile;
    pick_part parts[OPS_PARTS_MAX];
    bool can_grow = !t->has_experts;
    int rows = 0;
    for (int i = 0; i < t->n_parts; i++) {
        const tile_part *p = &t->part[i];
        int bricks = part_bricks(p);
        if (p->is_x_odd || p->K % PICK_BRICK_K) return tile;
        if (!p->is_split && p->slices > 1) return tile;
        can_grow &= !p->is_split || t->cluster || p->slice_step > 0; /* else they meet in memory */
        if (!p->tiles && p->T > rows) rows = p->T;
        int slices = p->is_split ? p->slices : 1;
        parts[i] = pick_part{p->N, p->bricks[1] != nullptr, slices, bricks, p->row_tiles};
    }
    if (rows == 0) return tile; /* experts alone do not tell of how many rows they are */
    return cuda_pick_deep(tile, parts, t->n_parts, rows, t->cluster, can_grow, cb->n_sms);
}

/* t, cut for tiles of PICK_STREAM, as a launch of l->tile. */
static void deep_init(tile_args *t, tile_launch *l)
{
    int outputs = l->tile.outputs;
    for (int i = 0; i < t->n_parts; i++) {
        tile_part *p = &t->part[i];
        p->n_groups = static_cast<int>(div_up<int64_t>(p->N, p->bricks[1] ? outputs / 2 : outputs));
        l->bricks = part_bricks(p) > l->bricks ? part_bricks(p) : l->bricks;
    }
}

/* x arrives in boxes of a map. */
static bool has_map(pick_tile tile)
{
    return tile.kernel == PICK_WIDE || tile.kernel == PICK_MIDDLE;
}

/* The tile for a launch of these pieces: PICK_MIDDLE's, or what it falls back to. */
static pick_tile middle_tile(const cuda_backend *cb, const linear_piece *const *pieces, int n,
                             pick_tile tile)
{
    pick_part parts[OPS_PARTS_MAX];
    for (int i = 0; i < n; i++) {
        const dev_weight *w = pieces[i]->w;
        pick_split split = cuda_pick_split(w->N, w->K, false);
        parts[i] = pick_part{w->N, pieces[i]->up != nullptr, split.slices, split.slice_bricks,
                             part_row_tiles(pieces[i], tile)};
    }
    return cuda_pick_middle(tile, parts, n, cb->n_sms);
}

/* One launch: pieces of one format, for one tile; with a map of one x. */
static status run_format(cuda_backend *cb, const linear_piece *const *pieces, int n, pick_tile tile,
                         float *partials)
{
    const dev_weight *w = pieces[0]->w;
    tile_args t = {};
    t.has_two_groups = w->group == 32;
    t.brick_bytes = dequant_brick_bytes(linear_weight_bits(w), w->group == 32);
    t.n_parts = n;
    t.partial = partials;
    t.counters = buf_of<uint32_t>(cb->counters);
    int64_t n_tiles = 0, partial = 0, blocks = 0;
    int counters = 0;
    t.knows_tiles = true;
    if (n == 1 && !pieces[0]->experts) {
        tile = cuda_pick_rounds(tile, linear_weight_bits(w), pieces[0]->T,
                                part_groups(pieces[0], tile), cb->n_sms);
    }
    if (tile.kernel == PICK_MIDDLE) tile = middle_tile(cb, pieces, n, tile);
    tile_launch l = {};
    l.is_early = cb->sm == 90;
    l.stream = cb->stream;
    for (int i = 0; i < n; i++) {
        part_init(&t.part[i], pieces[i], tile, t.brick_bytes);
        t.has_experts |= t.part[i].tiles != nullptr;
        t.knows_tiles &= !pieces[i]->experts || pieces[i]->experts->is_known;
        n_tiles += int64_t(t.part[i].n_groups) * t.part[i].row_tiles;
    }
    for (int i = 0; i < n; i++)
        t.part[i].is_split = cuda_pick_is_split(n_tiles, t.part[i].slices, tile);
    t.cluster = cluster_of(cb, &t, tile);
    l.tile = deep_tile(cb, &t, linear_weight_bits(w), tile);
    if (l.tile.kernel == PICK_DEEP) deep_init(&t, &l);
    tile = l.tile;
    for (int i = 0; i < n; i++) {
        tile_part *p = &t.part[i];
        int tiles = p->n_groups * p->row_tiles;
        p->block_begin = static_cast<int>(blocks);
        blocks += int64_t(tiles) * (p->is_split ? p->slices : 1);
        if (t.cluster) blocks = div_up<int64_t>(blocks, t.cluster) * t.cluster;
        l.has_slices |= !p->is_split && p->slices > 1;
        ASSERT(p->slice_step == 0 || (p->is_split && tile.kernel != PICK_WIDE));
        if (!p->is_split || p->slice_step > 0) continue;
        p->counter_begin = counters;
        p->partial_begin = partial;
        counters += tiles;
        partial += int64_t(tiles) * p->slices * tile.outputs * tile.columns;
    }
    ASSERT(counters <= CUDA_COUNTERS && blocks <= INT32_MAX);
    ahead_init(cb, &t, linear_weight_bits(w), tile);
    CUtensorMap map;
    if (has_map(tile)) TRY(map_init(cb, &map, &t.part[0], tile));
    l.grid = dim3(static_cast<unsigned>(blocks));
    cudaError_t r = launch_bits(linear_weight_bits(w), &l, &t, &map);
    if (r == cudaSuccess && has_map(tile) && partial > 0) {
        r = linear_merge_launch(&l, &t);
    }
    return cuda_status(cb, r, "linear", __FILE__, __LINE__);
}

/* How a piece's rows are cut, and by which kernel. */
static pick_tile tile_of(const cuda_backend *cb, const linear_piece *p, const pick_tile *given)
{
    pick_tile tile = given ? *given : cuda_pick_tile(cb->sm, linear_weight_bits(p->w), p->T);
    if (has_map(tile) && (is_odd(p) || (p->experts && p->experts->x_row))) {
        tile.kernel = PICK_TILE;
        tile.outputs = PICK_GROUP_N;
    }
    return tile;
}

static bool can_share(const cuda_backend *cb, const linear_piece *a, const linear_piece *b,
                      const pick_tile *given)
{
    pick_tile s = tile_of(cb, a, given), t = tile_of(cb, b, given);
    return has_same_format(a->w, b->w) && s.kernel == t.kernel && s.columns == t.columns &&
           (!has_map(s) || (a->x == b->x && a->T == b->T));
}

status linear_run(cuda_backend *cb, const linear_piece *pieces, int n, const pick_tile *tile,
                  float *partial)
{
    bool is_done[OPS_PARTS_MAX] = {};
    for (int i = 0; i < n; i++) {
        const linear_piece *together[OPS_PARTS_MAX];
        int m = 0;
        for (int j = i; j < n; j++) {
            if (is_done[j] || !can_share(cb, &pieces[i], &pieces[j], tile)) continue;
            is_done[j] = true;
            together[m++] = &pieces[j];
        }
        if (m > 0) TRY(run_format(cb, together, m, tile_of(cb, &pieces[i], tile), partial));
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

/* Slices are left when they would meet in memory anyway, and the blocks that met there, or a launch
 * that adds them, would be what everyone waits for. */
bool linear_can_leave(const cuda_backend *cb, const dev_weight *w, const bf16 *x, int T)
{
    linear_piece p = {w, nullptr, x, T, nullptr, nullptr, TILE_OUT_SLICES};
    pick_tile tile = tile_of(cb, &p, nullptr);
    pick_split split = cuda_pick_split(w->N, w->K, false);
    bool leaves = tile.kernel == PICK_STREAM || tile.kernel == PICK_MIDDLE;
    return cb->sm == 90 && leaves &&
           cuda_pick_is_split(part_groups(&p, tile), split.slices, tile) &&
           split.slices <= WAITING_SLICES && w->N % 4 == 0 &&
           split.slices * T * w->N * 4 <= linear_partial_bytes(T);
}

status linear_run_leaving(cuda_backend *cb, const dev_weight *w, const bf16 *x, int T, float *sums)
{
    linear_piece p = {w, nullptr, x, T, nullptr, sums, TILE_OUT_SLICES};
    return linear_run(cb, &p, 1, nullptr, nullptr);
}

/* A call whose slices' sums wait, in the scratch, for the norm behind it. */
static status run_waiting(cuda_backend *cb, const linear_piece *p, float *h)
{
    float *sums = scratch_at<float>(cb, 0);
    TRY(linear_run_leaving(cb, p->w, p->x, p->T, sums));
    waiting_sums left = {};
    left.h = h;
    left.N = p->w->N;
    left.T = p->T;
    left.sums = sums;
    left.times = ldexpf(1.0f, p->w->layout);
    left.slices = cuda_pick_split(p->w->N, p->w->K, false).slices;
    cb->waiting.sums = left;
    return ERR_OK;
}

status cuda_linear(backend *b, const linear_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->T == 0 || a->n_parts == 0) return cb->broken;
    TRY(cuda_settle(cb)); /* a call for some parts of an op may come behind another */
    TRY(cuda_need(cb, "linear", linear_partial_bytes(a->T)));
    linear_piece pieces[OPS_PARTS_MAX];
    for (int i = 0; i < a->n_parts; i++) {
        pieces[i] = linear_piece{a->part[i].w, nullptr,          buf_of<bf16>(a->x), a->T,
                                 nullptr,      a->part[i].y.ptr, a->part[i].out};
    }
    if (a->n_parts == 1 && a->part[0].out == LINEAR_ADD &&
        linear_can_leave(cb, pieces[0].w, pieces[0].x, a->T)) {
        return run_waiting(cb, &pieces[0], buf_of<float>(a->part[0].y));
    }
    return linear_run(cb, pieces, a->n_parts, nullptr, scratch_at<float>(cb, 0));
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
        linear_piece pair = {gate, up, x, T, nullptr, y, TILE_OUT_SWIGLU};
        return linear_run(cb, &pair, 1, nullptr, partial);
    }
    int64_t F = gate->N;
    float *g = scratch_at<float>(cb, scratch + scratch_round(linear_partial_bytes(T)));
    float *u = g + SWIGLU_APART_ROWS * F;
    for (int t = 0; t < T; t += SWIGLU_APART_ROWS) {
        int n = T - t < SWIGLU_APART_ROWS ? T - t : SWIGLU_APART_ROWS;
        const bf16 *rows = x + t * gate->K;
        linear_piece apart[2] = {{gate, nullptr, rows, n, nullptr, g, LINEAR_F32},
                                 {up, nullptr, rows, n, nullptr, u, LINEAR_F32}};
        TRY(linear_run(cb, apart, 2, nullptr, partial));
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
