/* kernels_amx: the inner loops for AVX-512 with VNNI and AMX's tiles of int8. The suffix sets
 * the compiler's flags. */
#if defined(__x86_64__)
#include "backend/cpu/kern_lin_amx_block_priv.h"
#include "backend/cpu/kernels_table_priv.h"

const cpu_kernels cpu_kernels_amx = KERNELS_TABLE("amx", AMX_TILE_ROWS, AMX_ROWS, amx_);
#else
typedef int kernels_amx_is_empty;
#endif
