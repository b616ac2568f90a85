/* cpu_mem: memory that kernels stream through, on huge pages where the system has them.
 *
 * A core that reads 4 KiB pages in order reaches three quarters of what it reaches on 2 MiB pages
 * (bench/notes_cpu.md): prefetching stops at a page's end, and the page tables are read too. */
#ifndef RIPTIDE_BACKEND_CPU_MEM_PRIV_H
#define RIPTIDE_BACKEND_CPU_MEM_PRIV_H

#include <stdint.h>

/* Zeroed, aligned to 64 or more; NULL when out of memory. Give back with mem_free. */
void *cpu_mem_new(int64_t n_bytes);

/* Many births of which most die together: blocks are cut from big chunks, so that small weights
 * share huge pages; a chunk goes when the last of its blocks is dropped. */
typedef struct cpu_chunk cpu_chunk;
typedef struct {
    cpu_chunk *open; /* the one that blocks are being cut from, or NULL; it counts as held */
} cpu_pool;

/* A zeroed block aligned to 64, or NULL. *chunk is what cpu_pool_drop wants. */
void *cpu_pool_take(cpu_pool *p, int64_t n_bytes, cpu_chunk **chunk);
void cpu_pool_drop(cpu_chunk *chunk); /* NULL is fine */
/* Give up the open chunk; blocks that are still held stay. */
void cpu_pool_close(cpu_pool *p);

#endif
