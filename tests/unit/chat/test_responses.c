#include "chat/responses.h"

#include "base/mem.h"
#include "support/test.h"

static arena a;
static err e;
static responses_chat out;

/* Single quotes stand for double ones. */
static const json *parse(const char *text)
{
    const json *v = NULL;
    char *copy = arena_copy(&a, text, strlen(text));
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    CHECK_OK(json_parse(&a, str_from(copy), "request", 128, 0, &v, &e), &e);
    return v;
}

static const char *show(const json *v)
{
    static char text[4000];
    buf b;
    buf_init(&b);
    if (v) json_put_value(&b, v, JSON_COMPACT);
    for (size_t i = 0; i < b.len; i++)
        if (b.ptr[i] == '"') b.ptr[i] = '\'';
    snprintf(text, sizeof text, "%s", b.ptr ? b.ptr : "(none)");
    buf_fini(&b);
    return text;
}

static const json *convert(const char *request, const char *before)
{
    arena_fini(&a);
    e = (err){0};
    out = (responses_chat){0};
    const json *v = parse(request);
    CHECK_OK(responses_to_chat(&a, v, before ? parse(before) : NULL, &out, &e), &e);
    return out.chat;
}

static void check_messages(const char *items, const char *want)
{
    char request[2000];
    snprintf(request, sizeof request, "{'input':%s}", items);
    assert_string_equal(show(json_get(convert(request, NULL), "messages")), want);
}

TEST(a_string_is_what_the_user_says)
{
    check_messages("'Hi'", "[{'role':'user','content':'Hi'}]");
    assert_string_equal(show(out.items), "[{'type':'message','role':'user','content':'Hi'}]");
    check_messages("''", "[{'role':'user','content':''}]");
    check_messages("[]", "[{'role':'user','content':''}]");
    assert_string_equal(
        show(json_get(convert("{'input':'Hi','instructions':'Be brief.'}", NULL), "messages")),
        "[{'role':'system','content':'Be brief.'},{'role':'user','content':'Hi'}]");
}

TEST(messages_keep_their_place)
{
    check_messages("[{'role':'developer','content':'a'},{'type':'message','role':'user','content':"
                   "[{'type':'input_text','text':'b'},{'type':'input_text','text':'c'}]},"
                   "{'role':'assistant','content':[{'type':'output_text','text':'d'}]},"
                   "{'role':'assistant','content':'e'},{'role':'system','content':'f'}]",
                   "[{'role':'developer','content':'a'},{'role':'user','content':'bc'},"
                   "{'role':'assistant','content':'d'},{'role':'assistant','content':'e'},"
                   "{'role':'system','content':'f'}]");
}

TEST(a_turn_of_reasoning_text_and_calls_is_one_message)
{
    check_messages(
        "[{'type':'reasoning','summary':[{'type':'summary_text','text':'why'}]},"
        "{'role':'assistant','content':'so'},"
        "{'type':'function_call','call_id':'1','name':'add','arguments':'{}'},"
        "{'type':'custom_tool_call','call_id':'2','name':'patch','input':'p'},"
        "{'type':'function_call_output','call_id':'1','output':'r'},"
        "{'type':'custom_tool_call_output','call_id':'2','output':[{'type':'input_text','text':"
        "'s'}]},{'type':'reasoning','summary':[],'content':[{'type':'reasoning_text',"
        "'text':'then'}]},{'type':'function_call','call_id':'3','name':'n','namespace':'m'}]",
        "[{'role':'assistant','content':'so','reasoning_content':'why','tool_calls':["
        "{'id':'1','type':'function','function':{'name':'add','arguments':'{}'}},"
        "{'id':'2','type':'function','function':{'name':'patch','arguments':{'input':'p'}}}]},"
        "{'role':'tool','tool_call_id':'1','content':'r'},"
        "{'role':'tool','tool_call_id':'2','content':'s'},"
        "{'role':'assistant','content':'','reasoning_content':'then','tool_calls':["
        "{'id':'3','type':'function','function':{'name':'m__n'}}]}]");
    /* What follows a call is another message. */
    check_messages("[{'type':'function_call','call_id':'1','name':'a'},"
                   "{'role':'assistant','content':'b'}]",
                   "[{'role':'assistant','content':'','tool_calls':[{'id':'1','type':'function',"
                   "'function':{'name':'a'}}]},{'role':'assistant','content':'b'}]");
}

TEST(earlier_items_come_first)
{
    const json *chat = convert("{'input':'b','instructions':'i'}", "[{'role':'user',"
                                                                   "'content':'a'}]");
    assert_string_equal(show(json_get(chat, "messages")),
                        "[{'role':'system','content':'i'},{'role':'user','content':'a'},"
                        "{'role':'user','content':'b'}]");
    assert_int_equal(out.items->n, 2);
}

TEST(tools_of_every_kind_become_functions)
{
    const json *chat = convert(
        "{'input':'a','tools':[{'type':'function','name':'f','description':'d','strict':true,"
        "'parameters':{'z':1.50}},{'type':'namespace','name':'mcp__x__','tools':[{'type':"
        "'function','name':'g'}]},{'type':'namespace','name':'y','tools':[{'type':'custom',"
        "'name':'h','format':{'type':'grammar','definition':'G'}}]},{'type':'web_search'}]}",
        NULL);
    assert_string_equal(
        show(json_get(chat, "tools")),
        "[{'type':'function','function':{'name':'f','description':'d','parameters':{'z':1.50}}},"
        "{'type':'function','function':{'name':'mcp__x__g'}},"
        "{'type':'function','function':{'name':'y__h','description':'\\n\\nThe input follows this "
        "grammar:\\nG','parameters':{'type':'object','properties':{'input':{'type':'string'}},"
        "'required':['input']}}}]");
    assert_int_equal(out.n_tools, 3);
    assert_int_equal(out.n_ignored, 1);
    assert_true(str_is(out.tools[1].space, "mcp__x__") && str_is(out.tools[1].name, "g"));
    assert_true(str_is(out.tools[2].flat, "y__h") && out.tools[2].is_custom);
    assert_null(json_get(convert("{'input':'a','tools':[{'type':'web_search'}]}", NULL), "tools"));
}

TEST(switches_are_passed_on)
{
    assert_string_equal(
        show(convert("{'input':'a','reasoning':{'effort':'low'},'enable_thinking':false,"
                     "'preserve_thinking':true,'chat_template_kwargs':{},'store':true}",
                     NULL)),
        "{'messages':[{'role':'user','content':'a'}],'reasoning':{'effort':'low'},"
        "'chat_template_kwargs':{},'enable_thinking':false,'preserve_thinking':true}");
}

TEST(what_is_wrong_is_named_by_its_place)
{
    static const struct {
        const char *request, *where;
        status code;
    } bad[] = {
        {"{}", "/input", ERR_FORMAT},
        {"{'input':7}", "/input", ERR_FORMAT},
        {"{'input':[1]}", "/input/0", ERR_FORMAT},
        {"{'input':[{'content':'x'}]}", "/input/0/role", ERR_FORMAT},
        {"{'input':[{'role':'tool','content':'x'}]}", "/input/0/role", ERR_FORMAT},
        {"{'input':[{'role':'user','content':7}]}", "/input/0/content", ERR_FORMAT},
        {"{'input':[{'role':'user','content':[{'type':'input_image'}]}]}", "/input/0/content/0",
         ERR_UNSUPPORTED},
        {"{'input':[{'role':'user','content':[7]}]}", "/input/0/content/0", ERR_UNSUPPORTED},
        {"{'input':[{'type':'item_reference','id':'x'}]}", "/input/0", ERR_UNSUPPORTED},
        {"{'input':[{'type':'function_call','name':'x'}]}", "/input/0", ERR_FORMAT},
        {"{'input':[{'type':'function_call','call_id':'1','name':'x','arguments':{}}]}",
         "/input/0/arguments", ERR_FORMAT},
        {"{'input':[{'type':'custom_tool_call','call_id':'1','name':'x','input':1}]}",
         "/input/0/input", ERR_FORMAT},
        {"{'input':[{'type':'function_call_output','output':'x'}]}", "/input/0", ERR_FORMAT},
        {"{'input':'a','instructions':1}", "/instructions", ERR_FORMAT},
        {"{'input':'a','tools':{}}", "/tools", ERR_FORMAT},
        {"{'input':'a','tools':[1]}", "/tools/0", ERR_FORMAT},
        {"{'input':'a','tools':[{'type':'function'}]}", "/tools/0/name", ERR_FORMAT},
        {"{'input':'a','tools':[{'type':'namespace','name':'n','tools':[{'type':'custom'}]}]}",
         "/tools/0/tools/0/name", ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        arena_fini(&a);
        e = (err){0};
        out = (responses_chat){.n_tools = 77};
        const json *request = parse(bad[i].request);
        CHECK_STATUS(responses_to_chat(&a, request, NULL, &out, &e), bad[i].code);
        assert_string_equal(e.where, bad[i].where);
        assert_int_equal(out.n_tools, 77);
    }
    arena_fini(&a);
}

TEST(without_memory_it_is_nomem)
{
    const json *request = parse(
        "{'instructions':'i','tools':[{'type':'namespace','name':'n','tools':[{'type':'custom',"
        "'name':'c','format':{'definition':'d'}}]}],'input':[{'type':'reasoning','summary':[]},"
        "{'type':'function_call','call_id':'1','name':'x','namespace':'y'},"
        "{'type':'function_call_output','call_id':'1','output':[{'type':'text','text':'a'},"
        "{'type':'text','text':'b'}]}]}");
    int n_failed = 0;
    for (int64_t n = 1; n < 200; n++) {
        arena scratch;
        arena_init(&scratch, 0);
        mem_fail_at(n);
        status s = responses_to_chat(&scratch, request, NULL, &out, &e);
        mem_fail_at(0);
        arena_fini(&scratch);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        n_failed++;
    }
    assert_true(n_failed >= 1 && n_failed < 199);
    arena_fini(&a);
}
