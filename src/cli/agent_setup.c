/* What each agent wants to be told. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/option.h"
#include "cli/agent_priv.h"

typedef struct {
    const agent_server *s;
    arena *a;
    agent_setup *out;
    bool is_starved;
} builder;

static void add_arg(builder *b, const char *arg)
{
    b->out->args[b->out->n_args++] = arg;
}

static void add_env(builder *b, const char *name, const char *value)
{
    b->out->env[b->out->n_env][0] = name;
    b->out->env[b->out->n_env++][1] = value;
}

/* The text of t in the arena; ends t. */
static const char *keep(builder *b, buf *t)
{
    const char *copy = t->failed ? NULL : arena_copy(b->a, buf_str(t).ptr, t->len);
    buf_fini(t);
    b->is_starved |= !copy;
    return copy ? copy : "";
}

/* first + second. */
static const char *join(builder *b, const char *first, const char *second)
{
    buf t;
    buf_init(&t);
    buf_put_c(&t, first);
    buf_put_c(&t, second);
    return keep(b, &t);
}

static status set_claude(builder *b, err *e)
{
    (void)e;
    add_env(b, "ANTHROPIC_BASE_URL", b->s->url);
    add_env(b, "ANTHROPIC_AUTH_TOKEN", b->s->key);
    add_env(b, "ANTHROPIC_MODEL", b->s->model);
    add_env(b, "ANTHROPIC_SMALL_FAST_MODEL", b->s->model);
    add_env(b, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    return ERR_OK;
}

/* -c KEY="VALUE"; a value is TOML, whose strings are written like JSON's. */
static void add_config(builder *b, const char *key, const char *value)
{
    buf t;
    buf_init(&t);
    buf_printf(&t, "%s=", key);
    json_put_string(&t, str_from(value));
    add_arg(b, "-c");
    add_arg(b, keep(b, &t));
}

static status set_codex(builder *b, err *e)
{
    char context[60];
    (void)e;
    add_config(b, "model_provider", "riptide");
    add_config(b, "model_providers.riptide.name", "riptide");
    add_config(b, "model_providers.riptide.base_url", join(b, b->s->url, "/v1"));
    add_config(b, "model_providers.riptide.wire_api", "responses");
    add_config(b, "model_providers.riptide.env_key", "RIPTIDE_AGENT_KEY");
    add_config(b, "model", b->s->model);
    snprintf(context, sizeof context, "model_context_window=%lld", (long long)b->s->context);
    add_arg(b, "-c");
    add_arg(b, join(b, context, ""));
    add_env(b, "RIPTIDE_AGENT_KEY", b->s->key);
    return ERR_OK;
}

static status set_qwen(builder *b, err *e)
{
    (void)e;
    add_arg(b, "--auth-type");
    add_arg(b, "openai");
    add_env(b, "OPENAI_BASE_URL", join(b, b->s->url, "/v1"));
    add_env(b, "OPENAI_API_KEY", b->s->key);
    add_env(b, "OPENAI_MODEL", b->s->model);
    return ERR_OK;
}

/* A member that is an object with one member that is an object. */
static void open_nested(json_writer *w, const char *outer, const char *inner)
{
    json_key(w, outer);
    json_open_object(w);
    json_key(w, inner);
    json_open_object(w);
}

static void put_text(json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_c_string(w, text);
}

/* Laid over the user's own settings by opencode. */
static status set_opencode(builder *b, err *e)
{
    buf t;
    json_writer w;
    (void)e;
    buf_init(&t);
    json_writer_init(&w, &t);
    json_open_object(&w);
    put_text(&w, "model", join(b, "riptide/", b->s->model));
    put_text(&w, "small_model", join(b, "riptide/", b->s->model));
    open_nested(&w, "provider", "riptide");
    put_text(&w, "npm", "@ai-sdk/openai-compatible");
    put_text(&w, "name", "riptide");
    json_key(&w, "options");
    json_open_object(&w);
    put_text(&w, "baseURL", join(b, b->s->url, "/v1"));
    put_text(&w, "apiKey", b->s->key);
    json_close_object(&w);
    open_nested(&w, "models", b->s->model);
    put_text(&w, "name", b->s->model);
    json_key(&w, "limit");
    json_open_object(&w);
    json_key(&w, "context");
    json_int(&w, b->s->context);
    json_key(&w, "output");
    json_int(&w, b->s->context / 4);
    json_close_object(&w);
    for (int i = 0; i < 5; i++) json_close_object(&w);
    add_env(b, "OPENCODE_CONFIG_CONTENT", keep(b, &t));
    return ERR_OK;
}

/* pi learns of a provider by a file of JavaScript that it is told to load. */
static const char pi_extension[] =
    "// Written by riptide: tells pi of the server that `riptide pi` found.\n"
    "export default function (pi) {\n"
    "  const { RIPTIDE_AGENT_URL: url, RIPTIDE_AGENT_MODEL: id, RIPTIDE_AGENT_CONTEXT: n } = "
    "process.env;\n"
    "  if (!url) return;\n"
    "  pi.registerProvider('riptide', { baseUrl: `${url}/v1`, apiKey: 'RIPTIDE_AGENT_KEY',\n"
    "    api: 'openai-completions', models: [{ id, name: id, reasoning: true, input: ['text'],\n"
    "      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: Number(n),\n"
    "      maxTokens: Math.floor(Number(n) / 4) }] });\n"
    "}\n";

/* The folder `name` in `dir`, made when it is not there. */
static const char *make_folder(builder *b, const char *dir, const char *name)
{
    char *path = dir ? file_join(b->a, dir, name) : NULL;
    if (path) mkdir(path, S_IRWXU); /* writing into it tells whether it is there */
    return path;
}

static status set_pi(builder *b, err *e)
{
    const char *cache = option_env("XDG_CACHE_HOME", true), *home = option_env("HOME", true);
    if (!cache || !cache[0]) cache = home ? make_folder(b, home, ".cache") : NULL;
    if (!cache)
        return err_set(e, ERR_INVALID, "HOME", -1, "is not set: where is the cache folder?");
    const char *folder = make_folder(b, cache, "riptide");
    const char *file = folder ? file_join(b->a, folder, "pi-provider.mjs") : NULL;
    if (!file) return err_set(e, ERR_NOMEM, "pi", -1, "path");
    TRY(file_write(file, str_from(pi_extension), e));
    char context[24];
    snprintf(context, sizeof context, "%lld", (long long)b->s->context);
    add_arg(b, "-e");
    add_arg(b, file);
    add_arg(b, "--provider");
    add_arg(b, "riptide");
    add_arg(b, "--model");
    add_arg(b, b->s->model);
    add_env(b, "RIPTIDE_AGENT_URL", b->s->url);
    add_env(b, "RIPTIDE_AGENT_MODEL", b->s->model);
    add_env(b, "RIPTIDE_AGENT_CONTEXT", join(b, context, ""));
    add_env(b, "RIPTIDE_AGENT_KEY", b->s->key);
    return ERR_OK;
}

status agent_prepare(const char *name, const agent_server *s, arena *a, agent_setup *out, err *e)
{
    static const struct {
        const char *name, *package;
        status (*set)(builder *b, err *e);
    } known[] = {{"claude", "@anthropic-ai/claude-code", set_claude},
                 {"codex", "@openai/codex", set_codex},
                 {"opencode", "opencode-ai", set_opencode},
                 {"pi", "@mariozechner/pi-coding-agent", set_pi},
                 {"qwen", "@qwen-code/qwen-code", set_qwen}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) != 0) continue;
        *out = (agent_setup){.program = known[i].name, .package = known[i].package};
        builder b = {s, a, out, false};
        TRY(known[i].set(&b, e));
        return b.is_starved ? err_set(e, ERR_NOMEM, name, -1, "settings") : ERR_OK;
    }
    return err_set(e, ERR_INVALID, name, -1, "is no agent that is known here");
}
