/* kernels_avx512vnni: the inner loops for AVX-512 with VNNI. The suffix sets the compiler's flags.
 */
#if defined(__x86_64__)
#include "backend/cpu/kernels_table_priv.h"

const cpu_kernels cpu_kernels_avx512vnni = KERNELS_TABLE("avx512vnni", LIN_TILE_ROWS, 1, lin_);
#else
typedef int kernels_avx512vnni_is_empty;
#endif
