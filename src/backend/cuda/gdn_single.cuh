/* gdn_single: gdn_prep and gdn_scan of one lane's few rows as one launch (gdn_few.cuh asks). */
#ifndef RIPTIDE_BACKEND_CUDA_GDN_SINGLE_CUH
#define RIPTIDE_BACKEND_CUDA_GDN_SINGLE_CUH

#include "backend/cuda/cuda_priv.h"

bool gdn_single_serves(const cuda_backend *cb, const gdn_prep_args *a);
status gdn_single_run(cuda_backend *cb, const gdn_prep_args *prep, const gdn_scan_args *a);

#endif
