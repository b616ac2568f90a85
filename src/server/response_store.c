#include "server/response_store_priv.h"

#include "base/mem.h"

struct stored_response {
    stored_response *next;
    str id, response, items; /* behind this struct */
    size_t n_bytes;
};

void response_store_init(response_store *s, size_t limit)
{
    *s = (response_store){.limit = limit, .is_open = true};
    mutex_init(&s->lock);
}

void response_store_fini(response_store *s)
{
    if (!s->is_open) return;
    for (stored_response *r = s->first, *next; r; r = next) {
        next = r->next;
        mem_free(r);
    }
    mutex_fini(&s->lock);
    *s = (response_store){0};
}

/* Taken out of the list, or NULL. */
static stored_response *take(response_store *s, str id)
{
    for (stored_response **at = &s->first; *at; at = &(*at)->next) {
        stored_response *r = *at;
        if (!str_equal(r->id, id)) continue;
        *at = r->next;
        s->n_bytes -= r->n_bytes;
        return r;
    }
    return NULL;
}

static void put_first(response_store *s, stored_response *r)
{
    r->next = s->first;
    s->first = r;
    s->n_bytes += r->n_bytes;
}

static void make_room(response_store *s, size_t n_bytes)
{
    while (s->first && s->n_bytes + n_bytes > s->limit) {
        stored_response **at = &s->first;
        while ((*at)->next) at = &(*at)->next;
        stored_response *last = *at;
        *at = NULL;
        s->n_bytes -= last->n_bytes;
        mem_free(last);
    }
}

static str copy_text(char **at, str text)
{
    str copy = {*at, text.len};
    if (text.len) memcpy(*at, text.ptr, text.len);
    *at += text.len;
    return copy;
}

void response_store_put(response_store *s, str id, str response, str items)
{
    size_t n_bytes = sizeof(stored_response) + id.len + response.len + items.len;
    stored_response *r = n_bytes <= s->limit ? mem_new(n_bytes) : NULL;
    if (!r) return;
    char *at = (char *)(r + 1);
    r->n_bytes = n_bytes;
    r->id = copy_text(&at, id);
    r->response = copy_text(&at, response);
    r->items = copy_text(&at, items);
    mutex_lock(&s->lock);
    mem_free(take(s, id));
    make_room(s, n_bytes);
    put_first(s, r);
    mutex_unlock(&s->lock);
}

bool response_store_get(response_store *s, str id, buf *response, buf *items)
{
    mutex_lock(&s->lock);
    stored_response *r = take(s, id);
    if (r) {
        put_first(s, r);
        if (response) buf_put_str(response, r->response);
        if (items) buf_put_str(items, r->items);
    }
    mutex_unlock(&s->lock);
    return r != NULL;
}

bool response_store_drop(response_store *s, str id)
{
    mutex_lock(&s->lock);
    stored_response *r = take(s, id);
    mutex_unlock(&s->lock);
    mem_free(r);
    return r != NULL;
}
