/* listen: the listening socket, its connections and the limits they share.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_LISTEN_PRIV_H
#define RIPTIDE_SERVER_LISTEN_PRIV_H

#include "server/conn_priv.h"

typedef struct {
    int64_t idle_ms;      /* a kept-alive connection without a request */
    int64_t head_ms;      /* from the first byte of a head to its end */
    int64_t body_idle_ms; /* no byte of a body; also the head start of the next */
    int64_t body_rate;    /* bytes a second that a body must keep up with */
    int64_t stall_ms;     /* bytes wait to be sent and none leaves */
    int64_t linger_ms;    /* an answered connection that does not close */
    int64_t tick_ms;      /* how often a busy connection looks at the clock */
    int max_conns;
    size_t stream_cap;    /* bytes waiting to be sent of one connection … */
    size_t unsent_budget; /* … and of all */
    size_t body_budget;   /* bytes of all bodies being read or worked on */
    int send_buffer;      /* of the kernel, 0 = its own choice */
} http_limits;
http_limits http_limits_default(void);

struct listener {
    uv_loop_t *loop;
    uv_tcp_t tcp;
    http_service service;
    http_limits limits;
    char *read_buffer; /* owned; shared, since reading is one call at a time */
    conn *first;       /* all connections */
    int n_conns;
    size_t unsent_bytes, body_bytes;
    uint64_t n_requests; /* for request ids */
    uint32_t boot_id;
    int port;
    bool is_loopback;
    bool is_open, is_draining;
    uv_tcp_t rejected; /* the connection that there was no memory for, being closed */
    bool is_rejecting, has_waiting;
};

/* Bind, without listening yet: a port that is taken is known before a model is loaded.
 *
 * host     an address or a name
 * port     0 picks a free one; see l->port
 * Returns  IO when the address cannot be bound, NOMEM */
status listener_open(listener *l, uv_loop_t *loop, const char *host, int port,
                     const http_limits *limits, const http_service *service, err *e);
/* The same with a socket that is bound already. `fd` is the listener's, also when this fails. */
status listener_open_at(listener *l, uv_loop_t *loop, int fd, const http_limits *limits,
                        const http_service *service, err *e);
status listener_start(listener *l, err *e);
/* On the thread that runs the loop: writing to a client that is gone is an error of that write, not
 * a signal that ends the process. */
void listener_mask_signals(void);
/* Accept no more; close idle connections, and the others when they are answered. */
void listener_drain(listener *l);
/* Close what is left. The loop must run until listener_is_closed(). */
void listener_close(listener *l);
/* After the loop has ended. */
void listener_fini(listener *l);

static inline void listener_drop_body(listener *l, size_t n_bytes)
{
    l->body_bytes -= n_bytes;
}

#endif
