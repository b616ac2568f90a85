/* draft_steps: draft_attend, draft_enter and draft_leave (ops.h) as the ops that they are made of,
 * for a backend that has no kernel for them, or none for a call's shape. */
#ifndef RIPTIDE_BACKEND_DRAFT_STEPS_H
#define RIPTIDE_BACKEND_DRAFT_STEPS_H

#include "backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The backend's own: not those of its table, which may count or settle what calls them. */
typedef struct {
    status (*rmsnorm)(backend *b, const rmsnorm_args *a);
    status (*linear)(backend *b, const linear_args *a);
    status (*draft_conv)(backend *b, const draft_conv_args *a);
    status (*draft_attn_prep)(backend *b, const draft_attn_prep_args *a);
    status (*draft_attn)(backend *b, const draft_attn_args *a);
} draft_steps;

/* Each needs those that it is made of alone. */
status draft_steps_attend(const draft_steps *s, backend *b, const draft_attend_args *a);
status draft_steps_enter(const draft_steps *s, backend *b, const draft_enter_args *a);
status draft_steps_leave(const draft_steps *s, backend *b, const draft_leave_args *a);

#ifdef __cplusplus
}
#endif
#endif
