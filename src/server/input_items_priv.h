/* input_items: what a kept response was made from, as the Responses API lists it: the items of the
 * conversation in front of it, each with an id, in pages.
 *
 * Thread: any; nothing here has state. */
#ifndef RIPTIDE_SERVER_INPUT_ITEMS_PRIV_H
#define RIPTIDE_SERVER_INPUT_ITEMS_PRIV_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum { INPUT_ITEMS_DEFAULT = 20, INPUT_ITEMS_MAX = 100 };

/* Which of them are asked for. */
typedef struct {
    int64_t limit; /* 1 to INPUT_ITEMS_MAX */
    bool is_ascending;
    buf after; /* owned: the id behind which the page begins; empty: it begins at the beginning */
} input_items_page;

/* The parameters limit, order and after of a query ("limit=3&order=asc"); others are left to those
 * who know them. *out is to be given to input_items_page_fini, after a failure too.
 *
 * Returns  INVALID with where = the parameter; NOMEM */
status input_items_parse(str query, input_items_page *out, err *e);
void input_items_page_fini(input_items_page *p);

/* Append the id of item `index` of the conversation of a response: its own, or one made of the
 * item's kind, the response's digits and its place, "msg_0123…_in4". */
void input_items_put_id(buf *out, str response_id, const json *item, int index);

/* Append {"object":"list","data":[…],"first_id","last_id","has_more"} about the first n of `items`
 * (an array). Items are given as the API does: with id, type and status, and the content of a
 * message as parts. `a` is for what is needed meanwhile.
 *
 * Returns  INVALID with where = "after" when no item has that id; NOMEM */
status input_items_put(buf *out, str response_id, const json *items, int n,
                       const input_items_page *page, arena *a, err *e);

#endif
