/* replay: an agent's session against the engine, request after request, and what the prompt cache
 * makes of it.
 *
 * A warm-up prompt, then append-only requests (each holds the one before, its answer and new
 * text), then the last one again, changed in the middle, shortened, beside another agent, and
 * again; and a tool loop whose answer comes back without its reasoning, and with its call spelled
 * otherwise, where the model has a chat template. At the end the last prompts of both on an engine
 * that keeps nothing: their ids must be the same.
 * Thread: one. */
#ifndef RIPTIDE_BENCH_REPLAY_PRIV_H
#define RIPTIDE_BENCH_REPLAY_PRIV_H

#include "engine/engine.h"
#include "token/token_ids.h"

enum { REPLAY_APPENDS = 11, REPLAY_ROWS_MAX = REPLAY_APPENDS + 12 };

/* How far a prompt was after so many ms. */
enum { REPLAY_POINTS_MAX = 4096 };
typedef struct {
    struct {
        double ms;
        int64_t pos;
    } points[REPLAY_POINTS_MAX]; /* ascending */
    int n;
} replay_curve;

/* When it was at that position, straight between points. */
double replay_curve_at(const replay_curve *c, double pos);

typedef struct {
    engine_options engine;
    double scale; /* 1: 14,500 tokens growing to 31,700 */
    int n_new;    /* tokens of an answer */
    double temperature;
} replay_request;

typedef struct {
    char name[24];
    int64_t n_prompt, n_cached, n_new;
    double first_ms;  /* from submit to the first token */
    double decode_ms; /* from the first token to the last */
    double per_cycle; /* tokens */
    double cost;     /* of an append: first_ms over what new tokens and a block take cold; else 0 */
    uint64_t output; /* hash of the ids */
} replay_row;

typedef struct {
    replay_row rows[REPLAY_ROWS_MAX];
    int n;
    engine_cache_counters cache; /* of the engine that keeps, at the end */
    turn_counters turns;         /* likewise */
    bool is_same;                /* the last prompts' ids, kept and not */
    /* First token of the repeat over that of the same prompt cold, and the appends' over what their
     * new tokens and a block more take at that depth of the cold prompt; 0 = not known. */
    double repeat_share, append_median, append_worst;
} replay_record;

/* on_row is called after each request; NULL for none. */
status replay_run(const replay_request *r, replay_record *out, void (*on_row)(const replay_row *),
                  err *e);

/* ---- what a session is made of ---- */

typedef struct {
    const replay_request *r;
    replay_record *out;
    void (*on_row)(const replay_row *);
    engine *en;
    token_ids text;    /* what a session's prompts are cut from */
    token_ids prompt;  /* of the session so far */
    token_ids spliced; /* the tool loop's last prompt; empty without one */
    uint64_t spliced_output;
    /* of the request under way */
    replay_row *row;
    int64_t start_ns, first_ns;
    replay_curve *curve; /* where its progress goes, or NULL */
    err failure;
    token_ids answer;
} replay;

/* A request of the session; p->answer is then what came. `like` has what is asked for beside ids,
 * sampling and length. */
status replay_ask(replay *p, const char *name, const token_ids *ids, const engine_request *like,
                  err *e);

/* replay_chat.c: the tool loop, whose prompt has about n_ids tokens. */
status replay_chat(replay *p, int64_t n_ids, err *e);

#endif
