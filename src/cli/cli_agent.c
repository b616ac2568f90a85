/* riptide claude, codex, opencode, pi, qwen: start that agent at a running server. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/agent_priv.h"
#include "cli/command_priv.h"

typedef struct {
    const char *host, *api_key;
    int64_t port;
} agent_flags;

/* Whether arg is --NAME or --NAME=…; *takes_next when its value is the next one. */
static bool is_flag(const char *arg, const char *name, bool *takes_next)
{
    size_t n = strlen(name);
    if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, name, n) != 0) return false;
    *takes_next = arg[2 + n] == '\0';
    return *takes_next || arg[2 + n] == '=';
}

/* Split argv into our own flags and the rest, which is the agent's; behind "--" all is. Both
 * arrays have room for argc + 1. */
static void split(int argc, char **argv, char **own, int *n_own, const char **rest, int *n_rest)
{
    bool takes_next;
    *n_own = *n_rest = 0;
    own[(*n_own)++] = argv[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            for (i++; i < argc; i++) rest[(*n_rest)++] = argv[i];
        } else if (strcmp(argv[i], "--help") == 0) {
            own[(*n_own)++] = argv[i];
        } else if (is_flag(argv[i], "port", &takes_next) || is_flag(argv[i], "host", &takes_next) ||
                   is_flag(argv[i], "api-key", &takes_next)) {
            own[(*n_own)++] = argv[i];
            if (takes_next && i + 1 < argc) own[(*n_own)++] = argv[++i];
        } else {
            rest[(*n_rest)++] = argv[i];
        }
    }
    own[*n_own] = NULL;
}

/* Returns only when it fails. */
static status start(const agent_setup *s, arena *a, const char **rest, int n_rest, err *e)
{
    const char **args = arena_new_array(a, (size_t)(s->n_args + n_rest) + 2, sizeof *args);
    if (!args) return err_set(e, ERR_NOMEM, s->program, -1, "arguments");
    int n = 0;
    args[n++] = s->program;
    for (int i = 0; i < s->n_args; i++) args[n++] = s->args[i];
    for (int i = 0; i < n_rest; i++) args[n++] = rest[i];
    args[n] = NULL;
    for (int i = 0; i < s->n_env; i++)
        if (setenv(s->env[i][0], s->env[i][1], 1) != 0)
            return err_set(e, ERR_NOMEM, s->program, -1, "environment");
    execvp(s->program, (char **)args);
    if (errno == ENOENT)
        return err_set(e, ERR_IO, s->program, -1, "is not installed (npm install -g %s)",
                       s->package);
    return err_set(e, ERR_IO, s->program, -1, "%s", strerror(errno));
}

int command_agent(int argc, char **argv)
{
    agent_flags f = {.host = "127.0.0.1", .port = 8000};
    const option_row rows[] = {
        {"host", OPTION_TEXT, &f.host, .help = "where the server listens"},
        {"port", OPTION_INT, &f.port, .min = 1, .max = 65535, .help = "its port"},
        {"api-key", OPTION_TEXT, &f.api_key, .help = "its key (better given as RIPTIDE_API_KEY)"},
        {0},
    };
    arena a;
    agent_server server;
    agent_setup setup;
    err e = {0};
    int n_own = 0, n_rest = 0;
    char usage[160];
    arena_init(&a, 0);
    char **own = arena_new_array(&a, (size_t)argc + 1, sizeof *own);
    const char **rest = arena_new_array(&a, (size_t)argc + 1, sizeof *rest);
    int code = -1;
    if (own && rest) {
        split(argc, argv, own, &n_own, rest, &n_rest);
        snprintf(usage, sizeof usage,
                 "riptide %s [--port N] [--host H] [its own arguments] [-- all else is its own]",
                 argv[0]);
        code = command_parse(rows, usage, n_own, own);
    } else {
        err_set(&e, ERR_NOMEM, argv[0], -1, "arguments");
    }
    if (code < 0) {
        status s = e.code;
        if (s == ERR_OK) s = agent_find_server(&a, f.host, (int)f.port, f.api_key, &server, &e);
        if (s == ERR_OK) s = agent_prepare(argv[0], &server, &a, &setup, &e);
        if (s == ERR_OK) start(&setup, &a, rest, n_rest, &e);
        code = command_fail(argv[0], &e);
    }
    arena_fini(&a);
    return code;
}
