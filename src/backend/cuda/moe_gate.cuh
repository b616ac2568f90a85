/* moe_gate: the shared expert's gate, x . w of one weight of one output.
 *
 * As a linear it would be a launch of its own that computes one of 64 outputs. Here a row is four
 * warps' work, whatever the number of rows, inside whatever launch has room for it. */
#ifndef RIPTIDE_BACKEND_CUDA_MOE_GATE_CUH
#define RIPTIDE_BACKEND_CUDA_MOE_GATE_CUH

#include "backend/cuda/dequant.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vec_load.cuh"

enum { MOE_GATE_WARPS = 4, MOE_GATE_TURN = MOE_GATE_WARPS * 8 /* bricks */ };

typedef struct {
    const uint8_t *bricks; /* dequant.cuh: of 16 outputs, whose first is the weight */
    float times;
    int bits, has_two_groups;
    int64_t K;
    const bf16 *x; /* [T, K] */
    float *y;      /* [T] */
    int T;
} moe_gate;

/* A row in memory. */
struct moe_gate_x {
    const bf16 *x;
    int64_t K;
    /* Values k and k + 1; 0 behind the end. */
    __device__ inline float2 pair(int k) const
    {
        if (K % 2 == 0 && k < K) {
            uint32_t v = *reinterpret_cast<const uint32_t *>(x + k);
            return make_float2(bf16_low(v), bf16_high(v));
        }
        return make_float2(k < K ? __bfloat162float(x[k]) : 0.0f,
                           k + 1 < K ? __bfloat162float(x[k + 1]) : 0.0f);
    }
};

/* Sum of this lane's products: warp `quarter` of the row has bricks 8 quarter .. 8 quarter + 7 of
 * each turn, one every four lanes. */
template <int BITS, typename X>
__device__ static inline float moe_gate_lane(const moe_gate &p, const X &x, int quarter)
{
    constexpr bool IS_BF16 = BITS == DEQUANT_BF16;
    int lane = threadIdx.x & 31, sub = lane & 3;
    int n_bricks = static_cast<int>((p.K + PICK_BRICK_K - 1) / PICK_BRICK_K);
    int bytes = dequant_brick_bytes(BITS, p.has_two_groups);
    float sum = 0.0f;
    for (int b = quarter * 8 + (lane >> 2); b < n_bricks; b += MOE_GATE_TURN) {
        const uint8_t *brick = p.bricks + int64_t(b) * bytes;
        lane_codes<IS_BF16 ? 4 : BITS> codes;
        lane_scales scales;
        if constexpr (!IS_BF16) codes = dequant_load<BITS>(brick, sub);
#pragma unroll
        for (int f = 0; f < 4; f++) {
            uint32_t pair[2]; /* the output's own registers, a0 and a2 */
            if constexpr (IS_BF16) {
                uint4 v = *reinterpret_cast<const uint4 *>(brick + f * 512 + sub * 16);
                pair[0] = v.x, pair[1] = v.z;
            } else {
                if (f == 0 || (f == 2 && p.has_two_groups))
                    scales = dequant_scales(*reinterpret_cast<const uint2 *>(
                        brick + dequant_code_bytes(BITS) + f / 2 * DEQUANT_SCALE_BYTES));
                pair[0] = dequant_pair<BITS>(codes, 4 * f, scales.scale[0], scales.bias[0]);
                pair[1] = dequant_pair<BITS>(codes, 4 * f + 2, scales.scale[0], scales.bias[0]);
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float2 v = x.pair(b * PICK_BRICK_K + f * 16 + h * 8 + sub * 2);
                sum = __fmaf_rn(bf16_low(pair[h]), v.x, sum);
                sum = __fmaf_rn(bf16_high(pair[h]), v.y, sum);
            }
        }
    }
    return sum;
}

/* Ask for the weight, of up to MOE_GATE_TURN bricks, which no kernel writes; by a block. */
__device__ static inline void moe_gate_fetch(const moe_gate &p)
{
    int b = threadIdx.x >> 2 & (MOE_GATE_TURN - 1);
    int codes = dequant_code_bytes(p.bits), bytes = dequant_brick_bytes(p.bits, p.has_two_groups);
    if (b * PICK_BRICK_K >= p.K) return;
    /* What four lanes read of a brick: codes in one or two planes, or four fragments; scales. */
    const uint8_t *at = p.bricks + int64_t(b) * bytes + (threadIdx.x & 3) * (codes / 4);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
    if ((threadIdx.x & 3) == 3 && codes < bytes)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(at - 3 * (codes / 4) + codes));
}

/* Row t, which is x, by warps 4 w .. 4 w + 3 of the block, w = the thread's; `sums` holds a float a
 * warp. All threads of the block take part, those of rows that are not there with t < 0. */
template <typename X>
__device__ static inline void moe_gate_row(const moe_gate &p, int64_t t, const X &x, float *sums)
{
    int warp = threadIdx.x >> 5, quarter = warp % MOE_GATE_WARPS;
    float sum = 0.0f;
    if (t >= 0) {
        switch (p.bits) {
        case 2: sum = moe_gate_lane<2>(p, x, quarter); break;
        case 3: sum = moe_gate_lane<3>(p, x, quarter); break;
        case 4: sum = moe_gate_lane<4>(p, x, quarter); break;
        case 5: sum = moe_gate_lane<5>(p, x, quarter); break;
        case 6: sum = moe_gate_lane<6>(p, x, quarter); break;
        case 8: sum = moe_gate_lane<8>(p, x, quarter); break;
        default: sum = moe_gate_lane<DEQUANT_BF16>(p, x, quarter); break;
        }
    }
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0) sums[warp] = sum;
    __syncthreads(); /* sums of all warps */
    if (t < 0 || quarter > 0 || (threadIdx.x & 31) > 0) return;
    sum = sums[warp];
#pragma unroll
    for (int i = 1; i < MOE_GATE_WARPS; i++) sum += sums[warp + i];
    p.y[t] = sum * p.times;
}

#endif
