/* chat_output: the JSON of a chat answer: chat.completion and its chunks. Pure functions of what a
 * choice holds; nothing is sent here.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_CHAT_OUTPUT_PRIV_H
#define RIPTIDE_SERVER_CHAT_OUTPUT_PRIV_H

#include "base/json.h"
#include "server/generation_priv.h"

/* The first chunk of a choice: its role. */
void chat_put_role(buf *out, const generation *g, const answer *c);
/* What came, as one or more chunks. Takes the logprobs that wait in the choice along. */
void chat_put_part(buf *out, const generation *g, answer *c, const outparse_event *part);
/* A chunk that says how much of the prompt has been read. */
void chat_put_progress(buf *out, const generation *g, const answer *c, const engine_event *ev);
/* The last chunk of a choice: why it ended, and its timings. */
void chat_put_finish(buf *out, const generation *g, answer *c);
/* The chunk that only has the usage of all choices. */
void chat_put_usage(buf *out, const generation *g);
/* The whole answer as one object. */
void chat_put_completion(buf *out, const generation *g);

/* --- for completion_output.c ------------------------------------------------------------------
 */

/* Open an object with id, object, created, model and system_fingerprint. */
void chat_write_head(json_writer *w, const generation *g, const char *object);
/* The values of `usage` (of all choices) and `timings`. */
void chat_write_usage(json_writer *w, const generation *g);
void chat_write_timings(json_writer *w, const answer *c);

#endif
