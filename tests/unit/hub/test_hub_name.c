/* Which texts are names of models. */
#include "hub/hub.h"
#include "support/test.h"

#include "hub/safe_name_priv.h"

TEST(a_name_is_an_owner_a_repository_and_perhaps_a_variant)
{
    hub_name n;
    assert_true(hub_name_parse(STR("mlx-community/Qwen3.8-27B-4bit"), &n));
    assert_string_equal(n.owner, "mlx-community");
    assert_string_equal(n.repo, "Qwen3.8-27B-4bit");
    assert_string_equal(n.variant, "");
    assert_true(hub_name_parse(STR("u/Q_3.6-GGUF:UD-Q4_K_M"), &n));
    assert_string_equal(n.repo, "Q_3.6-GGUF");
    assert_string_equal(n.variant, "UD-Q4_K_M");
}

TEST(what_is_a_path_or_would_leave_its_folder_is_no_name)
{
    static const char *const texts[] = {"",       "a",      "/a",          "a/",     "./a",
                                        "../a",   "a/..",   "a/b/c",       "a/b:",   "a/:c",
                                        "a/b:c:", "a b/c",  "-a/b",        "a/b-",   ".a/b",
                                        "a/b.",   "a--x/b", "a/b--c",      "~/a",    "a/b\n",
                                        "a/%2e",  "a/b..c", "a/b:../../c", "a\\b/c", "a/b:x/y"};
    char longest[300];
    hub_name n = {.owner = "was"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (hub_name_parse(str_from(texts[i]), &n)) fail_msg("\"%s\" is a name", texts[i]);
    memset(longest, 'a', sizeof longest);
    longest[97] = '/';
    assert_false(hub_name_parse((str){longest, 100}, &n));
    assert_false(hub_name_parse((str){longest + 1, 299}, &n));
    assert_true(hub_name_parse((str){longest + 1, 97 + 96}, &n));
    assert_string_not_equal(n.owner, "was");
}

TEST(a_safe_path_stays_inside)
{
    static const char *const good[] = {"a", "a/b", "a b", "...", "a..b/c", ".a", "\xc3\xa4.gguf"};
    static const char *const bad[] = {"",     ".",    "..",   "/a",   "a/",  "a//b", "a/./b",
                                      "a/..", "../a", "a\\b", "a\nb", "a:b", "a\x7f"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!safe_path(str_from(good[i]))) fail_msg("\"%s\" is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (safe_path(str_from(bad[i]))) fail_msg("\"%s\" is taken", bad[i]);
    assert_false(safe_path((str){"a\0b", 3}));
}

TEST(digits_are_counted)
{
    assert_true(safe_hex(STR("00ff"), 4));
    assert_false(safe_hex(STR("00ff"), 5));
    assert_false(safe_hex(STR("00FF"), 4));
    assert_false(safe_hex(STR("00/f"), 4));
}
