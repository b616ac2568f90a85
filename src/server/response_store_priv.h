/* response_store: answers of the Responses API that can be asked for again: each as it was sent,
 * and the conversation up to its end as items. An SQLite database, in memory or in a file that
 * outlives the server; bounded, the one not used for longest goes.
 *
 * Thread: any, after it was opened. */
#ifndef RIPTIDE_SERVER_RESPONSE_STORE_PRIV_H
#define RIPTIDE_SERVER_RESPONSE_STORE_PRIV_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/thread.h"

enum { RESPONSE_STORE_BYTES = 64 << 20 }; /* the limit when none is named */

typedef enum {
    STORE_PUT,
    STORE_GET,
    STORE_TOUCH,
    STORE_DROP,
    STORE_COUNT_BYTES,
    STORE_DROP_OLDEST,
    STORE_QUERIES
} response_store_query;

typedef struct {
    mutex lock; /* protects the rest */
    sqlite3 *db;
    sqlite3_stmt *queries[STORE_QUERIES];
    int64_t limit, clock; /* clock: of the last use */
    bool has_lock;
} response_store;

/* Open or create `path`, readable by its owner alone; NULL: in memory. limit: bytes of all that is
 * kept.
 *
 * Returns  IO when the file cannot be had; FORMAT when it is something else; UNSUPPORTED when a
 *          newer riptide made it; NOMEM */
status response_store_open(response_store *s, const char *path, int64_t limit, err *e);
void response_store_close(response_store *s); /* of zeros and twice is harmless */

/* Keep copies under `id`. What is larger than the limit, or finds no memory or disk, is not kept:
 * then it is as if it had been forgotten already. */
void response_store_put(response_store *s, str id, str response, str items);

/* Append to those that are not NULL; false when it is not there. */
bool response_store_get(response_store *s, str id, buf *response, buf *items);

/* False when it was not there. Its bytes in the file are overwritten. */
bool response_store_drop(response_store *s, str id);

int64_t response_store_bytes(response_store *s);

#endif
