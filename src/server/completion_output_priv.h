/* completion_output: the JSON of a text completion: text_completion, whole and in chunks.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_COMPLETION_OUTPUT_PRIV_H
#define RIPTIDE_SERVER_COMPLETION_OUTPUT_PRIV_H

#include "server/generation_priv.h"

/* Both take the log probabilities along that are known and not told yet. */
void completion_put_part(buf *out, const generation *g, answer *c, str text);
/* The last chunk of a choice. */
void completion_put_finish(buf *out, const generation *g, answer *c);
/* The chunk that only has the usage of all choices. */
void completion_put_usage(buf *out, const generation *g);
/* The whole answer as one object. */
void completion_put_whole(buf *out, const generation *g);

#endif
