/* What was asked in earlier conversations, for the arrow keys: a file of the user's own. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <editline/readline.h>

#include "base/file.h"
#include "base/option.h"
#include "cli/chat_priv.h"

enum { ENTRIES_MAX = 1000 };

/* One folder more below `dir`, which is the user's alone; NULL when it cannot be. */
static const char *make_below(arena *a, const char *dir, const char *name)
{
    char *path = dir ? file_join(a, dir, name) : NULL;
    if (!path) return NULL;
    bool is_there = mkdir(path, S_IRWXU) == 0 || (errno == EEXIST && file_is_dir(path));
    return is_there ? path : NULL;
}

const char *chat_history_open(arena *a)
{
    const char *state = option_env("XDG_STATE_HOME", true), *home = option_env("HOME", true);
    if (!state || !state[0])
        state = home ? make_below(a, make_below(a, home, ".local"), "state") : NULL;
    const char *dir = make_below(a, state, "riptide");
    const char *path = dir ? file_join(a, dir, "history") : NULL;
    using_history();
    stifle_history(ENTRIES_MAX);
    if (path) read_history(path);
    return path;
}

void chat_history_save(const char *path)
{
    if (!path) return;
    mode_t before = umask(S_IRWXG | S_IRWXO);
    write_history(path);
    umask(before);
}
