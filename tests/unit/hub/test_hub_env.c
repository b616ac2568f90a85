/* What the environment of the hub's tools means. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/hub.h"
#include "support/test.h"

static const char *const names[] = {"HF_ENDPOINT",
                                    "HF_HUB_CACHE",
                                    "HUGGINGFACE_HUB_CACHE",
                                    "HF_HOME",
                                    "XDG_CACHE_HOME",
                                    "HF_TOKEN",
                                    "HUGGING_FACE_HUB_TOKEN",
                                    "HF_TOKEN_PATH",
                                    "HF_HUB_DISABLE_IMPLICIT_TOKEN",
                                    "HF_HUB_OFFLINE",
                                    "HF_HUB_DOWNLOAD_TIMEOUT"};

/* Nothing set but HOME, then the pairs of name and value up to a NULL. */
static status init(hub_options *o, arena *a, err *e, const char *const *pairs)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    setenv("HOME", "/h", 1);
    for (; pairs[0]; pairs += 2) setenv(pairs[0], pairs[1], 1);
    return hub_options_init(o, a, e);
}
#define INIT(...) init(&o, &a, &e, (const char *const[]){__VA_ARGS__, NULL})

TEST(without_anything_set_the_usual_places_count)
{
    hub_options o;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    CHECK_OK(INIT(NULL), &e);
    assert_string_equal(o.endpoint, "https://huggingface.co");
    assert_string_equal(o.cache, "/h/.cache/huggingface/hub");
    assert_true(!o.token && !o.is_offline && !o.revision && o.timeout_ms == 10000);
    arena_fini(&a);
}

TEST(the_cache_is_found_by_the_nearest_name)
{
    hub_options o;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    CHECK_OK(INIT("XDG_CACHE_HOME", "/x"), &e);
    assert_string_equal(o.cache, "/x/huggingface/hub");
    CHECK_OK(INIT("XDG_CACHE_HOME", "/x", "HF_HOME", "/f"), &e);
    assert_string_equal(o.cache, "/f/hub");
    CHECK_OK(INIT("HF_HOME", "/f", "HUGGINGFACE_HUB_CACHE", "/g"), &e);
    assert_string_equal(o.cache, "/g");
    CHECK_OK(INIT("HF_HUB_CACHE", "/c", "HUGGINGFACE_HUB_CACHE", "/g"), &e);
    assert_string_equal(o.cache, "/c");
    CHECK_OK(INIT("HF_HUB_CACHE", "", "HF_HOME", "/f"), &e);
    assert_string_equal(o.cache, "/f/hub");
    arena_fini(&a);
}

TEST(a_token_comes_from_the_environment_or_its_file)
{
    char dir[] = "/tmp/riptide-env-XXXXXX", path[64];
    hub_options o;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/token", dir);
    CHECK_OK(file_write(path, STR("hf_file\n"), &e), &e);
    CHECK_OK(INIT("HF_HOME", dir), &e);
    assert_string_equal(o.token, "hf_file");
    CHECK_OK(INIT("HF_HOME", dir, "HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"), &e);
    assert_null(o.token);
    CHECK_OK(INIT("HF_HOME", dir, "HF_TOKEN", " hf_env "), &e);
    assert_string_equal(o.token, "hf_env");
    CHECK_OK(INIT("HF_TOKEN_PATH", path), &e);
    assert_string_equal(o.token, "hf_file");
    /* A line break in it would be a header of its own. */
    CHECK_STATUS(INIT("HF_TOKEN", "a\r\nHost: b"), ERR_INVALID);
    assert_string_equal(e.where, "HF_TOKEN");
    unlink(path);
    rmdir(dir);
    arena_fini(&a);
}

TEST(offline_and_the_endpoint_and_the_timeout_are_read)
{
    static const char *const yes[] = {"1", "ON", "yes", "True"}, *const no[] = {"0", "off", "2"};
    static const char *const bad[] = {"ftp://a", "a.b", "http://a b", "https://u:p@h",
                                      "http://a/?x"};
    hub_options o;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(INIT("HF_HUB_OFFLINE", yes[i]), &e);
        assert_true(o.is_offline);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_OK(INIT("HF_HUB_OFFLINE", no[i]), &e);
        assert_false(o.is_offline);
    }
    CHECK_OK(INIT("HF_ENDPOINT", "http://mirror:80//", "HF_HUB_DOWNLOAD_TIMEOUT", "30"), &e);
    assert_string_equal(o.endpoint, "http://mirror:80");
    assert_int_equal(o.timeout_ms, 30000);
    for (int i = 0; i < 5; i++) CHECK_STATUS(INIT("HF_ENDPOINT", bad[i]), ERR_INVALID);
    CHECK_STATUS(INIT("HF_HUB_DOWNLOAD_TIMEOUT", "0"), ERR_INVALID);
    CHECK_STATUS(INIT("HF_HUB_DOWNLOAD_TIMEOUT", "soon"), ERR_INVALID);
    arena_fini(&a);
}
