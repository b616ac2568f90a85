/* gdn_lane: a row of the delta rule for one state column, shared by 8 lanes.
 *
 *   m = exp(g) (S^T k);  d = beta (v - m);  o = exp(g) (S^T q) + d (k . q);  S <- exp(g) S + k d^T
 *
 * A warp owns 4 columns: lane (r, c) = (lane / 4, lane % 4) holds rows 32 n + 4 r + e (e = 0..3) of
 * column c. Lanes that want the same word of a row lie side by side, so that the word leaves shared
 * memory once for all of them. Sums have gdn_rule.cuh's order, so they have its bits. */
#ifndef RIPTIDE_BACKEND_CUDA_GDN_LANE_CUH
#define RIPTIDE_BACKEND_CUDA_GDN_LANE_CUH

#include "backend/cuda/gdn_rule.cuh"

enum { GDN_WARP_COLUMNS = 4 };

/* N sums over the lanes of a column, side by side: r, r ^ 1, then ^ 2, then ^ 4. */
template <int N> __device__ static inline void gdn_lane_join(float (&x)[N])
{
#pragma unroll
    for (int step = GDN_WARP_COLUMNS; step < 32; step <<= 1) {
        float other[N];
#pragma unroll
        for (int i = 0; i < N; i++) other[i] = __shfl_xor_sync(WARP_ALL, x[i], step);
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = __fadd_rn(x[i], other[i]);
    }
}

/* What a lane needs of a row. */
template <int NK> struct gdn_lane_row {
    float k[NK][4], q[NK][4], decay, beta, kq, v;
};

/* One position; the column's output with WANTS_O. */
template <int NK, bool WANTS_O>
__device__ static inline float gdn_lane_step(float (&S)[NK][4], const gdn_lane_row<NK> &x)
{
    float dot[WANTS_O ? 2 : 1];
    dot[0] = gdn_dot<NK>(S, x.k);
    if (WANTS_O) dot[1] = gdn_dot<NK>(S, x.q);
    gdn_lane_join(dot);
    float d = __fmul_rn(x.beta, __fsub_rn(x.v, __fmul_rn(x.decay, dot[0])));
#pragma unroll
    for (int n = 0; n < NK; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) S[n][e] = __fmaf_rn(S[n][e], x.decay, __fmul_rn(x.k[n][e], d));
    return WANTS_O ? __fmaf_rn(d, x.kq, __fmul_rn(x.decay, dot[1])) : 0.0f;
}

/* The lane's part of its column (dk values at `at`), from or to memory. */
template <int NK>
__device__ static inline void gdn_lane_load(float (&S)[NK][4], const float *at, int r, int dk)
{
#pragma unroll
    for (int n = 0; n < NK; n++) {
        int i = 32 * n + 4 * r;
        float4 v = i < dk ? *reinterpret_cast<const float4 *>(at + i) : make_float4(0, 0, 0, 0);
        S[n][0] = v.x, S[n][1] = v.y, S[n][2] = v.z, S[n][3] = v.w;
    }
}
template <int NK>
__device__ static inline void gdn_lane_store(const float (&S)[NK][4], float *at, int r, int dk)
{
#pragma unroll
    for (int n = 0; n < NK; n++) {
        int i = 32 * n + 4 * r;
        if (i < dk)
            *reinterpret_cast<float4 *>(at + i) = make_float4(S[n][0], S[n][1], S[n][2], S[n][3]);
    }
}

#endif
