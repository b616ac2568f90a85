/* prefill: an assistant's message at the end of a request, with which the answer begins.
 *
 * The prompt is that of the messages before it, and behind its end the text stands as if the model
 * had written it; the answer is only what comes then.
 * Thread: a helper. */
#ifndef RIPTIDE_SERVER_PREFILL_PRIV_H
#define RIPTIDE_SERVER_PREFILL_PRIV_H

#include "server/generation_priv.h"

/* Take the last message out of r->chat when it is the assistant's, into r->prefill. One without
 * text is only left out. Everything lives in `a` or borrows from the request.
 *
 * Returns  UNSUPPORTED for one that calls or reasons, or when this answer would begin with
 *          reasoning or has a form of its own; INVALID for one without another before it, and for
 *          white space at its end, behind which no word begins as the model writes it; NOMEM */
status prefill_take(generation_request *r, const chat_context *x, arena *a, err *e);

#endif
