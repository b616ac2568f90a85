/* rng: counter random numbers; the same in C and CUDA, no state.
 *
 * A row of noise is keyed once from (seed, choice, pos); each token then costs one 32-bit hash,
 * so that a vector unit can make 8 or 16 at a time and any single token's number can be made
 * alone (the drafter asks for 16 of 248,320).
 *
 * Formula (this file is the definition):
 *   key      = mix64(mix64(seed ^ C0) + pos * C1 + choice * C2); k0 = low, k1 = high word
 *   bits(t)  = three multiply-xorshift rounds over t + k0, with k1 added between
 *   v        = (bits + 0.5) / 2^32                        uniform in (0, 1)
 *   gumbel   = -log(-log1p(-v))
 * v near 0 is the interesting (large) end, where a float has full relative precision. */
#ifndef RIPTIDE_BASE_RNG_H
#define RIPTIDE_BASE_RNG_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define RNG_FN static __host__ __device__ __forceinline__
#else
#define RNG_FN static inline
#endif

typedef struct {
    uint32_t k0, k1;
} rng_key;

/* David Stafford's "mix 13" constants of the splitmix64 finaliser. */
RNG_FN uint64_t rng_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    x ^= x >> 31;
    return x;
}

RNG_FN rng_key rng_row_key(uint64_t seed, uint32_t choice, int64_t pos)
{
    uint64_t x = rng_mix64(seed ^ 0x9e3779b97f4a7c15ULL);
    x = rng_mix64(x + (uint64_t)pos * 0xd1342543de82ef95ULL +
                  (uint64_t)choice * 0xaf251af3b0f025b5ULL);
    rng_key k = {(uint32_t)x, (uint32_t)(x >> 32)};
    return k;
}

RNG_FN uint32_t rng_bits(rng_key k, uint32_t token)
{
    uint32_t x = token * 0x9e3779b1U + k.k0;
    x ^= x >> 16;
    x *= 0x21f0aaadU;
    x ^= x >> 15;
    x += k.k1;
    x *= 0x735a2d97U;
    x ^= x >> 15;
    x *= 0x85ebca6bU;
    x ^= x >> 16;
    return x;
}

RNG_FN double rng_gumbel(uint32_t bits)
{
    double v = ((double)bits + 0.5) * (1.0 / 4294967296.0);
    return -log(-log1p(-v));
}

#endif
