/* oracle: the Identity rule (design.md) over every way that the engine has to compute an answer.
 *
 * A request's ids and log-probabilities on a plain engine (one lane, no draft, no cache, prompt in
 * one slice) are what every other way must give, byte for byte. A case is one way; it also checks
 * that what it is about did happen.
 * Thread: one. */
#ifndef RIPTIDE_BENCH_ORACLE_PRIV_H
#define RIPTIDE_BENCH_ORACLE_PRIV_H

#include "backend/ops.h"
#include "engine/engine.h"

enum { ORACLE_NEW_MAX = 256, ORACLE_LANES_MAX = 8, ORACLE_KINDS = 4 };
/* Of a draft that forgets within any prompt: its ring goes round, and a block is all of it. */
enum { ORACLE_WINDOW = 64 };

/* What came of one request. */
typedef struct {
    int32_t ids[ORACLE_NEW_MAX];
    float logprob[ORACLE_NEW_MAX];
    int n, n_asked;
    bool is_done;
    engine_finish reason;
    engine_usage usage;
    err failure;
} oracle_answer;

typedef enum { ORACLE_GREEDY, ORACLE_SAMPLED, ORACLE_PENALISED, ORACLE_MASKED } oracle_kind;

typedef struct {
    const int32_t *ids;
    int n_ids, n_new, priority;
    oracle_kind kind;
} oracle_ask;

typedef struct {
    engine_options engine; /* model, draft, backend, KV format, threads */
    int n_new;             /* tokens of an answer, <= ORACLE_NEW_MAX */
    int n_prompt;          /* tokens of a prompt, about */
    bool is_wide;          /* more of everything */
    bool is_short;         /* only lanes side by side, for sanitizers */
    void (*on_case)(void *ctx, const char *name, const char *detail); /* detail NULL: passed */
    void *ctx;
} oracle_request;

/* Run all cases. n_failed out; a case that fails does not stop the others.
 *
 * Returns  an error only when nothing can be run at all */
status oracle_run(const oracle_request *r, int *n_failed, err *e);

/* ---- oracle_session.c: what cases are made of ---- */

typedef struct {
    const oracle_request *r;
    int32_t *text; /* owned [n_text] what prompts are cut from */
    int n_text;
    grammar *words; /* owned, of masked answers */
    engine *en;     /* of the case under way */
    oracle_answer want[ORACLE_KINDS];
    oracle_answer got[ORACLE_LANES_MAX];
    char detail[256]; /* why the case under way failed; empty = it did not */
    int n_failed;
} oracle;

status oracle_open(oracle *o, const oracle_request *r, err *e);
void oracle_close(oracle *o);

/* Open the case's engine: the request's options as set() changes them. False = failed. */
bool oracle_engine(oracle *o, const engine_options *options);
engine_options oracle_plain(const oracle *o); /* what answers are compared with */
engine_options oracle_usual(const oracle *o); /* draft and cache on, one lane */
bool oracle_submit(oracle *o, const oracle_ask *a, oracle_answer *out);
void oracle_steps(oracle *o); /* until idle */
/* Submit and wait. */
bool oracle_answer_to(oracle *o, const oracle_ask *a, oracle_answer *out);

/* got is all it was asked for, and that is want from token `from` on. False = it is not, and the
 * case has failed. */
bool oracle_same(oracle *o, const oracle_answer *got, const oracle_answer *want, int from,
                 const char *what);
bool oracle_check(oracle *o, bool holds, const char *what);

/* Report the case and close its engine. */
void oracle_end(oracle *o, const char *name);

oracle_ask oracle_prompt(const oracle *o, oracle_kind kind);
const char *oracle_kind_name(oracle_kind kind);

#endif
