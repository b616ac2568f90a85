#include "server/item_reference_priv.h"

#include "base/mem.h"
#include "support/test.h"

static response_store s;
static arena mem;

static void begin(void)
{
    err e = {0};
    CHECK_OK(response_store_open(&s, NULL, 1 << 20, &e), &e);
    arena_init(&mem, 0);
    response_store_put(&s, STR("resp_a1"), STR("{}"),
                       STR("[{\"type\":\"message\",\"content\":\"one\"},"
                           "{\"id\":\"rs_a1_0\",\"type\":\"reasoning\"},"
                           "{\"id\":\"fc_a1_1\",\"type\":\"function_call\",\"call_id\":\"c\"}]"));
}

static void end(void)
{
    arena_fini(&mem);
    response_store_close(&s);
}

static status resolve(const char *text, const json **out, err *e)
{
    const json *body;
    char *copy = arena_copy(&mem, text, strlen(text));
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    err parsing = {0};
    CHECK_OK(json_parse(&mem, str_from(copy), "body", 16, 0, &body, &parsing), &parsing);
    return item_reference_resolve(&s, body, &mem, out, e);
}

static void expect(const char *text, const char *want)
{
    const json *out;
    err e = {0};
    buf b;
    begin();
    CHECK_OK(resolve(text, &out, &e), &e);
    buf_init(&b);
    json_put_value(&b, out, JSON_COMPACT);
    for (size_t i = 0; i < b.len; i++)
        if (b.ptr[i] == '"') b.ptr[i] = '\'';
    assert_string_equal(buf_str(&b).ptr, want);
    buf_fini(&b);
    end();
}

TEST(named_items_stand_in_their_places)
{
    expect("{'a':1,'input':[{'role':'user'},{'type':'item_reference','id':'rs_a1_0'},"
           "{'id':'fc_a1_1','type':'item_reference'},{'type':'function_call_output'}],'b':[2]}",
           "{'a':1,'input':[{'role':'user'},{'id':'rs_a1_0','type':'reasoning'},"
           "{'id':'fc_a1_1','type':'function_call','call_id':'c'},"
           "{'type':'function_call_output'}],'b':[2]}");
}

TEST(what_names_none_stays_as_it_is)
{
    expect("{'input':'item_reference'}", "{'input':'item_reference'}");
    expect("{'input':[]}", "{'input':[]}");
    expect("{'input':[1,{'type':'message'}]}", "{'input':[1,{'type':'message'}]}");
    expect("[]", "[]");
}

TEST(an_item_that_is_not_there_is_named)
{
    static const char *const bad[] = {"rs_a1_7", "rs_b2_0", "", "x", "a_b", "rs__", "__"};
    begin();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[200];
        const json *out = NULL;
        err e = {0};
        snprintf(text, sizeof text, "{'input':[0,{'type':'item_reference','id':'%s'}]}", bad[i]);
        assert_int_equal(resolve(text, &out, &e), ERR_INVALID);
        assert_string_equal(e.where, "/input/1");
    }
    end();
}

TEST(an_item_without_an_id_is_named_as_it_is_listed)
{
    expect("{'input':[{'type':'item_reference','id':'msg_a1_in0'}]}",
           "{'input':[{'type':'message','content':'one'}]}");
}

TEST(without_memory_it_is_nomem)
{
    begin();
    for (int n = 1, code = -1; code != ERR_OK; n++) {
        const json *body, *out;
        arena a;
        err e = {0};
        arena_init(&a, 0);
        str text = STR("{\"input\":[{\"type\":\"item_reference\",\"id\":\"rs_a1_0\"}]}");
        CHECK_OK(json_parse(&mem, text, "body", 16, 0, &body, &e), &e);
        mem_fail_at(n);
        code = item_reference_resolve(&s, body, &a, &out, &e);
        mem_fail_at(0);
        assert_true(code == ERR_OK || code == ERR_NOMEM);
        assert_true(n < 1000);
        arena_fini(&a);
    }
    end();
}
