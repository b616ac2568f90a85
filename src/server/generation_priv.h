/* generation: one request for text, from its body to its last token, whatever protocol it speaks.
 *
 *   body ─ helper thread: parse, render, tokenise ─ engine_submit ─ events ─ answer
 *
 * What differs between protocols is a `dialect`: how the request is read and how the answer looks.
 * A client that leaves cancels the work at once, in the helper, in the queue, in prefill and in
 * decode; what the engine still says is then ignored.
 *
 * Thread: the event loop, where not said otherwise. */
#ifndef RIPTIDE_SERVER_GENERATION_PRIV_H
#define RIPTIDE_SERVER_GENERATION_PRIV_H

#include <stdatomic.h>

#include "base/arena.h"
#include "chat/message.h"
#include "chat/outparse.h"
#include "server/server_priv.h"

/* What a dialect makes of a body. Everything may borrow the scratch arena. */
typedef struct {
    message_set chat;
    policy policy;      /* checked */
    int64_t max_tokens; /* 0: what the context leaves */
    const str *stop;    /* [n_stop] */
    int n_stop, n;
    int top_logprobs;
    bool wants_logprobs, streams, includes_usage;
} generation_request;

/* A tool call as it grows. */
typedef struct {
    char id[64];
    buf name, arguments;
} answer_call;

/* One answer as it grows. Text is kept for complete answers only; a stream passes it on. */
typedef struct {
    generation *g;
    int index;
    outparse *parser;
    buf reasoning, content;
    answer_call *calls; /* owned [n_calls] */
    int n_calls, calls_cap;
    buf logprobs; /* JSON elements not yet delivered */
    engine_usage usage;
    engine_finish reason;
    bool is_done, is_reasoning;
    bool is_starved; /* a call had no memory */
    int64_t reasoning_tokens;
    int64_t first_tokens; /* of the first emission, and when it was complete */
    double first_ms;
} answer;

typedef struct {
    const char *id_prefix; /* "chatcmpl-" */
    /* Helper thread: read the request. Fills g->request, or *a. May use g->scratch. */
    void (*parse)(generation *g, const json *body, api_error *a);
    /* The rest append to g->out; what is there leaves after each call. */
    void (*begin)(generation *g);                                       /* stream */
    void (*part)(generation *g, answer *c, const outparse_event *part); /* stream */
    void (*finish)(generation *g, answer *c);                           /* stream: a choice ended */
    void (*end)(generation *g); /* all ended: the end of a stream, or the whole answer */
    void (*fail)(generation *g, const api_error *a); /* stream */
    void (*keep_alive)(generation *g);               /* stream */
} dialect;

struct generation {
    server *server;
    generation *next, *prev; /* in server->generations */
    const dialect *dialect;
    conn *conn; /* NULL when nobody waits for the answer any more */
    uv_work_t work;
    buf body;      /* counted in the listener's body_bytes */
    arena scratch; /* until it is submitted */
    arena mem;     /* until the end */
    generation_request request;
    token_ids ids;
    const json *tools; /* in mem; NULL when calls are not looked for */
    bool starts_in_reasoning;
    api_error error;        /* of the helper */
    answer *answers;        /* owned [request.n] */
    bridge_event *reserved; /* owned [request.n] the last event of each, should memory end */
    int n_left;
    uint64_t engine_id;
    bool is_prepared, is_running, has_begun;
    atomic_bool is_starved; /* an event was lost: no memory, or the loop is far behind */
    atomic_llong n_waiting; /* bytes of events that the loop has not taken yet */
    buf out;
    uint64_t put_ms; /* when something last left */
    char id[64];
    uint64_t seed; /* for a request without one */
    int64_t created_s;
};

/* Take the request of `c`; it will be answered. */
void generation_begin(server *s, conn *c, const dialect *d);

/* The helper's part: g->body to g->ids, or g->error. Helper thread. */
void generation_prepare(generation *g);

/* An error of reading the request, for its answer: one that takes too much memory to read is at
 * fault itself. Helper thread. */
void generation_explain(const generation *g, const err *e, api_error *a);

/* --- answer.c ----------------------------------------------------------------------------------
 */

/* Returns  NOMEM */
status answer_open(answer *c, generation *g, int index, err *e);
void answer_close(answer *c);
/* Take an event in: text to the parser, counts, logprobs. Returns NOMEM. */
status answer_take(answer *c, const engine_event *ev, err *e);
/* "stop", "length" or "tool_calls". */
const char *answer_finish_reason(const answer *c);
/* Tokens a second after the first emission, which a speculative cycle makes several at once; 0
 * when there was no second. */
double answer_rate(const answer *c);

#endif
