/* The random model of a profile by shape: files that nobody keeps.
 *
 * They are made where files are memory and removed as soon as the model is open: a device has its
 * copy then, and what the host still maps stays until it is closed. Nothing reaches a disk where
 * there is room elsewhere, and an interrupted run leaves nothing once it measures. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/option.h"
#include "bench/make_priv.h"
#include "bench/profile_model_priv.h"

/* More than any of the shapes takes with its draft. */
static const int64_t ROOM_BYTES = (int64_t)32 << 30;

static bool has_room(const char *dir, int64_t n_bytes)
{
    struct statvfs v;
    return statvfs(dir, &v) == 0 && (int64_t)(v.f_bavail * v.f_frsize) >= n_bytes;
}

/* A folder in memory, else the one for temporary files. */
static const char *parent_folder(void)
{
    const char *given = option_env("TMPDIR", true);
    if (!given || !given[0]) given = "/tmp";
    return has_room("/dev/shm", ROOM_BYTES) && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : given;
}

/* A folder of files; missing is fine. */
static void remove_folder(const char *dir)
{
    char path[4500];
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *x; (x = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", dir, x->d_name);
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0) unlink(path);
    }
    closedir(d);
    rmdir(dir);
}

void profile_model_remove(profile_model *m)
{
    if (!m->target[0]) return;
    remove_folder(m->draft);
    remove_folder(m->target);
    *m = (profile_model){0};
}

status profile_model_make(profile_model *m, const shape *s, uint64_t seed, err *e)
{
    make_result out = {0};
    *m = (profile_model){0};
    snprintf(m->target, sizeof m->target, "%.4000s/riptide-%s-XXXXXX", parent_folder(), s->name);
    if (!mkdtemp(m->target)) {
        status st = err_set(e, ERR_IO, m->target, -1, "cannot be made: %s", strerror(errno));
        *m = (profile_model){0};
        return st;
    }
    snprintf(m->draft, sizeof m->draft, "%s-dflash2", m->target);
    int64_t start_ns = clock_ns();
    make_request r = {.s = *s, .seed = seed, .dial = -1, .out = m->target};
    status st = make_checkpoint(&r, &out, e);
    if (st != ERR_OK) {
        profile_model_remove(m);
        return st;
    }
    double total = (double)(out.target_bytes + out.draft_bytes), ms = clock_ms_since(start_ns);
    fprintf(stderr, "%s: %.2f GB of random weights in %.1f s, %.2f GB/s\n", m->target, total * 1e-9,
            ms * 1e-3, total * 1e-6 / ms);
    return ERR_OK;
}
