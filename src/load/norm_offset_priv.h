/* norm_offset: do the files hold w or 1 + w in their RMS norms?
 *
 * Hugging Face stores w around zero, an MLX conversion 1 + w around one; nothing in a file says
 * which, and the wrong choice gives fluent nonsense. Two signals must agree: how conv1d lies in
 * the file, and the mean of the layers' norms. */
#ifndef RIPTIDE_LOAD_NORM_OFFSET_PRIV_H
#define RIPTIDE_LOAD_NORM_OFFSET_PRIV_H

#include "load/weights_priv.h"

/* Returns  FORMAT with both signals in msg when they disagree; NOMEM */
status norm_offset_find(const weights *w, const arch_target *a, bool *has_offset, err *e);

/* A draft's norms are never offset: refuse a file whose norms lie around zero. */
status norm_offset_check_draft(const weights *w, const arch_draft *d, err *e);

#endif
