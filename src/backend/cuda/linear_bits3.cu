/* linear_bits3: the kernels of 3-bit affine weights. */
#include "backend/cuda/linear_launch.cuh"

template cudaError_t linear_tile_launch<3>(const tile_launch *, const tile_args *,
                                           const CUtensorMap *);
template cudaError_t linear_tile_open<3>(int);
