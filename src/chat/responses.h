/* responses: a request of OpenAI's Responses API, made into a Chat Completions request that
 * message_parse reads.
 *
 * - `instructions` come first, as a system message. `input` is a string or items; messages keep
 *   their place, function and custom calls become tool calls of the assistant's message before
 *   them, their outputs messages of role `tool`, reasoning items (by their content, else their
 *   summary) the reasoning_content of what follows
 * - the tools of a `namespace` become functions named namespace__name, `custom` tools functions
 * with one text parameter, `input`; the table tells how such a call is named in the answer
 * - tools that OpenAI runs itself (web_search, …) are left out
 * - reasoning, chat_template_kwargs, enable_thinking and preserve_thinking are passed on
 *
 * Thread: any; an arena belongs to one thread. */
#ifndef RIPTIDE_CHAT_RESPONSES_H
#define RIPTIDE_CHAT_RESPONSES_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

/* How a tool that the model knows by one name is called in the protocol. */
typedef struct {
    str flat;       /* the model's name for it */
    str space;      /* its namespace, or empty */
    str name;       /* its name there */
    bool is_custom; /* called with text */
} responses_tool;

/* Everything lives in the arena or borrows from the request and `before`. */
typedef struct {
    const json *chat;
    const json *items; /* array: `before`, and behind it the input as items */
    const responses_tool *tools;
    int n_tools, n_ignored; /* ignored: those that OpenAI would run */
} responses_chat;

/* before: array of earlier items (of previous_response_id), or NULL.
 *
 * Returns  FORMAT, INVALID or UNSUPPORTED with a JSON pointer into the request in err.where; the
 *          index of an item counts those before; NOMEM. On failure *out is untouched */
status responses_to_chat(arena *a, const json *request, const json *before, responses_chat *out,
                         err *e);

#endif
