/* cpu_tables: the kernel tables that this machine can run, plain C first. */
#ifndef RIPTIDE_TESTS_CPU_TABLES_H
#define RIPTIDE_TESTS_CPU_TABLES_H

#include "backend/cpu/cpu_pick_priv.h"
#include "support/test.h"

enum { CPU_TABLES = 5 };

static inline int cpu_tables(const cpu_kernels *out[CPU_TABLES])
{
    static const char *const names[] = {"scalar", "avx2", "avx512", "avx512vnni", "amx"};
    int n = 0;
    for (int i = 0; i < CPU_TABLES; i++)
        if (cpu_pick(names[i], cpuid_read(), &out[n], NULL) == ERR_OK) n++;
    return n;
}

static inline void fill_normal(uint64_t *seed, float *x, int64_t n, double scale)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)(test_normal(seed) * scale);
}

/* Every table must give what the first gave. */
static inline void check_same(const char *what, const cpu_kernels *k, const void *got,
                              const void *want, size_t n_bytes)
{
    if (memcmp(got, want, n_bytes) != 0) fail_msg("%s: %s has other bits", what, k->isa);
}

#endif
