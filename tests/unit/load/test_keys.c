#include "load/keys_priv.h"
#include "support/test.h"

static const char text[] =
    "{\"n\":5,\"f\":5.0,\"half\":0.5,\"big\":99999999999,\"s\":\"x\",\"t\":true,\"none\":null,"
    "\"list\":[1],\"object\":{}}";

typedef struct {
    arena mem;
    keys k;
    err e;
} fixture_keys;

static void begin(fixture_keys *f)
{
    const json *root;
    arena_init(&f->mem, 0);
    f->e = (err){0};
    CHECK_OK(json_parse(&f->mem, STR(text), "c", 8, 0, &root, &f->e), &f->e);
    keys_init(&f->k, root, "text_config.", "dir/config.json", &f->e);
}

TEST(values_of_the_right_kind_and_range_are_read)
{
    fixture_keys f;
    int n = 0;
    int64_t big = 0;
    double x = 0;
    float y = 0;
    bool b = false;
    str s;
    begin(&f);
    assert_true(keys_int(&f.k, "n", 0, 5, &n) && n == 5);
    assert_true(keys_int(&f.k, "f", 5, 9, &n) && n == 5);
    assert_true(keys_int64(&f.k, "big", 0, INT64_MAX, &big) && big == 99999999999);
    assert_true(keys_double(&f.k, "half", 0, 1, &x) && x == 0.5);
    assert_true(keys_float(&f.k, "n", 0, 9, &y) && y == 5);
    assert_true(keys_bool(&f.k, "t", &b) && b);
    assert_true(keys_str(&f.k, "s", &s) && str_is(s, "x"));
    assert_non_null(keys_container(&f.k, "list", JSON_ARRAY));
    assert_non_null(keys_container(&f.k, "object", JSON_OBJECT));
    assert_int_equal(f.k.s, ERR_OK);
    arena_fini(&f.mem);
}

TEST(absent_and_null_leave_the_default_without_a_failure)
{
    fixture_keys f;
    int n = 42;
    begin(&f);
    assert_false(keys_int(&f.k, "missing", 0, 1, &n));
    assert_false(keys_int(&f.k, "none", 0, 1, &n));
    assert_null(keys_container(&f.k, "none", JSON_OBJECT));
    assert_int_equal(n, 42);
    assert_int_equal(f.k.s, ERR_OK);
    keys_need_int(&f.k, "none", 0, 1, &n);
    assert_string_equal(f.e.msg, "text_config.none is missing");
    assert_string_equal(f.e.where, "dir/config.json");
    arena_fini(&f.mem);
    keys_init(&f.k, NULL, "", "f", &f.e);
    assert_false(keys_int(&f.k, "n", 0, 1, &n));
    assert_int_equal(f.k.s, ERR_OK);
}

TEST(the_first_failure_sticks_and_names_the_key)
{
    fixture_keys f;
    int n = 42;
    double x = 1;
    bool b;
    str s;
    begin(&f);
    assert_false(keys_int(&f.k, "n", 6, 9, &n));
    assert_string_equal(f.e.msg, "text_config.n is 5, must be 6 to 9");
    assert_int_equal(f.e.pos, 5);
    assert_false(keys_int(&f.k, "f", 0, 9, &n));
    assert_int_equal(n, 42);
    CHECK_STATUS(f.k.s, ERR_FORMAT);
    keys_fail(&f.k, ERR_UNSUPPORTED, "s", "too");
    CHECK_STATUS(f.k.s, ERR_FORMAT);
    arena_fini(&f.mem);

#define FAILS(call, words)               \
    begin(&f);                           \
    assert_false(call);                  \
    assert_string_equal(f.e.msg, words); \
    CHECK_STATUS(f.k.s, ERR_FORMAT);     \
    arena_fini(&f.mem)
    FAILS(keys_int(&f.k, "half", 0, 9, &n), "text_config.half must be a whole number");
    FAILS(keys_int(&f.k, "s", 0, 9, &n), "text_config.s must be a whole number");
    FAILS(keys_double(&f.k, "t", 0, 9, &x), "text_config.t must be a number");
    FAILS(keys_double(&f.k, "n", 0, 1, &x), "text_config.n is 5, must be 0 to 1");
    FAILS(keys_bool(&f.k, "n", &b), "text_config.n must be true or false");
    FAILS(keys_str(&f.k, "n", &s), "text_config.n must be a string");
    FAILS(keys_container(&f.k, "n", JSON_ARRAY), "text_config.n must be a list");
    FAILS(keys_container(&f.k, "list", JSON_OBJECT), "text_config.list must be an object");
}
