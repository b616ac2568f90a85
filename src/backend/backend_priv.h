/* backend_priv: how the registry reaches the three backends. Only inside backend/.
 *
 * isa  the text behind ':' in the name, or NULL for the best this machine has
 * Returns  INVALID for an isa that the backend never had, UNSUPPORTED when this machine or build
 *          lacks it, NOMEM; *b is set only on OK */
#ifndef RIPTIDE_BACKEND_BACKEND_PRIV_H
#define RIPTIDE_BACKEND_BACKEND_PRIV_H

#include "backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

status ref_backend_open(backend **b, const char *isa, const backend_options *o, err *e);
status cpu_backend_open(backend **b, const char *isa, const backend_options *o, err *e);
status cuda_backend_open(backend **b, const char *isa, const backend_options *o, err *e);

/* Of a weight of a block type: what cpu_weight_open takes for it. */
int64_t cpu_block_bytes(const tensor *t, weight_use use);

/* Tests: one more backend that can be opened by a name, of which `isa` is what follows its ':'. Not
 * while another thread opens one. */
void backend_register(const char *name, status (*open)(backend **b, const char *isa,
                                                       const backend_options *o, err *e));

#ifdef __cplusplus
}
#endif
#endif
