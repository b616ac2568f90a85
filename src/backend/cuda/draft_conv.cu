/* One side of the draft's grouped dynamic convolution (ops.h:draft_conv_args). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/vec_load.cuh"

typedef struct {
    const bf16 *u, *delta;
    const float *base;
    bf16 *y;
    float *h;
    int64_t n; /* rows * E / 4 */
    int B, E, group, side;
    bool adds;
} draft_conv_params;

/* draft_conv_kernel: four channels of one row.
 *
 * Does     the op of ops.h:draft_conv_args:
 *          c[t, ch] = sum_tau (base[side, tau, ch] + delta[t, side, tau, ch / group]) u[t-tau, ch]
 * Grid     a thread four channels
 * Needs    E and group multiples of 4
 * Moves    u twice (the second time from cache), y or h once
 * Numbers  f32, tap 0 first, rounded once */
__global__ void draft_conv_kernel(draft_conv_params p)
{
    launch_join();
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= p.n) return;
    int quads = p.E / 4, ch = static_cast<int>(i % quads) * 4, n_groups = p.E / p.group;
    int64_t t = i / quads;
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    int n_taps = t % p.B == 0 ? 1 : 2; /* history is empty before a block */
    for (int tau = 0; tau < n_taps; tau++) {
        float4 base = *reinterpret_cast<const float4 *>(
            p.base + (static_cast<int64_t>(p.side) * 2 + tau) * p.E + ch);
        float d = __bfloat162float(p.delta[((t * 2 + p.side) * 2 + tau) * n_groups + ch / p.group]);
        uint2 u = *reinterpret_cast<const uint2 *>(p.u + (t - tau) * p.E + ch);
        c[0] = __fmaf_rn(base.x + d, bf16_low(u.x), c[0]);
        c[1] = __fmaf_rn(base.y + d, bf16_high(u.x), c[1]);
        c[2] = __fmaf_rn(base.z + d, bf16_low(u.y), c[2]);
        c[3] = __fmaf_rn(base.w + d, bf16_high(u.y), c[3]);
    }
    if (p.adds) {
        float4 *to = reinterpret_cast<float4 *>(p.h + t * p.E + ch), h = *to;
        *to = make_float4(h.x + c[0], h.y + c[1], h.z + c[2], h.w + c[3]);
    } else {
        *reinterpret_cast<uint2 *>(p.y + t * p.E + ch) = make_uint2(pack_bf16(c[0], c[1]),
                                                                    pack_bf16(c[2], c[3]));
    }
}

extern "C" status cuda_draft_conv(backend *b, const draft_conv_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->E % 4 || a->group % 4)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "draft_conv", -1, "width %d, group %d",
                       a->E, a->group);
    draft_conv_params p = {};
    p.u = buf_of<bf16>(a->u);
    p.delta = buf_of<bf16>(a->delta);
    p.base = buf_of<float>(a->base);
    p.y = buf_of<bf16>(a->y);
    p.h = buf_of<float>(a->h);
    p.n = static_cast<int64_t>(a->L) * a->B * (a->E / 4);
    p.B = a->B, p.E = a->E, p.group = a->group, p.side = a->side;
    p.adds = a->adds;
    if (p.n == 0) return cb->broken;
    dim3 grid(static_cast<unsigned>(div_up<int64_t>(p.n, 128)));
    CUDA_TRY(cb, launch_early(cb->sm == 90, draft_conv_kernel, grid, 128, 0, cb->stream, p));
    return cb->broken;
}
