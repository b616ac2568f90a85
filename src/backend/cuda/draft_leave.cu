/* The way out of a sublayer of the draft (ops.h:draft_leave_args). Of few rows the projection
 * leaves its slices' sums, and what adds them up convolves too. */
#include <math.h>

#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/linear_tile_priv.h"
#include "backend/cuda/vec_load.cuh"
#include "backend/cuda/waiting.cuh"
#include "backend/draft_steps.h"

enum { LEAVE_FOURS = 16 }; /* of channels, of a block */

typedef struct {
    const float *sums, *base; /* f32 [slices, M, E], and ops.h's */
    const bf16 *delta;
    float *h;
    bf16 *u;
    float times;
    int slices, M, B, E, group;
} leave_params;

/* Four values of u, all slices added in order. The first lies at `at`, the others `step` apart. */
__device__ static inline float4 leave_sum(const leave_params &p, int at, int step)
{
    float4 part[WAITING_SLICES];
#pragma unroll
    for (int j = 0; j < WAITING_SLICES; j++) {
        if (j < p.slices) part[j] = waiting_four(p.sums + (at + j * step));
    }
    float4 sum = waiting_add_slices(part, p.slices);
    return make_float4(sum.x * p.times, sum.y * p.times, sum.z * p.times, sum.w * p.times);
}

/* draft_leave_kernel: LEAVE_FOURS fours of channels of one lane's rows.
 *
 * Does     the merge of a linear's slices, then draft_conv_kernel of side 1, bit for bit
 * Grid     (E / 4 / LEAVE_FOURS, L); block LEAVE_FOURS * B, a thread a row's four
 * Shared   u, rounded: the row behind reads it too
 * Moves    the sums once, h twice */
__global__ void __launch_bounds__(LEAVE_FOURS *OPS_ROWS_MAX)
    draft_leave_kernel(const __grid_constant__ leave_params p)
{
    __shared__ uint2 u[OPS_ROWS_MAX][LEAVE_FOURS];
    launch_next();
    int i = threadIdx.x % LEAVE_FOURS, row = threadIdx.x / LEAVE_FOURS;
    int64_t ch = (int64_t(blockIdx.x) * LEAVE_FOURS + i) * 4, t = int64_t(blockIdx.y) * p.B + row;
    int64_t E = p.E, n_groups = p.E / p.group, g = ch / p.group;
    float4 base[2] = {waiting_four(p.base + 2 * E + ch), waiting_four(p.base + 3 * E + ch)};
    int at = static_cast<int>(t * E + ch), step = static_cast<int>(p.M * E);
    int at_delta = static_cast<int>((t * 4 + 2) * n_groups + g);
    asm volatile("" : "+r"(at), "+r"(step), "+r"(at_delta)); /* known by now, not later */
    launch_wait();
    float4 sum = leave_sum(p, at, step), h = waiting_four(p.h + at);
    float d[2] = {__bfloat162float(p.delta[at_delta]),
                  __bfloat162float(p.delta[at_delta + static_cast<int>(n_groups)])};
    u[row][i] = make_uint2(pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w));
    *reinterpret_cast<uint2 *>(p.u + at) = u[row][i];
    __syncthreads();
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int tau = 0; tau < 2; tau++) {
        if (tau > row) break; /* history is empty before a block */
        uint2 v = u[row - tau][i];
        c[0] = __fmaf_rn(base[tau].x + d[tau], bf16_low(v.x), c[0]);
        c[1] = __fmaf_rn(base[tau].y + d[tau], bf16_high(v.x), c[1]);
        c[2] = __fmaf_rn(base[tau].z + d[tau], bf16_low(v.y), c[2]);
        c[3] = __fmaf_rn(base[tau].w + d[tau], bf16_high(v.y), c[3]);
    }
    *reinterpret_cast<float4 *>(p.h + at) = make_float4(h.x + c[0], h.y + c[1], h.z + c[2],
                                                        h.w + c[3]);
}

/* Whether the projection's slices can be left to the kernel above. */
static bool leave_is_few(const cuda_backend *cb, const draft_leave_args *a)
{
    bool is_bricks = a->w->type == DTYPE_AFFINE || a->w->type == DTYPE_BF16; /* not GGUF's */
    return is_bricks && a->E % (4 * LEAVE_FOURS) == 0 && a->group % 4 == 0 &&
           a->B <= OPS_ROWS_MAX && vec_is_whole(a->h) && vec_is_whole(a->u) &&
           vec_is_whole(a->base) && linear_can_leave(cb, a->w, buf_of<bf16>(a->x), a->L * a->B);
}

static const draft_steps steps = {nullptr, cuda_any_linear, cuda_draft_conv, nullptr, nullptr};

extern "C" status cuda_draft_leave(backend *b, const draft_leave_args *a)
{
    cuda_backend *cb = cuda_of(b);
    int M = a->L * a->B;
    if (M == 0) return cb->broken;
    if (!leave_is_few(cb, a)) return draft_steps_leave(&steps, b, a);
    TRY(cuda_need(cb, "draft_leave", linear_partial_bytes(M)));
    leave_params p = {};
    p.sums = scratch_at<float>(cb, 0);
    p.h = buf_of<float>(a->h);
    p.u = buf_of<bf16>(a->u);
    p.times = ldexpf(1.0f, a->w->layout);
    p.slices = cuda_pick_split(a->w->N, a->w->K, false).slices;
    p.delta = buf_of<bf16>(a->delta);
    p.base = buf_of<float>(a->base);
    p.M = M, p.B = a->B, p.E = a->E, p.group = a->group;
    TRY(linear_run_leaving(cb, a->w, buf_of<bf16>(a->x), M, scratch_at<float>(cb, 0)));
    dim3 grid(static_cast<unsigned>(a->E / (4 * LEAVE_FOURS)), static_cast<unsigned>(a->L));
    CUDA_TRY(cb, launch_early(cb->sm == 90, draft_leave_kernel, grid, LEAVE_FOURS * a->B, 0,
                              cb->stream, p));
    return cb->broken;
}
