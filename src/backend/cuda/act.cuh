/* act: the activation functions, in f32. */
#ifndef RIPTIDE_BACKEND_CUDA_ACT_CUH
#define RIPTIDE_BACKEND_CUDA_ACT_CUH

#include "backend/cuda/cuda_priv.h"

__device__ static inline float act_sigmoid(float a)
{
    return 1.0f / (1.0f + expf(-a));
}

__device__ static inline float act_silu(float a)
{
    return a / (1.0f + expf(-a));
}

#endif
