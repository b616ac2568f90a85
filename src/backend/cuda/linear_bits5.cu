/* linear_bits5: the kernels of 5-bit affine weights. */
#include "backend/cuda/linear_launch.cuh"

template cudaError_t linear_tile_launch<5>(const tile_launch *, const tile_args *,
                                           const CUtensorMap *);
template cudaError_t linear_tile_open<5>(int);
