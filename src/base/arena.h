/* arena: many births, one death. A bump allocator over mem blocks.
 *
 * Thread: one at a time. */
#ifndef RIPTIDE_BASE_ARENA_H
#define RIPTIDE_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct arena_chunk arena_chunk;
typedef struct {
    arena_chunk *head; /* newest chunk */
    size_t n_bytes;    /* total taken from mem */
    size_t limit;      /* most bytes it may take from mem; 0 = no limit */
} arena;

void arena_init(arena *a, size_t limit);

/* Zeroed bytes aligned to 16, valid until reset or fini; NULL when out of memory or over limit. */
void *arena_new(arena *a, size_t n_bytes);

/* n * size zeroed bytes; NULL also when the product overflows. */
void *arena_new_array(arena *a, size_t n, size_t size);

/* A terminated copy of n bytes; NULL as above. */
char *arena_copy(arena *a, const void *bytes, size_t n);

/* Forget everything but keep one chunk for reuse. */
void arena_reset(arena *a);

/* Give all memory back and leave zeros. Twice is harmless. */
void arena_fini(arena *a);

#endif
