/* notify: tell the service manager that started us how far we are (sd_notify's protocol: one
 * datagram to the socket that NOTIFY_SOCKET names). Without one nothing is said.
 *
 * Thread: any. */
#ifndef RIPTIDE_SERVER_NOTIFY_PRIV_H
#define RIPTIDE_SERVER_NOTIFY_PRIV_H

#include <stdbool.h>

/* state: "READY=1", "STOPPING=1". Returns whether somebody was told. */
bool notify_send(const char *state);

#endif
