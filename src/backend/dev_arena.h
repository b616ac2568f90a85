/* dev_arena: one device allocation handed out in pieces, planned before it is taken.
 *
 * Run the same code twice: first with a planning arena (dev_arena_take returns empty views and
 * adds up), then after dev_arena_open with the real one. Nothing is given back one by one.
 * Thread: one at a time. */
#ifndef RIPTIDE_BACKEND_DEV_ARENA_H
#define RIPTIDE_BACKEND_DEV_ARENA_H

#include "backend/backend.h"

typedef struct {
    dev_buf mem;  /* owned when is_open */
    int64_t used; /* bytes planned or handed out */
    bool is_open;
} dev_arena;

/* The next n_bytes, aligned to 256. While planning the view has ptr NULL. */
dev_buf dev_arena_take(dev_arena *a, int64_t n_bytes);

/* Allocate what was planned and start over handing out. */
status dev_arena_open(dev_arena *a, backend *b, err *e);
void dev_arena_close(dev_arena *a, backend *b); /* leaves zeros; twice is harmless */

#endif
