/* jinja_loop: the `loop` variable. */
#ifndef RIPTIDE_CHAT_JINJA_LOOP_PRIV_H
#define RIPTIDE_CHAT_JINJA_LOOP_PRIV_H

#include "chat/jinja_call_priv.h"
#include "chat/jinja_iter_priv.h"

struct jloop {
    jiter *iter;
    int64_t index0;                /* -1 before the first item */
    int64_t length;                /* -1 when it is only known by walking */
    jvalue before, current, after; /* after: an item read ahead, MISSING when none is */
    jvalue last_changed;           /* tuple of the last changed() call */
    int64_t depth0;
    const jnode *node;  /* of a recursive loop, else NULL */
    jactivation *outer; /* where the recursive loop was written */
};

status jloop_length(jrt *r, jloop *l, int64_t *out);
/* loop.name; *found is false when there is no such attribute. */
status jloop_attr(jrt *r, jloop *l, str name, jvalue *out, bool *found);
/* loop(items) of a recursive loop: its text. */
status jloop_call(jrt *r, jloop *l, const jcall *call, jvalue *out);

#endif
