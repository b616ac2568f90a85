/* Linears, gated linears and experts whose weights are of GGUF's block types (block_pack_priv.h):
 * the file's values exactly, in f32. What has no such weight goes on to linear.cu and moe_ffn.cu.
 */
#include "backend/cuda/act.cuh"
#include "backend/cuda/block_pack_priv.h"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/moe_router.cuh"
#include "backend/cuda/waiting.cuh"

/* Rows whose intermediate results lie in scratch at a time. */
enum { BLOCK_ROWS = 256 };

typedef struct {
    const uint8_t *panels; /* of all experts */
    int64_t expert_bytes, panel_bytes;
    const uint16_t *x;  /* bf16 [., K] */
    const int32_t *ids; /* expert of each row, or NULL */
    void *y;            /* [T, N] */
    int64_t K, n_groups;
    int N, T, zero, x_div; /* row t reads row t / x_div of x */
    linear_out out;
} block_params;

__device__ static inline void block_store(const block_params &p, int64_t t, int n, float v)
{
    int64_t at = t * p.N + n;
    if (p.out == LINEAR_ACT)
        static_cast<bf16 *>(p.y)[at] = __float2bfloat16_rn(v);
    else if (p.out == LINEAR_F32)
        static_cast<float *>(p.y)[at] = v;
    else
        static_cast<float *>(p.y)[at] += v;
}

/* block_linear_kernel: 32 outputs of RT rows.
 *
 * Does     y = x W^T of ops.h:linear_args for one weight; with ids, of an expert a row (RT 1)
 * Grid     (panels, rows / RT); 8 warps, each a slice of K; a lane an output
 * Shared   the slices' sums
 * Moves    the weights once for RT rows
 * Numbers  f32; a slice in order of k, slices in ascending order: by the weight's shape alone */
template <int BITS, int GROUP, int RT>
__global__ void __launch_bounds__(32 * BLOCK_SLICES) block_linear_kernel(block_params p)
{
    launch_join();
    __shared__ float part[BLOCK_SLICES][RT][BLOCK_PANEL_N];
    block_format f = {BITS, GROUP, p.zero, p.n_groups};
    int lane = threadIdx.x & 31, slice = threadIdx.x >> 5;
    int64_t first = static_cast<int64_t>(blockIdx.y) * RT;
    const uint8_t *panel = p.panels + blockIdx.x * p.panel_bytes;
    if (p.ids) panel += p.ids[first] * p.expert_bytes;
    const uint16_t *rows[RT];
    float acc[RT];
#pragma unroll
    for (int r = 0; r < RT; r++) {
        int64_t t = first + r < p.T ? first + r : p.T - 1;
        rows[r] = p.x + t / p.x_div * p.K;
        acc[r] = 0.0f;
    }
    block_dot(&f, panel, lane, block_slice_begin(&f, slice), block_slice_begin(&f, slice + 1), rows,
              RT, acc);
#pragma unroll
    for (int r = 0; r < RT; r++) part[slice][r][lane] = acc[r];
    __syncthreads(); /* all slices are summed */
    int n = blockIdx.x * BLOCK_PANEL_N + lane;
    if (slice >= RT || first + slice >= p.T || n >= p.N) return;
    float sum = part[0][slice][lane];
    for (int s = 1; s < BLOCK_SLICES; s++) sum += part[s][slice][lane];
    block_store(p, first + slice, n, sum);
}

template <int BITS, int GROUP> static status block_launch(cuda_backend *cb, const block_params &p)
{
    dim3 grid(static_cast<unsigned>(div_up<int>(p.N, BLOCK_PANEL_N)), p.T);
    const int threads = 32 * BLOCK_SLICES;
    if (p.ids || p.T == 1) {
        block_linear_kernel<BITS, GROUP, 1><<<grid, threads, 0, cb->stream>>>(p);
    } else if (p.T <= 4) {
        grid.y = 1;
        block_linear_kernel<BITS, GROUP, 4><<<grid, threads, 0, cb->stream>>>(p);
    } else {
        grid.y = div_up<int>(p.T, 8);
        block_linear_kernel<BITS, GROUP, 8><<<grid, threads, 0, cb->stream>>>(p);
    }
    return CUDA_LAUNCHED(cb);
}

static bool is_block(const dev_weight *w)
{
    return w && dtype_is_block(w->type);
}

/* y of all T rows; ids NULL for a weight without experts. */
static status block_run(cuda_backend *cb, const dev_weight *w, dev_buf x, int x_div,
                        const int32_t *ids, int T, dev_buf y, linear_out out)
{
    block_format f = {w->bits, w->group, w->layout, w->K / w->group};
    block_params p = {};
    p.panels = buf_of<uint8_t>(w->data);
    p.panel_bytes = block_panel_bytes(&f);
    p.expert_bytes = div_up<int64_t>(w->N, BLOCK_PANEL_N) * p.panel_bytes;
    p.x = buf_of<uint16_t>(x);
    p.ids = ids;
    p.y = y.ptr;
    p.K = w->K, p.n_groups = f.n_groups;
    p.N = static_cast<int>(w->N), p.T = T, p.zero = f.zero, p.x_div = x_div;
    p.out = out;
    if (T < 1) return cb->broken;
    if (f.bits == 4) return block_launch<4, 32>(cb, p);
    return f.group == 32 ? block_launch<8, 32>(cb, p) : block_launch<8, 16>(cb, p);
}

/* Of a weight of any kind. */
static status run_one(cuda_backend *cb, const dev_weight *w, dev_buf x, int T, dev_buf y,
                      linear_out out)
{
    if (is_block(w)) return block_run(cb, w, x, 1, nullptr, T, y, out);
    linear_args a = {};
    a.x = x;
    a.T = T;
    a.n_parts = 1;
    a.part[0].w = w;
    a.part[0].y = y;
    a.part[0].out = out;
    return cuda_linear(&cb->base, &a);
}

status cuda_any_linear(backend *b, const linear_args *a)
{
    cuda_backend *cb = cuda_of(b);
    bool has_block = false;
    for (int i = 0; i < a->n_parts; i++) has_block |= is_block(a->part[i].w);
    if (moe_router_wants_linear(cb, a)) {
        cb->waiting.router = *a;
        cb->waiting.router_w = *a->part[0].w;
        cb->waiting.has_router = true;
        return cb->broken;
    }
    TRY(cuda_settle(cb));
    if (!has_block) return cuda_linear(b, a);
    for (int i = 0; i < a->n_parts; i++)
        TRY(run_one(cb, a->part[i].w, a->x, a->T, a->part[i].y, a->part[i].out));
    return ERR_OK;
}

/* block_gate_kernel: y = bf16(silu(gate) * up), a thread a value. */
__global__ void block_gate_kernel(const float *gate, const float *up, bf16 *y, int64_t n)
{
    launch_join();
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16_rn(act_silu(gate[i]) * up[i]);
}

static status run_gate(cuda_backend *cb, dev_buf gate, dev_buf up, dev_buf y, int64_t n)
{
    block_gate_kernel<<<static_cast<unsigned>(div_up<int64_t>(n, 256)), 256, 0, cb->stream>>>(
        buf_of<float>(gate), buf_of<float>(up), buf_of<bf16>(y), n);
    return CUDA_LAUNCHED(cb);
}

/* Pieces of the scratch, behind what cuda_linear takes of it for a weight of its own. */
typedef struct {
    cuda_backend *cb;
    int64_t at;
} block_scratch;

static dev_buf take_scratch(block_scratch *s, int64_t n_bytes)
{
    dev_buf piece = {scratch_at<char>(s->cb, s->at), n_bytes};
    s->at += scratch_round(n_bytes);
    return piece;
}

static block_scratch begin_scratch(cuda_backend *cb)
{
    return {cb, scratch_round(cuda_linear_scratch(&cb->limits))};
}

status cuda_any_linear_swiglu(backend *b, const linear_swiglu_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (!is_block(a->gate) && !is_block(a->up)) return cuda_linear_swiglu(b, a);
    int64_t F = a->gate->N, K = a->gate->K;
    for (int t = 0; t < a->T; t += BLOCK_ROWS) {
        int n = a->T - t < BLOCK_ROWS ? a->T - t : BLOCK_ROWS;
        block_scratch s = begin_scratch(cb);
        dev_buf gate = take_scratch(&s, n * F * 4), up = take_scratch(&s, n * F * 4);
        dev_buf x = dev_buf_at(a->x, t * K * 2);
        TRY(cuda_need(cb, "linear_swiglu", s.at));
        TRY(run_one(cb, a->gate, x, n, gate, LINEAR_F32));
        TRY(run_one(cb, a->up, x, n, up, LINEAR_F32));
        TRY(run_gate(cb, gate, up, dev_buf_at(a->y, t * F * 2), n * F));
    }
    return ERR_OK;
}

/* block_moe_sum_kernel: h += sum_k w_k y_k, then + sigmoid(s) shared; a thread a value. */
__global__ void block_moe_sum_kernel(const float *y, const float *w, const float *sigmoid,
                                     const float *shared, float *h, int64_t n, int E, int K)
{
    launch_join();
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, t = i / E;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++) sum = __fmaf_rn(w[t * K + k], y[(t * K + k) * E + i % E], sum);
    if (shared) sum = __fmaf_rn(act_sigmoid(sigmoid[t]), shared[i], sum);
    h[i] += sum;
}

/* Rows [t, t + n) of an experts call. */
static status run_experts(cuda_backend *cb, const moe_ffn_args *a, int64_t t, int n)
{
    int uses = n * a->K;
    int64_t F = a->F, E = a->E, sF = a->s_gate ? a->shared_F : 0;
    block_scratch s = begin_scratch(cb);
    dev_buf gate = take_scratch(&s, uses * F * 4), up = take_scratch(&s, uses * F * 4);
    dev_buf mid = take_scratch(&s, uses * F * 2), y = take_scratch(&s, uses * E * 4);
    dev_buf s_gate = take_scratch(&s, n * sF * 4), s_up = take_scratch(&s, n * sF * 4);
    dev_buf s_mid = take_scratch(&s, n * sF * 2), s_y = take_scratch(&s, sF ? n * E * 4 : 0);
    dev_buf sigmoid = take_scratch(&s, n * 4), x = dev_buf_at(a->x, t * E * 2);
    const int32_t *ids = buf_of<int32_t>(a->ids) + t * a->K;
    TRY(cuda_need(cb, "moe_ffn", s.at));
    TRY(block_run(cb, a->gate, x, a->K, ids, uses, gate, LINEAR_F32));
    TRY(block_run(cb, a->up, x, a->K, ids, uses, up, LINEAR_F32));
    TRY(run_gate(cb, gate, up, mid, uses * F));
    TRY(block_run(cb, a->down, mid, 1, ids, uses, y, LINEAR_F32));
    if (sF) {
        TRY(run_one(cb, a->s_gate, x, n, s_gate, LINEAR_F32));
        TRY(run_one(cb, a->s_up, x, n, s_up, LINEAR_F32));
        TRY(run_gate(cb, s_gate, s_up, s_mid, n * sF));
        TRY(run_one(cb, a->s_down, s_mid, n, s_y, LINEAR_F32));
        TRY(run_one(cb, a->s_sigmoid, x, n, sigmoid, LINEAR_F32));
    }
    int64_t values = n * E;
    block_moe_sum_kernel<<<static_cast<unsigned>(div_up<int64_t>(values, 256)), 256, 0,
                           cb->stream>>>(buf_of<float>(y), buf_of<float>(a->w) + t * a->K,
                                         buf_of<float>(sigmoid), sF ? buf_of<float>(s_y) : nullptr,
                                         buf_of<float>(a->h) + t * E, values, a->E, a->K);
    return CUDA_LAUNCHED(cb);
}

status cuda_any_moe_ffn(backend *b, const moe_ffn_args *a)
{
    cuda_backend *cb = cuda_of(b);
    bool is_any = is_block(a->gate) || is_block(a->up) || is_block(a->down) ||
                  is_block(a->s_gate) || is_block(a->s_up) || is_block(a->s_down);
    if (!is_any) return cuda_moe_ffn(b, a);
    TRY(cuda_settle(cb));
    if (!is_block(a->gate) || !is_block(a->up) || !is_block(a->down))
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "moe_ffn", -1,
                       "experts partly of block types");
    for (int t = 0; t < a->T; t += BLOCK_ROWS)
        TRY(run_experts(cb, a, t, a->T - t < BLOCK_ROWS ? a->T - t : BLOCK_ROWS));
    return ERR_OK;
}

int64_t cuda_block_scratch(const backend_limits *l)
{
    int64_t rows = l->T < BLOCK_ROWS ? l->T : BLOCK_ROWS, uses = rows * l->K_experts;
    int64_t dense = rows * l->F * 8;
    int64_t experts = uses * (l->moe_F * 10 + l->E * 4) + rows * (l->shared_F * 10 + l->E * 4 + 4);
    return scratch_round(cuda_linear_scratch(l)) + (dense > experts ? dense : experts) + 10 * 256;
}
