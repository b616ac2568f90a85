#include "hub/cache_dir_priv.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/safe_name_priv.h"

enum { FOLDERS_DEEP = 8, REF_MOST = 256 };

static status fail_memory(err *e)
{
    return err_set(e, ERR_NOMEM, "hub cache", -1, "out of memory");
}

static status fail_io(const char *path, const char *what, err *e)
{
    return err_set(e, ERR_IO, path, -1, "%s: %s", what, strerror(errno));
}

/* mkdir -p; the path may also be that of a file, of which the folders are made. */
static status make_folders(char *path, bool is_file, err *e)
{
    for (char *at = path + 1;; at++) {
        if (*at != '/' && *at != '\0') continue;
        char was = *at;
        if (was == '\0' && is_file) return ERR_OK;
        *at = '\0';
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST && !file_is_dir(path);
        status s = failed ? fail_io(path, "cannot make the folder", e) : ERR_OK;
        *at = was;
        TRY(s);
        if (was == '\0') return ERR_OK;
    }
}

status cache_dir_init(cache_dir *c, arena *mem, const char *cache, const hub_name *n, err *e)
{
    char name[2 * HUB_NAME_MOST + 16];
    cache_dir next = {.mem = mem};
    snprintf(name, sizeof name, "models--%s--%s", n->owner, n->repo);
    const char *locks = file_join(mem, cache, ".locks");
    next.repo = file_join(mem, cache, name);
    next.locks = locks ? file_join(mem, locks, name) : NULL;
    if (!next.repo || !next.locks) return fail_memory(e);
    *c = next;
    return ERR_OK;
}

static char *join(const cache_dir *c, const char *dir, const char *a, const char *b)
{
    const char *path = file_join(c->mem, dir, a);
    return path ? file_join(c->mem, path, b) : NULL;
}

status cache_dir_make(const cache_dir *c, err *e)
{
    static const char *const names[] = {"blobs", "refs", "snapshots"};
    for (int i = 0; i < 4; i++) {
        char *path = i < 3 ? file_join(c->mem, c->repo, names[i])
                           : arena_copy(c->mem, c->locks, strlen(c->locks));
        if (!path) return fail_memory(e);
        TRY(make_folders(path, false, e));
    }
    return ERR_OK;
}

char *cache_dir_blob(const cache_dir *c, const char *digest, const char *end)
{
    char name[96];
    snprintf(name, sizeof name, "%s%s", digest, end);
    return join(c, c->repo, "blobs", name);
}

char *cache_dir_lock(const cache_dir *c, const char *digest)
{
    char name[96];
    snprintf(name, sizeof name, "%s.lock", digest);
    return file_join(c->mem, c->locks, name);
}

char *cache_dir_snapshot(const cache_dir *c, const char *commit, const char *path)
{
    char *dir = join(c, c->repo, "snapshots", commit);
    return dir && path ? file_join(c->mem, dir, path) : dir;
}

status cache_dir_read_ref(const cache_dir *c, const char *revision, char commit[COMMIT_DIGITS + 1],
                          err *e)
{
    str text = str_from(revision);
    if (!safe_hex(text, COMMIT_DIGITS)) {
        const char *path = join(c, c->repo, "refs", revision);
        if (!path) return fail_memory(e);
        if (!file_exists(path))
            return err_set(e, ERR_IO, path, -1, "revision %s is not in the cache", revision);
        TRY(file_read(c->mem, path, REF_MOST, &text, e));
        text = str_trim(text);
        if (!safe_hex(text, COMMIT_DIGITS))
            return err_set(e, ERR_FORMAT, path, -1, "is not a commit of 40 digits");
    }
    memcpy(commit, text.ptr, COMMIT_DIGITS);
    commit[COMMIT_DIGITS] = '\0';
    return ERR_OK;
}

status cache_dir_write_ref(const cache_dir *c, const char *revision, const char *commit, err *e)
{
    if (safe_hex(str_from(revision), COMMIT_DIGITS)) return ERR_OK;
    char *path = join(c, c->repo, "refs", revision);
    if (!path) return fail_memory(e);
    TRY(make_folders(path, true, e));
    return file_write(path, str_from(commit), e);
}

/* Where the blob is, seen from the file's folder: "../../blobs/…", deeper for "dir/file". */
static char *relative_blob(const cache_dir *c, const char *path, const char *digest)
{
    char text[3 * SAFE_PATH_MOST + 128];
    size_t n = 0;
    for (const char *p = path; *p; p++)
        if (*p == '/') n += (size_t)snprintf(text + n, sizeof text - n, "../");
    n += (size_t)snprintf(text + n, sizeof text - n, "../../blobs/%s", digest);
    return arena_copy(c->mem, text, n);
}

status cache_dir_link(const cache_dir *c, const char *commit, const char *path, const char *digest,
                      err *e)
{
    char *to = cache_dir_snapshot(c, commit, path), *target = relative_blob(c, path, digest);
    char *blob = cache_dir_blob(c, digest, ""), end[32], has[256];
    if (!to || !target || !blob) return fail_memory(e);
    ssize_t n = readlink(to, has, sizeof has);
    if (n > 0 && str_equal((str){has, (size_t)n}, str_from(target))) return ERR_OK;
    TRY(make_folders(to, true, e));
    snprintf(end, sizeof end, ".%ld.link", (long)getpid());
    char *beside = arena_new(c->mem, strlen(to) + strlen(end) + 1);
    if (!beside) return fail_memory(e);
    memcpy(beside, to, strlen(to));
    memcpy(beside + strlen(to), end, strlen(end));
    unlink(beside);
    /* Some file systems have hard links only. */
    if (symlink(target, beside) != 0 && link(blob, beside) != 0)
        return fail_io(to, "cannot link the file", e);
    if (rename(beside, to) == 0) return ERR_OK;
    status s = fail_io(to, "cannot put the link in its place", e);
    unlink(beside);
    return s;
}

/* Add the files below dir; `prefix` is dir's path in the snapshot with '/' at its end, or empty. */
static status list_folder(const cache_dir *c, const char *dir, const char *prefix, int depth,
                          listing *l, err *e)
{
    DIR *d = opendir(dir);
    if (!d) return fail_io(dir, "cannot list", e);
    status s = ERR_OK;
    for (struct dirent *it; s == ERR_OK && (it = readdir(d));) {
        char path[SAFE_PATH_MOST + 2];
        struct stat st;
        if (it->d_name[0] == '.') continue;
        int n = snprintf(path, sizeof path, "%s%s", prefix, it->d_name);
        const char *full = file_join(c->mem, dir, it->d_name);
        if (!full) s = fail_memory(e);
        if (s != ERR_OK || n >= SAFE_PATH_MOST || stat(full, &st) != 0) continue;
        if (S_ISDIR(st.st_mode) && depth > 0) {
            path[n] = '/';
            path[n + 1] = '\0';
            s = list_folder(c, full, path, depth - 1, l, e);
        } else if (S_ISREG(st.st_mode) && l->n < LISTING_FILES_MOST) {
            listing_file *f = &l->files[l->n++];
            f->n_bytes = st.st_size;
            f->path = arena_copy(c->mem, path, (size_t)n);
            if (!f->path) s = fail_memory(e);
        }
    }
    closedir(d);
    return s;
}

status cache_dir_list(const cache_dir *c, const char *commit, listing *out, err *e)
{
    listing l = {0};
    const char *dir = cache_dir_snapshot(c, commit, NULL);
    l.files = arena_new_array(c->mem, LISTING_FILES_MOST, sizeof *l.files);
    if (!dir || !l.files) return fail_memory(e);
    if (!file_is_dir(dir)) return err_set(e, ERR_IO, dir, -1, "is not in the cache");
    memcpy(l.commit, commit, COMMIT_DIGITS);
    TRY(list_folder(c, dir, "", FOLDERS_DEEP, &l, e));
    *out = l;
    return ERR_OK;
}
