#include "backend/cpu/cpu_pick_priv.h"

#include <string.h>

#if defined(__x86_64__)
#define X86_TABLE(t) (&(t))
#else
#define X86_TABLE(t) NULL
#endif

typedef struct {
    const char *isa;
    const cpu_kernels *table; /* NULL when this build has none */
    bool is_usable;
} candidate;

status cpu_pick(const char *isa, cpu_features f, const cpu_kernels **out, err *e)
{
    const candidate best_first[] = {
        {"amx", X86_TABLE(cpu_kernels_amx), f.has_amx},
        {"avx512vnni", X86_TABLE(cpu_kernels_avx512vnni), f.has_avx512vnni},
        {"avx512", X86_TABLE(cpu_kernels_avx512), f.has_avx512},
        {"avx2", X86_TABLE(cpu_kernels_avx2), f.has_avx2},
        {"scalar", &cpu_kernels_scalar, true},
    };
    for (size_t i = 0; i < sizeof best_first / sizeof *best_first; i++) {
        const candidate *c = &best_first[i];
        if (isa && strcmp(isa, c->isa) != 0) continue;
        if (c->table && c->is_usable) {
            *out = c->table;
            return ERR_OK;
        }
        if (isa) return err_set(e, ERR_UNSUPPORTED, "backend", -1, "this machine has no %s", isa);
    }
    return err_set(e, ERR_INVALID, "backend", -1,
                   "cpu has no '%.40s', only scalar, avx2, avx512, avx512vnni and amx",
                   isa ? isa : "");
}
