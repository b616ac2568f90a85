/* constraint: what the tokens of one running reply may be: first its reasoning, then a grammar.
 *
 * Reasoning is free text up to the model's end token of it (`</think>`). It can be limited, and be
 * watched for going in circles; either way nothing but that token is left then. With a grammar an
 * end of the reply cannot come before it, and neither can text that a reader would take for the
 * end of reasoning or for a tool call. Behind it come up to two line ends, which models are used to
 * and readers drop, and then the grammar from its beginning.
 *
 * All of it depends on the ids so far alone. Thread: one call at a time over all constraints of a
 * constraint_vocab, but for constraint_open, which may be called beside others. */
#ifndef RIPTIDE_GRAMMAR_CONSTRAINT_H
#define RIPTIDE_GRAMMAR_CONSTRAINT_H

#include "grammar/grammar.h"

/* What the constraints of one model share. Some hundred KB; with grammars grammar_tokens too. */
typedef struct constraint_vocab constraint_vocab;

typedef struct {
    const vocab *v;     /* borrowed */
    int V;              /* ids a mask has */
    const int32_t *eos; /* [n_eos] copied */
    int n_eos;
    int32_t reasoning_end; /* the token, or -1 */
} constraint_model;

/* Owns     the caller closes *v, after all its constraints */
status constraint_vocab_open(constraint_vocab **v, const constraint_model *m, err *e);
/* Have what constraints with a grammar need, unless it is there. */
status constraint_vocab_need_tokens(constraint_vocab *v, err *e);
void constraint_vocab_close(constraint_vocab *v); /* NULL is fine */

typedef struct {
    const grammar *grammar;   /* NULL: none. Borrowed */
    bool starts_in_reasoning; /* the prompt left reasoning open */
    int64_t reasoning_most;   /* tokens before its end token; -1: no limit */
    bool ends_loops;          /* the watch (repeat_priv.h says for what) */
} constraint_wish;

typedef struct constraint constraint;

/* rows     most proposals that constraint_fill is called with
 * Returns  UNSUPPORTED when a wish about reasoning meets a model without its end token, or a
 *          grammar one without any end token; NOMEM. Afterwards nothing allocates. */
status constraint_open(constraint **c, constraint_vocab *v, const constraint_wish *w, int rows,
                       err *e);
void constraint_close(constraint *c); /* NULL is fine */

/* Whether any of the next n + 1 tokens may be restricted; else masks would allow everything. */
bool constraint_is_needed(const constraint *c, int n);

/* A cycle_mask.fill, ctx being the constraint: the masks [n + 1, (V + 31) / 32] of the next token
 * and of those behind each proposal. Where nothing fits (past the limits of grammar.h) everything
 * is set; constraint_take then refuses whatever came. */
void constraint_fill(void *ctx, const int32_t *proposals, int n, uint32_t *rows);

/* A cycle_mask.guess: where a proposal cannot follow and the grammar leaves only one text to go on
 * with, the longest token of that text is put in its place, and so on behind it. */
bool constraint_guess(void *ctx, int32_t *proposals, int n);

/* Move on over tokens that were said; returns how many were allowed. Fewer than n means that the
 * grammar's limits were reached, or that something beside the masks left no allowed token. */
int constraint_take(constraint *c, const int32_t *ids, int n);

/* The reasoning is over, or there is none. */
bool constraint_has_begun(const constraint *c);

#endif
