/* restart: the program in this process's place once more, on the same listening socket.
 *
 * A device that has failed fails every later call of its process, so only a new image of the
 * program can go on. The process stays the one that its service manager started: same id, same
 * arguments and environment. The socket is handed over the way service managers do it
 * (sd_listen_fds: LISTEN_PID, LISTEN_FDS, file 3), so a unit with a socket of its own
 * (systemd.socket) is taken over by the same code. It stays open throughout: who connects meanwhile
 * waits for the model to be there.
 *
 * Thread: one, and for restart_exec the only one left. */
#ifndef RIPTIDE_SERVER_RESTART_PRIV_H
#define RIPTIDE_SERVER_RESTART_PRIV_H

#include <uv.h>

#include "base/err.h"

/* The listening socket that this process was started with.
 *
 * fd       out: the caller owns it; -1 when there is none
 * Returns  INVALID when what was given is not one listening stream socket */
status restart_find_socket(int *fd, err *e);

/* Another name of a listening socket, to be kept over the end of its loop; the caller owns it.
 * -1 when there is none to be had. */
int restart_keep_socket(const uv_tcp_t *tcp);

/* Execute this program with the arguments `argv` behind its name; it finds `fd` as its socket.
 *
 * Returns  only when that failed: IO */
status restart_exec(int fd, int argc, char **argv, err *e);

#endif
