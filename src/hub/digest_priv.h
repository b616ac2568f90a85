/* digest: the name of a blob from its bytes.
 *
 * The hub names large files by SHA-256 and small ones as git does: SHA-1 of "blob <size>\0" and
 * the bytes. */
#ifndef RIPTIDE_HUB_DIGEST_PRIV_H
#define RIPTIDE_HUB_DIGEST_PRIV_H

#include "base/err.h"
#include "base/str.h"

enum { DIGEST_TEXT = 65 };

typedef struct {
    void *ctx; /* owned */
} digest;

/* n_bytes is the size of the whole file; it is part of git's digest.
 * Returns  NOMEM */
status digest_open(digest *d, bool is_sha256, int64_t n_bytes, err *e);
void digest_add(digest *d, const void *bytes, size_t n);
/* As lower-case hexadecimal digits. Closes d. */
void digest_close_to(digest *d, char out[DIGEST_TEXT]);
void digest_close(digest *d); /* twice is harmless */

#endif
