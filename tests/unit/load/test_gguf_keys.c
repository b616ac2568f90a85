#include "fixture_gguf.h"
#include "load/gguf_keys_priv.h"

typedef struct {
    made_bytes b;
    gguf *g;
} opened;

static opened open_sample(void)
{
    static const int32_t list[] = {1, 0, 5};
    static const char *const texts[] = {"x"};
    made_gguf g = made_new();
    opened o = {0};
    err e = {0};
    made_u32(&g, "a.n", 7);
    made_f32(&g, "a.x", 0.5f);
    made_bool(&g, "a.flag", 1);
    made_str(&g, "a.text", "abc");
    made_ints(&g, "a.list", list, 3);
    made_strs(&g, "a.texts", texts, 1);
    made_f32(&g, "a.nan", NAN);
    o.b = made_end(&g);
    CHECK_OK(gguf_open_bytes(&o.g, o.b.ptr, (int64_t)o.b.len, "f", &e), &e);
    return o;
}

static void close_sample(opened o)
{
    gguf_close(o.g);
    free(o.b.ptr);
}

TEST(values_are_read_behind_their_prefix)
{
    opened o = open_sample();
    gguf_keys k;
    err e = {0};
    int n = 0, list[3];
    int64_t wide = 0;
    double x = 0;
    float f = 0;
    bool flag = false;
    str text;
    gguf_keys_init(&k, o.g, "a.", &e);
    assert_true(gguf_keys_int(&k, "n", 0, 7, &n) && n == 7);
    assert_true(gguf_keys_int64(&k, "n", 7, 9, &wide) && wide == 7);
    assert_true(gguf_keys_double(&k, "x", 0, 1, &x) && x == 0.5);
    assert_true(gguf_keys_float(&k, "n", 0, 10, &f) && f == 7);
    assert_true(gguf_keys_bool(&k, "flag", &flag) && flag);
    assert_true(gguf_keys_str(&k, "text", &text) && str_is(text, "abc"));
    assert_int_equal(gguf_keys_ints(&k, "list", 0, 5, 3, list), 3);
    assert_int_equal(list[2], 5);
    n = 3;
    assert_true(!gguf_keys_int(&k, "absent", 0, 1, &n) && n == 3 && k.s == ERR_OK);
    assert_int_equal(gguf_keys_ints(&k, "absent", 0, 1, 3, list), -1);
    close_sample(o);
}

TEST(the_first_failure_sticks_and_names_the_whole_key)
{
    static const char *const words[] = {"key 'a.n' is 7, must be 8 to 9",
                                        "key 'a.x' must be a whole number",
                                        "key 'a.flag' must be a whole number",
                                        "key 'a.nan' is",
                                        "key 'a.text' must be a number",
                                        "key 'a.n' must be true or false",
                                        "key 'a.n' must be a string",
                                        "key 'a.list' must be a list of at most 2 numbers",
                                        "key 'a.list' must be a list of numbers from 0 to 4",
                                        "key 'a.n' must be a list",
                                        "key 'a.texts' must be a list of numbers",
                                        "key 'a.list' must be a number",
                                        "key 'a.absent' is missing",
                                        "key 'a.texts' must be a string"};
    opened o = open_sample();
    for (int i = 0; i < 14; i++) {
        gguf_keys k;
        err e = {0};
        int n = 3, list[3];
        double x = 3;
        bool flag;
        str text;
        gguf_keys_init(&k, o.g, "a.", &e);
        switch (i) {
        case 0: gguf_keys_int(&k, "n", 8, 9, &n); break;
        case 1: gguf_keys_int(&k, "x", 0, 9, &n); break;
        case 2: gguf_keys_int(&k, "flag", 0, 9, &n); break;
        case 3: gguf_keys_double(&k, "nan", 0, 9, &x); break;
        case 4: gguf_keys_double(&k, "text", 0, 9, &x); break;
        case 5: gguf_keys_bool(&k, "n", &flag); break;
        case 6: gguf_keys_str(&k, "n", &text); break;
        case 7: gguf_keys_ints(&k, "list", 0, 9, 2, list); break;
        case 8: gguf_keys_ints(&k, "list", 0, 4, 3, list); break;
        case 9: gguf_keys_ints(&k, "n", 0, 4, 3, list); break;
        case 10: gguf_keys_ints(&k, "texts", 0, 4, 3, list); break;
        case 11: gguf_keys_double(&k, "list", 0, 9, &x); break;
        case 12: gguf_keys_need_int(&k, "absent", 0, 9, &n); break;
        default: gguf_keys_str(&k, "texts", &text); break;
        }
        CHECK_STATUS(k.s, ERR_FORMAT);
        if (!strstr(e.msg, words[i])) fail_msg("\"%s\", want \"%s\"", e.msg, words[i]);
        assert_true(n == 3 && x == 3);
        assert_false(gguf_keys_int(&k, "n", 0, 9, &n)); /* nothing is read any more */
        gguf_keys_fail(&k, ERR_INVALID, "n", "again");
        CHECK_STATUS(k.s, ERR_FORMAT);
        assert_null(gguf_keys_find(&k, "n"));
    }
    close_sample(o);
}
