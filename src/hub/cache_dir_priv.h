/* cache_dir: the folders of one repository in the cache (hub.h draws them). */
#ifndef RIPTIDE_HUB_CACHE_DIR_PRIV_H
#define RIPTIDE_HUB_CACHE_DIR_PRIV_H

#include "hub/hub.h"
#include "hub/listing_priv.h"

typedef struct {
    arena *mem;       /* borrowed; paths are in it */
    const char *repo; /* …/models--OWNER--REPO */
    const char *locks;
} cache_dir;

status cache_dir_init(cache_dir *c, arena *mem, const char *cache, const hub_name *n, err *e);
/* Make all folders that a download writes to. */
status cache_dir_make(const cache_dir *c, err *e);

/* blobs/<digest><end> and .locks/…/<digest>.lock; NULL when out of memory. */
char *cache_dir_blob(const cache_dir *c, const char *digest, const char *end);
char *cache_dir_lock(const cache_dir *c, const char *digest);
/* snapshots/<commit>, or a file in it; NULL when out of memory. */
char *cache_dir_snapshot(const cache_dir *c, const char *commit, const char *path);

/* The commit of a revision (a commit is its own). IO when the cache does not know it. */
status cache_dir_read_ref(const cache_dir *c, const char *revision, char commit[COMMIT_DIGITS + 1],
                          err *e);
status cache_dir_write_ref(const cache_dir *c, const char *revision, const char *commit, err *e);

/* Let `path` of the snapshot be the blob. In the place of what stands there, in one step. */
status cache_dir_link(const cache_dir *c, const char *commit, const char *path, const char *digest,
                      err *e);

/* The files of a snapshot that have their contents; digests are NULL. IO when there is none. */
status cache_dir_list(const cache_dir *c, const char *commit, listing *l, err *e);

#endif
