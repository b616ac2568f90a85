/* moe_ffn: rows grouped by expert on the device, the experts as grouped linears, and the sum.
 *
 * A use is one (row, place among its K); use u belongs to row u / K. Uses are sorted by expert
 * (stable, so the order is one and the same every time) and cut into tiles of rows; the host
 * knows only how many tiles there can be. A use's bits do not depend on its place in a tile. */
#include <math.h>

#include "backend/cuda/act.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/linear_tile_priv.h"
#include "backend/cuda/moe_router.cuh"
#include "backend/cuda/moe_wide_priv.h"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/waiting.cuh"

enum {
    /* Rows of one pass: enough to fill tiles of 256 experts, without a product of T x K x E
     * floats growing past reason. */
    MOE_ROWS = 2048,
    MOE_SUM_THREADS = 256,
};

/* Where a pass keeps what, from the start of the scratch. */
typedef struct {
    int64_t use_row, use, tiles, n_tiles; /* int [T K]: row, and use, of sorted place */
    int64_t counts;                       /* of the sort */
    int64_t x;                            /* bf16 [T K, E]: rows of x in sorted places */
    int64_t act, product;                 /* bf16 [T K, F], sorted; f32 [T K, E], by use */
    int64_t s_act, s_product, s_gate;     /* of the shared expert: bf16 [T, F], f32 [T, E], [T] */
    int64_t apart;                        /* gate and up in f32 when their formats differ */
    int64_t linear;                       /* scratch of the linears */
    int64_t n_bytes;
} moe_layout;

static int64_t tiles_max(int64_t n_uses, int X, int columns)
{
    return n_uses / columns + (X < n_uses ? X : n_uses);
}

static moe_layout layout_of(int64_t T, int64_t E, int X, int K, int64_t F, int64_t shared_F,
                            bool is_apart)
{
    moe_layout m = {};
    int64_t n = T * K, at = 0;
    m.use_row = at, at += scratch_round(n * 4);
    m.use = at, at += scratch_round(n * 4);
    m.tiles = at, at += scratch_round(tiles_max(n, X, 8) * static_cast<int64_t>(sizeof(tile_rows)));
    m.n_tiles = at, at += scratch_round(MOE_COUNTS * 4);
    m.counts = at, at += scratch_round(int64_t(MOE_RUNS) * X * 4);
    m.x = at, at += scratch_round(n * E * 2);
    m.act = at, at += scratch_round(n * F * 2);
    m.product = at, at += scratch_round(n * E * 4);
    m.s_act = at, at += scratch_round(T * shared_F * 2);
    m.s_product = at, at += scratch_round(T * E * 4);
    m.s_gate = at, at += scratch_round(T * 4);
    m.apart = at, at += is_apart ? 2 * scratch_round(n * F * 4) : 0;
    m.linear = at, at += scratch_round(linear_swiglu_bytes(n, shared_F));
    m.n_bytes = at;
    return m;
}

int64_t cuda_moe_ffn_scratch(const backend_limits *l)
{
    if (l->X == 0) return 0;
    int64_t T = l->T < MOE_ROWS ? l->T : MOE_ROWS;
    /* Room for formats that differ costs little beside the products. */
    return layout_of(T, l->E, l->X, l->K_experts, l->moe_F, l->shared_F, true).n_bytes;
}

/* moe_gather_kernel: rows of x into their sorted places, for the kernel that copies whole boxes.
 *
 * Grid     (uses); block 128
 * Moves    T K rows of E, each way */
__global__ void moe_gather_kernel(const bf16 *x, const int *use_row, bf16 *sorted, int64_t E)
{
    launch_join();
    const uint4 *from = reinterpret_cast<const uint4 *>(x + use_row[blockIdx.x] * E);
    uint4 *to = reinterpret_cast<uint4 *>(sorted + blockIdx.x * E);
    for (int i = threadIdx.x; i < E / 8; i += blockDim.x) to[i] = from[i];
}

/* moe_sum_kernel: h += sum_k w_k product_k, then + sigmoid(gate) shared.
 *
 * Grid     (E / 256, T); block 256
 * Moves    each product once */
__global__ void __launch_bounds__(MOE_SUM_THREADS)
    moe_sum_kernel(const float *product, const float *w, const float *shared, const float *gate,
                   float *h, int64_t E, int K)
{
    launch_join();
    int64_t t = blockIdx.y, i = int64_t(blockIdx.x) * MOE_SUM_THREADS + threadIdx.x;
    if (i >= E) return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++) sum = fmaf(w[t * K + k], product[(t * K + k) * E + i], sum);
    if (shared) sum = fmaf(act_sigmoid(gate[t]), shared[t * E + i], sum);
    h[t * E + i] += sum;
}

status moe_ffn_open(cuda_backend *cb)
{
    return moe_wide_open(cb);
}

/* Rows are cut once for gate, up and down: the tile must suit the widest codes of the three. */
static pick_tile experts_tile(const cuda_backend *cb, const moe_ffn_args *a, int n_uses)
{
    int bits = linear_weight_bits(a->gate);
    if (linear_weight_bits(a->up) > bits) bits = linear_weight_bits(a->up);
    if (linear_weight_bits(a->down) > bits) bits = linear_weight_bits(a->down);
    pick_tile tile = cuda_pick_experts_tile(cb->sm, bits, div_up(n_uses, a->X));
    bool is_one_width = linear_weight_bits(a->gate) == bits && linear_weight_bits(a->up) == bits &&
                        linear_weight_bits(a->down) == bits;
    if (tile.columns == 96 && !is_one_width) tile.columns = 64; /* what every width has */
    return tile;
}

/* One pass over at most MOE_ROWS rows. */
typedef struct {
    const moe_ffn_args *a;
    moe_layout m;
    const bf16 *x;
    int T, n; /* rows, uses */
    pick_tile tile;
    bool is_wide;                 /* the experts are moe_wide's */
    bool is_guest;                /* and so is the shared expert */
    tile_experts in, out;         /* rows of x to sorted places; sorted places to products by use */
    const pick_tile *shared_tile; /* how the shared expert's rows are cut: the experts' way while
                                   * that lets them share launches, else NULL, as suits them */
} moe_pass;

/* The shared expert's gate of the pass's rows. */
static moe_gate shared_gate(cuda_backend *cb, const moe_pass *s)
{
    const dev_weight *w = s->a->s_sigmoid;
    moe_gate g = {};
    g.bricks = buf_of<uint8_t>(w->data);
    g.times = ldexpf(1.0f, w->layout);
    g.bits = linear_weight_bits(w);
    g.has_two_groups = w->group == 32;
    g.K = w->K;
    g.x = s->x;
    g.y = scratch_at<float>(cb, s->m.s_gate);
    g.T = s->T;
    return g;
}

/* Uses sorted by expert, and the shared expert's gate; with them the routing, when it waits. */
static status sort_uses(cuda_backend *cb, moe_pass *s, const int32_t *ids)
{
    const moe_ffn_args *a = s->a;
    moe_sorted to = {scratch_at<int>(cb, s->m.use_row), scratch_at<int>(cb, s->m.use),
                     scratch_at<tile_rows>(cb, s->m.tiles), scratch_at<int>(cb, s->m.n_tiles),
                     s->tile.columns};
    moe_gate gate = a->s_gate ? shared_gate(cb, s) : moe_gate{};
    if (moe_few_takes(cb, a)) {
        auto run = cb->waiting.has_router ? moe_router_run : moe_few_run;
        TRY(run(cb, &to, a->s_gate ? &gate : nullptr));
    } else {
        moe_uses uses = {ids, s->n, a->X, a->K, scratch_at<int>(cb, s->m.counts)};
        TRY(moe_sort_run(cb, &uses, &to, a->s_gate ? &gate : nullptr));
    }
    int most = static_cast<int>(tiles_max(s->n, a->X, to.columns));
    s->in = tile_experts{to.tiles, to.n_tiles, to.use_row, nullptr, most, false};
    s->out = tile_experts{to.tiles, to.n_tiles, nullptr, to.use, most, true};
    return ERR_OK;
}

/* The tiles for moe_wide's launch `which`, 0 or 1. */
static moe_wide_tiles wide_tiles(cuda_backend *cb, const moe_pass *s, int which)
{
    int *counts = scratch_at<int>(cb, s->m.n_tiles);
    return {s->in.tiles, counts, reinterpret_cast<uint32_t *>(counts + 1 + which)};
}

/* The shared expert's rows for moe_wide's launches. */
static moe_wide_extra wide_extra(cuda_backend *cb, const moe_pass *s)
{
    return {s->T, scratch_at<bf16>(cb, s->m.s_act), scratch_at<float>(cb, s->m.s_product)};
}

/* Experts' act, and the shared expert's with its weight. */
static status run_gate_up(cuda_backend *cb, const moe_pass *s)
{
    const moe_ffn_args *a = s->a;
    float *partial = scratch_at<float>(cb, s->m.linear);
    bf16 *act = scratch_at<bf16>(cb, s->m.act), *s_act = scratch_at<bf16>(cb, s->m.s_act);
    const bf16 *x = s->x;
    const tile_experts *in = &s->in;
    tile_experts sorted = s->in;
    bool is_x_odd = a->E % 8 != 0 || reinterpret_cast<uintptr_t>(x) % 16 != 0;
    if (s->tile.kernel == PICK_WIDE && !s->is_wide && !is_x_odd) {
        bf16 *to = scratch_at<bf16>(cb, s->m.x);
        launch_early(cb->sm == 90, moe_gather_kernel, dim3(s->n), 128, 0, cb->stream, x,
                     s->in.x_row, to, a->E);
        TRY(CUDA_LAUNCHED(cb));
        x = to;
        sorted.x_row = nullptr;
        in = &sorted;
    }
    linear_piece pieces[OPS_PARTS_MAX];
    int n = 0;
    float *g = scratch_at<float>(cb, s->m.apart);
    float *u = scratch_at<float>(cb, s->m.apart + scratch_round(int64_t(s->n) * a->F * 4));
    bool is_pair = linear_is_pair(a->gate, a->up);
    if (is_pair) {
        pieces[n++] = linear_piece{a->gate, a->up, x, s->n, in, act, TILE_OUT_SWIGLU};
    } else {
        pieces[n++] = linear_piece{a->gate, nullptr, x, s->n, in, g, LINEAR_F32};
        pieces[n++] = linear_piece{a->up, nullptr, x, s->n, in, u, LINEAR_F32};
    }
    bool is_apart = a->s_gate && !s->is_guest &&
                    (!s->shared_tile || !linear_is_pair(a->s_gate, a->s_up));
    if (a->s_gate && !is_apart && !s->is_guest) {
        pieces[n++] = linear_piece{a->s_gate, a->s_up, s->x, s->T, nullptr, s_act, TILE_OUT_SWIGLU};
    }
    if (s->is_wide) {
        moe_wide_tiles tiles = wide_tiles(cb, s, 0);
        moe_wide_extra shared = wide_extra(cb, s);
        TRY(moe_wide_gate_up(cb, a, &tiles, x, s->in.x_row, act, s->is_guest ? &shared : nullptr));
    } else {
        TRY(linear_run(cb, pieces, n, &s->tile, partial));
    }
    if (!is_pair) TRY(linear_silu_mul(cb, g, u, act, int64_t(s->n) * a->F));
    if (is_apart) {
        TRY(linear_swiglu_run(cb, s->x, s->T, a->s_gate, a->s_up, s_act, s->m.linear));
    }
    return ERR_OK;
}

static status run_down(cuda_backend *cb, const moe_pass *s)
{
    const moe_ffn_args *a = s->a;
    float *partial = scratch_at<float>(cb, s->m.linear);
    linear_piece pieces[2] = {{a->down, nullptr, scratch_at<bf16>(cb, s->m.act), s->n, &s->out,
                               scratch_at<float>(cb, s->m.product), LINEAR_F32},
                              {a->s_down, nullptr, scratch_at<bf16>(cb, s->m.s_act), s->T, nullptr,
                               scratch_at<float>(cb, s->m.s_product), LINEAR_F32}};
    if (a->s_gate && s->shared_tile) return linear_run(cb, pieces, 2, &s->tile, partial);
    if (s->is_wide) {
        moe_wide_tiles tiles = wide_tiles(cb, s, 1);
        moe_wide_extra shared = wide_extra(cb, s);
        TRY(moe_wide_down(cb, a, &tiles, scratch_at<bf16>(cb, s->m.act), s->out.y_row,
                          scratch_at<float>(cb, s->m.product), s->is_guest ? &shared : nullptr));
    } else {
        TRY(linear_run(cb, pieces, 1, &s->tile, partial));
    }
    if (!a->s_gate || s->is_guest) return ERR_OK;
    return linear_run(cb, &pieces[1], 1, nullptr, partial);
}

/* The last step of one pass waits for the norm behind it (waiting.cuh). */
static bool can_leave_products(const cuda_backend *cb, const moe_ffn_args *a)
{
    return cb->sm == 90 && a->T <= MOE_ROWS && a->E % 4 == 0;
}

static void leave_products(cuda_backend *cb, const moe_pass *s)
{
    const moe_ffn_args *a = s->a;
    waiting_sums left = {};
    left.h = buf_of<float>(a->h);
    left.N = a->E;
    left.T = a->T;
    left.product = scratch_at<float>(cb, s->m.product);
    left.w = buf_of<float>(a->w);
    left.K = a->K;
    left.shared = a->s_gate ? scratch_at<float>(cb, s->m.s_product) : nullptr;
    left.gate = scratch_at<float>(cb, s->m.s_gate);
    cb->waiting.sums = left;
}

status cuda_moe_ffn(backend *b, const moe_ffn_args *a)
{
    cuda_backend *cb = cuda_of(b);
    ASSERT(a->X <= 1024);
    if (!moe_few_takes(cb, a)) TRY(cuda_settle(cb));
    for (int t = 0; t < a->T; t += MOE_ROWS) {
        moe_pass s = {};
        s.a = a;
        s.x = buf_of<bf16>(a->x) + int64_t(t) * a->E;
        s.T = a->T - t < MOE_ROWS ? a->T - t : MOE_ROWS;
        s.n = s.T * a->K;
        s.m = layout_of(s.T, a->E, a->X, a->K, a->F, a->s_gate ? a->shared_F : 0,
                        !linear_is_pair(a->gate, a->up));
        TRY(cuda_need(cb, "moe_ffn", s.m.n_bytes));
        s.tile = experts_tile(cb, a, s.n);
        s.is_wide = s.tile.kernel == PICK_WIDE && s.n > MOE_FEW && moe_wide_can(cb, a, s.x);
        s.is_guest = s.is_wide && moe_wide_can_share(a);
        if (s.is_wide) s.tile.columns = MOE_WIDE_ROWS;
        /* A few tiles of the shared expert's rows read its weights from the cache. */
        if (s.tile.kernel == PICK_STREAM && s.T <= 8 * s.tile.columns) s.shared_tile = &s.tile;
        TRY(sort_uses(cb, &s, buf_of<int32_t>(a->ids) + int64_t(t) * a->K));
        TRY(run_gate_up(cb, &s));
        TRY(run_down(cb, &s));
        if (can_leave_products(cb, a)) {
            leave_products(cb, &s);
            return cb->broken;
        }
        launch_early(
            cb->sm == 90, moe_sum_kernel,
            dim3(div_up(a->E, static_cast<int>(MOE_SUM_THREADS)), s.T), MOE_SUM_THREADS, 0,
            cb->stream, scratch_at<float>(cb, s.m.product), buf_of<float>(a->w) + int64_t(t) * a->K,
            a->s_gate ? scratch_at<float>(cb, s.m.s_product) : nullptr,
            scratch_at<float>(cb, s.m.s_gate), buf_of<float>(a->h) + int64_t(t) * a->E, a->E, a->K);
        TRY(CUDA_LAUNCHED(cb));
    }
    return cb->broken;
}
