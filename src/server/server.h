/* server: `riptide serve`, the OpenAI protocol over HTTP.
 *
 * One event loop thread owns all sockets, one engine thread all computing; parsing, rendering and
 * tokenising a request run on the loop's helper threads. Requests go one way through
 * engine_submit, events come back through one list.
 * Thread: one call at a time. */
#ifndef RIPTIDE_SERVER_SERVER_H
#define RIPTIDE_SERVER_SERVER_H

/* argv[0] is the command's own name. Returns the exit status: 0 after a stop by signal, 1 when it
 * failed, 2 when it was called wrongly. */
int server_command(int argc, char **argv);

#endif
