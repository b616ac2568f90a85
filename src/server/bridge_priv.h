/* bridge: engine events on their way to the event loop. The engine thread copies what an event
 * borrows, appends it and wakes the loop; the loop takes all that has come at once. Nothing else is
 * shared between the two threads.
 *
 * Thread: bridge_push from the engine thread, all else from the loop. */
#ifndef RIPTIDE_SERVER_BRIDGE_PRIV_H
#define RIPTIDE_SERVER_BRIDGE_PRIV_H

#include <uv.h>

#include "base/thread.h"
#include "engine/engine.h"

typedef struct bridge_event bridge_event;
struct bridge_event {
    bridge_event *next;
    void *target;    /* whose event it is */
    engine_event ev; /* points into this copy */
    size_t n_bytes;  /* that the copy takes, 0 for a reserved one: its text is lost */
};

/* Room for an event, should there be no memory for its copy. */
typedef struct {
    bridge_event event;
    err error; /* what event.ev.error points to */
} bridge_reserve;

typedef struct {
    mutex lock; /* protects the list */
    bridge_event *first, **end;
    uv_async_t wake;
    bool is_open;
} bridge;

/* on_events is called on the loop after something was pushed.
 *
 * Returns  IO */
status bridge_open(bridge *b, uv_loop_t *loop, uv_async_cb on_events, void *ctx, err *e);
void bridge_close(bridge *b); /* the loop must run once more; twice is harmless */
void bridge_fini(bridge *b);  /* after that; frees what nobody took */

/* Send a copy of the event on. Without memory `reserved` goes instead, which carries what takes no
 * memory (kind, choice, reason, usage) but no text; NULL: nothing goes.
 *
 * Returns  the bytes that the copy takes, or -1 when something was lost */
int64_t bridge_push(bridge *b, void *target, const engine_event *ev, bridge_reserve *reserved);

/* Everything that has come, in order. The caller frees each by bridge_free. */
bridge_event *bridge_take(bridge *b);
void bridge_free(bridge_event *ev);

#endif
