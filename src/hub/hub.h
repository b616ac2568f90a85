/* hub: a model by its name OWNER/REPO[:VARIANT], from the cache on disk or from the hub.
 *
 * The cache has the layout of the Hugging Face tools, so that either finds what the other fetched:
 *
 *   models--OWNER--REPO/blobs/<digest>            contents; <digest>.incomplete while they come
 *                       refs/<revision>           the commit that a revision stood for
 *                       snapshots/<commit>/<file> links to blobs
 *   .locks/models--OWNER--REPO/<digest>.lock      held while one process writes that blob
 *
 * Invariant: a blob has its name only when all its bytes came and their digest was right, and a
 * file stands in a snapshot only when its blob does. A download that was cut is taken up again
 * where it ended, also by another process.
 * Not here: what a model is. The caller's `check` looks at a configuration or a GGUF head before
 * any weight is fetched.
 * Thread: any; a call blocks until done. */
#ifndef RIPTIDE_HUB_HUB_H
#define RIPTIDE_HUB_HUB_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { HUB_NAME_MOST = 96 };

typedef struct {
    char owner[HUB_NAME_MOST + 1], repo[HUB_NAME_MOST + 1];
    char variant[HUB_NAME_MOST + 1]; /* of a GGUF file: "Q4_K_M"; empty when not given */
} hub_name;

/* "OWNER/REPO" or "OWNER/REPO:VARIANT", of letters, digits and "._-". False for anything else,
 * also for "./a", "../a" and names that begin or end in '-' or '.'. */
bool hub_name_parse(str text, hub_name *out);

/* Part of a model that is there before its weights are. */
typedef struct {
    const char *dir;     /* folder with config.json and its like, or NULL for a GGUF file: */
    const char *file;    /* its name, */
    const uint8_t *head; /* [n_head] its first bytes */
    int64_t n_head, n_file;
} hub_sight;

/* Say whether the model may be fetched. Setting *wants_more asks for a longer head (never at
 * n_head == n_file); the return value then does not count. */
typedef status hub_check(void *ctx, const hub_sight *s, bool *wants_more, err *e);

/* Bytes of all files of this call: there already, wanted, and of the file at hand. */
typedef struct {
    const char *file;
    int64_t n_done, n_total;
    double bytes_per_s; /* of the last seconds; 0 before the first */
    double s_left;      /* at that rate; negative when not known */
} hub_progress;

typedef struct {
    const char *endpoint; /* "https://huggingface.co", without '/' at its end */
    const char *cache;    /* the folder of the cache; made when it is not there */
    const char *token;    /* NULL: none. Sent to the endpoint only, never where it redirects to */
    const char *revision; /* a branch, tag or commit; NULL: main */
    bool is_offline;      /* never ask the hub */
    bool only_looks;      /* end before the weights, with a model that has no path */
    int timeout_ms;       /* without a connection or a byte */
    int retries;          /* in a row without a new byte */
    int retry_ms;         /* wait before the first, doubled for each following */
    hub_check *check;     /* NULL: everything is fine */
    void (*on_progress)(void *ctx, const hub_progress *p); /* NULL: none; some times a second */
    void (*on_note)(void *ctx, const char *text);          /* NULL: none; waiting, trying again */
    void *ctx;                                             /* of the three above */
} hub_options;

/* Defaults with what the environment says: HF_ENDPOINT; HF_HUB_CACHE (also HUGGINGFACE_HUB_CACHE),
 * else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub; HF_TOKEN
 * (also HUGGING_FACE_HUB_TOKEN), else the file HF_TOKEN_PATH, else HF_HOME/token, none of them with
 * HF_HUB_DISABLE_IMPLICIT_TOKEN; HF_HUB_OFFLINE; HF_HUB_DOWNLOAD_TIMEOUT in seconds.
 *
 * Returns  INVALID naming the variable
 * Owns     texts are in the arena */
status hub_options_init(hub_options *o, arena *a, err *e);

typedef struct {
    const char *path;   /* the snapshot's folder, or the GGUF file (the first part) in it; NULL when
                         * only looked at */
    const char *commit; /* 40 hexadecimal digits */
    int64_t n_bytes;    /* of all its files */
    int64_t n_fetched;  /* of these, by this call */
    int64_t n_missing;  /* of these, not in the cache; 0 unless only looked at */
    int n_files;
} hub_model;

/* The model as the cache has it, complete, without asking anybody.
 *
 * Returns  IO when it is not there or not complete; INVALID when the variant fits no file or
 * several */
status hub_find(const hub_name *n, const hub_options *o, arena *a, hub_model *out, err *e);

/* Fetch what is missing of the model, then as hub_find. When the hub cannot be asked but the cache
 * has the model complete, that is taken, with a note.
 *
 * Returns  IO: network, disk, damaged data (where = file or address; partial files stay);
 *          INVALID: no such repository, revision, file or access; LIMIT: too many requests;
 *          FORMAT: an answer that makes no sense; what `check` returned; NOMEM
 * Owns     texts are in the arena */
status hub_pull(const hub_name *n, const hub_options *o, arena *a, hub_model *out, err *e);

#endif
