/* answer_format: what an answer must look like, as the fields of a request say it in each protocol,
 * and the grammar that keeps it so.
 *
 * Thread: a helper; the cache is shared. */
#ifndef RIPTIDE_SERVER_ANSWER_FORMAT_PRIV_H
#define RIPTIDE_SERVER_ANSWER_FORMAT_PRIV_H

#include "base/arena.h"
#include "chat/responses.h"
#include "server/grammar_cache_priv.h"

typedef enum {
    ANSWER_FREE,
    ANSWER_OBJECT,
    ANSWER_SCHEMA,
    ANSWER_GRAMMAR,
    ANSWER_REGEX
} answer_form;

/* Borrows the request's tree. */
typedef struct {
    answer_form form;
    const char *field;  /* that says so, for errors */
    const json *schema; /* ANSWER_SCHEMA */
    bool is_strict;     /* of a schema: what cannot be kept is refused, else left out */
    str text;           /* ANSWER_GRAMMAR, ANSWER_REGEX */

    /* Calls, where there are tools. */
    bool has_calls; /* may call; set by answer_format_tools */
    bool must_call;
    bool has_one_call; /* not several at a time */
    str only;          /* the one function that may be called; empty: any */
    const str *strict; /* [n_strict] in the arena: names of strict functions */
    int n_strict;
} answer_format;

/* `response_format`, `text.format`, `output_config.format` (or `output_format`), each with
 * `grammar` and `regex`: at most one of them. *f starts as zeros.
 *
 * Returns  INVALID or UNSUPPORTED with where = the field */
status answer_format_chat(const json *body, answer_format *f, err *e);
status answer_format_responses(const json *body, answer_format *f, err *e);
status answer_format_messages(const json *body, answer_format *f, err *e);

/* `tool_choice` of each protocol, and whether several calls may come at a time. *uses: whether the
 * model may call at all. `table`: how Responses' tools are called by the model. */
status answer_format_choice_chat(const json *body, answer_format *f, bool *uses, err *e);
status answer_format_choice_messages(const json *body, answer_format *f, bool *uses, err *e);
status answer_format_choice_responses(const json *body, const responses_chat *table,
                                      answer_format *f, bool *uses, err *e);

/* The tools as they are in the prompt, NULL for none, and those of the request that say `strict`
 * (of Responses by their table, else NULL). Checks the choice against them. */
status answer_format_tools(const json *body, const json *tools, const responses_chat *table,
                           arena *a, answer_format *f, err *e);

/* Whether anything is asked for that needs a grammar. */
bool answer_format_has_grammar(const answer_format *f);

/* The grammar, held for the caller; is_whole: the whole of a schema is kept.
 *
 * scratch  for the key
 * Returns  what compiling returns; where begins with the field */
status answer_format_compile(const answer_format *f, const json *tools, grammar_cache *cache,
                             grammar **g, bool *is_whole, err *e);

#endif
