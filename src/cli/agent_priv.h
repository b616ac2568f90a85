/* agent: coding agents of others, started so that they talk to a running server of ours. All of it
 * is said in their arguments and environment; no file of theirs is touched.
 *
 * Thread: one. */
#ifndef RIPTIDE_CLI_AGENT_PRIV_H
#define RIPTIDE_CLI_AGENT_PRIV_H

#include "base/arena.h"
#include "base/err.h"

enum { AGENT_ARGS_MAX = 24, AGENT_ENV_MAX = 8 };

/* The server that was found. */
typedef struct {
    const char *url;   /* "http://127.0.0.1:8000" */
    const char *key;   /* never empty: most agents want one */
    const char *model; /* its name */
    int64_t context;   /* tokens */
} agent_server;

/* Everything in the arena or constant. */
typedef struct {
    const char *program;
    const char *package; /* what to install when there is no such program */
    const char *args[AGENT_ARGS_MAX];
    int n_args;
    const char *env[AGENT_ENV_MAX][2]; /* name, value */
    int n_env;
} agent_setup;

/* Ask the server at host and port what it serves. key may be NULL.
 *
 * Returns  IO when nobody answers there; INVALID when the key is wrong; FORMAT when it is another
 *          kind of server; NOMEM */
status agent_find_server(arena *a, const char *host, int port, const char *key, agent_server *out,
                         err *e);

/* How the agent `name` is started.
 *
 * Returns  INVALID for a name that is not known; IO when the one file that pi needs, in the cache
 *          folder, cannot be written; NOMEM */
status agent_prepare(const char *name, const agent_server *s, arena *a, agent_setup *out, err *e);

#endif
