/* linear_bits5: the tile kernels of 5-bit affine weights. */
#include "backend/cuda/linear_tile.cuh"

template cudaError_t linear_tile_launch<5>(int, dim3, const tile_args *, cudaStream_t);
template cudaError_t linear_tile_open<5>(void);
