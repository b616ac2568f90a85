#include "server/restart_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/option.h"
#include "base/str.h"
#include "server/notify_priv.h"

enum { FIRST_FD = 3 }; /* where sd_listen_fds has the first socket */

static bool is_listening(int fd)
{
    int type = 0, listens = 0;
    socklen_t n = sizeof type, m = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &m) == 0 && listens;
}

status restart_find_socket(int *fd, err *e)
{
    const char *pid = option_env("LISTEN_PID", true), *fds = option_env("LISTEN_FDS", true);
    int64_t own, n;
    *fd = -1;
    /* What was meant for another process was left over in the environment. */
    if (!pid || !fds || !str_to_int64(str_from(pid), &own) || own != getpid()) return ERR_OK;
    if (!str_to_int64(str_from(fds), &n) || n != 1)
        return err_set(e, ERR_INVALID, "LISTEN_FDS", -1, "\"%.20s\" sockets, want 1", fds);
    if (!is_listening(FIRST_FD))
        return err_set(e, ERR_INVALID, "LISTEN_FDS", -1, "file %d is not a listening socket",
                       FIRST_FD);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC);
    *fd = FIRST_FD;
    return ERR_OK;
}

int restart_keep_socket(const uv_tcp_t *tcp)
{
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)tcp, &fd) != 0) return -1;
    return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
}

/* All else that is open ends with the old image, whoever opened it. */
static bool hand_over(int fd)
{
    char pid[24];
    if (close_range(FIRST_FD, ~0u, CLOSE_RANGE_CLOEXEC) != 0) return false;
    if (fd != FIRST_FD && dup2(fd, FIRST_FD) != FIRST_FD) return false;
    if (fcntl(FIRST_FD, F_SETFD, 0) != 0) return false;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    return setenv("LISTEN_PID", pid, 1) == 0 && setenv("LISTEN_FDS", "1", 1) == 0;
}

/* A manager that was told so waits for the next READY=1. */
static void tell_manager(void)
{
    char text[80];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)clock_ns() / 1000);
    notify_send(text);
}

status restart_exec(int fd, int argc, char **argv, err *e)
{
    char path[PATH_MAX];
    char **all = mem_new_array((size_t)argc + 2, sizeof *all);
    if (!all) return err_set(e, ERR_NOMEM, "restart", -1, "%d arguments", argc);
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    all[0] = path;
    memcpy(all + 1, argv, (size_t)argc * sizeof *all);
    if (hand_over(fd)) {
        tell_manager();
        execv(path, all);
        execv("/proc/self/exe", all); /* its file was replaced or removed */
    }
    int why = errno;
    mem_free(all);
    return err_set(e, ERR_IO, "restart", -1, "%s", strerror(why));
}
