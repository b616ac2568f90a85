/* hash: 64-bit hash of bytes for tables (XXH3 of libxxhash); chain by passing the last value as
 * seed. Not for keys that must resist deliberate collisions. */
#ifndef RIPTIDE_BASE_HASH_H
#define RIPTIDE_BASE_HASH_H

#include "base/str.h"

uint64_t hash_bytes(const void *bytes, size_t n, uint64_t seed);
static inline uint64_t hash_str(str s, uint64_t seed)
{
    return hash_bytes(s.ptr, s.len, seed);
}

#endif
