/* linear_bf16: the tile kernels of unquantised weights, bf16 in device memory. */
#include "backend/cuda/linear_tile.cuh"

template cudaError_t linear_tile_launch<DEQUANT_BF16>(int, dim3, const tile_args *, cudaStream_t);
template cudaError_t linear_tile_open<DEQUANT_BF16>(void);
