#include "backend/cpu/cpu_mem_priv.h"

#include <sys/mman.h>

#include "base/mem.h"

enum { HUGE_PAGE = 2 << 20, CHUNK_BYTES = 32 << 20, HUGE_BYTES = 512 << 20 };

static void *huge_new(int64_t n_bytes)
{
    void *p = mem_new_aligned((size_t)n_bytes, HUGE_PAGE);
#ifdef MADV_HUGEPAGE
    if (p) (void)madvise(p, (size_t)n_bytes, MADV_HUGEPAGE); /* a wish: small pages do too */
#endif
    return p;
}

/* What ops work on has a few rows in use and room for many: on huge pages the first row of each
 * makes 2 MiB resident, which a small model (all lanes' keys, values and states under HUGE_BYTES)
 * has no gain from. */
void *cpu_mem_new(int64_t n_bytes)
{
    return n_bytes < HUGE_BYTES ? mem_new_aligned((size_t)n_bytes, 64) : huge_new(n_bytes);
}

struct cpu_chunk {
    char *mem;
    int64_t cap, used;
    int n_held;
};

static cpu_chunk *chunk_new(int64_t n_bytes)
{
    cpu_chunk *c = mem_new(sizeof *c);
    if (!c) return NULL;
    c->mem = huge_new(n_bytes);
    c->cap = n_bytes;
    if (c->mem) return c;
    mem_free(c);
    return NULL;
}

void *cpu_pool_take(cpu_pool *p, int64_t n_bytes, cpu_chunk **chunk)
{
    int64_t size = (n_bytes + 63) / 64 * 64;
    cpu_chunk *c = p->open;
    if (size > CHUNK_BYTES / 2) { /* one of its own */
        if (!(c = chunk_new(size))) return NULL;
    } else if (!c || c->cap - c->used < size) {
        if (!(c = chunk_new(CHUNK_BYTES))) return NULL;
        cpu_pool_close(p);
        p->open = c;
        c->n_held = 1;
    }
    void *block = c->mem + c->used;
    c->used += size;
    c->n_held++;
    *chunk = c;
    return block;
}

void cpu_pool_drop(cpu_chunk *c)
{
    if (!c || --c->n_held > 0) return;
    mem_free(c->mem);
    mem_free(c);
}

void cpu_pool_close(cpu_pool *p)
{
    cpu_pool_drop(p->open);
    p->open = NULL;
}
