/* chat_output: the JSON of a chat answer: chat.completion and its chunks. Pure functions of what a
 * choice holds; nothing is sent here.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_CHAT_OUTPUT_PRIV_H
#define RIPTIDE_SERVER_CHAT_OUTPUT_PRIV_H

#include "server/generation_priv.h"

/* The first chunk of a choice: its role. */
void chat_put_role(buf *out, const generation *g, const answer *c);
/* What came, as one or more chunks. Takes the logprobs that wait in the choice along. */
void chat_put_part(buf *out, const generation *g, answer *c, const outparse_event *part);
/* The last chunk of a choice: why it ended, and its timings. */
void chat_put_finish(buf *out, const generation *g, answer *c);
/* The chunk that only has the usage of all choices. */
void chat_put_usage(buf *out, const generation *g);
/* The whole answer as one object. */
void chat_put_completion(buf *out, const generation *g);

#endif
