#include <float.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "support/test.h"

static arena a;
static buf b;

static const char *rewritten(const char *text, json_style style)
{
    err e;
    const json *v = NULL;
    arena_fini(&a);
    buf_clear(&b);
    CHECK_OK(json_parse(&a, str_from(text), "test", 2000, 0, &v, &e), &e);
    json_put_value(&b, v, style);
    assert_false(b.failed);
    return b.ptr;
}

TEST(values_go_back_compact_or_as_python_writes_them)
{
    const char *text = " { \"b\" : [ 1 , 2.50 , [ ] , { } , [ { \"x\" : null } ] ] ,"
                       "\"a\":\"\\u00e4\\/\",\"a\":{\"t\":true,\"f\":false}, \"\": -0.0e+1 } ";
    assert_string_equal(rewritten(text, JSON_COMPACT),
                        "{\"b\":[1,2.50,[],{},[{\"x\":null}]],\"a\":\"\xc3\xa4/\","
                        "\"a\":{\"t\":true,\"f\":false},\"\":-0.0e+1}");
    assert_string_equal(rewritten(text, JSON_PYTHON),
                        "{\"b\": [1, 2.50, [], {}, [{\"x\": null}]], \"a\": \"\xc3\xa4/\", "
                        "\"a\": {\"t\": true, \"f\": false}, \"\": -0.0e+1}");
}

TEST(scalars_and_empty_containers_go_back)
{
    const char *texts[] = {"1", "\"x\"", "true", "null", "[]", "{}", "[[]]", "[{}]", "{\"a\":{}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_string_equal(rewritten(texts[i], JSON_COMPACT), texts[i]);
}

TEST(a_member_is_written_without_its_siblings)
{
    err e;
    const json *v;
    arena_fini(&a);
    buf_clear(&b);
    CHECK_OK(json_parse(&a, STR("{\"a\":[1,2],\"b\":3}"), "test", 9, 0, &v, &e), &e);
    json_put_value(&b, json_get(v, "a"), JSON_COMPACT);
    assert_string_equal(b.ptr, "[1,2]");
    buf_clear(&b);
    json_put_value(&b, json_at(json_get(v, "a"), 0), JSON_COMPACT);
    assert_string_equal(b.ptr, "1");
}

TEST(deep_values_go_back_and_fail_cleanly_without_memory)
{
    char text[2001];
    memset(text, '[', 1000);
    memset(text + 1000, ']', 1000);
    text[2000] = '\0';
    assert_string_equal(rewritten(text, JSON_COMPACT), text);
    err e;
    const json *v;
    arena_fini(&a);
    CHECK_OK(json_parse(&a, str_from(text), "test", 1000, 0, &v, &e), &e);
    int64_t live = mem_count().n_live;
    buf_clear(&b);
    mem_fail_at(1); /* b has its memory already: this is the path of open containers */
    json_put_value(&b, v, JSON_COMPACT);
    mem_fail_at(0);
    assert_true(b.failed);
    assert_int_equal(mem_count().n_live, live);
}

TEST(strings_are_escaped_as_python_does)
{
    buf_clear(&b);
    json_put_string(&b, STR("\"\\/\b\f\n\r\t\x01\x1f\x7f\0\xc3\xa4\xe2\x80\xa8\xf0\x9f\x98\x80"));
    assert_string_equal(b.ptr, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\\u0000"
                               "\xc3\xa4\xe2\x80\xa8\xf0\x9f\x98\x80\"");
}

TEST(ill_formed_text_becomes_replacement_characters)
{
    buf_clear(&b);
    json_put_escaped(&b, STR("a\377b\303c\355\240\200d\342\202"));
    assert_string_equal(b.ptr, "a\357\277\275b\357\277\275c\357\277\275\357\277\275\357\277\275d"
                               "\357\277\275\357\277\275");
}

TEST(random_bytes_read_back_as_themselves_or_repaired)
{
    uint64_t rng = test_seed();
    for (int i = 0; i < 3000; i++) {
        char text[50];
        size_t n = (size_t)(test_random(&rng) % sizeof text);
        for (size_t k = 0; k < n; k++) text[k] = (char)(test_random(&rng) % (i % 2 ? 256 : 128));
        buf_clear(&b);
        json_put_string(&b, (str){text, n});
        assert_int_equal(utf8_check(buf_str(&b)), -1);
        err e;
        const json *v;
        arena_fini(&a);
        CHECK_OK(json_parse(&a, buf_str(&b), "test", 1, 0, &v, &e), &e);
        if (utf8_check((str){text, n}) < 0) assert_true(str_equal(v->text, (str){text, n}));
    }
}

TEST(the_writer_places_commas)
{
    json_writer w;
    err e;
    const json *v;
    arena_fini(&a);
    CHECK_OK(json_parse(&a, STR("[1, {\"x\":2}]"), "test", 9, 0, &v, &e), &e);
    buf_clear(&b);
    json_writer_init(&w, &b);
    json_open_object(&w);
    json_key(&w, "a");
    json_open_array(&w);
    json_int(&w, -5);
    json_uint(&w, UINT64_MAX);
    json_int(&w, INT64_MIN);
    json_int(&w, 0);
    json_null(&w);
    json_open_object(&w);
    json_close_object(&w);
    json_open_array(&w);
    json_close_array(&w);
    json_close_array(&w);
    json_key_str(&w, STR("b\""));
    json_c_string(&w, "x");
    json_key(&w, "c");
    json_value(&w, v);
    json_key(&w, "d");
    json_raw(&w, STR("{ }"));
    json_key(&w, "e");
    json_bool(&w, true);
    json_key(&w, "f");
    json_string(&w, STR("y"));
    json_key(&w, "g");
    json_bool(&w, false);
    json_close_object(&w);
    assert_string_equal(
        b.ptr, "{\"a\":[-5,18446744073709551615,-9223372036854775808,0,null,{},[]],\"b\\\"\":\"x\","
               "\"c\":[1,{\"x\":2}],\"d\":{ },\"e\":true,\"f\":\"y\",\"g\":false}");
}

static const char *written(double v)
{
    json_writer w;
    buf_clear(&b);
    json_writer_init(&w, &b);
    json_double(&w, v);
    return b.ptr;
}

TEST(doubles_are_short)
{
    struct {
        double v;
        const char *want;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {100, "100"},
        {123456.75, "123456.75"},
        {1e16, "10000000000000000"},
        {1e17, "1e17"},
        {1.5e300, "1.5e300"},
        {0.00001, "0.00001"},
        {0.000001, "1e-6"},
        {1.25e-7, "1.25e-7"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e308"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {-2.3025850929940455, "-2.3025850929940455"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
        {NAN, "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(written(cases[i].v), cases[i].want);
}

TEST(doubles_read_back_equal)
{
    uint64_t rng = test_seed();
    for (int i = 0; i < 30000; i++) {
        uint64_t bits = test_random(&rng);
        if (i % 3 == 0) bits = (bits & ~(0x7ffull << 52)) | (uint64_t)(1000 + i % 47) << 52;
        if (i % 50 == 0) bits &= ~(0x7ffull << 52); /* subnormal */
        double v, back;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v)) continue;
        err e;
        const json *tree;
        arena_fini(&a);
        written(v);
        CHECK_OK(json_parse(&a, buf_str(&b), "test", 1, 0, &tree, &e), &e);
        assert_true(json_to_double(tree, &back));
        assert_memory_equal(&back, &v, sizeof v);
    }
}

TEST(zz_memory_goes_back)
{
    arena_fini(&a);
    buf_fini(&b);
    assert_int_equal(mem_count().n_live, 0);
}
