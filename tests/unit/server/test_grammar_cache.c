#include "server/grammar_cache_priv.h"

#include "base/mem.h"
#include "support/test.h"

static grammar *open_regex(const char *text)
{
    err e = {0};
    grammar *g = NULL;
    CHECK_OK(grammar_open_regex(&g, str_from(text), &e), &e);
    return g;
}

static bool has(grammar_cache *c, const char *key)
{
    bool is_whole;
    grammar *g = grammar_cache_get(c, str_from(key), &is_whole);
    grammar_close(g);
    return g != NULL;
}

TEST(a_grammar_is_found_by_its_whole_key_and_outlives_the_cache)
{
    int64_t live = mem_count().n_live;
    grammar_cache c;
    bool is_whole = true;
    grammar_cache_init(&c, 1000);
    grammar *g = open_regex("a");
    grammar_cache_put(&c, STR("one"), g, false);
    grammar_close(g);
    assert_false(has(&c, "on"));
    assert_false(has(&c, "onf"));
    grammar *held = grammar_cache_get(&c, STR("one"), &is_whole);
    assert_ptr_equal(held, g);
    assert_false(is_whole);
    grammar_cache_fini(&c);
    grammar_cache_fini(&c);
    grammar_state *s = NULL;
    err e = {0};
    CHECK_OK(grammar_state_open(&s, held, NULL, 1, &e), &e);
    assert_true(grammar_state_advance_bytes(s, STR("a")));
    grammar_state_close(s);
    grammar_close(held);
    assert_int_equal(mem_count().n_live, live);
}

TEST(the_one_not_used_for_longest_goes)
{
    grammar_cache c;
    grammar_cache_init(&c, 1000);
    grammar *g = open_regex("a");
    char key[8];
    for (int i = 0; i < GRAMMAR_CACHE_ENTRIES; i++) {
        snprintf(key, sizeof key, "%d", i);
        grammar_cache_put(&c, str_from(key), g, true);
    }
    assert_true(has(&c, "0"));
    grammar_cache_put(&c, STR("x"), g, true);
    grammar_cache_put(&c, STR("x"), g, true); /* again: nothing is lost for it */
    assert_true(has(&c, "0") && has(&c, "2") && has(&c, "x"));
    assert_false(has(&c, "1"));
    grammar_cache_fini(&c);
    grammar_close(g);
}

TEST(keys_are_bounded_in_bytes)
{
    grammar_cache c;
    char big[200];
    memset(big, 'k', sizeof big);
    grammar_cache_init(&c, 300);
    grammar *g = open_regex("a");
    grammar_cache_put(&c, STR("old"), g, true);
    grammar_cache_put(&c, (str){big, 200}, g, true);
    assert_true(has(&c, "old"));
    assert_int_equal(c.n_bytes, 203);
    big[0] = 'j';
    grammar_cache_put(&c, (str){big, 200}, g, true);
    assert_int_equal(c.n_bytes, 203); /* the other big one went, "old" was used later */
    assert_true(has(&c, "old"));
    char huge[301] = {0};
    grammar_cache_put(&c, (str){huge, 301}, g, true);
    assert_int_equal(c.n_bytes, 203);
    mem_fail_at(1);
    grammar_cache_put(&c, STR("new"), g, true);
    mem_fail_at(0);
    assert_false(has(&c, "new"));
    grammar_cache_fini(&c);
    grammar_close(g);
}
