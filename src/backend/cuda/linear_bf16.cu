/* linear_bf16: the kernels of unquantised weights, bf16 in device memory. */
#include "backend/cuda/linear_launch.cuh"

template cudaError_t linear_tile_launch<DEQUANT_BF16>(pick_tile, bool, dim3, const tile_args *,
                                                      const CUtensorMap *, cudaStream_t);
template cudaError_t linear_tile_open<DEQUANT_BF16>(int);
