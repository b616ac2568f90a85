/* v16: sixteen lanes of f32 or i32, whatever the machine's registers are.
 *
 * The inner loops are written once over this type and compiled once for each instruction set.
 * Every operation is exactly rounded or exact, sums across lanes have one order, and nothing is
 * contracted behind our back (-ffp-contract=off), so all instruction sets give equal bits.
 *   max     a > b ? a : b (b when one is NaN); min alike
 *   hsum    lanes (i, i + 8), then (i, i + 4), (i, i + 2), (0, 1)
 *   hsum16  lane i = hsum(v[i])
 *   dots    sums of byte products for w <= 15, of at most V16_DOTS_STEPS steps unless
 *           V16_DOTS_ARE_WIDE; dot4 for any w */
#ifndef RIPTIDE_BACKEND_CPU_V16_PRIV_H
#define RIPTIDE_BACKEND_CPU_V16_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tensor/half.h"

/* A sanitizer takes minutes for what is compiled anew at each of its calls. Builds under one are
 * about what is touched and not how fast, so there V16_FORMS_ARE_ONE: the same operations in the
 * same order, compiled once.
 *   V16_OP    one operation; in plain C it is some tens of instructions, and may stay a call
 *   V16_FN    a part of a loop, which has to be inlined
 *   V16_FORM  a loop whose calls name their rows, kinds and sizes as literals, a hundred times and
 *             more a file; as one it reads them at run time */
#define V16_OP static inline __attribute__((unused))
#if defined(V16_FORMS_ARE_ONE) && !defined(__AVX2__)
#define V16_FN V16_OP
#else
#define V16_FN static inline __attribute__((always_inline, unused))
#endif
#ifdef V16_FORMS_ARE_ONE
#define V16_FORM static __attribute__((noinline, unused))
#else
#define V16_FORM V16_FN
#endif

enum { V16_DOTS_STEPS = 8 };

#if defined(__AVX512F__)
#include "backend/cpu/v16_avx512_priv.h"
#elif defined(__AVX2__)
#include "backend/cpu/v16_avx2_priv.h"
#else
#include "backend/cpu/v16_plain_priv.h"
#endif

V16_FN v16 v16_zero(void)
{
    return v16_set1(0);
}

V16_FN v16 v16_abs(v16 a)
{
    return v16_of_bits(v16i_and(v16i_of_bits(a), v16i_set1(0x7fffffff)));
}

V16_FN v16 v16_neg(v16 a)
{
    return v16_of_bits(v16i_xor(v16i_of_bits(a), v16i_set1((int32_t)0x80000000)));
}

/* 0 .. 15 */
V16_FN v16i v16i_ramp(void)
{
    static const int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return v16i_load(lanes);
}

/* The first n lanes (n <= 16), the rest 0. */
V16_FN v16 v16_load_n(const float *p, int64_t n)
{
    if (n >= 16) return v16_load(p);
    float lanes[16] = {0};
    memcpy(lanes, p, (size_t)n * sizeof *p);
    return v16_load(lanes);
}

V16_FN void v16_store_n(float *p, v16 v, int64_t n)
{
    if (n >= 16) {
        v16_store(p, v);
        return;
    }
    float lanes[16];
    v16_store(lanes, v);
    memcpy(p, lanes, (size_t)n * sizeof *p);
}

/* The nearest integer, halves to even, as f32 and as i32; |a| < 2^22. */
V16_FN v16 v16_round(v16 a)
{
    const v16 magic = v16_set1(12582912.0f); /* 1.5 * 2^23: a sum with it has no fraction bits */
    return v16_sub(v16_add(a, magic), magic);
}

V16_FN v16i v16i_round(v16 a)
{
    const v16 magic = v16_set1(12582912.0f);
    return v16i_sub(v16i_of_bits(v16_add(a, magic)), v16i_of_bits(magic));
}

/* 16 values to bf16, nearest even; not for NaN. */
V16_FN void v16_store_bf16(uint16_t *p, v16 v)
{
    v16i u = v16i_of_bits(v);
    v16i odd = v16i_and(v16i_shr(u, 16), v16i_set1(1));
    u = v16i_shr(v16i_add(u, v16i_add(odd, v16i_set1(0x7fff))), 16);
    v16i_store_i16(p, u);
}

#endif
