#include "support/guard.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t span(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) / page * page;
}

void *guard_copy(const void *bytes, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = span(n);
    char *base = mmap(NULL, len + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    mprotect(base + len, page, PROT_NONE);
    if (n > 0) memcpy(base + len - n, bytes, n);
    return base + len - n;
}

void guard_free(void *p, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = span(n);
    munmap((char *)p + n - len, len + page);
}
