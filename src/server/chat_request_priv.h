/* chat_request: the body of POST /v1/chat/completions, checked field by field.
 *
 * Thread: a helper. */
#ifndef RIPTIDE_SERVER_CHAT_REQUEST_PRIV_H
#define RIPTIDE_SERVER_CHAT_REQUEST_PRIV_H

#include "server/generation_priv.h"

/* Fill *out; everything lives in `a` or borrows the tree. Members that are null count as absent;
 * unknown ones are ignored.
 *
 * Returns  INVALID, FORMAT or UNSUPPORTED with where = the field; NOMEM */
status chat_request_parse(const json *body, const chat_context *x, arena *a,
                          generation_request *out, err *e);

#endif
