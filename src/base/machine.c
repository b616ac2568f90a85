#include "base/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/str.h"

/* The number in a file that holds one, or 0: no such file, "max", nonsense. */
static int64_t number_in(const char *path)
{
    char text[64];
    int64_t n;
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    size_t len = fread(text, 1, sizeof text, f);
    fclose(f);
    bool ok = str_to_int64(str_trim((str){text, len}), &n);
    return ok && n > 0 ? n : 0;
}

int64_t machine_memory(void)
{
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    int64_t least = pages > 0 && size > 0 ? (int64_t)pages * size : 0;
    for (int i = 0; i < 2; i++) {
        int64_t n = number_in(limits[i]);
        if (n > 0 && (least == 0 || n < least)) least = n;
    }
    return least;
}
