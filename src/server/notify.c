#include "server/notify_priv.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/option.h"

bool notify_send(const char *state)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = option_env("NOTIFY_SOCKET", true);
    size_t n = path ? strlen(path) : 0;
    bool is_abstract = n > 1 && path[0] == '@';
    if (n < 2 || n >= sizeof to.sun_path || (path[0] != '/' && !is_abstract)) return false;
    memcpy(to.sun_path, path, n);
    if (is_abstract) to.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, length);
    close(fd);
    return sent == (ssize_t)strlen(state);
}
