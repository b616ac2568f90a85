/* kernels_avx2: the inner loops for AVX2 with FMA and F16C. The suffix sets the compiler's flags.
 */
#if defined(__x86_64__)
#include "backend/cpu/kernels_table_priv.h"

const cpu_kernels cpu_kernels_avx2 = KERNELS_TABLE("avx2", LIN_TILE_ROWS, 1, lin_);
#else
typedef int kernels_avx2_is_empty;
#endif
