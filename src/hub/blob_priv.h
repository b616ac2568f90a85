/* blob: one file of a repository on its way into the cache.
 *
 * Held by a lock while open, so that of several processes one fetches and the others find it done.
 * Bytes go to <digest>.incomplete; a partial file of an earlier try is read once for its digest and
 * continued. */
#ifndef RIPTIDE_HUB_BLOB_PRIV_H
#define RIPTIDE_HUB_BLOB_PRIV_H

#include "hub/cache_dir_priv.h"
#include "hub/digest_priv.h"
#include "hub/http_fetch.h"

/* What all files of one call share. */
typedef struct {
    const hub_options *o;
    http_fetch *http;
    const hub_name *name;
    cache_dir dir;
    listing files;
    /* Progress. */
    const char *file;
    int64_t n_done, n_total, n_fetched;
    int64_t mark_ns, mark_bytes; /* when last told, and n_fetched then */
    double rate;                 /* bytes a second, smoothed */
} hub_session;

typedef struct {
    hub_session *s;
    const listing_file *f;
    const char *path, *partial; /* of the blob */
    const char *url;
    digest sum;
    int64_t n;         /* bytes in the partial file */
    int64_t n_resumed; /* of these, from an earlier process */
    int64_t n_skip;    /* of the answer at hand, bytes that are here already */
    int64_t until;     /* bytes wanted now */
    int lock_fd, fd;   /* -1: none */
    bool is_there;     /* the blob is complete; nothing is open but the lock */
} blob;

/* Lock, look what there is. Waits while another process has the lock.
 * Owns     the caller closes b; on failure it is closed */
status blob_open(blob *b, hub_session *s, const listing_file *f, err *e);
void blob_close(blob *b);

/* Fetch until the partial file has at least `until` bytes (at most all), trying again when the
 * network fails. */
status blob_fill(blob *b, int64_t until, err *e);

/* Fetch the rest, compare the digest and give the blob its name. */
status blob_finish(blob *b, err *e);

/* Whether the cache has the blob; no lock. */
bool blob_is_there(const hub_session *s, const listing_file *f);

/* Bytes of its partial file, 0 when there is none. */
int64_t blob_partial_bytes(const hub_session *s, const listing_file *f);

/* What an answer's code means, and whether it may be different soon. */
status blob_check_code(const hub_session *s, const http_head *h, const char *what, bool *is_passing,
                       err *e);

/* Wait before try number `n` (1 = the first again), or as long as the answer asked for. */
void blob_wait(const hub_options *o, int n, int retry_after_s);

#endif
