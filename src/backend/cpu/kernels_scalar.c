/* kernels_scalar: the inner loops for plain C. The suffix sets the compiler's flags. */
#include "backend/cpu/kernels_table_priv.h"

const cpu_kernels cpu_kernels_scalar = KERNELS_TABLE("scalar", LIN_TILE_ROWS, 1, lin_);
