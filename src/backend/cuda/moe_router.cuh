/* moe_router: a few rows from the residual stream to sorted experts in one launch (waiting.cuh). */
#ifndef RIPTIDE_BACKEND_CUDA_MOE_ROUTER_CUH
#define RIPTIDE_BACKEND_CUDA_MOE_ROUTER_CUH

#include "backend/cuda/moe_few.cuh"

/* Whether a norm whose x waits for sums should wait itself, for a router behind it. */
bool moe_router_wants_norm(const cuda_backend *cb, const rmsnorm_args *a);
/* Whether this linear is such a router's behind the norm that waits. */
bool moe_router_wants_linear(const cuda_backend *cb, const linear_args *a);
/* Whether the router that waits is this routing's. */
bool moe_router_wants_route(const cuda_backend *cb, const moe_route_args *a);
/* Norm, router, routing, sort and `gate` (NULL: no shared expert); none waits any more. */
status moe_router_run(cuda_backend *cb, const moe_sorted *to, const moe_gate *gate);

#endif
