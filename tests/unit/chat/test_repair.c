#include "chat/repair_priv.h"
#include "support/test.h"

static const char *repaired(const char *text)
{
    static char out[400];
    arena a;
    err e = {0};
    const json *v = NULL;
    buf b;
    buf_init(&b);
    arena_init(&a, 0);
    status s = repair_parse(&a, str_from(text), "here", 16, &v, &e);
    if (s == ERR_OK)
        json_put_value(&b, v, JSON_COMPACT);
    else
        buf_printf(&b, "%s %s", status_name(s), e.where);
    snprintf(out, sizeof out, "%s", b.ptr);
    buf_fini(&b);
    arena_fini(&a);
    return out;
}

TEST(whole_json_is_read_as_it_is)
{
    assert_string_equal(repaired("{\"a\":[1,{}]}"), "{\"a\":[1,{}]}");
    assert_string_equal(repaired("5"), "5");
}

TEST(a_cut_text_keeps_what_is_certain)
{
    assert_string_equal(repaired("{"), "{}");
    assert_string_equal(repaired("{\"a"), "{}");
    assert_string_equal(repaired("{\"a\""), "{}");
    assert_string_equal(repaired("{\"a\":"), "{}");
    assert_string_equal(repaired("{\"a\":1"), "{}");
    assert_string_equal(repaired("{\"a\":1,"), "{\"a\":1}");
    assert_string_equal(repaired("{\"a\":tru"), "{}");
    assert_string_equal(repaired("{\"a\":true "), "{\"a\":true}");
    assert_string_equal(repaired("{\"a\":\"x"), "{\"a\":\"x\"}");
    assert_string_equal(repaired("{\"a\":\"x\\"), "{\"a\":\"x\"}");
    assert_string_equal(repaired("{\"a\":\"x\\u00e"), "{\"a\":\"x\"}");
    assert_string_equal(repaired("{\"a\":\"x\\n"), "{\"a\":\"x\\n\"}");
    assert_string_equal(repaired("{\"a\":\"x\xc3"), "{\"a\":\"x\"}");
    assert_string_equal(repaired("{\"a\":[1,[2,{\"b\":\"c\","), "{\"a\":[1,[2,{\"b\":\"c\"}]]}");
    assert_string_equal(repaired("{\"a\":[],\"b\":{\"c"), "{\"a\":[],\"b\":{}}");
}

TEST(text_that_is_no_beginning_is_refused)
{
    assert_string_equal(repaired(""), "FORMAT here");
    assert_string_equal(repaired("{\"a\" 1"), "FORMAT here");
    assert_string_equal(repaired("{\"a\":1}}"), "FORMAT here");
    assert_string_equal(repaired("{a"), "FORMAT here");
    assert_string_equal(repaired("{\"a\":\"x\ny"), "FORMAT here");
    assert_string_equal(repaired("\"abc"), "FORMAT here");
    assert_string_equal(repaired("[[[[[[[[[[[[[[[[[["), "LIMIT here");
}

TEST(every_prefix_of_an_object_gives_an_object)
{
    const char *text =
        "{\"a\": [1, -2.5e3, null, true], \"b\\n\": \"q\\\"\\u00e9\xc3\xa9\", \"c\": {}}";
    for (size_t n = 1; n <= strlen(text); n++) {
        char cut[100];
        snprintf(cut, sizeof cut, "%.*s", (int)n, text);
        if (repaired(cut)[0] != '{') fail_msg("%s: %s", cut, repaired(cut));
    }
}
