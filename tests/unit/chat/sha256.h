/* sha256: of a text, as hexadecimal digits. */
#ifndef RIPTIDE_TESTS_CHAT_SHA256_H
#define RIPTIDE_TESTS_CHAT_SHA256_H

#include <openssl/sha.h>
#include <stdio.h>

#include "base/str.h"

static inline void sha256_text(str s, char out[65])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)s.ptr, s.len, digest);
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

#endif
