/* listing: the files of a repository at one commit, as the hub's API tells. */
#ifndef RIPTIDE_HUB_LISTING_PRIV_H
#define RIPTIDE_HUB_LISTING_PRIV_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { LISTING_FILES_MOST = 1 << 14, LISTING_BYTES_MOST = 16 << 20, COMMIT_DIGITS = 40 };

typedef struct {
    const char *path; /* safe_path */
    int64_t n_bytes;
    const char *digest; /* 64 digits of SHA-256, or 40 of git's SHA-1; NULL in a folder on disk */
    bool is_sha256;
} listing_file;

typedef struct {
    char commit[COMMIT_DIGITS + 1];
    listing_file *files; /* [n] in the arena */
    int n;
} listing;

/* From the text of /api/models/…?blobs=true, which must outlive nothing. A name that would leave
 * its folder, a digest that is none and a negative size are refused.
 * Returns  FORMAT, LIMIT, NOMEM */
status listing_parse(listing *l, arena *a, str text, const char *where, err *e);

/* The index of a path, or -1. */
int listing_find(const listing *l, const char *path);

#endif
