/* linear_bits2: the tile kernels of 2-bit affine weights. */
#include "backend/cuda/linear_tile.cuh"

template cudaError_t linear_tile_launch<2>(int, dim3, const tile_args *, cudaStream_t);
template cudaError_t linear_tile_open<2>(void);
