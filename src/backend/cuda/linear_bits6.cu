/* linear_bits6: the tile kernels of 6-bit affine weights. */
#include "backend/cuda/linear_tile.cuh"

template cudaError_t linear_tile_launch<6>(int, dim3, const tile_args *, cudaStream_t);
template cudaError_t linear_tile_open<6>(void);
