#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/agent_priv.h"
#include "support/test.h"

static const agent_server server = {"http://[::1]:8000", "a\"b", "m\\n", 4096};

static const char *env_of(const agent_setup *s, const char *name)
{
    for (int i = 0; i < s->n_env; i++)
        if (strcmp(s->env[i][0], name) == 0) return s->env[i][1];
    fail_msg("no %s", name);
    return NULL;
}

TEST(what_stands_in_a_url_a_key_or_a_name_is_quoted)
{
    arena a;
    agent_setup s;
    err e = {0};
    const json *root;
    arena_init(&a, 0);
    CHECK_OK(agent_prepare("opencode", &server, &a, &s, &e), &e);
    str config = str_from(env_of(&s, "OPENCODE_CONFIG_CONTENT"));
    CHECK_OK(json_parse(&a, config, "config", 16, JSON_UNIQUE_KEYS, &root, &e), &e);
    assert_true(str_is(json_get(root, "model")->text, "riptide/m\\n"));
    const json *own = json_get(json_get(root, "provider"), "riptide");
    assert_true(str_is(json_get(json_get(own, "options"), "apiKey")->text, "a\"b"));
    assert_true(
        str_is(json_get(json_get(own, "options"), "baseURL")->text, "http://[::1]:8000/v1"));
    assert_non_null(json_get(json_get(own, "models"), "m\\n"));
    CHECK_OK(agent_prepare("codex", &server, &a, &s, &e), &e);
    bool has_model = false;
    for (int i = 0; i < s.n_args; i++) has_model |= strcmp(s.args[i], "model=\"m\\\\n\"") == 0;
    assert_true(has_model);
    assert_int_equal(agent_prepare("vi", &server, &a, &s, &e), ERR_INVALID);
    arena_fini(&a);
}

TEST(without_memory_it_is_nomem)
{
    static const char *const names[] = {"claude", "codex", "opencode", "pi", "qwen"};
    char home[] = "/tmp/riptide-agent-XXXXXX";
    assert_non_null(mkdtemp(home));
    setenv("XDG_CACHE_HOME", home, 1);
    for (int i = 0; i < 5; i++) {
        for (int n = 1, code = -1; code != ERR_OK; n++) {
            arena a;
            agent_setup s;
            err e = {0};
            arena_init(&a, 0);
            mem_fail_at(n);
            code = agent_prepare(names[i], &server, &a, &s, &e);
            mem_fail_at(0);
            if (code != ERR_OK && code != ERR_NOMEM)
                fail_msg("%s: %s", names[i], status_name(code));
            if (code == ERR_OK) assert_string_equal(s.program, names[i]);
            arena_fini(&a);
            assert_true(n < 1000);
        }
    }
    char path[80];
    snprintf(path, sizeof path, "%s/riptide/pi-provider.mjs", home);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/riptide", home);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(home), 0);
}

TEST(a_server_that_is_not_there_is_told)
{
    arena a;
    agent_server s = {.context = 77};
    err e = {0};
    arena_init(&a, 0);
    assert_int_equal(agent_find_server(&a, "127.0.0.1", 1, NULL, &s, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "riptide serve"));
    assert_int_equal(s.context, 77);
    arena_fini(&a);
}
