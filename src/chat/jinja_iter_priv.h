/* jinja_iter: walking over values, as Python's iter() and next() do.
 *
 * An iterator is also a value (JVALUE_ITER): what map, select and their like return. It works item
 * by item and can be walked once. */
#ifndef RIPTIDE_CHAT_JINJA_ITER_PRIV_H
#define RIPTIDE_CHAT_JINJA_ITER_PRIV_H

#include "chat/jinja_rt_priv.h"

typedef status jiter_fn(jrt *r, jiter *it, jvalue *item, bool *has_item);

struct jiter {
    jiter_fn *next;
    jvalue source;
    int64_t at;
    jiter *inner; /* what a filter reads from */
    void *state;
};

bool jiter_can(jvalue v); /* is v iterable? */
/* iter(v): a new iterator, or v's own when v is one already. */
status jiter_open(jrt *r, jvalue v, jiter **out);
/* *has_item is false at the end. */
status jiter_next(jrt *r, jiter *it, jvalue *item, bool *has_item);
/* list(v). */
status jiter_collect(jrt *r, jvalue v, jlist **out);
/* An iterator value made of fn over iter(source). */
status jiter_new(jrt *r, jiter_fn *fn, jvalue source, void *state, jvalue *out);
/* A (key, value) tuple. */
status jiter_pair(jrt *r, jvalue a, jvalue b, jvalue *out);

/* A growing list. */
typedef struct {
    jvalue *items;
    int64_t n, cap;
} jgrow;
status jgrow_push(jrt *r, jgrow *g, jvalue v);
status jgrow_list(jrt *r, const jgrow *g, jlist **out);

#endif
