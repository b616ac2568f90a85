/* sse: server-sent events: `data:` lines that end in an empty line, and comments that keep a
 * silent stream alive.
 *
 * Thread: any. */
#ifndef RIPTIDE_SERVER_SSE_PRIV_H
#define RIPTIDE_SERVER_SSE_PRIV_H

#include "server/api_error_priv.h"

/* name     NULL: only data
 * data     without line breaks: JSON as json_writer makes it, or [DONE] */
void sse_put_event(buf *out, const char *name, str data);
/* The same for data that is written into `out` between the two. */
void sse_open_event(buf *out, const char *name);
void sse_close_event(buf *out);

void sse_put_comment(buf *out, const char *text);

/* How OpenAI's streams end when something failed: the error, then [DONE]. */
void sse_put_failure(buf *out, const api_error *a);

#endif
