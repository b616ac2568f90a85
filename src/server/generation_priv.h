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
#include "sample/stop.h"
#include "server/answer_format_priv.h"
#include "server/server_priv.h"
#include "token/detok.h"

typedef enum {
    PROMPT_CHAT, /* what the template makes of `chat` */
    PROMPT_TEXT,
    PROMPT_IDS,
} prompt_kind;

typedef struct score_question score_question; /* scores_priv.h */

/* Of which tokens an answer tells log probabilities. */
typedef enum {
    LOGPROBS_OF_TOKENS,  /* all but an end token, with the next piece of the answer */
    LOGPROBS_OF_TEXT,    /* those whose text is told, with the piece that they begin */
    LOGPROBS_OF_CONTENT, /* likewise, and of a conversation only what is neither reasoning nor call
                          */
} logprobs_rule;

/* What a dialect makes of a body. Everything may borrow the scratch arena. */
typedef struct {
    prompt_kind prompt;
    message_set chat;
    str text;           /* PROMPT_TEXT */
    const int32_t *ids; /* PROMPT_IDS [n_ids], all in the vocabulary */
    int n_ids;
    bool has_plain_specials; /* PROMPT_TEXT: the text of special tokens is only text */
    bool ends_open;          /* PROMPT_CHAT: nothing is put behind the last message */
    bool shows_pieces;       /* /tokenize: with the text of each token */
    policy policy;           /* checked */
    int64_t max_tokens;      /* 0: what the context leaves */
    const str *stop;         /* [n_stop] */
    int n_stop, n;
    int top_logprobs;
    logprobs_rule logprobs; /* where wants_logprobs */
    bool wants_logprobs, streams, includes_usage;
    answer_format format;                 /* what the answer must look like */
    bool has_reasoning_limit, ends_loops; /* engine_request */
    int64_t reasoning_most;
    bool is_scored;            /* instead of an answer: scores_priv.h */
    score_question *questions; /* in mem [n_questions] */
    int n_questions;
    bool is_warm_up;      /* only the prompt is of interest: one token is made and not shown */
    bool hides_reasoning; /* reasoning is not shown */
    bool shows_progress;  /* of reading the prompt, in a stream of a dialect that can */
    int64_t timeout_ms;   /* the answer may take so long; 0: as long as it likes */
    int priority;         /* engine_request */
    str prefill;          /* PROMPT_CHAT: the answer's first words, which stand in the prompt */
} generation_request;

enum { ANSWER_PIECE_MAX = 16 << 10 }; /* bytes of arguments in one event of a stream */

/* A tool call as it grows. */
typedef struct {
    char id[64];
    buf name, arguments;
} answer_call;

/* A run of an answer in the order in which it was said. */
typedef struct {
    outparse_kind kind; /* REASONING, CONTENT or CALL_BEGIN */
    size_t from, to;    /* in answer.reasoning or answer.content; of a call its number */
    int logprobs_from, logprobs_to; /* CONTENT: in answer.logprobs */
} answer_part;

/* A token and how probable it was. */
typedef struct {
    int32_t id;
    engine_logprob p;
    size_t offset; /* LOGPROBS_OF_TEXT: characters of the text before it */
} answer_logprob;

/* One answer as it grows. Text is kept for complete answers, and for streams of a dialect that
 * needs it at the end; other streams only pass it on. */
typedef struct {
    generation *g;
    int index;
    outparse *parser; /* NULL: all is content, as it is after a prompt that is no chat */
    buf reasoning, content;
    answer_call *calls; /* owned [n_calls] */
    int n_calls, calls_cap;
    answer_part *parts; /* owned [n_parts], of what is kept */
    int n_parts, parts_cap;
    /* The dialect's: items of its stream that have begun, and the last one while it is open. */
    int n_blocks;
    bool has_open_block;
    outparse_kind open_kind; /* REASONING, CONTENT or CALL_BEGIN */
    /* Owned [n_logprobs]. The first n_settled belong to the answer, whether the others do is still
     * open; n_told of them have gone out in a stream. */
    answer_logprob *logprobs;
    int n_logprobs, logprobs_cap, n_settled, n_told;
    size_t n_chars, n_chars_told; /* LOGPROBS_OF_TEXT: of the tokens' text, of the answer's */
    engine_usage usage;
    engine_finish reason;
    int stop_string; /* index of the one that ended it, or -1 */
    bool is_done, is_reasoning;
    bool is_starved; /* a call had no memory */
    /* Stop strings of a chat are looked for in its content alone, never in reasoning or calls, so
     * this is done here, token by token: where an answer ends must not depend on how many tokens
     * a cycle made. So is what decides whose log probabilities are told. */
    bool goes_by_token;
    bool has_stops, is_cut; /* is_cut: a stop string ended it; what still comes does not count */
    stop stops;
    detok text;
    buf raw, shown;  /* scratch */
    bool keeps_turn; /* until it ends, to be remembered … */
    token_ids turn;  /* … as it was generated */
    int64_t reasoning_tokens;
    size_t n_prefill;     /* bytes of the prefill that the parser has not given back yet */
    int64_t first_tokens; /* of the first emission, and when it was complete */
    double first_ms;
} answer;

typedef struct {
    const char *id_prefix;   /* "chatcmpl-" */
    const char *call_prefix; /* of a tool call's id; NULL: "call_" */
    bool keeps_text;         /* in streams too */
    /* Helper thread: read the request. Fills g->request, or *a. May use g->scratch. */
    void (*parse)(generation *g, const json *body, api_error *a);
    /* Helper thread: append the whole answer to g->out; nothing is generated then, and the prompt
     * may be longer than the context. `prompt` is its text. NULL: generate. */
    void (*prepared)(generation *g, str prompt);
    /* What the protocol makes of an error's status and code; NULL: nothing. */
    void (*adapt)(api_error *a);
    /* The error of a prompt that is too long; NULL: in OpenAI's words. is_more: n are not all. */
    void (*overflow)(api_error *a, int64_t context, int64_t n, bool is_more);
    /* The rest append to g->out; what is there leaves after each call. */
    void (*begin)(generation *g);                                       /* stream */
    void (*part)(generation *g, answer *c, const outparse_event *part); /* stream */
    void (*finish)(generation *g, answer *c);                           /* stream: a choice ended */
    void (*end)(generation *g); /* all ended: the end of a stream, or the whole answer */
    void (*fail)(generation *g, const api_error *a); /* stream */
    void (*keep_alive)(generation *g);               /* stream */
    /* stream, with shows_progress: a slice of the prompt is done; NULL: not told */
    void (*progress)(generation *g, answer *c, const engine_event *ev);
} dialect;

struct generation {
    server *server;
    generation *next, *prev;    /* in server->generations */
    generation *next_unflushed; /* in server->unflushed, where is_unflushed */
    bool is_unflushed;
    const dialect *dialect;
    conn *conn; /* NULL when nobody waits for the answer any more */
    uv_work_t work;
    buf body;      /* counted in the listener's body_bytes */
    arena scratch; /* until it is submitted */
    arena mem;     /* until the end */
    generation_request request;
    token_ids ids;
    const json *tools;  /* in mem; NULL when calls are not looked for */
    grammar *grammar;   /* held until the request is freed, or NULL */
    const json *schema; /* in mem; what the finished text must satisfy, or NULL */
    bool is_checked;    /* a finished answer is judged, so its text is kept */
    bool starts_in_reasoning;
    api_error error;          /* of the helper */
    answer *answers;          /* owned [request.n] */
    bridge_reserve *reserved; /* owned [request.n] the last event of each, should memory end */
    int n_left;
    int at_question;         /* the one that is asked */
    int n_prompt;            /* tokens */
    turn_prompt turn_prompt; /* of a chat: by which its answer is remembered */
    int n_messages;          /* in that */
    void *extra;             /* in mem; the dialect's own */
    int64_t n_events;        /* sent in a stream whose events are numbered */
    uint64_t engine_id;
    bool is_running, has_begun;
    atomic_bool is_starved; /* an event was lost: no memory, or the loop is far behind */
    atomic_llong n_waiting; /* bytes of events that the loop has not taken yet */
    buf out;
    uint64_t put_ms;   /* when something last left */
    uint64_t begin_ms; /* when the request was taken */
    char id[64];
    uint64_t seed; /* for a request without one */
    int64_t created_s;
};

/* Take the request of `c`; it will be answered. */
void generation_begin(server *s, conn *c, const dialect *d);

/* The helper's part: g->body to g->ids, or g->error. Helper thread. */
void generation_prepare(generation *g);

/* The prompt of the request as text and ids; no text where it was given as ids. *is_more: it has
 * more tokens than are counted. Helper thread. */
status generation_make_prompt(generation *g, buf *text, bool *is_more, err *e);

/* An error of reading the request, for its answer: one that takes too much memory to read is at
 * fault itself. Helper thread. */
void generation_explain(const generation *g, const err *e, api_error *a);

/* What the fields of a request are read against; all borrowed. */
typedef struct {
    const policy *defaults; /* the model's */
    int V, choices_max;
    uint64_t seed;                        /* when the request has none */
    bool has_reasoning_limit, ends_loops; /* of requests that say nothing */
    int64_t reasoning_most;
    const template_caps *caps;
} chat_context;

void generation_fill_context(const generation *g, chat_context *x); /* caps NULL: no template */
/* The same; false, with the error in *a, when the model has no chat template. Any thread. */
bool generation_get_context(const generation *g, chat_context *x, api_error *a);

/* `priority` (foreground, normal, background) and `timeout` (seconds). Any thread. */
status order_fields_parse(const json *body, generation_request *r, err *e);

/* `thinking_budget`: tokens of reasoning, -1 for no limit, over what the server says. Any thread.
 */
status reasoning_fields_parse(const json *body, const chat_context *x, generation_request *r,
                              err *e);

/* A score is no number: the request fails. */
void generation_fail_score(generation *g);

/* Whether `model` of the body is absent or a name of our model; else *a says so. Any thread. */
bool generation_check_model(const server *s, const json *body, api_error *a);

/* --- answer.c ----------------------------------------------------------------------------------
 */

/* Returns  NOMEM */
status answer_open(answer *c, generation *g, int index, err *e);
void answer_close(answer *c);
/* Take an event in: text to the parser, counts, logprobs. Returns NOMEM. */
status answer_take(answer *c, const engine_event *ev, err *e);
/* The next piece of a long text from byte *at on, which is moved: ANSWER_PIECE_MAX bytes or a few
 * less, so that no character is cut. False at the end. */
bool answer_next_piece(str text, size_t *at, str *piece);
/* The text of a kept part of reasoning or content. Borrows c. */
str answer_part_text(const answer *c, const answer_part *part);
/* --- answer_logprob.c --------------------------------------------------------------------------
 */

/* Note a token and what is known of it. False without memory. */
bool answer_add_logprob(answer *c, int32_t id, const engine_logprob *p);
/* Text of the answer is about to be told: so are the tokens that began it. */
void answer_settle_logprobs(answer *c, str text);
/* LOGPROBS_OF_CONTENT: a token was parsed. What turned out to be no content is forgotten. */
void answer_sift_logprobs(answer *c);
/* The answer is over. */
void answer_finish_logprobs(answer *c);
/* The settled ones have gone out; of those that nobody asks for again the room is freed. */
void answer_told_logprobs(answer *c);
/* Numbers from..to as [{token, logprob, bytes, top_logprobs}]. */
void answer_write_logprobs(json_writer *w, const answer *c, int from, int to);

/* "stop", "length" or "tool_calls". */
const char *answer_finish_reason(const answer *c);
/* Whether a finished answer keeps what was promised: its schema, and those of strict tools. NOMEM
 */
status answer_check(const answer *c, bool *valid, err *e);
/* Tokens a second after the first emission, which a speculative cycle makes several at once; 0
 * when there was no second. */
double answer_rate(const answer *c);

#endif
