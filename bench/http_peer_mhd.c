/* links: base needs: libmicrohttpd */
/* http_peer_mhd: the load of http_probe on a server made of GNU libmicrohttpd, on one thread with
 * epoll. The library asks for bytes; a stream that has none is suspended, and resumed by the thread
 * that makes the events.
 *
 * Usage: http_peer_mhd [idle connections = 5000] [streams = 256] [tokens of each = 500] */
#include <microhttpd.h>

#include "http_peer.h"

typedef struct {
    struct MHD_Connection *conn;
    pthread_mutex_t lock; /* protects what follows */
    char *bytes;          /* not yet taken [n], from `at` on */
    size_t at, n, cap;
    bool is_suspended, is_last;
} stream;

static peer p;

/* On the maker's thread. */
static void say(void *ctx, const char *bytes, size_t n, bool is_last)
{
    stream *s = ctx;
    pthread_mutex_lock(&s->lock);
    if (s->at == s->n) s->at = s->n = 0;
    if (s->n + n > s->cap) {
        s->cap = 2 * (s->n + n);
        s->bytes = realloc(s->bytes, s->cap);
        if (!s->bytes) load_die("realloc");
    }
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
    s->is_last = is_last;
    if (s->is_suspended) MHD_resume_connection(s->conn);
    s->is_suspended = false;
    pthread_mutex_unlock(&s->lock);
}

static ssize_t take_bytes(void *ctx, uint64_t pos, char *out, size_t most)
{
    stream *s = ctx;
    ssize_t n = 0;
    (void)pos;
    pthread_mutex_lock(&s->lock);
    if (s->at < s->n) {
        n = (ssize_t)(s->n - s->at < most ? s->n - s->at : most);
        memcpy(out, s->bytes + s->at, (size_t)n);
        s->at += (size_t)n;
    } else if (s->is_last) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        MHD_suspend_connection(s->conn);
        s->is_suspended = true;
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void close_stream(void *ctx)
{
    stream *s = ctx;
    pthread_mutex_destroy(&s->lock);
    free(s->bytes);
    free(s);
}

static enum MHD_Result reply(struct MHD_Connection *conn, struct MHD_Response *r)
{
    enum MHD_Result done = r ? MHD_queue_response(conn, 200, r) : MHD_NO;
    if (r) MHD_destroy_response(r);
    return done;
}

static enum MHD_Result take_request(void *ctx, struct MHD_Connection *conn, const char *url,
                                    const char *method, const char *version, const char *body,
                                    size_t *n_body, void **state)
{
    static int seen;
    (void)ctx;
    (void)method;
    (void)version;
    (void)body;
    if (!*state) { /* the head; the body follows */
        *state = &seen;
        return MHD_YES;
    }
    if (*n_body > 0) {
        *n_body = 0;
        return MHD_YES;
    }
    if (strcmp(url, "/health") == 0)
        return reply(conn,
                     MHD_create_response_from_buffer(2, (void *)"{}", MHD_RESPMEM_PERSISTENT));
    stream *s = calloc(1, sizeof *s);
    if (!s) return MHD_NO;
    s->conn = conn;
    pthread_mutex_init(&s->lock, NULL);
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10,
                                                               take_bytes, s, close_stream);
    if (r) MHD_add_response_header(r, "Content-Type", "text/event-stream; charset=utf-8");
    peer_begin(&p, s);
    return reply(conn, r);
}

int main(int argc, char **argv)
{
    load_init(&p.load, argc, argv);
    p.say = say;
    int port, listening = load_listen(&port, 1024);
    load_fork(&p.load, port);
    peer_start(&p);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, take_request, NULL,
        MHD_OPTION_LISTEN_SOCKET, listening, MHD_OPTION_CONNECTION_LIMIT, 8192u,
        MHD_OPTION_CONNECTION_TIMEOUT, 75u, MHD_OPTION_END);
    if (!daemon) load_die("libmicrohttpd");
    load_measure(&p.load);
    return 0;
}
