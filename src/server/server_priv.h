/* server: the HTTP side as a whole: the loop, who may use it, the running generations, how it
 * stops.
 *
 * Thread: open, run, close from one; server_stop from any; all else from the loop. */
#ifndef RIPTIDE_SERVER_SERVER_PRIV_H
#define RIPTIDE_SERVER_SERVER_PRIV_H

#include "chat/template.h"
#include "engine/engine.h"
#include "server/access_priv.h"
#include "server/bridge_priv.h"
#include "server/grammar_cache_priv.h"
#include "server/listen_priv.h"
#include "server/request_log_priv.h"
#include "server/response_store_priv.h"

typedef struct server server;
typedef struct generation generation;

/* Everything borrowed while the server lives. */
typedef struct {
    const char *host;
    int port;            /* 0 picks a free one */
    access_rules access; /* is_loopback is found out */
    http_limits limits;
    int64_t body_max; /* most bytes of a request's body */
    const str *names; /* [n_names] further names of the model */
    int n_names;
    int64_t keep_alive_ms;      /* a stream that is silent for so long sends a comment */
    int64_t grace_ms;           /* running answers may end after the first stop */
    bool handles_signals;       /* SIGINT and SIGTERM stop it */
    int listen_fd;              /* a bound socket to take over instead of host and port, or -1 */
    bool ends_broken;           /* a failed device stops it; else it goes on answering with 503 */
    int choices_max;            /* answers of one request, 1..64 */
    const char *response_store; /* file of stored responses; NULL: in memory */
    const char *request_log;    /* file of requests, to be sent again; NULL: none */
    int64_t response_bytes;     /* most bytes of them */
    int64_t reasoning_most;     /* tokens of reasoning where a request does not say; -1: no limit */
    bool allows_loops;          /* of reasoning */
} server_options;
server_options server_options_default(void);

struct server {
    server_options opt;
    uv_loop_t loop;
    listener listener;
    bridge bridge;
    uv_async_t stop_wake, broken_wake;
    uv_signal_t signals[2];
    uv_timer_t stop_timer;
    int n_stops;       /* how often a stop was asked for */
    uint64_t close_ms; /* loop time at which the last bytes are given up */
    bool has_loop, has_stop, is_closed;
    bool is_taking_events;           /* of the engine … */
    generation *unflushed;           /* … and who has been sent something by them */
    engine *engine;                  /* borrowed */
    const engine_info *about;        /* the engine's */
    const tokenizer *tokens;         /* the engine's */
    template *template;              /* owned; NULL when the model has none */
    int32_t think_open, think_close; /* token ids, -1 without */
    generation *generations;         /* all that run */
    int n_generations;
    response_store responses;
    request_log requests;
    grammar_cache grammars;
    bool is_broken;    /* the device failed */
    err failure;       /* how, written before broken_wake is sent */
    int kept_fd;       /* owned: the socket of a server that ended broken, for the next; or -1 */
    uint64_t id_state; /* random ids */
    int64_t created_s;
};

/* Bind; nothing is answered yet.
 *
 * Returns  IO when the address cannot be bound; NOMEM */
status server_open(server **s, const server_options *o, err *e);
/* What answers are made with. It must outlive the server; its thread is the server's to start.
 *
 * Returns  what the chat template's compilation returns */
status server_attach(server *s, engine *en, err *e);
/* From here on connections are taken; they are answered by server_run. */
status server_listen(server *s, err *e);
/* Answer until server_stop. Starts and stops the engine's thread. */
status server_run(server *s, err *e);
/* The first call lets running answers end (grace_ms), a second one ends them at once. */
void server_stop(server *s);
void server_close(server *s); /* NULL is fine; not while it runs */
/* engine_options.on_broken, with the server as its context. Thread: any, while the server lives. */
void server_take_failure(void *server, const err *failure);
/* Behind server_run: the listening socket when it ended because the device failed, else -1. The
 * caller owns it. */
int server_take_socket(server *s);

static inline int server_port(const server *s)
{
    return s->listener.port;
}

/* Whether `name` means the model that is served. */
bool server_has_name(const server *s, str name);

/* prefix + 24 random hex digits, into out[>= 64]. */
void server_new_id(server *s, const char *prefix, char *out);

/* --- for generation.c --------------------------------------------------------------------------
 */

void server_take_events(uv_async_t *wake);
/* A generation is over; one that stops may have waited for it. */
void server_on_idle(server *s);
void generation_cancel_all(server *s);

#endif
