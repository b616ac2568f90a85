#include "base/arena.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* Chunks grow geometrically, so that a tree of n bytes costs O(log n) calls of mem. */
enum { CHUNK_FIRST = 4096, CHUNK_MOST = 8 << 20, ALIGN = 16 };

struct arena_chunk {
    arena_chunk *older;
    size_t used, cap; /* of bytes[] */
    size_t dirty;     /* bytes below this were handed out before arena_reset: not zero */
    unsigned char bytes[];
};
_Static_assert(offsetof(arena_chunk, bytes) % ALIGN == 0, "bytes are aligned");

void arena_init(arena *a, size_t limit)
{
    *a = (arena){.limit = limit};
}

static arena_chunk *new_chunk(arena *a, size_t n_bytes)
{
    size_t cap = a->head ? a->head->cap * 2 : CHUNK_FIRST;
    if (cap > CHUNK_MOST) cap = CHUNK_MOST;
    if (cap < n_bytes) cap = n_bytes;
    size_t room = a->limit ? a->limit - a->n_bytes : SIZE_MAX;
    if (room < sizeof(arena_chunk)) return NULL;
    room -= sizeof(arena_chunk);
    if (n_bytes > room) return NULL;
    if (cap > room) cap = room;
    arena_chunk *c = mem_new(sizeof *c + cap);
    if (!c) return NULL;
    c->cap = cap;
    if (a->head && n_bytes > CHUNK_MOST) {
        c->older = a->head->older; /* filled by this one request: keep the open chunk in front */
        a->head->older = c;
    } else {
        c->older = a->head;
        a->head = c;
    }
    a->n_bytes += sizeof *c + cap;
    return c;
}

void *arena_new(arena *a, size_t n_bytes)
{
    if (n_bytes > SIZE_MAX / 2) return NULL;
    size_t need = (n_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    arena_chunk *c = a->head;
    if (!c || c->cap - c->used < need) {
        c = new_chunk(a, need);
        if (!c) return NULL;
    }
    unsigned char *p = c->bytes + c->used;
    if (c->used < c->dirty) {
        size_t old = c->dirty - c->used;
        memset(p, 0, old < need ? old : need);
    }
    c->used += need;
    if (c->used > c->dirty) c->dirty = c->used;
    return p;
}

void *arena_new_array(arena *a, size_t n, size_t size)
{
    size_t n_bytes;
    if (__builtin_mul_overflow(n, size, &n_bytes)) return NULL;
    return arena_new(a, n_bytes);
}

char *arena_copy(arena *a, const void *bytes, size_t n)
{
    if (n == SIZE_MAX) return NULL;
    char *p = arena_new(a, n + 1);
    if (p && n > 0) memcpy(p, bytes, n);
    return p;
}

void arena_reset(arena *a)
{
    arena_chunk *keep = a->head;
    if (!keep) return;
    for (arena_chunk *c = keep->older; c;) {
        arena_chunk *older = c->older;
        mem_free(c);
        c = older;
    }
    keep->older = NULL;
    keep->used = 0;
    a->n_bytes = sizeof *keep + keep->cap;
}

void arena_fini(arena *a)
{
    for (arena_chunk *c = a->head; c;) {
        arena_chunk *older = c->older;
        mem_free(c);
        c = older;
    }
    *a = (arena){0};
}
