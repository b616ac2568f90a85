/* request_log: what was asked for. A line of each request goes to the log, without its body; where
 * a file is named, requests with a body are kept there as they came, to be sent again:
 *
 *   {"at_ms":…,"id":"req_…","method":"POST","path":"/v1/messages?beta=true","body":"{…}"}
 *
 * at_ms counts from an instant of its own; bytes of a body that are no UTF-8 become U+FFFD. No
 * field of the head is kept, so no key is.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_REQUEST_LOG_PRIV_H
#define RIPTIDE_SERVER_REQUEST_LOG_PRIV_H

#include "server/conn_priv.h"

typedef struct {
    int fd; /* owned; -1 without a file */
} request_log;

/* path NULL or "": no file. One that is there is added to; a new one is readable by its owner
 * alone.
 *
 * Returns  IO */
status request_log_open(request_log *l, const char *path, err *e);
void request_log_close(request_log *l);

/* Keep a complete request. A file that cannot be written is told once and written no more. */
void request_log_keep(request_log *l, const conn *c);

/* The line of a request that is over. is_whole: its answer is complete; else the client left, or
 * was cut off. What is polled (health, counters) and went well is left out. */
void request_log_tell(const conn *c, bool is_whole);

#endif
