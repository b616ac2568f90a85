#include "server/input_items_priv.h"

#include "base/mem.h"
#include "support/test.h"

static arena mem;

/* For legibility quotes are single ones. */
static const json *parse(const char *text)
{
    const json *v;
    err e = {0};
    char *copy = arena_copy(&mem, text, strlen(text));
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    CHECK_OK(json_parse(&mem, str_from(copy), "items", 16, 0, &v, &e), &e);
    return v;
}

static status list(const json *items, const char *query, buf *out, err *e)
{
    input_items_page page;
    status s = input_items_parse(str_from(query), &page, e);
    if (s == ERR_OK) s = input_items_put(out, STR("resp_a1"), items, items->n, &page, &mem, e);
    input_items_page_fini(&page);
    return s;
}

static void expect(const char *items, const char *query, const char *want)
{
    buf b;
    err e = {0};
    arena_init(&mem, 0);
    buf_init(&b);
    CHECK_OK(list(parse(items), query, &b, &e), &e);
    for (size_t i = 0; i < b.len; i++)
        if (b.ptr[i] == '"') b.ptr[i] = '\'';
    assert_string_equal(buf_str(&b).ptr, want);
    buf_fini(&b);
    arena_fini(&mem);
}

#define ONE(id)                                                                                   \
    "{'id':'" id "','type':'message','role':'user','content':[{'type':'input_text','text':'a'}]," \
    "'status':'completed'}"
#define THREE                                                               \
    "[{'role':'user','content':'a'},{'id':'','role':'user','content':'a'}," \
    "{'id':'own','role':'user','content':'a'}]"
#define PAGE(data, first, last, has_more)                                     \
    "{'object':'list','data':[" data "],'first_id':" first ",'last_id':" last \
    ",'has_more':" has_more "}"

TEST(the_newest_comes_first_unless_asked_otherwise)
{
    expect(THREE, "",
           PAGE(ONE("own") "," ONE("msg_a1_in1") "," ONE("msg_a1_in0"), "'own'", "'msg_a1_in0'",
                "false"));
    expect(THREE, "include[]=x&order=asc&include[]=y",
           PAGE(ONE("msg_a1_in0") "," ONE("msg_a1_in1") "," ONE("own"), "'msg_a1_in0'", "'own'",
                "false"));
}

TEST(pages_follow_each_other)
{
    expect(THREE, "limit=2",
           PAGE(ONE("own") "," ONE("msg_a1_in1"), "'own'", "'msg_a1_in1'", "true"));
    expect(THREE, "limit=2&after=msg%5fa1_in1",
           PAGE(ONE("msg_a1_in0"), "'msg_a1_in0'", "'msg_a1_in0'", "false"));
    expect(THREE, "limit=1&order=asc&after=msg_a1_in0",
           PAGE(ONE("msg_a1_in1"), "'msg_a1_in1'", "'msg_a1_in1'", "true"));
    expect(THREE, "order=asc&after=own", PAGE("", "null", "null", "false"));
    expect("[]", "", PAGE("", "null", "null", "false"));
}

TEST(items_have_what_their_types_ask_for)
{
    expect("[{'type':'message','role':'assistant','content':'a','status':'incomplete'}]", "",
           PAGE("{'id':'msg_a1_in0','type':'message','role':'assistant','status':'incomplete',"
                "'content':[{'type':'output_text','text':'a','annotations':[]}]}",
                "'msg_a1_in0'", "'msg_a1_in0'", "false"));
    expect("[{'role':'assistant','content':[{'type':'refusal','refusal':'no'},"
           "{'type':'text','text':'b','annotations':[1]}]}]",
           "",
           PAGE("{'id':'msg_a1_in0','type':'message','role':'assistant','content':["
                "{'type':'refusal','refusal':'no'},"
                "{'type':'output_text','text':'b','annotations':[1]}],'status':'completed'}",
                "'msg_a1_in0'", "'msg_a1_in0'", "false"));
    expect("[{'type':'reasoning','id':null,'content':null}]", "",
           PAGE("{'id':'rs_a1_in0','type':'reasoning','summary':[],'status':'completed'}",
                "'rs_a1_in0'", "'rs_a1_in0'", "false"));
    expect("[{'type':'function_call','call_id':'c','name':'f'}]", "",
           PAGE("{'id':'fc_a1_in0','type':'function_call','call_id':'c','name':'f','arguments':'',"
                "'status':'completed'}",
                "'fc_a1_in0'", "'fc_a1_in0'", "false"));
    expect("[{'type':'custom_tool_call_output','call_id':'c','output':'x','output':'y'}]", "",
           PAGE("{'id':'ctco_a1_in0','type':'custom_tool_call_output','call_id':'c','output':'y',"
                "'status':'completed'}",
                "'ctco_a1_in0'", "'ctco_a1_in0'", "false"));
}

TEST(a_query_that_says_nothing_sensible_is_refused_by_name)
{
    static const char *const bad[][2] = {
        {"limit=0", "limit"},      {"limit=101", "limit"},       {"limit=", "limit"},
        {"limit=2x", "limit"},     {"order=up", "order"},        {"limit=3&order=ASC", "order"},
        {"after=none", "after"},   {"after=%zz", "after"},       {"after=own%", "after"},
        {"after=msg_a1", "after"}, {"after=msg_b1_in0", "after"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        buf b;
        err e = {0};
        arena_init(&mem, 0);
        buf_init(&b);
        assert_int_equal(list(parse(THREE), bad[i][0], &b, &e), ERR_INVALID);
        assert_string_equal(e.where, bad[i][1]);
        assert_int_equal(b.len, 0);
        buf_fini(&b);
        arena_fini(&mem);
    }
    expect("[]", "&&limit&=&limit=1&=2&x", PAGE("", "null", "null", "false"));
}

TEST(a_page_ends_at_its_limit_of_a_hundred)
{
    buf items, b;
    err e = {0};
    arena_init(&mem, 0);
    buf_init(&items);
    buf_init(&b);
    for (int i = 0; i < 101; i++) buf_put_c(&items, i ? ",{'role':'user','content':'a'}" : "[{}");
    buf_put_c(&items, "]");
    CHECK_OK(list(parse(buf_str(&items).ptr), "limit=100&order=asc", &b, &e), &e);
    assert_true(str_ends(buf_str(&b), STR("\"last_id\":\"msg_a1_in99\",\"has_more\":true}")));
    buf_clear(&b);
    CHECK_OK(list(parse(buf_str(&items).ptr), "order=asc", &b, &e), &e);
    assert_true(str_ends(buf_str(&b), STR("\"last_id\":\"msg_a1_in19\",\"has_more\":true}")));
    buf_fini(&b);
    buf_fini(&items);
    arena_fini(&mem);
}

TEST(without_memory_it_is_nomem)
{
    arena_init(&mem, 0);
    const json *items = parse(THREE);
    for (int n = 1, code = -1; code != ERR_OK; n++) {
        buf b;
        arena a;
        input_items_page page;
        err e = {0};
        buf_init(&b);
        arena_init(&a, 0);
        mem_fail_at(n);
        code = input_items_parse(STR("after=own"), &page, &e);
        if (code == ERR_OK) code = input_items_put(&b, STR("resp_a1"), items, 3, &page, &a, &e);
        mem_fail_at(0);
        assert_true(code == ERR_OK || code == ERR_NOMEM);
        assert_true(n < 1000);
        input_items_page_fini(&page);
        arena_fini(&a);
        buf_fini(&b);
    }
    arena_fini(&mem);
}
