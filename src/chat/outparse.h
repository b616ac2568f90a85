/* outparse: what a model writes, as it comes: reasoning, answer text and tool calls.
 *
 * Reads the Qwen form
 *     reasoning</think>\n\ntext\n\n<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n
 *     </parameter>\n</function>\n</tool_call>
 * byte by byte and calls back with pieces. However the bytes are cut into feeds, the joined pieces
 * are the same; only what could still become a tag is held back.
 *
 * It never fails on what the model wrote. Missing and doubled closing tags still give the call; a
 * call inside the reasoning ends it; tags that open no call, and closing tags inside a value that
 * are not followed by more closing, are text. A call cut off by the end keeps what it has: its
 * arguments are closed and are always a valid JSON object.
 *
 * Values are typed by the tool's JSON schema (through anyOf, oneOf, allOf and $ref, into arrays and
 * objects): a string is kept as it was written and sent while it is written, other types are read
 * as JSON when complete and sent as a string when they are not that. A parameter without schema is
 * a string; of a repeated one the first counts.
 *
 * Thread: one at a time. */
#ifndef RIPTIDE_CHAT_OUTPARSE_H
#define RIPTIDE_CHAT_OUTPARSE_H

#include "base/err.h"
#include "base/json.h"

typedef enum {
    OUTPARSE_REASONING,  /* text: a piece; white space at both ends of the whole is dropped */
    OUTPARSE_CONTENT,    /* text: a piece; likewise next to reasoning and calls */
    OUTPARSE_CALL_BEGIN, /* text: the function's name */
    OUTPARSE_ARGUMENTS,  /* text: a piece of JSON; all pieces of a call make one object */
    OUTPARSE_CALL_END,
} outparse_kind;

typedef struct {
    outparse_kind kind;
    str text;         /* borrowed during the callback; never empty except at CALL_END */
    int index;        /* of calls, from 0 */
    bool is_complete; /* CALL_END: the call was closed, not cut off */
} outparse_event;

/* Must not call back into the parser. */
typedef void outparse_fn(void *ctx, const outparse_event *event);

typedef struct {
    const json *tools; /* array as in the request, borrowed until close; NULL: calls are text */
    bool starts_in_reasoning; /* the prompt ended with an open <think> */
    outparse_fn *emit;
    void *ctx;
    bool text_has_no_calls; /* once text has begun, whatever looks like a call belongs to it */
} outparse_options;

typedef struct outparse outparse;

/* Returns  NOMEM. Owns: the caller closes *p */
status outparse_open(outparse **p, const outparse_options *o, err *e);
void outparse_close(outparse *p); /* NULL is fine */

/* Take more text. Returns NOMEM, which is final: later feeds return it again. */
status outparse_feed(outparse *p, str bytes, err *e);
/* The text is over: everything held back is sent, open calls are closed. */
status outparse_finish(outparse *p, err *e);

/* Bytes at the end of what was fed that may still become text or a tag. */
size_t outparse_held(const outparse *p);

/* Does a prompt with this end leave the model inside its reasoning? */
bool outparse_is_open_think(str prompt);

/* The function that a tool of a request describes: its member "function", or the tool itself where
 * a client leaves that out. */
const json *outparse_tool_function(const json *tool);
/* The function `name` of `tools`, or NULL, also without tools. */
const json *outparse_find_tool(const json *tools, str name);

#endif
