#include "server/listen_priv.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { READ_BYTES = 64 << 10, BACKLOG = 1024 };

http_limits http_limits_default(void)
{
    return (http_limits){
        .idle_ms = 75000,
        .head_ms = 30000,
        .body_idle_ms = 30000,
        .body_rate = 512 << 10,
        .stall_ms = 30000,
        .linger_ms = 2000,
        .tick_ms = 500,
        .max_conns = 8192,
        .stream_cap = 1 << 20,
        .unsent_budget = 64 << 20,
        .body_budget = 512 << 20,
        .send_buffer = 256 << 10,
    };
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* The port and kind of the address that the socket has. */
static int read_own_address(listener *l)
{
    struct sockaddr_storage own;
    int n = sizeof own;
    /* uv keeps "address in use" back until something needs the socket. */
    int r = uv_tcp_getsockname(&l->tcp, (struct sockaddr *)&own, &n);
    if (r != 0) return r;
    l->is_loopback = is_loopback((struct sockaddr *)&own);
    l->port = ntohs(own.ss_family == AF_INET ? ((struct sockaddr_in *)&own)->sin_port
                                             : ((struct sockaddr_in6 *)&own)->sin6_port);
    return 0;
}

static status bind_to(listener *l, const char *host, int port, err *e)
{
    char service[8];
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE},
                    *found;
    snprintf(service, sizeof service, "%d", port);
    int r = getaddrinfo(host, service, &hints, &found);
    if (r != 0) return err_set(e, ERR_IO, host, -1, "%s", gai_strerror(r));
    r = uv_tcp_bind(&l->tcp, found->ai_addr, 0);
    freeaddrinfo(found);
    if (r == 0) r = read_own_address(l);
    return r == 0 ? ERR_OK : err_set(e, ERR_IO, host, -1, "port %d: %s", port, uv_strerror(r));
}

/* All but the socket's address. */
static status open_socket(listener *l, uv_loop_t *loop, const http_limits *limits,
                          const http_service *service, err *e)
{
    *l = (listener){.loop = loop, .limits = *limits, .service = *service};
    if (getentropy(&l->boot_id, sizeof l->boot_id) != 0) l->boot_id = (uint32_t)clock_ns();
    l->read_buffer = mem_new(READ_BYTES);
    if (!l->read_buffer) return err_set(e, ERR_NOMEM, "server", -1, "read buffer");
    int r = uv_tcp_init(loop, &l->tcp);
    if (r != 0) return err_set(e, ERR_IO, "server", -1, "socket: %s", uv_strerror(r));
    l->is_open = true;
    l->tcp.data = l;
    return ERR_OK;
}

status listener_open(listener *l, uv_loop_t *loop, const char *host, int port,
                     const http_limits *limits, const http_service *service, err *e)
{
    TRY(open_socket(l, loop, limits, service, e));
    return bind_to(l, host, port, e);
}

status listener_open_at(listener *l, uv_loop_t *loop, int fd, const http_limits *limits,
                        const http_service *service, err *e)
{
    TRY(open_socket(l, loop, limits, service, e));
    int r = uv_tcp_open(&l->tcp, fd);
    if (r != 0) return err_set(e, ERR_IO, "server", -1, "socket %d: %s", fd, uv_strerror(r));
    r = read_own_address(l);
    return r == 0 ? ERR_OK : err_set(e, ERR_IO, "server", -1, "socket %d: %s", fd, uv_strerror(r));
}

static void on_connection(uv_stream_t *stream, int r);

static void on_rejected(uv_handle_t *handle)
{
    listener *l = handle->data;
    l->is_rejecting = false;
    if (l->has_waiting && l->is_open) on_connection((uv_stream_t *)&l->tcp, 0);
}

/* Without memory a connection is taken and closed: uv listens no further while one waits. */
static void reject(listener *l)
{
    l->has_waiting = l->is_rejecting;
    if (l->is_rejecting) return;
    l->is_rejecting = true;
    uv_tcp_init(l->loop, &l->rejected);
    l->rejected.data = l;
    uv_accept((uv_stream_t *)&l->tcp, (uv_stream_t *)&l->rejected);
    uv_close((uv_handle_t *)&l->rejected, on_rejected);
}

static void on_connection(uv_stream_t *stream, int r)
{
    listener *l = stream->data;
    if (r == 0 && !conn_accept(l)) reject(l);
}

status listener_start(listener *l, err *e)
{
    int r = uv_listen((uv_stream_t *)&l->tcp, BACKLOG, on_connection);
    return r == 0 ? ERR_OK
                  : err_set(e, ERR_IO, "server", -1, "port %d: %s", l->port, uv_strerror(r));
}

void listener_mask_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void stop_listening(listener *l)
{
    if (!l->is_open) return;
    l->is_open = false;
    uv_close((uv_handle_t *)&l->tcp, NULL);
}

void listener_drain(listener *l)
{
    stop_listening(l);
    l->is_draining = true;
    for (conn *c = l->first, *next; c; c = next) {
        next = c->next;
        conn_drain(c);
    }
}

void listener_close(listener *l)
{
    stop_listening(l);
    l->is_draining = true;
    for (conn *c = l->first; c; c = c->next)
        if (c->phase != CONN_CLOSING) conn_cut(c);
}

void listener_fini(listener *l)
{
    mem_free(l->read_buffer);
    l->read_buffer = NULL;
}
