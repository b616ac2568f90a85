/* linear_bits3: the tile kernels of 3-bit affine weights. */
#include "backend/cuda/linear_tile.cuh"

template cudaError_t linear_tile_launch<3>(int, dim3, const tile_args *, cudaStream_t);
template cudaError_t linear_tile_open<3>(void);
