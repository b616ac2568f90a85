/* item_reference: items of a request of the Responses API that are only named, because the server
 * has them: {"type":"item_reference","id":"msg_…"}. One client sends all of its history so.
 *
 * Thread: any. */
#ifndef RIPTIDE_SERVER_ITEM_REFERENCE_PRIV_H
#define RIPTIDE_SERVER_ITEM_REFERENCE_PRIV_H

#include "base/arena.h"
#include "base/json.h"
#include "server/response_store_priv.h"

/* *out: the body with the items in their places; the body itself when it names none. Lives in `a`
 * and borrows from the body.
 *
 * Returns  INVALID with where = the place in the request for one that is not there (any more);
 *          NOMEM */
status item_reference_resolve(response_store *s, const json *body, arena *a, const json **out,
                              err *e);

#endif
