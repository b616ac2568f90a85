/* linear_bits6: the kernels of 6-bit affine weights. */
#include "backend/cuda/linear_launch.cuh"

template cudaError_t linear_tile_launch<6>(const tile_launch *, const tile_args *,
                                           const CUtensorMap *);
template cudaError_t linear_tile_open<6>(int);
