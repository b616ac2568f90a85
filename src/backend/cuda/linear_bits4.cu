/* linear_bits4: the tile kernels of 4-bit affine weights. */
#include "backend/cuda/linear_tile.cuh"

template cudaError_t linear_tile_launch<4>(int, dim3, const tile_args *, cudaStream_t);
template cudaError_t linear_tile_open<4>(void);
