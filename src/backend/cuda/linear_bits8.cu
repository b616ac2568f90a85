/* linear_bits8: the kernels of 8-bit affine weights. */
#include "backend/cuda/linear_launch.cuh"

template cudaError_t linear_tile_launch<8>(const tile_launch *, const tile_args *,
                                           const CUtensorMap *);
template cudaError_t linear_tile_open<8>(int);
