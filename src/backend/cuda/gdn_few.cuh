/* gdn_few: gdn_prep and gdn_scan of few rows as one launch (waiting.cuh). */
#ifndef RIPTIDE_BACKEND_CUDA_GDN_FEW_CUH
#define RIPTIDE_BACKEND_CUDA_GDN_FEW_CUH

#include "backend/cuda/cuda_priv.h"

/* Whether the prep should wait for its scan. */
bool gdn_few_serves(const cuda_backend *cb, const gdn_prep_args *a);
/* Whether the prep that waits is this scan's. */
bool gdn_few_takes(const cuda_backend *cb, const gdn_scan_args *a);
/* Both; nothing waits any more. */
status gdn_few_run(cuda_backend *cb, const gdn_scan_args *a);

#endif
