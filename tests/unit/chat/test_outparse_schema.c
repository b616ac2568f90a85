#include "chat/outparse_priv.h"
#include "support/test.h"

static arena a;

static const json *schema(const char *text)
{
    err e = {0};
    const json *v = NULL;
    CHECK_OK(json_parse(&a, str_from(text), "schema", 64, 0, &v, &e), &e);
    return v;
}

static unsigned types(const char *text)
{
    const json *v = schema(text);
    unsigned t = schema_types(v, v);
    arena_fini(&a);
    return t;
}

static const char *value(const char *schema_text, const char *text)
{
    static char out[300];
    const json *v = schema(schema_text);
    buf b;
    buf_init(&b);
    assert_int_equal(schema_put_value(&b, v, v, str_from(text)), ERR_OK);
    snprintf(out, sizeof out, "%s", b.ptr);
    buf_fini(&b);
    arena_fini(&a);
    return out;
}

TEST(types_are_found_through_composition)
{
    assert_int_equal(types("{\"type\":\"string\"}"), SCHEMA_STRING);
    assert_int_equal(types("{\"type\":[\"integer\",\"null\"]}"), SCHEMA_INTEGER | SCHEMA_NULL);
    assert_int_equal(types("{\"type\":\"number\"}"), SCHEMA_NUMBER | SCHEMA_INTEGER);
    assert_int_equal(types("{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\"}]}"),
                     SCHEMA_STRING | SCHEMA_ARRAY);
    assert_int_equal(types("{\"allOf\":[{\"type\":[\"string\",\"null\"]},{\"type\":\"string\"}]}"),
                     SCHEMA_STRING);
    assert_int_equal(
        types("{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{\"oneOf\":[{\"type\":\"boolean\"}]}}}"),
        SCHEMA_BOOLEAN);
    assert_int_equal(types("{\"enum\":[\"a\",null]}"), SCHEMA_STRING | SCHEMA_NULL);
    assert_int_equal(types("{\"const\":5}"), SCHEMA_NUMBER | SCHEMA_INTEGER);
    assert_int_equal(types("{\"properties\":{}}"), SCHEMA_OBJECT);
    assert_int_equal(types("{}"), SCHEMA_ANY);
    assert_int_equal(types("true"), SCHEMA_ANY);
    assert_int_equal(types("{\"type\":\"strange\"}"), SCHEMA_ANY);
}

TEST(circles_and_lost_references_end)
{
    assert_int_equal(types("{\"$ref\":\"#\"}"), SCHEMA_ANY);
    assert_int_equal(types("{\"$ref\":\"#/a\",\"a\":{\"$ref\":\"#/b\"},\"b\":{\"$ref\":\"#/a\"}}"),
                     SCHEMA_ANY);
    assert_int_equal(types("{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}"), SCHEMA_ANY);
    assert_int_equal(types("{\"$ref\":\"http://example.com/x\"}"), SCHEMA_ANY);
    assert_int_equal(types("{\"$ref\":\"#/a~1b\",\"a/b\":{\"type\":\"null\"}}"), SCHEMA_NULL);
}

TEST(values_are_read_as_declared_or_kept_as_strings)
{
    assert_string_equal(value("{\"type\":\"integer\"}", " 30 "), "30");
    assert_string_equal(value("{\"type\":\"integer\"}", "1.5"), "\"1.5\"");
    assert_string_equal(value("{\"type\":\"integer\"}", "123456789012345678901234567890"),
                        "123456789012345678901234567890");
    assert_string_equal(value("{\"type\":\"number\"}", "1e5"), "1e5");
    assert_string_equal(value("{\"type\":\"boolean\"}", "yes"), "\"yes\"");
    assert_string_equal(value("{\"type\":[\"boolean\",\"string\"]}", "true"), "true");
    assert_string_equal(value("{\"type\":[\"boolean\",\"string\"]}", "truely"), "\"truely\"");
    assert_string_equal(value("{}", "{\"a\":1}"), "\"{\\\"a\\\":1}\"");
    assert_string_equal(value("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
                              "\"b\":{\"type\":\"string\"},\"c\":{\"type\":\"array\",\"items\":"
                              "{\"type\":\"boolean\"}}}}",
                              "{\"a\":\"5\",\"b\":7,\"c\":[\"true\",false,\"x\"],\"d\":\"8\"}"),
                        "{\"a\":5,\"b\":\"7\",\"c\":[true,false,\"x\"],\"d\":\"8\"}");
    assert_string_equal(
        value("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"number\"}}",
              "{\"x\":\"1.5\"}"),
        "{\"x\":1.5}");
    assert_string_equal(value("{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],"
                              "\"items\":{\"type\":\"string\"}}",
                              "[\"1\",\"1\"]"),
                        "[1,\"1\"]");
}

TEST(a_beginning_tells_whether_a_union_may_be_json)
{
    unsigned nullable = SCHEMA_STRING | SCHEMA_NULL;
    assert_true(schema_may_be_json(nullable, STR("")));
    assert_true(schema_may_be_json(nullable, STR("nul")));
    assert_false(schema_may_be_json(nullable, STR("nulx")));
    assert_false(schema_may_be_json(nullable, STR("5")));
    assert_true(schema_may_be_json(SCHEMA_STRING | SCHEMA_NUMBER, STR(" -1.5e")));
    assert_false(schema_may_be_json(SCHEMA_STRING | SCHEMA_NUMBER, STR("1 a")));
    assert_true(schema_may_be_json(SCHEMA_STRING | SCHEMA_OBJECT, STR("{anything")));
}

TEST(json_is_unfinished_while_brackets_or_quotes_are_open)
{
    assert_true(schema_is_unfinished(STR("{\"a\": \"}")));
    assert_true(schema_is_unfinished(STR("[1, [2]")));
    assert_true(schema_is_unfinished(STR("{\"a\\\"")));
    assert_false(schema_is_unfinished(STR("{\"a\": \"}\"}")));
    assert_false(schema_is_unfinished(STR("text {")));
}
