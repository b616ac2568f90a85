/* mem: the only malloc and free of the program.
 *
 * Counts what is live, can be told to fail at the n-th call (tests of every `open`), and can
 * refuse to allocate at all while a phase lasts ("a step allocates nothing").
 * Thread: any. Counters are atomic; the guard is per thread. */
#ifndef RIPTIDE_BASE_MEM_H
#define RIPTIDE_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed bytes, aligned to 16, or NULL. A size of 0 gives a pointer that can be freed. */
void *mem_new(size_t n_bytes);

/* Zeroed bytes at a power-of-two alignment >= 16, or NULL. Give back with mem_free. */
void *mem_new_aligned(size_t n_bytes, size_t align);

/* n * size zeroed bytes, or NULL also when the product overflows. */
void *mem_new_array(size_t n, size_t size);

/* Resize a mem_new block (never an aligned one). On NULL the old block still stands. New bytes
 * are not zeroed. */
void *mem_resize(void *p, size_t n_bytes);

/* NULL is fine. */
void mem_free(void *p);

typedef struct {
    int64_t n_calls; /* successful allocations and resizes so far */
    int64_t n_live;  /* blocks not yet freed */
} mem_counters;
mem_counters mem_count(void);

/* From the n-th following allocation on (1 = the next) every allocation fails; 0 turns it off. */
void mem_fail_at(int64_t n);

/* Until mem_guard_end on this thread, an allocation aborts and names `phase`. */
void mem_guard_begin(const char *phase);
void mem_guard_end(void);
/* For memory of other kinds, a device's: abort as an allocation here would. */
void mem_guard_check(void);

#endif
