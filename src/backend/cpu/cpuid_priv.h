/* cpuid: what the processor can do and the operating system lets us use. */
#ifndef RIPTIDE_BACKEND_CPU_CPUID_PRIV_H
#define RIPTIDE_BACKEND_CPU_CPUID_PRIV_H

#include <stdbool.h>

typedef struct {
    bool has_avx2;       /* AVX2, FMA, F16C, BMI2, and their registers are saved */
    bool has_avx512;     /* and AVX-512 F, BW, VL, DQ, with theirs */
    bool has_avx512vnni; /* and VNNI */
    bool has_amx;        /* and AMX's tiles of int8, which the system lets this process use */
} cpu_features;

/* All false on other processors. Asks the operating system for the tile registers, which a process
 * gets only then. */
cpu_features cpuid_read(void);
bool cpuid_is_intel(void);

#endif
