#include "chat/anthropic.h"

#include "base/mem.h"
#include "support/test.h"

static arena a;
static err e;

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

static const json *convert(const char *request)
{
    const json *chat = NULL;
    arena_fini(&a);
    e = (err){0};
    CHECK_OK(anthropic_to_chat(&a, parse(request), &chat, &e), &e);
    return chat;
}

static void check_messages(const char *list, const char *want)
{
    char request[2000];
    snprintf(request, sizeof request, "{'messages':[%s]}", list);
    assert_string_equal(show(json_get(convert(request), "messages")), want);
}

#define HI "'messages':[{'role':'user','content':'Hi'}]"

TEST(plain_text_stays_as_it_is)
{
    check_messages("{'role':'user','content':'a'},{'role':'assistant','content':'b'},"
                   "{'role':'system','content':'c'},{'role':'user','content':''}",
                   "[{'role':'user','content':'a'},{'role':'assistant','content':'b'},"
                   "{'role':'system','content':'c'},{'role':'user','content':''}]");
}

TEST(text_blocks_are_joined)
{
    check_messages("{'role':'user','content':[{'type':'text','text':'a'},"
                   "{'type':'text','text':'b','cache_control':{'type':'ephemeral'}}]}",
                   "[{'role':'user','content':'a\\nb'}]");
    check_messages("{'role':'assistant','content':[{'type':'text','text':'a'},"
                   "{'type':'text','text':'b'}]}",
                   "[{'role':'assistant','content':'ab'}]");
    check_messages("{'role':'user','content':[]}", "[{'role':'user','content':''}]");
    check_messages("{'role':'user','content':[{'type':'document','source':{'type':'text',"
                   "'media_type':'text/plain','data':'d'}}]}",
                   "[{'role':'user','content':'d'}]");
}

TEST(results_of_tools_keep_their_place)
{
    check_messages(
        "{'role':'user','content':[{'type':'tool_result','tool_use_id':'x','content':'1'},"
        "{'type':'tool_result','tool_use_id':'y','is_error':true,'content':[{'type':'text',"
        "'text':'2'},{'type':'tool_reference','tool_name':'add'}]},"
        "{'type':'tool_result','tool_use_id':'z'},{'type':'text','text':'go on'}]}",
        "[{'role':'tool','tool_call_id':'x','content':'1'},"
        "{'role':'tool','tool_call_id':'y','content':'2\\nadd'},"
        "{'role':'tool','tool_call_id':'z','content':''},{'role':'user','content':'go on'}]");
}

TEST(an_assistants_blocks_become_one_message)
{
    check_messages(
        "{'role':'assistant','content':[{'type':'thinking','thinking':'why','signature':'s'},"
        "{'type':'redacted_thinking','data':'?'},{'type':'text','text':'so'},"
        "{'type':'tool_use','id':'t','name':'add','input':{'b':1.50,'a':2},'cache_control':{}}]}",
        "[{'role':'assistant','content':'so','reasoning_content':'why','tool_calls':[{'id':'t',"
        "'type':'function','function':{'name':'add','arguments':{'b':1.50,'a':2}}}]}]");
}

TEST(a_signature_can_carry_the_thought)
{
    static const str thought = {"a \"b\"\n\xc3\xbc", 8};
    buf s, request;
    buf_init(&s);
    buf_init(&request);
    anthropic_put_signature(&s, thought, true);
    buf_printf(&request,
               "{'messages':[{'role':'assistant','content':[{'type':'thinking','thinking':'',"
               "'signature':'%s'},{'type':'text','text':'x'}]}]}",
               buf_str(&s).ptr);
    const json *m = json_get(convert(buf_str(&request).ptr), "messages")->first;
    assert_true(str_equal(json_get(m, "reasoning_content")->text, thought));
    /* One that is cut or not ours says nothing, and one that only marks a thought is no thought. */
    buf_clear(&s);
    anthropic_put_signature(&s, thought, false);
    static const char *const other[] = {"riptide.whole.4x", "", "EqQBCkgIARABGAI", NULL};
    for (int i = 0; i < 4; i++) {
        buf_clear(&request);
        buf_printf(&request,
                   "{'messages':[{'role':'assistant','content':[{'type':'thinking',"
                   "'thinking':'','signature':'%s'}]}]}",
                   other[i] ? other[i] : buf_str(&s).ptr);
        m = json_get(convert(buf_str(&request).ptr), "messages")->first;
        assert_null(json_get(m, "reasoning_content"));
    }
    buf_fini(&s);
    buf_fini(&request);
}

TEST(the_system_text_comes_first_without_the_billing_line)
{
    static const char *const systems[] = {
        "'You are brief.'",
        "[{'type':'text','text':'You are brief.','cache_control':{'type':'ephemeral'}}]",
        ("[{'type':'text','text':'x-anthropic-billing-header: cch=1;'},"
         "{'type':'text','text':'You are brief.'}]"),
        "'x-anthropic-billing-header: cch=22;\\n\\nYou are brief.'"};
    for (int i = 0; i < 4; i++) {
        char request[400];
        snprintf(request, sizeof request, "{'system':%s," HI "}", systems[i]);
        assert_string_equal(show(json_get(convert(request), "messages")),
                            "[{'role':'system','content':'You are brief.'},"
                            "{'role':'user','content':'Hi'}]");
    }
    assert_string_equal(show(json_get(convert("{'system':[{'type':'text','text':"
                                              "'x-anthropic-billing-header: a'}]," HI "}"),
                                      "messages")),
                        "[{'role':'user','content':'Hi'}]");
    /* Only there. */
    check_messages("{'role':'user','content':[{'type':'text','text':"
                   "'x-anthropic-billing-header: a'}]}",
                   "[{'role':'user','content':'x-anthropic-billing-header: a'}]");
}

TEST(tools_keep_their_schema_to_the_digit)
{
    assert_string_equal(
        show(json_get(convert("{'tools':[{'input_schema':{'z':1.50,'a':[]},'name':'add',"
                              "'description':'Adds','cache_control':{},'strict':true},"
                              "{'type':'web_search_20250305','name':'web_search'},"
                              "{'type':'custom','name':'b','input_schema':{}}]," HI "}"),
                      "tools")),
        "[{'type':'function','function':{'name':'add','description':'Adds','parameters':"
        "{'z':1.50,'a':[]}}},{'type':'function','function':{'name':'b','parameters':{}}}]");
    assert_null(json_get(convert("{'tools':null," HI "}"), "tools"));
}

TEST(thinking_is_off_unless_it_is_asked_for)
{
    static const char *const said[][2] = {
        {"", "'enable_thinking':false"},
        {"'thinking':null,", "'enable_thinking':false"},
        {"'thinking':{'type':'disabled'},", "'enable_thinking':false"},
        {"'thinking':{'type':'enabled','budget_tokens':9},", "'enable_thinking':true"},
        {"'thinking':{'type':'adaptive'},'output_config':{'effort':'low'},",
         "'enable_thinking':true,'output_config':{'effort':'low'}"},
        {"'output_config':{'effort':'low'},", "'enable_thinking':false"},
        {"'enable_thinking':true,", "'enable_thinking':true"},
        {"'chat_template_kwargs':{'x':1},",
         "'enable_thinking':false,'chat_template_kwargs':{'x':1}"},
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char request[400], want[400];
        snprintf(request, sizeof request, "{%s" HI "}", said[i][0]);
        snprintf(want, sizeof want, "{" HI ",%s}", said[i][1]);
        assert_string_equal(show(convert(request)), want);
    }
}

TEST(what_is_wrong_is_named_by_its_place)
{
    static const struct {
        const char *request, *where;
        status code;
    } bad[] = {
        {"{}", "/messages", ERR_FORMAT},
        {"{'messages':[]}", "/messages", ERR_FORMAT},
        {"{'messages':[1]}", "/messages/0", ERR_FORMAT},
        {"{'messages':[{'content':'x'}]}", "/messages/0/role", ERR_FORMAT},
        {"{'messages':[{'role':'tool','content':'x'}]}", "/messages/0/role", ERR_FORMAT},
        {"{'messages':[{'role':'user'}]}", "/messages/0/content", ERR_FORMAT},
        {"{'messages':[{'role':'user','content':[1]}]}", "/messages/0/content/0", ERR_FORMAT},
        {"{'messages':[{'role':'user','content':[{'text':'x'}]}]}", "/messages/0/content/0",
         ERR_FORMAT},
        {"{'messages':[{'role':'user','content':[{'type':'text'}]}]}", "/messages/0/content/0",
         ERR_FORMAT},
        {"{'messages':[{'role':'user','content':[{'type':'image'}]}]}", "/messages/0/content/0",
         ERR_UNSUPPORTED},
        {"{'messages':[{'role':'user','content':[{'type':'tool_result'}]}]}",
         "/messages/0/content/0", ERR_FORMAT},
        {"{'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'a',"
         "'content':[{'type':'image'}]}]}]}",
         "/messages/0/content/0/content/0", ERR_UNSUPPORTED},
        {"{'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'a'}]}]}",
         "/messages/0/content/0", ERR_FORMAT},
        {"{'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'a','name':'b',"
         "'input':[]}]}]}",
         "/messages/0/content/0", ERR_FORMAT},
        {"{'messages':[{'role':'assistant','content':[{'type':'server_tool_use'}]}]}",
         "/messages/0/content/0", ERR_UNSUPPORTED},
        {"{'system':7," HI "}", "/system", ERR_FORMAT},
        {"{'system':[{'type':'image'}]," HI "}", "/system/0", ERR_UNSUPPORTED},
        {"{'tools':{}," HI "}", "/tools", ERR_FORMAT},
        {"{'tools':[1]," HI "}", "/tools/0", ERR_FORMAT},
        {"{'tools':[{'input_schema':{}}]," HI "}", "/tools/0/name", ERR_FORMAT},
        {"{'tools':[{'name':'x'}]," HI "}", "/tools/0/input_schema", ERR_FORMAT},
        {"{'thinking':{'type':'much'}," HI "}", "/thinking/type", ERR_INVALID},
        {"{'thinking':true," HI "}", "/thinking/type", ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const json *chat = NULL;
        arena_fini(&a);
        e = (err){0};
        const json *request = parse(bad[i].request);
        CHECK_STATUS(anthropic_to_chat(&a, request, &chat, &e), bad[i].code);
        assert_string_equal(e.where, bad[i].where);
        assert_null(chat);
    }
}

TEST(without_memory_it_is_nomem)
{
    const json *request = parse(
        "{'system':[{'type':'text','text':'a'},{'type':'text','text':'b'}],'tools':[{'name':'x',"
        "'input_schema':{}}],'messages':[{'role':'user','content':[{'type':'text','text':'a'},"
        "{'type':'text','text':'b'},{'type':'tool_result','tool_use_id':'i'}]},"
        "{'role':'assistant','content':[{'type':'thinking','thinking':'','signature':"
        "'riptide.whole.41'},{'type':'tool_use','id':'i','name':'n'}]}]}");
    int n_failed = 0;
    for (int64_t n = 1; n < 200; n++) {
        const json *chat = NULL;
        arena scratch;
        arena_init(&scratch, 0);
        mem_fail_at(n);
        status s = anthropic_to_chat(&scratch, request, &chat, &e);
        mem_fail_at(0);
        arena_fini(&scratch);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        assert_null(chat);
        n_failed++;
    }
    assert_true(n_failed >= 1 && n_failed < 199);
    arena_fini(&a);
}
