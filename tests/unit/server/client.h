/* client: a blocking socket client for tests: sends raw bytes, reads until something is seen. */
#ifndef RIPTIDE_TESTS_CLIENT_H
#define RIPTIDE_TESTS_CLIENT_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "support/test.h"

/* Only a test that fails waits so long. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { CLIENT_WAIT_MS = 300000 };
#else
enum { CLIENT_WAIT_MS = 100000 };
#endif

static inline int client_open(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) fail_msg("connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* False when the server has closed. */
static inline bool client_send(int fd, str bytes)
{
    for (size_t at = 0; at < bytes.len;) {
        ssize_t n = send(fd, bytes.ptr + at, bytes.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

/* Append what comes until `needle` is in `in` (from byte `from` on), the end, or the time-out.
 * NULL needle: until the end. Returns true when the needle was seen, or without one the end. */
static inline bool client_read(int fd, buf *in, size_t from, const char *needle, int wait_ms)
{
    int64_t end_ns = clock_ns() + wait_ms * (int64_t)1000000;
    for (;;) {
        if (needle && in->len >= from && str_find(buf_str(in), str_from(needle), from) >= 0)
            return true;
        int64_t left_ms = (end_ns - clock_ns()) / 1000000;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left_ms <= 0 || poll(&p, 1, (int)left_ms) <= 0) return false;
        char bytes[16384];
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) return !needle;
        buf_put(in, bytes, (size_t)n);
    }
}

/* Send, read until the needle, fail with what came otherwise. */
static inline void client_ask(int fd, str bytes, buf *in, const char *needle)
{
    size_t from = in->len;
    assert_true(client_send(fd, bytes));
    if (!client_read(fd, in, from, needle, CLIENT_WAIT_MS))
        fail_msg("no \"%s\" in: %.*s", needle, (int)(in->len - from),
                 in->ptr ? in->ptr + from : "");
}

/* One request on a connection of its own, to the end of the connection. */
static inline void client_fetch(int port, str bytes, buf *in)
{
    int fd = client_open(port);
    client_send(fd, bytes);
    buf_clear(in);
    if (!client_read(fd, in, 0, NULL, CLIENT_WAIT_MS))
        fail_msg("the connection stayed open after: %.*s", STR_ARG(buf_str(in)));
    close(fd);
}

static inline int client_status(const buf *in)
{
    str s = buf_str(in);
    return s.len > 12 && str_starts(s, STR("HTTP/1.1 "))
               ? (s.ptr[9] - '0') * 100 + (s.ptr[10] - '0') * 10 + (s.ptr[11] - '0')
               : 0;
}

/* Wait for a counter that another thread raises. */
#define CLIENT_WAIT_FOR(condition)                                                     \
    do {                                                                               \
        int64_t wait_end_ = clock_ns() + CLIENT_WAIT_MS * (int64_t)1000000;            \
        while (!(condition)) {                                                         \
            if (clock_ns() > wait_end_) fail_msg("waited in vain for %s", #condition); \
            usleep(1000);                                                              \
        }                                                                              \
    } while (0)

#endif
