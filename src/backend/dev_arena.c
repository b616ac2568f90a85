#include "backend/dev_arena.h"

#include "base/asserts.h"

enum { DEV_ARENA_ALIGN = 256 };

dev_buf dev_arena_take(dev_arena *a, int64_t n_bytes)
{
    ASSERT(n_bytes >= 0);
    int64_t at = a->used;
    a->used = (at + n_bytes + DEV_ARENA_ALIGN - 1) / DEV_ARENA_ALIGN * DEV_ARENA_ALIGN;
    if (!a->is_open) return (dev_buf){NULL, n_bytes};
    ASSERT(at + n_bytes <= a->mem.n_bytes);
    return (dev_buf){(char *)a->mem.ptr + at, n_bytes};
}

status dev_arena_open(dev_arena *a, backend *b, err *e)
{
    ASSERT(!a->is_open);
    TRY(b->ops->alloc(b, a->used > 0 ? a->used : DEV_ARENA_ALIGN, &a->mem, e));
    a->is_open = true;
    a->used = 0;
    return ERR_OK;
}

void dev_arena_close(dev_arena *a, backend *b)
{
    if (a->is_open) b->ops->release(b, &a->mem);
    *a = (dev_arena){0};
}
