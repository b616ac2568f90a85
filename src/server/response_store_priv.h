/* response_store: answers of the Responses API that can be asked for again: each as it was sent,
 * and the conversation up to its end as items. In memory, bounded; the one not used for longest
 * goes.
 *
 * Thread: any. */
#ifndef RIPTIDE_SERVER_RESPONSE_STORE_PRIV_H
#define RIPTIDE_SERVER_RESPONSE_STORE_PRIV_H

#include "base/buf.h"
#include "base/thread.h"

enum { RESPONSE_STORE_BYTES = 64 << 20 };

typedef struct stored_response stored_response;

typedef struct {
    mutex lock;             /* protects the rest */
    stored_response *first; /* owned; the one used last */
    size_t n_bytes, limit;
    bool is_open;
} response_store;

void response_store_init(response_store *s, size_t limit);
void response_store_fini(response_store *s); /* twice is harmless */

/* Keep copies under `id`. What is larger than the limit, or finds no memory, is not kept: then it
 * is as if it had been forgotten already. */
void response_store_put(response_store *s, str id, str response, str items);

/* Append to those that are not NULL; false when it is not there. */
bool response_store_get(response_store *s, str id, buf *response, buf *items);

/* False when it was not there. */
bool response_store_drop(response_store *s, str id);

#endif
