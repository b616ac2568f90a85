/* said: what an assistant's turn says, read from its text, so that two spellings of one answer can
 * be told from two answers. */
#ifndef RIPTIDE_SESSION_SAID_PRIV_H
#define RIPTIDE_SESSION_SAID_PRIV_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

typedef struct {
    str name;
    const json *arguments; /* an object */
} said_call;

/* All in the arena. */
typedef struct {
    str reasoning, content; /* without white space at the ends */
    const said_call *calls; /* [n_calls] */
    int n_calls;
} said;

/* Read a turn as the server reads what the model writes.
 *
 * tools                as in the request, or NULL
 * starts_in_reasoning  the text goes on behind an open <think>
 * Returns              NOMEM */
status said_read(str text, const json *tools, bool starts_in_reasoning, arena *a, said *out,
                 err *e);

/* The same text and calls; arguments are equal as values, whatever the order of keys, the white
 * space and the spelling of numbers. Reasoning is not looked at. */
bool said_is_same(const said *x, const said *y);

#endif
