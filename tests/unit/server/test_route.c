#include "server/route_priv.h"

#include "support/test.h"

static route_match find(http_method m, const char *path, const route **r)
{
    *r = NULL;
    return route_find(m, str_from(path), r);
}

TEST(routes_are_found_by_method_and_path)
{
    const route *r;
    assert_int_equal(find(METHOD_POST, "/v1/chat/completions", &r), ROUTE_FOUND);
    assert_true(r->has_body && !r->is_public);
    assert_int_equal(find(METHOD_GET, "/v1/models", &r), ROUTE_FOUND);
    assert_true(!r->has_body && !r->is_public);
    const route *list = r;
    assert_int_equal(find(METHOD_POST, "/v1/messages", &r), ROUTE_FOUND);
    assert_int_equal(find(METHOD_POST, "/v1/messages/count_tokens", &r), ROUTE_FOUND);
    assert_int_equal(find(METHOD_GET, "/v1/models/owner/name", &r), ROUTE_FOUND);
    assert_ptr_not_equal(r, list);
    assert_true(str_is(route_rest(r, STR("/v1/models/owner/name")), "owner/name"));
    assert_int_equal(find(METHOD_HEAD, "/", &r), ROUTE_FOUND);
    assert_int_equal(find(METHOD_GET, "/health", &r), ROUTE_FOUND);
    assert_true(r->is_public);
    assert_int_equal(find(METHOD_GET, "/ready", &r), ROUTE_FOUND);
    assert_true(r->is_public);
}

TEST(what_is_not_there_is_told_from_a_wrong_method)
{
    const route *r;
    assert_int_equal(find(METHOD_GET, "/v1/chat/completions", &r), ROUTE_NO_METHOD);
    assert_int_equal(find(METHOD_HEAD, "/v1/chat/completions", &r), ROUTE_NO_METHOD);
    assert_int_equal(find(METHOD_DELETE, "/v1/models", &r), ROUTE_NO_METHOD);
    assert_int_equal(find(METHOD_OTHER, "/health", &r), ROUTE_NO_METHOD);
    static const char *const none[] = {"",         "*",        "/v1",        "/v1/", "/v1/models/",
                                       "/health/", "/healthz", "/V1/models", "//"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (find(METHOD_GET, none[i], &r) != ROUTE_NO_PATH) fail_msg("%s", none[i]);
    assert_null(r);
}

TEST(the_methods_of_a_path_are_listed)
{
    buf b;
    buf_init(&b);
    route_put_methods(STR("/v1/models"), &b);
    assert_string_equal(buf_str(&b).ptr, "GET, HEAD, OPTIONS");
    buf_clear(&b);
    route_put_methods(STR("/v1/chat/completions"), &b);
    assert_string_equal(buf_str(&b).ptr, "POST, OPTIONS");
    buf_clear(&b);
    route_put_methods(STR("*"), &b);
    assert_string_equal(buf_str(&b).ptr, "OPTIONS");
    buf_fini(&b);
}
