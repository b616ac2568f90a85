/* responses_request: the body of POST /v1/responses, checked field by field.
 *
 * Thread: a helper. */
#ifndef RIPTIDE_SERVER_RESPONSES_REQUEST_PRIV_H
#define RIPTIDE_SERVER_RESPONSES_REQUEST_PRIV_H

#include "chat/responses.h"
#include "server/generation_priv.h"

/* What an answer needs of its request besides what is generated from; texts are JSON. */
typedef struct {
    const responses_tool *tools;
    int n_tools, n_ignored;
    str items; /* array: the conversation up to the answer */
    str instructions, tools_text, metadata, reasoning, tool_choice; /* as given, or null */
    str format;                                                     /* likewise, of the text */
    str previous_id;                                                /* empty: none */
    int64_t max_output;                                             /* 0: not given */
    bool is_stored, wants_encrypted, has_parallel_calls;
} responses_echo;

/* Fill *out and *echo. *out lives in `a` or borrows the tree, *echo lives in `keep`.
 *
 * before   array of the items that the request goes on from, or NULL
 * Returns  INVALID, FORMAT or UNSUPPORTED with where = the field; NOMEM. Outputs are untouched then
 */
status responses_request_parse(const json *body, const json *before, const chat_context *x,
                               arena *a, arena *keep, generation_request *out, responses_echo *echo,
                               err *e);

#endif
