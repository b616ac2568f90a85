/* kernels_avx512: the inner loops for AVX-512 F, BW, VL, DQ. The suffix sets the compiler's flags.
 */
#if defined(__x86_64__)
#include "backend/cpu/kernels_table_priv.h"

const cpu_kernels cpu_kernels_avx512 = KERNELS_TABLE("avx512", LIN_TILE_ROWS, 1, lin_);
#else
typedef int kernels_avx512_is_empty;
#endif
