/* word_hash: a hash of a few bytes, inlined because pieces and words are short and many.
 *
 * Not for keys that must resist deliberate collisions: a table that uses it may become slow by
 * them, never wrong. */
#ifndef RIPTIDE_TOKEN_WORD_HASH_PRIV_H
#define RIPTIDE_TOKEN_WORD_HASH_PRIV_H

#include "base/str.h"

static inline uint64_t word_hash_mix(uint64_t a, uint64_t b)
{
    a = (a ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    a ^= a >> 32;
    a = (a ^ b) * 0xa0761d6478bd642fu;
    return a ^ a >> 29;
}

/* 1 to 8 bytes as a number; with n it tells them apart. */
static inline uint64_t word_hash_tail(const char *p, size_t n)
{
    if (n < 4) {
        const unsigned char *u = (const unsigned char *)p;
        return u[0] | (uint64_t)u[n / 2] << 8 | (uint64_t)u[n - 1] << 16;
    }
    uint32_t first, last;
    memcpy(&first, p, sizeof first);
    memcpy(&last, p + n - sizeof last, sizeof last);
    return first | (uint64_t)last << 32;
}

static inline uint64_t word_hash(str s)
{
    uint64_t h = s.len, eight;
    for (; s.len > 8; s.ptr += 8, s.len -= 8) {
        memcpy(&eight, s.ptr, sizeof eight);
        h = word_hash_mix(h, eight);
    }
    return s.len ? word_hash_mix(h, word_hash_tail(s.ptr, s.len)) : h;
}

#endif
