/* v16_math: exp, log and what follows from them, 16 at a time; equal bits on all machines.
 *
 * Errors measured by test_cpu_math: exp 2e-7 relative, log 1e-7 (absolute below 1), gumbel 1e-6. */
#ifndef RIPTIDE_BACKEND_CPU_V16_MATH_PRIV_H
#define RIPTIDE_BACKEND_CPU_V16_MATH_PRIV_H

#include "backend/cpu/v16_priv.h"
#include "base/rng.h"

#define V16_LN2_HIGH 0.693145751953125f /* 13 bits: a product with n <= 150 is exact */
#define V16_LN2_LOW 1.42860682e-06f

/* exp(x) = 2^n exp(r), |r| <= ln2 / 2, by its series to r^7. 0 below -87.3; constant above 88. */
V16_FN v16 v16_exp(v16 x)
{
    const v16 lowest = v16_set1(-87.3f);
    v16_mask is_normal = v16_gt(x, lowest);
    x = v16_min(x, v16_set1(88.0f));
    x = v16_max(x, lowest);
    v16 n = v16_round(v16_mul(x, v16_set1(1.44269504f)));
    v16 r = v16_fma(n, v16_set1(-V16_LN2_HIGH), x);
    r = v16_fma(n, v16_set1(-V16_LN2_LOW), r);
    v16 p = v16_set1(1.0f / 5040);
    p = v16_fma(p, r, v16_set1(1.0f / 720));
    p = v16_fma(p, r, v16_set1(1.0f / 120));
    p = v16_fma(p, r, v16_set1(1.0f / 24));
    p = v16_fma(p, r, v16_set1(1.0f / 6));
    p = v16_fma(p, r, v16_set1(0.5f));
    p = v16_fma(p, r, v16_set1(1.0f));
    p = v16_fma(p, r, v16_set1(1.0f));
    v16i power = v16i_shl(v16i_add(v16i_round(n), v16i_set1(127)), 23);
    return v16_select(is_normal, v16_mul(p, v16_of_bits(power)), v16_zero());
}

/* e ln2 + log(1 + f) for f in [-0.3, 0.42]: with s = f / (2 + f),
 * log(1 + f) = 2 (s + s^3 / 3 + s^5 / 5 + ..). Relative precision holds down to tiny f. */
V16_FN v16 v16_log_of_parts(v16 f, v16 e)
{
    v16 s = v16_div(f, v16_add(f, v16_set1(2)));
    v16 s2 = v16_mul(s, s);
    v16 p = v16_set1(2.0f / 11);
    p = v16_fma(p, s2, v16_set1(2.0f / 9));
    p = v16_fma(p, s2, v16_set1(2.0f / 7));
    p = v16_fma(p, s2, v16_set1(2.0f / 5));
    p = v16_fma(p, s2, v16_set1(2.0f / 3));
    v16 l = v16_fma(v16_mul(p, s2), s, v16_add(s, s));
    l = v16_fma(e, v16_set1(V16_LN2_LOW), l);
    return v16_fma(e, v16_set1(V16_LN2_HIGH), l);
}

/* x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); x normal and positive. */
V16_FN void v16_log_split(v16 x, v16 *f, v16 *e)
{
    const v16i half = v16i_set1(0x3f3504f3); /* sqrt(1/2) */
    v16i i = v16i_sub(v16i_of_bits(x), half);
    *e = v16_of_i(v16i_sar(i, 23));
    v16i m = v16i_add(v16i_and(i, v16i_set1(0x7fffff)), half);
    *f = v16_sub(v16_of_bits(m), v16_set1(1));
}

V16_FN v16 v16_log(v16 x)
{
    v16 f, e;
    v16_log_split(x, &f, &e);
    return v16_log_of_parts(f, e);
}

/* log(1 + y), y >= 0 */
V16_FN v16 v16_log1p(v16 y)
{
    v16 f, e;
    v16_log_split(v16_add(y, v16_set1(1)), &f, &e);
    v16_mask is_small = v16_gt(v16_set1(0.4f), y);
    return v16_log_of_parts(v16_select(is_small, y, f), v16_select(is_small, v16_zero(), e));
}

V16_FN v16 v16_sigmoid(v16 a)
{
    const v16 one = v16_set1(1);
    return v16_div(one, v16_add(one, v16_exp(v16_neg(a))));
}

V16_FN v16 v16_silu(v16 a)
{
    return v16_div(a, v16_add(v16_set1(1), v16_exp(v16_neg(a))));
}

V16_FN v16 v16_softplus(v16 a)
{
    return v16_select(v16_gt(a, v16_set1(20)), a, v16_log1p(v16_exp(a)));
}

V16_FN v16 v16_tanh(v16 a)
{
    const v16 one = v16_set1(1);
    return v16_sub(one, v16_div(v16_set1(2), v16_add(one, v16_exp(v16_add(a, a)))));
}

/* rng_bits for the ids token .. */
V16_FN v16i v16_rng_bits(rng_key k, v16i token)
{
    v16i x = v16i_add(v16i_mul(token, v16i_set1((int32_t)0x9e3779b1U)), v16i_set1((int32_t)k.k0));
    x = v16i_xor(x, v16i_shr(x, 16));
    x = v16i_mul(x, v16i_set1((int32_t)0x21f0aaadU));
    x = v16i_xor(x, v16i_shr(x, 15));
    x = v16i_add(x, v16i_set1((int32_t)k.k1));
    x = v16i_mul(x, v16i_set1((int32_t)0x735a2d97U));
    x = v16i_xor(x, v16i_shr(x, 15));
    x = v16i_mul(x, v16i_set1((int32_t)0x85ebca6bU));
    return v16i_xor(x, v16i_shr(x, 16));
}

/* (u + 0.5) / 2^32 rounded once */
V16_FN v16 v16_unit_of_u32(v16i u)
{
    v16 high = v16_of_i(v16i_shr(u, 16)), low = v16_of_i(v16i_and(u, v16i_set1(0xffff)));
    v16 sum = v16_fma(high, v16_set1(65536.0f), v16_add(low, v16_set1(0.5f)));
    return v16_mul(sum, v16_set1(1.0f / 4294967296.0f));
}

/* rng_gumbel: -log(-log(1 - v)). 1 - v is made from the complement of the bits, so that neither
 * end loses precision; small v go into the series as they are. */
V16_FN v16 v16_gumbel(v16i bits)
{
    v16 v = v16_unit_of_u32(bits);
    v16 rest = v16_unit_of_u32(v16i_xor(bits, v16i_set1(-1)));
    v16 f, e;
    v16_log_split(rest, &f, &e);
    v16_mask is_small = v16_gt(v16_set1(0.28f), v);
    v16 exponential = v16_neg(
        v16_log_of_parts(v16_select(is_small, v16_neg(v), f), v16_select(is_small, v16_zero(), e)));
    return v16_neg(v16_log(exponential));
}

#endif
