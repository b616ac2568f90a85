#include "chat/jinja_value_priv.h"
#include "support/test.h"

static arena a;

static jvalue of_json(const char *text)
{
    err e = {0};
    const json *tree = NULL;
    jvalue v = {0};
    CHECK_OK(json_parse(&a, str_from(text), "value", 300, 0, &tree, &e), &e);
    assert_int_equal(jvalue_from_json(&a, tree, JVALUE_DEPTH, &v), ERR_OK);
    return v;
}

TEST(json_becomes_values_marked_as_input)
{
    jvalue v = of_json("{\"a\": [1, 1.0, \"x\", null, true], \"a2\": {}, \"a\": 2}");
    assert_true(v.kind == JVALUE_DICT && v.dict->is_input && v.dict->n == 2);
    /* A repeated key keeps its place and takes the last value. */
    assert_true(str_is(v.dict->keys[0].s->s, "a") && v.dict->values[0].i == 2);
    v = of_json("[12345678901234567890, 1E2, -0]");
    assert_true(v.list->items[0].kind == JVALUE_BIG);
    assert_true(v.list->items[1].kind == JVALUE_FLOAT && v.list->items[1].f == 100);
    assert_true(v.list->items[2].kind == JVALUE_INT && v.list->items[2].i == 0);
    arena_fini(&a);
}

TEST(nesting_that_is_too_deep_is_a_limit)
{
    char text[600];
    err e = {0};
    const json *tree = NULL;
    jvalue v;
    memset(text, '[', 250);
    memset(text + 250, ']', 250);
    CHECK_OK(json_parse(&a, (str){text, 500}, "value", 300, 0, &tree, &e), &e);
    CHECK_STATUS(jvalue_from_json(&a, tree, JVALUE_DEPTH, &v), ERR_LIMIT);
    arena_fini(&a);
}

TEST(equality_is_pythons)
{
    assert_true(jvalue_equal(jvalue_int(1), jvalue_bool(true)));
    assert_true(jvalue_equal(jvalue_int(1), jvalue_float(1)));
    assert_false(jvalue_equal(of_json("\"1\""), jvalue_int(1)));
    assert_true(jvalue_equal(of_json("{\"a\":1,\"b\":[2]}"), of_json("{\"b\":[2.0],\"a\":1}")));
    assert_false(jvalue_equal(of_json("[1]"), of_json("[1,2]")));
    assert_true(jvalue_equal(jvalue_undefined(NULL), jvalue_undefined(NULL)));
    assert_false(jvalue_equal(jvalue_none(), jvalue_undefined(NULL)));
    arena_fini(&a);
}

TEST(order_exists_within_a_type)
{
    int order;
    assert_true(jvalue_compare(of_json("[1,2]"), of_json("[1,3]"), &order) && order == -1);
    assert_true(jvalue_compare(of_json("\"b\""), of_json("\"a\""), &order) && order == 1);
    assert_false(jvalue_compare(of_json("\"1\""), jvalue_int(1), &order));
    assert_false(jvalue_compare(of_json("{}"), of_json("{}"), &order));
    assert_false(jvalue_compare(jvalue_none(), jvalue_none(), &order));
    arena_fini(&a);
}

TEST(equal_numbers_are_one_key)
{
    jdict *d = jdict_new(&a, 0);
    assert_true(jdict_set(&a, d, jvalue_int(1), jvalue_int(10)));
    assert_true(jdict_set(&a, d, jvalue_float(1), jvalue_int(11)));
    assert_true(jdict_set(&a, d, jvalue_bool(true), jvalue_int(12)));
    assert_int_equal(d->n, 1);
    assert_int_equal(jdict_get(d, jvalue_int(1))->i, 12);
    uint64_t hash;
    assert_false(jvalue_hash(of_json("[1]"), &hash));
    assert_false(jvalue_hash(of_json("{}"), &hash));
    arena_fini(&a);
}

TEST(long_dicts_find_every_key)
{
    jdict *d = jdict_new(&a, 0);
    for (int i = 0; i < 1000; i++) assert_true(jdict_set(&a, d, jvalue_int(i * 7), jvalue_int(i)));
    for (int i = 0; i < 1000; i++) assert_true(jdict_set(&a, d, jvalue_int(i * 7), jvalue_int(-i)));
    assert_int_equal(d->n, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(jdict_get(d, jvalue_float(i * 7))->i, -i);
    assert_null(jdict_get(d, jvalue_int(1)));
    arena_fini(&a);
}

TEST(shared_lists_do_not_make_comparing_endless)
{
    jvalue x = of_json("[0]"), y = of_json("[0]");
    for (int i = 0; i < 100; i++) {
        jlist *lx = jlist_new(&a, 2), *ly = jlist_new(&a, 2);
        lx->items[0] = lx->items[1] = x;
        ly->items[0] = ly->items[1] = y;
        x = jvalue_list(lx);
        y = jvalue_list(ly);
    }
    assert_false(jvalue_equal(x, y)); /* gives up */
    arena_fini(&a);
}
