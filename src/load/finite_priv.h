/* finite: whether a model's weights are numbers.
 *
 * A damaged or badly converted file may hold NaN or infinity, and would answer with nothing but one
 * token. Vectors are read whole, of a matrix some rows: a look that does not read gigabytes. */
#ifndef RIPTIDE_LOAD_FINITE_PRIV_H
#define RIPTIDE_LOAD_FINITE_PRIV_H

#include "load/weights_priv.h"

/* Returns  FORMAT naming file, tensor and row; NOMEM */
status finite_check(const weights *w, err *e);

#endif
