#include "hub/digest_priv.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "base/asserts.h"

status digest_open(digest *d, bool is_sha256, int64_t n_bytes, err *e)
{
    *d = (digest){0};
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex(ctx, is_sha256 ? EVP_sha256() : EVP_sha1(), NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        return err_set(e, ERR_NOMEM, "digest", -1, "out of memory");
    }
    d->ctx = ctx;
    if (!is_sha256) {
        char head[40];
        int n = snprintf(head, sizeof head, "blob %lld", (long long)n_bytes);
        digest_add(d, head, (size_t)n + 1);
    }
    return ERR_OK;
}

void digest_add(digest *d, const void *bytes, size_t n)
{
    int ok = EVP_DigestUpdate(d->ctx, bytes, n);
    ASSERT(ok == 1);
}

void digest_close_to(digest *d, char out[DIGEST_TEXT])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    int ok = EVP_DigestFinal_ex(d->ctx, raw, &n);
    ASSERT(ok == 1 && 2 * n < DIGEST_TEXT);
    for (unsigned i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", raw[i]);
    digest_close(d);
}

void digest_close(digest *d)
{
    EVP_MD_CTX_free(d->ctx);
    d->ctx = NULL;
}
