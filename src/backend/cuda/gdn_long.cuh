/* gdn_long: the delta rule over many rows of few lanes, with outputs (gdn_rule.cuh's bits). */
#ifndef RIPTIDE_BACKEND_CUDA_GDN_LONG_CUH
#define RIPTIDE_BACKEND_CUDA_GDN_LONG_CUH

#include "backend/cuda/gdn_rule.cuh"

bool gdn_long_serves(const cuda_backend *cb, const gdn_params &p, int T, int L);
status gdn_long_run(cuda_backend *cb, const gdn_params &p, int L);

#endif
