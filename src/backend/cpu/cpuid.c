#include "backend/cpu/cpuid_priv.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

/* Which register files the operating system saves: bits 1, 2 SSE and AVX; 5, 6, 7 AVX-512. */
static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

cpu_features cpuid_read(void)
{
    const uint32_t avx_saved = 0x6, avx512_saved = 0xe6;
    cpu_features f = {0};
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return f;
    bool has_base = (c & bit_AVX) && (c & bit_FMA) && (c & bit_F16C);
    uint32_t saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    f.has_avx2 = has_base && (b & bit_AVX2) && (b & bit_BMI2) && (saved & avx_saved) == avx_saved;
    f.has_avx512 = f.has_avx2 && (b & bit_AVX512F) && (b & bit_AVX512BW) && (b & bit_AVX512VL) &&
                   (b & bit_AVX512DQ) && (saved & avx512_saved) == avx512_saved;
    f.has_avx512vnni = f.has_avx512 && (c & bit_AVX512VNNI);
    return f;
}

#else

cpu_features cpuid_read(void)
{
    return (cpu_features){0};
}

#endif
