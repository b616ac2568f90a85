#include "server/item_reference_priv.h"

#include <stdio.h>

#include "server/input_items_priv.h"

enum { ITEMS_DEPTH = 130, RESPONSE_ID_MAX = 80 };

/* The items of one response, which often has several of those that are named. */
typedef struct {
    response_store *store;
    arena *a;
    char id[RESPONSE_ID_MAX];
    const json *items; /* array, or NULL */
} shelf;

static bool is_reference(const json *item)
{
    str type = STR("");
    json_to_str(json_get(item, "type"), &type);
    return json_is(item, JSON_OBJECT) && str_is(type, "item_reference");
}

/* An item's id says of which response it is: KIND_X_N is the N-th of resp_X
 * (KIND_X_inN of its input). False: not ours. */
static bool read_response_id(str id, char *out)
{
    int64_t first = str_find(id, STR("_"), 0);
    int64_t last = first < 0 ? -1 : str_find(id, STR("_"), (size_t)first + 1);
    if (last < 0 || last - first > 40) return false;
    str middle = str_slice(id, (size_t)first + 1, (size_t)last);
    snprintf(out, RESPONSE_ID_MAX, "resp_%.*s", STR_ARG(middle));
    return true;
}

static status open_response(shelf *f, const char *id, err *e)
{
    buf items;
    if (strcmp(f->id, id) == 0) return ERR_OK;
    snprintf(f->id, sizeof f->id, "%s", id);
    f->items = NULL;
    buf_init(&items);
    bool is_there = response_store_get(f->store, str_from(id), NULL, &items);
    char *copy = items.failed ? NULL : arena_copy(f->a, buf_str(&items).ptr, items.len);
    str text = {copy, items.len};
    buf_fini(&items);
    if (!is_there) return ERR_OK;
    if (!copy) return err_set(e, ERR_NOMEM, "input", -1, "stored items");
    return json_parse(f->a, text, "stored items", ITEMS_DEPTH, 0, &f->items, e);
}

/* *out NULL: it is not there. */
static status find_item(shelf *f, str id, const json **out, err *e)
{
    char response[RESPONSE_ID_MAX];
    buf own;
    int i = 0;
    *out = NULL;
    if (!read_response_id(id, response)) return ERR_OK;
    TRY(open_response(f, response, e));
    buf_init(&own);
    for (const json *v = f->items ? f->items->first : NULL; v; v = v->next, i++) {
        own.len = 0; /* a failure stays */
        input_items_put_id(&own, str_from(response), v, i);
        if (str_equal(buf_str(&own), id)) *out = v;
    }
    bool has_failed = own.failed;
    buf_fini(&own);
    return has_failed ? err_set(e, ERR_NOMEM, "input", -1, "an item's id") : ERR_OK;
}

/* A copy of an array or object whose members are copies too, so that each can be another. */
static json *copy_list(arena *a, const json *list)
{
    json *copy = arena_new_array(a, (size_t)list->n + 1, sizeof *copy);
    if (!copy) return NULL;
    copy[0] = *list;
    copy[0].first = list->n > 0 ? &copy[1] : NULL;
    int i = 1;
    for (const json *v = list->first; v; v = v->next, i++) {
        copy[i] = *v;
        copy[i].next = v->next ? &copy[i + 1] : NULL;
    }
    return copy;
}

static status resolve_items(shelf *f, json *list, err *e)
{
    for (int i = 0; i < list->n; i++) {
        char where[40];
        str id = STR("");
        json *item = &list[i + 1];
        const json *found, *next = item->next;
        if (!is_reference(item)) continue;
        snprintf(where, sizeof where, "/input/%d", i);
        json_to_str(json_get(item, "id"), &id);
        TRY(find_item(f, id, &found, e));
        if (!found)
            return err_set(e, ERR_INVALID, where, -1, "there is no item \"%.*s\" here (any more)",
                           (int)(id.len < 100 ? id.len : 100), id.ptr);
        *item = *found;
        item->next = next;
    }
    return ERR_OK;
}

status item_reference_resolve(response_store *s, const json *body, arena *a, const json **out,
                              err *e)
{
    shelf f = {.store = s, .a = a};
    const json *input = json_get(body, "input");
    bool has_any = false;
    *out = body;
    for (const json *v = json_is(input, JSON_ARRAY) ? input->first : NULL; v; v = v->next)
        has_any |= is_reference(v);
    if (!has_any) return ERR_OK;
    json *items = copy_list(a, input), *copy = copy_list(a, body);
    if (!items || !copy) return err_set(e, ERR_NOMEM, "input", -1, "copy");
    TRY(resolve_items(&f, items, e));
    for (int i = 1; i <= copy->n; i++)
        if (str_is(copy[i].key, "input")) copy[i].first = items->first;
    *out = copy;
    return ERR_OK;
}
