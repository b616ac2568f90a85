#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

static status fail_io(err *e, const char *path, const char *what)
{
    return err_set(e, ERR_IO, path, -1, "%s: %s", what, strerror(errno));
}

static int open_retry(const char *path, int flags, mode_t mode)
{
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* -1 on failure with errno, else bytes read; fewer than n only at the end of the file. */
static int64_t read_fully(int fd, char *out, size_t n)
{
    size_t got = 0;
    while (got < n) {
        ssize_t r = read(fd, out + got, n - got);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return -1;
        if (r == 0) break;
        got += (size_t)r;
    }
    return (int64_t)got;
}

bool file_write_fd(int fd, str content)
{
    while (content.len > 0) {
        ssize_t w = write(fd, content.ptr, content.len);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return false;
        content = str_skip(content, (size_t)w);
    }
    return true;
}

static status map_fd(file_map *m, int fd, const char *path, err *e)
{
    struct stat s;
    if (fstat(fd, &s) != 0) return fail_io(e, path, "cannot look at the file");
    if (!S_ISREG(s.st_mode)) return err_set(e, ERR_IO, path, -1, "not a regular file");
    file_map next = {.n_bytes = s.st_size};
    if (s.st_size > 0) {
        void *p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) return fail_io(e, path, "cannot map");
        next.ptr = p;
    }
    *m = next;
    return ERR_OK;
}

status file_map_open(file_map *m, const char *path, err *e)
{
    int fd = open_retry(path, O_RDONLY, 0);
    if (fd < 0) return fail_io(e, path, "cannot open");
    status s = map_fd(m, fd, path, e);
    close(fd);
    return s;
}

void file_map_close(file_map *m)
{
    if (m->ptr) munmap((void *)(uintptr_t)m->ptr, (size_t)m->n_bytes);
    *m = (file_map){0};
}

void file_map_forget(const file_map *m, int64_t offset, int64_t n_bytes)
{
    int64_t page = sysconf(_SC_PAGESIZE), end = offset + n_bytes;
    if (end > m->n_bytes) end = m->n_bytes;
    /* Whole pages only: neighbours on a shared page may still be in use. */
    offset = (offset + page - 1) / page * page;
    end = end / page * page;
    if (m->ptr && offset < end)
        madvise((void *)(uintptr_t)(m->ptr + offset), (size_t)(end - offset), MADV_DONTNEED);
}

void file_expect(const void *p, int64_t n_bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p / page * page;
    if (n_bytes > 0)
        (void)madvise((void *)from, (uintptr_t)p + (size_t)n_bytes - from, MADV_WILLNEED);
}

static status fail_size(err *e, const char *name, int64_t max_bytes)
{
    return err_set(e, ERR_LIMIT, name, -1, "larger than %lld bytes", (long long)max_bytes);
}

static status fail_memory(err *e, const char *name)
{
    return err_set(e, ERR_NOMEM, name, -1, "no memory to read it");
}

/* A stream whose length is not known beforehand. */
static status read_stream(arena *a, int fd, const char *name, int64_t max_bytes, str *out, err *e)
{
    enum { PIECE = 65536 };
    buf b;
    buf_init(&b);
    status s = ERR_OK;
    for (;;) {
        if (!buf_reserve(&b, PIECE)) {
            s = fail_memory(e, name);
            break;
        }
        int64_t n = read_fully(fd, b.ptr + b.len, PIECE);
        if (n < 0) {
            s = fail_io(e, name, "cannot read");
            break;
        }
        b.len += (size_t)n;
        if ((int64_t)b.len > max_bytes) {
            s = fail_size(e, name, max_bytes);
            break;
        }
        if (n < PIECE) break;
    }
    if (s == ERR_OK) {
        char *copy = arena_copy(a, b.ptr, b.len);
        if (copy)
            *out = (str){copy, b.len};
        else
            s = fail_memory(e, name);
    }
    buf_fini(&b);
    return s;
}

static status read_fd(arena *a, int fd, const char *path, int64_t max_bytes, str *out, err *e)
{
    struct stat s;
    if (fstat(fd, &s) != 0) return fail_io(e, path, "cannot look at the file");
    if (S_ISDIR(s.st_mode)) return err_set(e, ERR_IO, path, -1, "is a directory");
    /* A pipe, a device, or a file of /proc tells no size. */
    if (!S_ISREG(s.st_mode) || s.st_size == 0) return read_stream(a, fd, path, max_bytes, out, e);
    if (s.st_size > max_bytes) return fail_size(e, path, max_bytes);
    char *bytes = arena_new(a, (size_t)s.st_size + 1);
    if (!bytes) return fail_memory(e, path);
    int64_t n = read_fully(fd, bytes, (size_t)s.st_size);
    if (n < 0) return fail_io(e, path, "cannot read");
    *out = (str){bytes, (size_t)n};
    return ERR_OK;
}

status file_read(arena *a, const char *path, int64_t max_bytes, str *out, err *e)
{
    int fd = open_retry(path, O_RDONLY, 0);
    if (fd < 0) return fail_io(e, path, "cannot open");
    status s = read_fd(a, fd, path, max_bytes, out, e);
    close(fd);
    return s;
}

status file_read_stdin(arena *a, int64_t max_bytes, str *out, err *e)
{
    return read_stream(a, STDIN_FILENO, "standard input", max_bytes, out, e);
}

static status write_beside(const char *beside, const char *path, str content, err *e)
{
    int fd = open_retry(beside, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0) return fail_io(e, path, "cannot create a file beside it");
    bool is_good = file_write_fd(fd, content) && fsync(fd) == 0;
    int first = errno;
    if (close(fd) != 0 && is_good) {
        is_good = false;
        first = errno;
    }
    if (is_good && rename(beside, path) == 0) return ERR_OK;
    if (!is_good) errno = first;
    status s = fail_io(e, path, is_good ? "cannot rename to it" : "cannot write");
    unlink(beside);
    return s;
}

status file_write(const char *path, str content, err *e)
{
    /* Unique among processes by pid, among this process's threads by a counter. */
    static unsigned n_written;
    unsigned serial = __atomic_fetch_add(&n_written, 1, __ATOMIC_RELAXED);
    buf beside;
    buf_init(&beside);
    buf_printf(&beside, "%s.%ld.%u.part", path, (long)getpid(), serial);
    status s = beside.failed ? err_set(e, ERR_NOMEM, path, -1, "no memory for a file name")
                             : write_beside(beside.ptr, path, content, e);
    buf_fini(&beside);
    return s;
}

bool file_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

bool file_is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

char *file_join(arena *a, const char *dir, const char *name)
{
    size_t n_dir = strlen(dir), n_name = strlen(name);
    while (n_dir > 1 && dir[n_dir - 1] == '/') n_dir--;
    bool wants_slash = n_dir > 0 && dir[n_dir - 1] != '/';
    char *path = arena_new(a, n_dir + 1 + n_name + 1);
    if (!path) return NULL;
    memcpy(path, dir, n_dir);
    if (wants_slash) path[n_dir++] = '/';
    memcpy(path + n_dir, name, n_name);
    return path;
}

char *file_exe_dir(arena *a)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0 || n == (ssize_t)sizeof path) return NULL;
    while (n > 1 && path[n - 1] != '/') n--;
    if (n > 1) n--;
    return arena_copy(a, path, (size_t)n);
}
