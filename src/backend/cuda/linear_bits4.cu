/* linear_bits4: the kernels of 4-bit affine weights. */
#include "backend/cuda/linear_launch.cuh"

template cudaError_t linear_tile_launch<4>(const tile_launch *, const tile_args *,
                                           const CUtensorMap *);
template cudaError_t linear_tile_open<4>(int);
