#include "server/notify_priv.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/test.h"

/* A manager's socket; a name that begins with '@' is an abstract one. */
static int listen_at(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    memcpy(at.sun_path, name, strlen(name));
    if (name[0] == '@') at.sun_path[0] = '\0';
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static void expect(const char *name)
{
    char got[100] = "";
    int fd = listen_at(name);
    assert_true(notify_send("READY=1"));
    assert_int_equal(recv(fd, got, sizeof got - 1, MSG_DONTWAIT), 7);
    assert_string_equal(got, "READY=1");
    close(fd);
}

TEST(the_manager_hears_it_at_either_kind_of_name)
{
    char name[60];
    snprintf(name, sizeof name, "/tmp/riptide-notify-%d", (int)getpid());
    expect(name);
    unlink(name);
    snprintf(name, sizeof name, "@riptide-notify-%d", (int)getpid());
    expect(name);
}

TEST(without_a_manager_nothing_is_said)
{
    char name[300];
    unsetenv("NOTIFY_SOCKET");
    assert_false(notify_send("READY=1"));
    memset(name, 'x', sizeof name);
    name[0] = '/';
    name[sizeof name - 1] = '\0';
    static const char *const bad[] = {"", "/", "relative", "/nowhere/at/all"};
    for (int i = 0; i < 5; i++) {
        setenv("NOTIFY_SOCKET", i < 4 ? bad[i] : name, 1);
        assert_false(notify_send("READY=1"));
    }
}
