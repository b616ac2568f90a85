#include "server/fields_priv.h"

#include "support/test.h"

static arena mem;

static const json *parse(const char *text)
{
    const json *root;
    err e = {0};
    arena_fini(&mem);
    arena_init(&mem, 0);
    CHECK_OK(json_parse(&mem, str_from(text), "test", 8, 0, &root, &e), &e);
    return root;
}

TEST(absent_and_null_leave_the_default)
{
    static const char *const texts[] = {"{}", "{\"a\":null}", "{\"a\":1,\"a\":null}"};
    for (int i = 0; i < 3; i++) {
        const json *o = parse(texts[i]);
        bool b = true;
        int64_t n = 7;
        double d = 7;
        str s = STR("seven");
        const json *v = o;
        assert_null(field_find(o, "a"));
        CHECK_STATUS(field_bool(o, "a", &b, NULL), ERR_OK);
        CHECK_STATUS(field_int(o, "a", 0, 1, &n, NULL), ERR_OK);
        CHECK_STATUS(field_double(o, "a", &d, NULL), ERR_OK);
        CHECK_STATUS(field_str(o, "a", &s, NULL), ERR_OK);
        CHECK_STATUS(field_array(o, "a", &v, NULL), ERR_OK);
        CHECK_STATUS(field_object(o, "a", &v, NULL), ERR_OK);
        assert_true(b && n == 7 && d == 7 && str_is(s, "seven") && v == o);
    }
    arena_fini(&mem);
}

TEST(values_are_read)
{
    const json *o = parse(
        "{\"b\":false,\"n\":5.0,\"d\":-2.5e1,\"s\":\"x\\u0000y\",\"l\":[1],\"o\":{}}");
    bool b = true;
    int64_t n = 0;
    double d = 0;
    str s = {0};
    const json *l = NULL, *in = NULL;
    CHECK_STATUS(field_bool(o, "b", &b, NULL), ERR_OK);
    CHECK_STATUS(field_int(o, "n", 0, 5, &n, NULL), ERR_OK);
    CHECK_STATUS(field_double(o, "d", &d, NULL), ERR_OK);
    CHECK_STATUS(field_str(o, "s", &s, NULL), ERR_OK);
    CHECK_STATUS(field_array(o, "l", &l, NULL), ERR_OK);
    CHECK_STATUS(field_object(o, "o", &in, NULL), ERR_OK);
    assert_false(b);
    assert_int_equal(n, 5);
    assert_true(d == -25);
    assert_int_equal(s.len, 3);
    assert_int_equal(l->n, 1);
    assert_int_equal(in->kind, JSON_OBJECT);
    arena_fini(&mem);
}

TEST(a_wrong_value_names_the_field_and_leaves_the_output)
{
    const json *o = parse(
        "{\"x\":{},\"n\":5.5,\"big\":1e999,\"six\":6,\"huge\":99999999999999999999}");
    err e = {0};
    bool b = true;
    int64_t n = 7;
    double d = 7;
    str s = STR("seven");
    const json *l = NULL;
    CHECK_STATUS(field_bool(o, "x", &b, &e), ERR_INVALID);
    assert_string_equal(e.where, "x");
    assert_string_equal(e.msg, "is an object, want true or false");
    CHECK_STATUS(field_int(o, "x", 0, 9, &n, &e), ERR_INVALID);
    CHECK_STATUS(field_int(o, "n", 0, 9, &n, &e), ERR_INVALID);
    assert_string_equal(e.msg, "5.5 is no integer");
    CHECK_STATUS(field_int(o, "huge", 0, INT64_MAX, &n, &e), ERR_INVALID);
    CHECK_STATUS(field_int(o, "six", 0, 5, &n, &e), ERR_INVALID);
    assert_string_equal(e.msg, "6 is outside [0, 5]");
    CHECK_STATUS(field_int(o, "six", 7, 9, &n, &e), ERR_INVALID);
    CHECK_STATUS(field_double(o, "x", &d, &e), ERR_INVALID);
    CHECK_STATUS(field_double(o, "big", &d, &e), ERR_INVALID);
    CHECK_STATUS(field_str(o, "x", &s, &e), ERR_INVALID);
    CHECK_STATUS(field_array(o, "x", &l, &e), ERR_INVALID);
    CHECK_STATUS(field_object(o, "n", &l, &e), ERR_INVALID);
    assert_string_equal(e.where, "n");
    assert_true(b && n == 7 && d == 7 && str_is(s, "seven") && !l);
    arena_fini(&mem);
}

TEST(metadata_is_an_object_of_strings)
{
    static const char *const good[] = {"{}", "{\"metadata\":null}", "{\"metadata\":{}}",
                                       "{\"metadata\":{\"a\":\"b\",\"c\":\"\"}}"};
    static const char *const bad[][2] = {
        {"{\"metadata\":[]}", "is an array, want an object"},
        {"{\"metadata\":\"x\"}", "is a string, want an object"},
        {"{\"metadata\":{\"a\":\"b\",\"n\":1}}", "\"n\" is a number, want a string"},
        {"{\"metadata\":{\"o\":{}}}", "\"o\" is an object, want a string"}};
    err e = {0};
    for (int i = 0; i < 4; i++) {
        CHECK_OK(field_check_metadata(parse(good[i]), &e), &e);
        arena_fini(&mem);
        CHECK_STATUS(field_check_metadata(parse(bad[i][0]), &e), ERR_INVALID);
        assert_string_equal(e.where, "metadata");
        assert_string_equal(e.msg, bad[i][1]);
        arena_fini(&mem);
        e = (err){0};
    }
}
