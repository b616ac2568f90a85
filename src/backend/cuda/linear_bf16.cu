/* linear_bf16: the kernels of unquantised weights, bf16 in device memory. */
#include "backend/cuda/linear_launch.cuh"

template cudaError_t linear_tile_launch<DEQUANT_BF16>(const tile_launch *, const tile_args *,
                                                      const CUtensorMap *);
template cudaError_t linear_tile_open<DEQUANT_BF16>(int);
