#include "server/http_head_priv.h"

#include "base/mem.h"
#include "support/test.h"

/* A head as http_parse leaves it. */
static http_head make(const char *target, const char *const *pairs, int n_pairs)
{
    http_head h = {.target_len = (uint32_t)strlen(target)};
    buf_init(&h.text);
    buf_put_c(&h.text, target);
    h.fields = mem_new_array(HTTP_FIELDS_MAX, sizeof *h.fields);
    for (int i = 0; i < n_pairs; i++) {
        http_field *f = &h.fields[h.n_fields++];
        f->name_at = (uint32_t)h.text.len;
        f->name_len = (uint32_t)strlen(pairs[2 * i]);
        buf_put_c(&h.text, pairs[2 * i]);
        f->value_at = (uint32_t)h.text.len;
        f->value_len = (uint32_t)strlen(pairs[2 * i + 1]);
        buf_put_c(&h.text, pairs[2 * i + 1]);
    }
    return h;
}

static void expect_path(const char *target, const char *want)
{
    http_head h = make(target, NULL, 0);
    str path = http_head_path(&h);
    if (!str_is(path, want)) fail_msg("%s gives %.*s", target, STR_ARG(path));
    http_head_fini(&h);
}

TEST(the_path_ends_at_the_query)
{
    expect_path("/v1/messages?beta=true", "/v1/messages");
    expect_path("/a#b", "/a");
    expect_path("/?", "/");
    expect_path("*", "*");
    expect_path("http://h:1/a/b?c", "/a/b");
    expect_path("http://h", "/");
    expect_path("/a?u=http://h/x", "/a");
    expect_path("/go/http://h/x", "/go/http://h/x");
}

static void expect_query(const char *target, const char *want)
{
    http_head h = make(target, NULL, 0);
    str query = http_head_query(&h);
    if (!str_is(query, want)) fail_msg("%s gives %.*s", target, STR_ARG(query));
    http_head_fini(&h);
}

TEST(the_query_is_what_stands_behind_the_path)
{
    expect_query("/v1/messages?beta=true&a=?", "beta=true&a=?");
    expect_query("/a?b#c?d", "b");
    expect_query("/a#b?c", "");
    expect_query("/?", "");
    expect_query("/", "");
    expect_query("http://h:1/a/b?c", "c");
    expect_query("http://h?c", "");
    expect_query("/a?u=http://h/x", "u=http://h/x");
}

TEST(fields_are_found_by_lower_case_name_and_the_first_counts)
{
    const char *pairs[] = {"host", "a", "x", "1", "x", "2", "empty", ""};
    http_head h = make("/", pairs, 4);
    assert_true(str_is(http_head_get(&h, "x"), "1"));
    assert_int_equal(http_head_count(&h, "x"), 2);
    assert_int_equal(http_head_count(&h, "y"), 0);
    assert_null(http_head_get(&h, "y").ptr);
    assert_non_null(http_head_get(&h, "empty").ptr);
    assert_int_equal(http_head_get(&h, "empty").len, 0);
    http_head_fini(&h);
    http_head_fini(&h);
    assert_int_equal(h.n_fields, 0);
}

TEST(percent_escapes_are_decoded_or_refused)
{
    buf b;
    buf_init(&b);
    assert_true(http_decode_path(STR("a%2Fb%20c+d%c3%a9"), &b));
    assert_true(str_is(buf_str(&b), "a/b c+d\xc3\xa9"));
    static const char *const bad[] = {"%", "%4", "a%zz", "%-1", "x%4g"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t before = b.len;
        assert_false(http_decode_path(str_from(bad[i]), &b));
        assert_int_equal(b.len, before);
        assert_int_equal(b.ptr[before], 0);
    }
    buf_fini(&b);
}

TEST(methods_have_names)
{
    assert_string_equal(http_method_text(METHOD_POST), "POST");
    assert_string_equal(http_method_text(METHOD_OTHER), "OTHER");
}

TEST(a_head_that_found_no_memory_has_no_path)
{
    http_head h = {.target_len = 30};
    assert_int_equal(http_head_path(&h).len, 0);
    buf_put_c(&h.text, "/a");
    assert_true(str_is(http_head_path(&h), "/a"));
    http_head_fini(&h);
}
