#include "base/mem.h"
#include "chat/tree_priv.h"
#include "support/test.h"

TEST(members_are_copied_and_children_shared)
{
    arena a;
    err e = {0};
    const json *v = NULL;
    buf b;
    arena_init(&a, 0);
    buf_init(&b);
    CHECK_OK(json_parse(&a, STR("{\"x\":[1.0,2],\"y\":3}"), "test", 8, 0, &v, &e), &e);
    tree t = tree_new(&a, JSON_OBJECT);
    tree_push(&t, STR("k"), json_get(v, "x"));
    tree_push_text(&t, STR("t"), tree_join(&a, STR("a"), "-", STR("b")));
    tree_push_bool(&t, STR("b"), true);
    tree_push_null(&t, STR("n"));
    json_put_value(&b, t.root, JSON_COMPACT);
    assert_string_equal(b.ptr, "{\"k\":[1.0,2],\"t\":\"a-b\",\"b\":true,\"n\":null}");
    assert_int_equal(t.root->n, 4);
    assert_ptr_equal(json_get(t.root, "k")->first, json_get(v, "x")->first);
    buf_fini(&b);
    arena_fini(&a);
}

TEST(a_tree_without_memory_is_null_at_the_end)
{
    arena a;
    arena_init(&a, 64);
    tree t = tree_new(&a, JSON_ARRAY);
    for (int i = 0; i < 100; i++) tree_push_null(&t, (str){"", 0});
    assert_null(t.root);
    static const char filler[100] = "";
    assert_null(tree_join(&a, (str){filler, 100}, "", STR("b")).ptr);
    arena_fini(&a);
}
