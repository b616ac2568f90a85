/* linear_bits8: the tile kernels of 8-bit affine weights. */
#include "backend/cuda/linear_tile.cuh"

template cudaError_t linear_tile_launch<8>(int, dim3, const tile_args *, cudaStream_t);
template cudaError_t linear_tile_open<8>(void);
