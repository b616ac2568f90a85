/* messages_request: the body of POST /v1/messages and /v1/messages/count_tokens, checked field by
 * field.
 *
 * Thread: a helper. */
#ifndef RIPTIDE_SERVER_MESSAGES_REQUEST_PRIV_H
#define RIPTIDE_SERVER_MESSAGES_REQUEST_PRIV_H

#include "server/chat_request_priv.h"

/* Fill *out; everything lives in `a` or borrows the tree. Members that are null count as absent;
 * unknown ones are ignored, and so are the fields of Chat Completions that say how tokens are
 * chosen (seed, min_p, …), which are taken.
 *
 * needs_limit  max_tokens must be there; 0 is a warm-up
 * Returns  INVALID, FORMAT or UNSUPPORTED with where = the field; NOMEM */
status messages_request_parse(const json *body, const chat_context *x, bool needs_limit, arena *a,
                              generation_request *out, err *e);

#endif
