/* tags: threads */
/* Models by name: looked at, fetched, found again, and the draft that goes with them. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/engine_hub.h"
#include "unit/hub/hub_server.h"

typedef struct {
    hub_server server;
    char cache[32], endpoint[64];
    arena mem;
} fixture;

static void put_folder(fixture *x, const char *dir)
{
    static const char *const names[] = {"config.json",         "generation_config.json",
                                        "tokenizer.json",      "tokenizer_config.json",
                                        "chat_template.jinja", "model.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        err e = {0};
        str text;
        const char *path = file_join(&x->mem, dir, names[i]);
        if (!file_exists(path)) continue;
        CHECK_OK(file_read(&x->mem, path, 1 << 30, &text, &e), &e);
        hub_server_put(&x->server, names[i], text, i >= 2);
    }
}

static void open_fixture(fixture *x)
{
    hub_server_open(&x->server);
    arena_init(&x->mem, 0);
    snprintf(x->cache, sizeof x->cache, "/tmp/riptide-named-XXXXXX");
    assert_non_null(mkdtemp(x->cache));
    snprintf(x->endpoint, sizeof x->endpoint, "http://127.0.0.1:%d", x->server.port);
    setenv("HF_ENDPOINT", x->endpoint, 1);
    setenv("HF_HUB_CACHE", x->cache, 1);
    setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
    unsetenv("HF_HUB_OFFLINE");
    unsetenv("HF_TOKEN");
}

static void close_fixture(fixture *x)
{
    char command[64];
    hub_server_close(&x->server);
    arena_fini(&x->mem);
    snprintf(command, sizeof command, "rm -rf %s", x->cache);
    assert_int_equal(system(command), 0);
}

static status resolve(fixture *x, const char *model, const char *draft, bool offline,
                      engine_options *o, err *e)
{
    engine_flags f;
    engine_flags_init(&f, 1);
    f.model = model;
    f.draft_model = draft;
    f.offline = offline;
    return engine_flags_resolve(&f, &x->mem, o, e);
}

TEST(a_named_model_is_fetched_once_and_opens_by_its_name)
{
    fixture x;
    engine_options o;
    load_model m;
    err e = {0};
    open_fixture(&x);
    put_folder(&x, "models/mini-dense");
    CHECK_STATUS(resolve(&x, "own/mini", NULL, true, &o, &e), ERR_IO);
    assert_string_equal(e.where, "own/mini");
    assert_non_null(strstr(e.msg, "no such file or folder; looked for on the hub: own/mini: "));
    assert_non_null(strstr(e.msg, "offline"));
    CHECK_OK(resolve(&x, "own/mini", NULL, false, &o, &e), &e);
    assert_null(o.draft);
    CHECK_OK(load_model_open(&m, o.model, &e), &e);
    assert_string_equal(m.name, "own/mini");
    load_model_close(&m);
    int n_seen = x.server.n_seen;
    CHECK_OK(resolve(&x, "own/mini", NULL, false, &o, &e), &e);
    CHECK_OK(resolve(&x, "own/mini", NULL, true, &o, &e), &e);
    assert_int_equal(x.server.n_seen, n_seen); /* who has it asks nobody */
    close_fixture(&x);
}

TEST(a_mistyped_path_is_told_as_one_before_the_hubs_answer)
{
    fixture x;
    engine_options o;
    err e = {0};
    open_fixture(&x);
    hub_server_fault(&x.server, (hub_fault){"/api/models/", NULL, HUB_CODE, 404, 99});
    CHECK_STATUS(resolve(&x, "models/mini-dens", NULL, false, &o, &e), ERR_INVALID);
    assert_string_equal(e.where, "models/mini-dens");
    assert_non_null(strstr(e.msg, "no such file or folder; looked for on the hub"));
    assert_non_null(strstr(e.msg, "code 404"));
    CHECK_STATUS(resolve(&x, "models/mini-dense", "models/d.gguf", false, &o, &e), ERR_INVALID);
    assert_string_equal(e.where, "models/d.gguf");
    assert_non_null(strstr(e.msg, "no such file or folder"));
    close_fixture(&x);
}

TEST(a_draft_is_fetched_by_name_when_it_fits)
{
    fixture x;
    engine_options o;
    err e = {0};
    open_fixture(&x);
    put_folder(&x, "models/mini-dense-dflash2");
    CHECK_OK(resolve(&x, "models/mini-dense", "own/draft", false, &o, &e), &e);
    assert_non_null(strstr(o.draft, "models--own--draft/snapshots/" HUB_COMMIT));
    /* A draft is no target, and a target no draft: known before any weight is fetched. */
    CHECK_STATUS(resolve(&x, "own/second", NULL, false, &o, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "is a draft"));
    assert_null(strstr(e.msg, "no such file")); /* it was there, on the hub */
    put_folder(&x, "models/mini-dense");
    hub_server_forget(&x.server);
    CHECK_STATUS(resolve(&x, "models/mini-dense", "own/third", false, &o, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "is no draft"));
    assert_int_equal(hub_server_count(&x.server, "safetensors"), 0);
    close_fixture(&x);
}

TEST(a_model_that_cannot_be_run_is_refused_before_its_weights)
{
    static const char config[] =
        "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":8}";
    fixture x;
    engine_options o;
    err e = {0};
    open_fixture(&x);
    put_folder(&x, "models/mini-dense");
    hub_server_put(&x.server, "config.json", STR(config), false);
    CHECK_STATUS(resolve(&x, "own/llama", NULL, false, &o, &e), ERR_UNSUPPORTED);
    assert_int_equal(hub_server_count(&x.server, "safetensors"), 0);
    close_fixture(&x);
}

TEST(what_was_only_looked_at_is_given_and_not_fetched)
{
    fixture x;
    hub_name n;
    hub_model h;
    load_model seen = {0};
    engine_hub_wish w = {.seen = &seen};
    err e = {0};
    open_fixture(&x);
    put_folder(&x, "models/mini-dense");
    assert_true(hub_name_parse(STR("own/mini"), &n));
    CHECK_OK(engine_hub_take(&n, &w, &x.mem, &h, &e), &e);
    assert_true(!h.path && seen.target.E > 0 && h.n_missing > 1 << 20);
    assert_int_equal(hub_server_count(&x.server, "safetensors"), 0);
    load_model_close(&seen);
    close_fixture(&x);
}

TEST(the_familys_draft_is_known_by_the_targets_geometry)
{
    arch_target t = {.family = ARCH_QWEN35, .E = 5120, .n_layers = 64};
    assert_string_equal(engine_hub_draft_of(&t), "incoai/Qwen3.8-27B-DFlash2");
    t.n_layers = 63;
    assert_null(engine_hub_draft_of(&t));
    t = (arch_target){.family = ARCH_QWEN35_MOE, .E = 2048, .n_layers = 40, .X = 256};
    assert_string_equal(engine_hub_draft_of(&t), "incoai/Qwen3.6-35B-A3B-DFlash2");
    t.X = 128;
    assert_null(engine_hub_draft_of(&t));
}

TEST(a_path_that_is_there_is_no_name)
{
    hub_name n;
    assert_false(engine_hub_is_name("models/mini-dense", &n));
    assert_true(engine_hub_is_name("models/mini-absent", &n));
    assert_false(engine_hub_is_name("/models/mini-absent", &n));
}
