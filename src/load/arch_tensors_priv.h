/* arch_tensors: every tensor that an architecture needs, with its shape: model-spec 4.1, 3.6. */
#ifndef RIPTIDE_LOAD_ARCH_TENSORS_PRIV_H
#define RIPTIDE_LOAD_ARCH_TENSORS_PRIV_H

#include "base/err.h"
#include "load/arch.h"
#include "tensor/tensor.h"

typedef enum {
    ARCH_TENSOR_PLAIN,   /* never quantised: norms, decay, codebooks, base kernels */
    ARCH_TENSOR_LINEAR,  /* [N, K], may be quantised along K */
    ARCH_TENSOR_EXPERTS, /* [X, N, K], may be quantised along K and stored in several forms */
    ARCH_TENSOR_CONV     /* [C, taps]; files have one more dimension of 1 */
} arch_tensor_kind;

typedef struct {
    const char *name; /* canonical, as in weights.h; valid during the visit */
    arch_tensor_kind kind;
    int n_dims;
    int64_t shape[TENSOR_DIMS_MAX];
} arch_tensor;

/* Called once a tensor; the first failure ends the walk and is given back. */
typedef status arch_tensor_visit(void *ctx, const arch_tensor *t, err *e);

status arch_tensors_target(const arch_target *a, arch_tensor_visit *visit, void *ctx, err *e);
status arch_tensors_draft(const arch_draft *d, arch_tensor_visit *visit, void *ctx, err *e);

#endif
