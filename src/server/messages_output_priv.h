/* messages_output: the JSON of an answer of Anthropic's Messages API: the message, and the events
 * of its stream. A block is a run of thinking or text, or one tool call; they come in the order in
 * which the model wrote them.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_MESSAGES_OUTPUT_PRIV_H
#define RIPTIDE_SERVER_MESSAGES_OUTPUT_PRIV_H

#include "server/generation_priv.h"

/* message_start, and a first ping. */
void messages_put_start(buf *out, const generation *g);
/* content_block_start, _delta and _stop, as the part demands. */
void messages_put_part(buf *out, const generation *g, answer *c, const outparse_event *part);
/* The end of the open block, message_delta and message_stop. */
void messages_put_finish(buf *out, const generation *g, answer *c);
void messages_put_ping(buf *out);
void messages_put_error(buf *out, const api_error *a);
/* The whole answer as one object. */
void messages_put_message(buf *out, const generation *g);

#endif
