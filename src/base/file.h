/* file: map read-only, read whole, write atomically, and look at paths. */
#ifndef RIPTIDE_BASE_FILE_H
#define RIPTIDE_BASE_FILE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* A read-only mapping. Owns the mapping; file_unmap leaves zeros and may be called twice. */
typedef struct {
    const uint8_t *ptr;
    int64_t n_bytes;
} file_map;
status file_map_open(file_map *m, const char *path, err *e);
void file_map_close(file_map *m);
/* Tell the kernel that [offset, offset + n) is not needed again soon: its pages may be dropped. */
void file_map_forget(const file_map *m, int64_t offset, int64_t n_bytes);
/* Tell the kernel that [p, p + n_bytes) of a mapping is read soon: it begins to fetch what is not
 * in memory, and does not wait for it. */
void file_expect(const void *p, int64_t n_bytes);

/* The whole file, terminated, in the arena. LIMIT when it is larger than max_bytes. */
status file_read(arena *a, const char *path, int64_t max_bytes, str *out, err *e);
/* Everything from standard input up to max_bytes. */
status file_read_stdin(arena *a, int64_t max_bytes, str *out, err *e);

/* Write beside, flush, rename. */
status file_write(const char *path, str content, err *e);
/* All of it to an open file, behind what was written last. False: errno says why. */
bool file_write_fd(int fd, str content);

bool file_exists(const char *path);
bool file_is_dir(const char *path);
/* "dir/name" in the arena; NULL when out of memory. */
char *file_join(arena *a, const char *dir, const char *name);
/* The folder of the running binary in the arena, or NULL. */
char *file_exe_dir(arena *a);

#endif
