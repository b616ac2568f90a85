#include "server/bridge_priv.h"

#include <string.h>

#include "base/mem.h"

status bridge_open(bridge *b, uv_loop_t *loop, uv_async_cb on_events, void *ctx, err *e)
{
    *b = (bridge){0};
    int r = uv_async_init(loop, &b->wake, on_events);
    if (r != 0) return err_set(e, ERR_IO, "server", -1, "event queue: %s", uv_strerror(r));
    mutex_init(&b->lock);
    b->end = &b->first;
    b->wake.data = ctx;
    b->is_open = true;
    return ERR_OK;
}

void bridge_close(bridge *b)
{
    if (b->is_open && !uv_is_closing((uv_handle_t *)&b->wake))
        uv_close((uv_handle_t *)&b->wake, NULL);
}

void bridge_fini(bridge *b)
{
    if (!b->is_open) return;
    for (bridge_event *ev = bridge_take(b), *next; ev; ev = next) {
        next = ev->next;
        bridge_free(ev);
    }
    mutex_fini(&b->lock);
    b->is_open = false;
}

/* The event and all it borrows as one block, or NULL. */
static bridge_event *copy_event(const engine_event *ev)
{
    size_t n_logprobs = ev->logprobs ? (size_t)ev->n_ids * sizeof *ev->logprobs : 0;
    size_t n_error = ev->error ? sizeof *ev->error : 0;
    size_t n_ids = (size_t)ev->n_ids * sizeof *ev->ids;
    size_t n_bytes = sizeof(bridge_event) + n_error + n_logprobs + n_ids + ev->text.len;
    bridge_event *copy = mem_new(n_bytes);
    if (!copy) return NULL;
    char *at = (char *)(copy + 1);
    copy->n_bytes = n_bytes;
    copy->ev = *ev;
    if (n_error) copy->ev.error = memcpy(at, ev->error, n_error);
    at += n_error;
    if (n_logprobs) copy->ev.logprobs = memcpy(at, ev->logprobs, n_logprobs);
    at += n_logprobs;
    if (n_ids) copy->ev.ids = memcpy(at, ev->ids, n_ids);
    at += n_ids;
    if (ev->text.len) copy->ev.text.ptr = memcpy(at, ev->text.ptr, ev->text.len);
    return copy;
}

int64_t bridge_push(bridge *b, void *target, const engine_event *ev, bridge_reserve *reserved)
{
    bridge_event *copy = copy_event(ev);
    int64_t n_bytes = copy ? (int64_t)copy->n_bytes : -1;
    if (!copy && reserved) {
        copy = &reserved->event;
        copy->ev = *ev;
        copy->ev.ids = NULL;
        copy->ev.logprobs = NULL;
        copy->ev.n_ids = 0;
        copy->ev.text = (str){NULL, 0};
        if (ev->error) {
            reserved->error = *ev->error;
            copy->ev.error = &reserved->error;
        }
    }
    if (!copy) return -1;
    copy->target = target;
    copy->next = NULL;
    mutex_lock(&b->lock);
    bool was_empty = !b->first;
    *b->end = copy;
    b->end = &copy->next;
    mutex_unlock(&b->lock);
    if (was_empty) uv_async_send(&b->wake);
    return n_bytes;
}

bridge_event *bridge_take(bridge *b)
{
    mutex_lock(&b->lock);
    bridge_event *all = b->first;
    b->first = NULL;
    b->end = &b->first;
    mutex_unlock(&b->lock);
    return all;
}

void bridge_free(bridge_event *ev)
{
    if (ev->n_bytes) mem_free(ev);
}
