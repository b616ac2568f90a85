#include "server/response_store_priv.h"

#include "base/mem.h"
#include "support/test.h"

static response_store s;

static bool is_there(const char *id, const char *response, const char *items)
{
    buf a, b;
    buf_init(&a);
    buf_init(&b);
    bool found = response_store_get(&s, str_from(id), &a, &b);
    if (found) {
        assert_string_equal(buf_str(&a).ptr, response);
        assert_string_equal(buf_str(&b).ptr, items);
    }
    buf_fini(&a);
    buf_fini(&b);
    return found;
}

TEST(what_is_kept_can_be_had_again_until_it_is_dropped)
{
    response_store_init(&s, 4000);
    assert_false(is_there("a", "", ""));
    response_store_put(&s, STR("a"), STR("one"), STR("[]"));
    response_store_put(&s, STR("b"), STR(""), STR("[1]"));
    assert_true(is_there("a", "one", "[]") && is_there("b", "", "[1]"));
    response_store_put(&s, STR("a"), STR("two"), STR("[2]"));
    assert_true(is_there("a", "two", "[2]"));
    assert_true(response_store_get(&s, STR("a"), NULL, NULL));
    assert_true(response_store_drop(&s, STR("a")));
    assert_false(response_store_drop(&s, STR("a")));
    assert_false(is_there("a", "", ""));
    assert_true(is_there("b", "", "[1]"));
    response_store_fini(&s);
    response_store_fini(&s);
}

TEST(the_one_not_used_for_longest_goes_first)
{
    static char text[1000];
    str big = {text, sizeof text};
    memset(text, 'x', sizeof text);
    response_store_init(&s, 3500); /* three of them */
    response_store_put(&s, STR("a"), big, STR(""));
    response_store_put(&s, STR("b"), big, STR(""));
    response_store_put(&s, STR("c"), big, STR(""));
    assert_true(response_store_get(&s, STR("a"), NULL, NULL));
    response_store_put(&s, STR("d"), STR(""), big);
    assert_false(response_store_get(&s, STR("b"), NULL, NULL));
    assert_true(response_store_get(&s, STR("a"), NULL, NULL));
    assert_true(response_store_get(&s, STR("c"), NULL, NULL));
    assert_true(response_store_get(&s, STR("d"), NULL, NULL));
    assert_true(s.n_bytes <= 3500);
    response_store_fini(&s);
}

TEST(what_does_not_fit_is_not_kept_and_nothing_goes_for_it)
{
    static char text[5000];
    response_store_init(&s, 4000);
    response_store_put(&s, STR("a"), STR("one"), STR("[]"));
    response_store_put(&s, STR("b"), (str){text, sizeof text}, STR(""));
    assert_false(response_store_get(&s, STR("b"), NULL, NULL));
    mem_fail_at(1);
    response_store_put(&s, STR("c"), STR("x"), STR(""));
    mem_fail_at(0);
    assert_false(response_store_get(&s, STR("c"), NULL, NULL));
    assert_true(is_there("a", "one", "[]"));
    response_store_fini(&s);
}
