/* cpu_pick: which table of kernels to use. */
#ifndef RIPTIDE_BACKEND_CPU_PICK_PRIV_H
#define RIPTIDE_BACKEND_CPU_PICK_PRIV_H

#include "backend/cpu/cpu_kernels_priv.h"
#include "backend/cpu/cpuid_priv.h"
#include "base/err.h"

/* The table named `isa`, or with NULL the best that `f` allows.
 *
 * Returns  INVALID when there never was such a name, UNSUPPORTED when this machine lacks it */
status cpu_pick(const char *isa, cpu_features f, const cpu_kernels **out, err *e);

#endif
