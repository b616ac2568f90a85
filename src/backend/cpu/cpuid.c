#include "backend/cpu/cpuid_priv.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Which register files the operating system saves: bits 1, 2 SSE and AVX; 5, 6, 7 AVX-512; 17, 18
 * AMX. */
static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

/* Linux (5.16 and later) hands the tiles' 8 KB to those that ask. */
static bool may_use_tiles(void)
{
#if defined(__linux__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

cpu_features cpuid_read(void)
{
    const uint32_t avx_saved = 0x6, avx512_saved = 0xe6, amx_saved = 0x600e6;
    const uint32_t has_tiles = 3u << 24; /* AMX-TILE, AMX-INT8 */
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
    f.has_amx = f.has_avx512vnni && (d & has_tiles) == has_tiles &&
                (saved & amx_saved) == amx_saved && may_use_tiles();
    return f;
}

bool cpuid_is_intel(void)
{
    uint32_t a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
}

#else

cpu_features cpuid_read(void)
{
    return (cpu_features){0};
}

bool cpuid_is_intel(void)
{
    return false;
}

#endif
