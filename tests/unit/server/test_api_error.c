#include "server/api_error_priv.h"

#include "base/json.h"
#include "base/utf8.h"
#include "support/test.h"

static api_error from(status code, const char *where, const char *msg)
{
    err e = {0};
    api_error a;
    err_set(&e, code, where, -1, "%s", msg);
    api_error_from(&a, &e);
    return a;
}

static void expect(api_error a, int http, const char *code, const char *param)
{
    assert_int_equal(a.http, http);
    assert_string_equal(a.code, code);
    assert_string_equal(a.param, param);
}

TEST(a_status_becomes_an_http_status_and_a_code)
{
    expect(from(ERR_INVALID, "top_p", "no"), 400, "invalid_request_error", "top_p");
    expect(from(ERR_FORMAT, "", "JSON"), 400, "invalid_request_error", "");
    expect(from(ERR_UNSUPPORTED, "audio", "no"), 400, "invalid_request_error", "audio");
    expect(from(ERR_LIMIT, "context_length_exceeded", "9 of 8"), 400, "context_length_exceeded",
           "messages");
    expect(from(ERR_LIMIT, "queue", "7"), 503, "frontend_overloaded", "");
    expect(from(ERR_LIMIT, "tools", "too deep"), 400, "invalid_request_error", "tools");
    expect(from(ERR_NOMEM, "x", "y"), 503, "runtime_unavailable", "");
    expect(from(ERR_CANCELED, "x", "y"), 503, "server_shutdown", "");
    expect(from(ERR_DEVICE, "attention", "fault"), 503, "runtime_unavailable", "");
    expect(from(ERR_DEVICE, "numbers", "none"), 500, "engine_failed", "");
    expect(from(ERR_IO, "file", "gone"), 500, "internal_server_error", "");
    assert_int_equal(from(ERR_OK, "", "").http, 0);
}

TEST(the_message_names_the_field_and_the_byte)
{
    err e = {0};
    api_error a;
    err_set(&e, ERR_FORMAT, "stop", 17, "holds a number");
    api_error_from(&a, &e);
    assert_string_equal(a.message, "stop: holds a number (byte 17)");
    assert_string_equal(from(ERR_INVALID, "", "plain").message, "plain");
}

static void expect_text(const api_error *a, const char *want)
{
    buf b;
    buf_init(&b);
    api_error_put_openai(&b, a);
    assert_string_equal(buf_str(&b).ptr, want);
    buf_fini(&b);
}

TEST(the_openai_shape_has_four_members)
{
    api_error a;
    api_error_set(&a, 400, "invalid_request_error", "n", "%d is too many", 99);
    expect_text(&a, "{\"error\":{\"message\":\"99 is too many\",\"type\":\"invalid_request_error\","
                    "\"param\":\"n\","
                    "\"code\":\"invalid_request_error\"}}");
    api_error_set(&a, 503, "frontend_overloaded", NULL, "busy");
    expect_text(&a, "{\"error\":{\"message\":\"busy\",\"type\":\"server_error\",\"param\":null,"
                    "\"code\":\"frontend_overloaded\"}}");
}

TEST(the_anthropic_shape_has_a_type_for_each_status)
{
    static const struct {
        int http;
        const char *type;
    } types[] = {
        {400, "invalid_request_error"}, {401, "authentication_error"},  {403, "permission_error"},
        {404, "not_found_error"},       {405, "invalid_request_error"}, {408, "timeout_error"},
        {413, "request_too_large"},     {429, "rate_limit_error"},      {500, "api_error"},
        {503, "overloaded_error"},      {504, "timeout_error"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        api_error a;
        buf b;
        char want[160];
        buf_init(&b);
        api_error_set(&a, types[i].http, "code", "param", "a \"b\"");
        api_error_put_anthropic(&b, &a);
        snprintf(want, sizeof want,
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"a \\\"b\\\"\"}}",
                 types[i].type);
        assert_string_equal(buf_str(&b).ptr, want);
        buf_fini(&b);
    }
}

TEST(what_a_client_sent_is_echoed_as_valid_json)
{
    api_error a;
    buf b;
    arena m;
    const json *root;
    err e = {0};
    buf_init(&b);
    arena_init(&m, 0);
    api_error_set(&a, 404, "model_not_found", "a\xff\"", "no \xc3 \xed\xa0\x80 \"\n\x01");
    api_error_put_openai(&b, &a);
    assert_int_equal(utf8_check(buf_str(&b)), -1);
    CHECK_OK(json_parse(&m, buf_str(&b), "error", 8, 0, &root, &e), &e);
    arena_fini(&m);
    buf_fini(&b);
}
