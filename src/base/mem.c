#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/asserts.h"

_Static_assert(_Alignof(max_align_t) >= 16, "calloc and realloc align to 16");

static atomic_int_least64_t n_calls, n_live;
/* With failing on: this many calls minus one still succeed. */
static atomic_int_least64_t fail_countdown;
static atomic_bool is_failing_on;
static _Thread_local const char *guarded_phase;

void mem_guard_check(void)
{
    if (!guarded_phase) return;
    fprintf(stderr, "mem: an allocation during \"%s\", which must not allocate\n", guarded_phase);
    ASSERT(!guarded_phase);
}

/* False when the call must fail because a test asked for it. */
static bool may_allocate(void)
{
    mem_guard_check();
    if (!atomic_load_explicit(&is_failing_on, memory_order_relaxed)) return true;
    return atomic_fetch_sub(&fail_countdown, 1) > 1;
}

static void *counted(void *p, int64_t n_new)
{
    if (!p) return NULL;
    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&n_live, n_new, memory_order_relaxed);
    return p;
}

void *mem_new(size_t n_bytes)
{
    /* calloc, not malloc and memset: big blocks come zeroed and untouched from the kernel. */
    return may_allocate() ? counted(calloc(1, n_bytes ? n_bytes : 1), 1) : NULL;
}

/* Zero a fresh block. Of a big one the whole pages are handed back to the kernel instead, which
 * gives zeros on first touch: a pool that is never filled never becomes resident. */
static void zero_block(char *p, size_t n_bytes)
{
    enum { BIG = 1 << 20 };
    if (n_bytes >= BIG) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p;
        size_t head = (size_t)((page - at % page) % page);
        size_t middle = (n_bytes - head) / page * page;
        if (madvise(p + head, middle, MADV_DONTNEED) == 0) {
            memset(p, 0, head);
            memset(p + head + middle, 0, n_bytes - head - middle);
            return;
        }
    }
    memset(p, 0, n_bytes);
}

void *mem_new_aligned(size_t n_bytes, size_t align)
{
    ASSERT(align >= 16 && (align & (align - 1)) == 0);
    if (!may_allocate() || n_bytes > SIZE_MAX / 2) return NULL;
    void *p = NULL;
    if (posix_memalign(&p, align, n_bytes ? n_bytes : 1) != 0) return NULL;
    zero_block(p, n_bytes);
    return counted(p, 1);
}

void *mem_new_array(size_t n, size_t size)
{
    size_t n_bytes;
    if (__builtin_mul_overflow(n, size, &n_bytes)) return NULL;
    return mem_new(n_bytes);
}

void *mem_resize(void *p, size_t n_bytes)
{
    if (!may_allocate()) return NULL;
    return counted(realloc(p, n_bytes ? n_bytes : 1), p ? 0 : 1);
}

void mem_free(void *p)
{
    if (!p) return;
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    free(p);
}

mem_counters mem_count(void)
{
    return (mem_counters){.n_calls = atomic_load(&n_calls), .n_live = atomic_load(&n_live)};
}

void mem_fail_at(int64_t n)
{
    atomic_store(&fail_countdown, n);
    atomic_store(&is_failing_on, n > 0);
}

void mem_guard_begin(const char *phase)
{
    ASSERT(phase && !guarded_phase);
    guarded_phase = phase;
}

void mem_guard_end(void)
{
    guarded_phase = NULL;
}
