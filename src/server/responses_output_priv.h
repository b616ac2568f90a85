/* responses_output: the JSON of an answer of the Responses API: the response object, and the events
 * of its stream, numbered in g->n_events. Reasoning, text and each call are an item of their own,
 * in the order in which the model wrote them. g->extra is the request's responses_echo.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_RESPONSES_OUTPUT_PRIV_H
#define RIPTIDE_SERVER_RESPONSES_OUTPUT_PRIV_H

#include "server/responses_request_priv.h"

/* response.created and response.in_progress. */
void responses_put_start(generation *g);
/* The events of one part: of its item's beginning, growth and end. */
void responses_put_part(generation *g, answer *c, const outparse_event *part);
/* The end of the open item, then response.completed or response.incomplete. */
void responses_put_finish(generation *g, answer *c);
/* response.failed. */
void responses_put_failure(generation *g, const api_error *a);
/* The whole answer as one object. */
void responses_put_response(buf *out, const generation *g);
/* The conversation up to the end of the answer, an array of items. */
void responses_put_items(buf *out, const generation *g);

#endif
