/* cpu_attn: what full attention and the draft's have in common. */
#ifndef RIPTIDE_BACKEND_CPU_ATTN_PRIV_H
#define RIPTIDE_BACKEND_CPU_ATTN_PRIV_H

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels_priv.h"

/* reserve refuses wider heads, and more query heads to a KV head */
enum { ATTN_D_MAX = 1024, ATTN_Q_MAX = 64 };

kernel_kv cpu_attn_kv(kv_format f);
int cpu_attn_kv_bytes(kv_format f);
/* Rotate pairs (j, j + n_pairs) of x by cs[j] = (cos, sin). */
void cpu_attn_rotate(float *x, const float *cs, int n_pairs);

#endif
