/* hub_fixture: a server, an empty cache and a small model of each kind. */
#ifndef RIPTIDE_TESTS_HUB_FIXTURE_H
#define RIPTIDE_TESTS_HUB_FIXTURE_H

#include <sys/stat.h>

#include "base/file.h"
#include "hub/hub.h"
#include "hub_server.h"

enum { FIXTURE_WEIGHTS = 300000, FIXTURE_GGUF = 5 << 20 };

typedef struct {
    hub_server server;
    char dir[64], endpoint[64];
    arena mem;
    hub_options o;
    hub_name name;
    buf weights, gguf;
    char notes[2048];
    hub_progress last; /* told last */
    char last_file[128];
    int n_told;
    /* The look: fails with `refusal` when that is set; of a GGUF head it wants `wants` bytes. */
    const char *refusal;
    int64_t wants, n_looked;
    int n_looks;
    bool saw_config;
} hub_fixture;

static inline void fixture_progress(void *ctx, const hub_progress *p)
{
    hub_fixture *x = ctx;
    x->last = *p;
    snprintf(x->last_file, sizeof x->last_file, "%s", p->file);
    x->n_told++;
}

static inline void fixture_note(void *ctx, const char *text)
{
    hub_fixture *x = ctx;
    size_t n = strlen(x->notes);
    snprintf(x->notes + n, sizeof x->notes - n, "%s\n", text);
}

static inline status fixture_check(void *ctx, const hub_sight *s, bool *wants_more, err *e)
{
    hub_fixture *x = ctx;
    char path[512];
    x->n_looks++;
    if (s->dir) {
        snprintf(path, sizeof path, "%s/config.json", s->dir);
        x->saw_config = file_exists(path);
    } else {
        assert_true(s->n_head <= s->n_file && memcmp(s->head, x->gguf.ptr, (size_t)s->n_head) == 0);
        x->n_looked = s->n_head;
        *wants_more = s->n_head < x->wants && s->n_head < s->n_file;
        if (*wants_more) return err_set(e, ERR_FORMAT, "head", -1, "cut");
    }
    return x->refusal ? err_set(e, ERR_UNSUPPORTED, "look", -1, "%s", x->refusal) : ERR_OK;
}

static inline void fixture_fill(buf *b, int n)
{
    uint64_t state = 7;
    buf_init(b);
    for (int i = 0; i < n / 8; i++) {
        uint64_t v = test_random(&state);
        buf_put(b, &v, 8);
    }
}

static inline void fixture_open(hub_fixture *x)
{
    memset(x, 0, sizeof *x);
    snprintf(x->dir, sizeof x->dir, "/tmp/riptide-hub-XXXXXX");
    assert_non_null(mkdtemp(x->dir));
    hub_server_open(&x->server);
    arena_init(&x->mem, 0);
    fixture_fill(&x->weights, FIXTURE_WEIGHTS);
    snprintf(x->endpoint, sizeof x->endpoint, "http://127.0.0.1:%d", x->server.port);
    x->o = (hub_options){.endpoint = x->endpoint,
                         .cache = x->dir,
                         .timeout_ms = 20000,
                         .retries = 2,
                         .retry_ms = 1,
                         .check = fixture_check,
                         .on_progress = fixture_progress,
                         .on_note = fixture_note,
                         .ctx = x};
    assert_true(hub_name_parse(STR("o/r"), &x->name));
}

/* config.json, a tokenizer, an index and two shards. */
static inline void fixture_safetensors(hub_fixture *x)
{
    hub_server *s = &x->server;
    str w = buf_str(&x->weights);
    hub_server_put(s, "README.md", STR("# read me\n"), false);
    hub_server_put(s, "config.json", STR("{\"model_type\": \"x\"}\n"), false);
    hub_server_put(s, "tokenizer.json", STR("{\"model\": {}}"), true);
    hub_server_put(s, "model.safetensors.index.json",
                   STR("{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":"
                       "\"model-00002-of-00002.safetensors\",\"c\":"
                       "\"model-00001-of-00002.safetensors\"}}"),
                   false);
    hub_server_put(s, "model-00001-of-00002.safetensors", str_slice(w, 0, 200000), true);
    hub_server_put(s, "model-00002-of-00002.safetensors", str_skip(w, 200000), true);
    hub_server_put(s, "other.safetensors", STR("not asked for"), true);
}

static inline void fixture_gguf(hub_fixture *x)
{
    fixture_fill(&x->gguf, FIXTURE_GGUF);
    str g = buf_str(&x->gguf);
    hub_server_put(&x->server, "README.md", STR("# read me\n"), false);
    hub_server_put(&x->server, "mmproj-F16.gguf", STR("a vision tower"), true);
    hub_server_put(&x->server, "M-Q4_K_M.gguf", g, true);
    hub_server_put(&x->server, "M-Q8_0.gguf", STR("another"), true);
}

static inline status fixture_pull(hub_fixture *x, hub_model *m, err *e)
{
    x->notes[0] = '\0';
    return hub_pull(&x->name, &x->o, &x->mem, m, e);
}

/* "models--o--r/<below>" in the cache. */
static inline const char *fixture_path(hub_fixture *x, const char *below)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/models--o--r/%s", x->dir, below);
    return path;
}

/* NULL name: `dir` is the file. */
static inline void fixture_check_file(hub_fixture *x, const char *dir, const char *name, str want)
{
    char path[600];
    str has;
    err e = {0};
    snprintf(path, sizeof path, "%s%s%s", dir, name ? "/" : "", name ? name : "");
    CHECK_OK(file_read(&x->mem, path, 1 << 30, &has, &e), &e);
    assert_true(str_equal(has, want));
}

/* Files in a folder of the cache whose names end in `end`. */
static inline int fixture_count(hub_fixture *x, const char *below, const char *end)
{
    char command[800], text[32] = "";
    snprintf(command, sizeof command, "find %s -name '*%s' ! -type d 2>/dev/null | wc -l",
             fixture_path(x, below), end);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    pclose(f);
    return (int)strtol(text, NULL, 10);
}

static inline void fixture_close(hub_fixture *x)
{
    char command[128];
    hub_server_close(&x->server);
    buf_fini(&x->weights);
    buf_fini(&x->gguf);
    arena_fini(&x->mem);
    snprintf(command, sizeof command, "rm -rf %s", x->dir);
    assert_int_equal(system(command), 0);
}

#endif
