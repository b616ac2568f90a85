/* links: base needs: libevent libevent_pthreads */
/* http_peer_evhttp: the load of http_probe on a server made of libevent's evhttp. The maker of
 * events appends to a list and wakes the loop, which passes on all that has come.
 *
 * Usage: http_peer_evhttp [idle connections = 5000] [streams = 256] [tokens of each = 500] */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <sys/eventfd.h>

#include "http_peer.h"

typedef struct said said;
struct said {
    said *next;
    struct evhttp_request *to;
    bool is_last;
    size_t n;
    char bytes[];
};

static peer p;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
static said *first, **end = &first;
static int wake;
static struct evbuffer *scratch;

/* On the maker's thread. */
static void say(void *stream, const char *bytes, size_t n, bool is_last)
{
    said *one = malloc(sizeof *one + n);
    uint64_t count = 1;
    if (!one) load_die("malloc");
    *one = (said){.to = stream, .is_last = is_last, .n = n};
    memcpy(one->bytes, bytes, n);
    pthread_mutex_lock(&list_lock);
    bool was_empty = !first;
    *end = one;
    end = &one->next;
    pthread_mutex_unlock(&list_lock);
    if (was_empty && write(wake, &count, sizeof count) != sizeof count) load_die("eventfd");
}

static void take_said(evutil_socket_t fd, short what, void *ctx)
{
    uint64_t count;
    (void)what;
    (void)ctx;
    if (read(fd, &count, sizeof count) != sizeof count) return;
    pthread_mutex_lock(&list_lock);
    said *all = first;
    first = NULL;
    end = &first;
    pthread_mutex_unlock(&list_lock);
    for (said *next; all; all = next) {
        next = all->next;
        evbuffer_add(scratch, all->bytes, all->n);
        evhttp_send_reply_chunk(all->to, scratch);
        if (all->is_last) evhttp_send_reply_end(all->to);
        free(all);
    }
}

static void take_health(struct evhttp_request *req, void *ctx)
{
    (void)ctx;
    evbuffer_add(scratch, "{}", 2);
    evhttp_send_reply(req, 200, "OK", scratch);
}

static void take_chat(struct evhttp_request *req, void *ctx)
{
    struct evkeyvalq *fields = evhttp_request_get_output_headers(req);
    int one = 1;
    (void)ctx;
    evutil_socket_t fd = bufferevent_getfd(
        evhttp_connection_get_bufferevent(evhttp_request_get_connection(req)));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    evhttp_add_header(fields, "Content-Type", "text/event-stream; charset=utf-8");
    evhttp_send_reply_start(req, 200, "OK");
    peer_begin(&p, req);
}

static void *serve(void *arg)
{
    event_base_dispatch(arg);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t loop;
    struct event_base *base = event_base_new();
    struct evhttp *http = base ? evhttp_new(base) : NULL;
    load_init(&p.load, argc, argv);
    p.say = say;
    scratch = evbuffer_new();
    wake = eventfd(0, EFD_NONBLOCK);
    struct event *on_wake = base ? event_new(base, wake, EV_READ | EV_PERSIST, take_said, NULL)
                                 : NULL;
    if (!http || !scratch || wake < 0 || !on_wake || event_add(on_wake, NULL) != 0)
        load_die("libevent");
    evhttp_set_timeout(http, 75);
    evhttp_set_cb(http, "/health", take_health, NULL);
    evhttp_set_gencb(http, take_chat, NULL);
    int port, listening = load_listen(&port, 1024);
    evutil_make_socket_nonblocking(listening);
    if (evhttp_accept_socket(http, listening) != 0) load_die("evhttp");
    load_fork(&p.load, port);
    if (event_reinit(base) != 0) load_die("libevent"); /* the child has the old epoll too */
    peer_start(&p);
    if (pthread_create(&loop, NULL, serve, base) != 0) load_die("thread");
    load_measure(&p.load);
    return 0;
}
