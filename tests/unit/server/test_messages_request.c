#include "server/messages_request_priv.h"

#include "chat_fixture.h"

static chat_fixture fixture, *const f = &fixture;
static err last;

static status read_request(const char *text, bool needs_limit, generation_request *r)
{
    policy defaults = policy_neutral();
    defaults.temperature = 0.7;
    chat_context x = {.defaults = &defaults,
                      .V = 4096,
                      .choices_max = 64,
                      .seed = 99,
                      .caps = template_get_caps(f->s.template)};
    return messages_request_parse(chat_parse(&f->mem, text), &x, needs_limit, &f->mem, r, &last);
}

#define HI "'messages':[{'role':'user','content':'Hi'}]"
#define TOOLS "'tools':[{'name':'add','input_schema':{'type':'object'}}]"

TEST(a_bare_request_takes_the_defaults)
{
    generation_request r;
    chat_load(f);
    CHECK_OK(read_request("{'max_tokens':9," HI "}", true, &r), &last);
    assert_true(r.policy.temperature == 0.7 && r.policy.seed == 99);
    assert_true(r.n == 1 && r.max_tokens == 9 && r.n_stop == 0);
    assert_false(r.streams || r.is_warm_up || r.hides_reasoning);
    assert_true(r.chat.is_thinking_off);
    assert_null(r.chat.tools);
    CHECK_OK(read_request("{" HI "}", false, &r), &last);
    assert_int_equal(r.max_tokens, 0);
    chat_end(f);
}

TEST(every_field_has_its_place)
{
    generation_request r;
    chat_load(f);
    CHECK_OK(read_request("{" HI "," TOOLS ",'system':'Be brief.','stream':true,'max_tokens':50,"
                          "'temperature':0.2,'top_p':0.5,'top_k':7,'seed':5,"
                          "'stop_sequences':['a','b'],'metadata':{'user_id':'x'},"
                          "'thinking':{'type':'enabled','budget_tokens':5,'display':'omitted'},"
                          "'tool_choice':{'type':'auto','disable_parallel_tool_use':false},"
                          "'context_management':{'edits':[]},'service_tier':'auto',"
                          "'output_config':{'effort':'high'},'mcp_servers':[]}",
                          true, &r),
             &last);
    assert_true(r.streams && r.hides_reasoning && r.max_tokens == 50 && r.n_stop == 2);
    assert_true(r.policy.temperature == 0.2 && r.policy.top_k == 7 && r.policy.seed == 5);
    assert_int_equal(r.chat.tools->n, 1);
    assert_int_equal(r.chat.messages->n, 2);
    assert_false(r.chat.is_thinking_off);
    CHECK_OK(
        read_request("{'max_tokens':1," HI "," TOOLS ",'tool_choice':{'type':'none'}}", true, &r),
        &last);
    assert_null(r.chat.tools);
    chat_end(f);
}

TEST(no_tokens_wanted_is_a_warm_up)
{
    generation_request r;
    chat_load(f);
    CHECK_OK(read_request("{'max_tokens':0," HI "}", true, &r), &last);
    assert_true(r.is_warm_up && r.max_tokens == 1);
    chat_end(f);
}

TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *request, *where;
        status code;
    } bad[] = {
        {"[]", "", ERR_INVALID},
        {"{" HI "}", "max_tokens", ERR_INVALID},
        {"{'max_tokens':-1," HI "}", "max_tokens", ERR_INVALID},
        {"{'max_tokens':1.5," HI "}", "max_tokens", ERR_INVALID},
        {"{'max_tokens':1}", "/messages", ERR_FORMAT},
        {"{'max_tokens':1,'stream':1," HI "}", "stream", ERR_INVALID},
        {"{'max_tokens':1,'temperature':9," HI "}", "temperature", ERR_INVALID},
        {"{'max_tokens':1,'stop_sequences':[1]," HI "}", "stop_sequences", ERR_INVALID},
        {"{'max_tokens':1,'thinking':1," HI "}", "thinking", ERR_INVALID},
        {"{'max_tokens':1,'tool_choice':{'type':'any'}," HI "}", "tool_choice", ERR_INVALID},
        {"{'max_tokens':1,'tool_choice':{'type':'tool','name':'x'}," HI "}", "tool_choice",
         ERR_INVALID},
        {"{'max_tokens':1,'tool_choice':{'type':'tool'}," TOOLS "," HI "}", "tool_choice",
         ERR_INVALID},
        {"{'max_tokens':1,'tool_choice':{'type':'tool','name':'y'}," TOOLS "," HI "}",
         "tool_choice", ERR_INVALID},
        {"{'max_tokens':1,'thinking':{'type':'enabled','budget_tokens':-1}," HI "}",
         "budget_tokens", ERR_INVALID},
        {"{'max_tokens':1,'tool_choice':{'type':'x'}," HI "}", "tool_choice", ERR_INVALID},
        {"{'max_tokens':1,'tool_choice':'auto'," HI "}", "tool_choice", ERR_INVALID},
        {"{'max_tokens':1,'output_config':{'format':{'type':'json_schema'}}," HI "}",
         "output_config.format", ERR_INVALID},
        {"{'max_tokens':1,'output_format':{'type':'json_schema'}," HI "}", "output_format",
         ERR_INVALID},
        {"{'max_tokens':1,'output_format':{'type':'xml'}," HI "}", "output_format",
         ERR_UNSUPPORTED},
        {"{'max_tokens':1,'mcp_servers':[{}]," HI "}", "mcp_servers", ERR_UNSUPPORTED},
        {"{'max_tokens':1,'metadata':[]," HI "}", "metadata", ERR_INVALID},
        {"{'max_tokens':1,'metadata':{'user_id':5}," HI "}", "metadata.user_id", ERR_INVALID},
        {"{'max_tokens':1,'thinking':{'type':'adaptive'},'output_config':{'effort':'odd'}," HI "}",
         "/output_config/effort", ERR_INVALID},
        {"{'max_tokens':1,'thinking':{'type':'adaptive'},'output_config':{'effort':5}," HI "}",
         "/output_config/effort", ERR_FORMAT},
        {"{'max_tokens':1,'priority':'urgent'," HI "}", "priority", ERR_INVALID},
        {"{'max_tokens':1,'timeout':0," HI "}", "timeout", ERR_INVALID},
        {"{'max_tokens':1,'messages':[{'role':'user','content':[{'type':'image'}]}]}",
         "/messages/0/content/0", ERR_UNSUPPORTED},
    };
    chat_load(f);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        generation_request r = {.n = 77};
        last = (err){0};
        status s = read_request(bad[i].request, true, &r);
        if (s != bad[i].code || strcmp(last.where, bad[i].where) != 0)
            fail_msg("%s: %s at \"%s\"", bad[i].request, status_name(s), last.where);
        assert_int_equal(r.n, 77);
    }
    chat_end(f);
}

TEST(without_memory_it_is_nomem)
{
    generation_request r;
    chat_load(f);
    policy defaults = policy_neutral();
    chat_context x = {.defaults = &defaults,
                      .V = 4096,
                      .choices_max = 64,
                      .caps = template_get_caps(f->s.template)};
    const json *body = chat_parse(&f->mem, "{'max_tokens':1," HI "," TOOLS
                                           ",'stop_sequences':['x'],'logit_bias':{'1':2}}");
    int n_failed = 0;
    for (int64_t n = 1; n < 100; n++) {
        arena a;
        arena_init(&a, 0);
        mem_fail_at(n);
        status s = messages_request_parse(body, &x, true, &a, &r, &last);
        mem_fail_at(0);
        arena_fini(&a);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        n_failed++;
    }
    assert_true(n_failed >= 1 && n_failed < 99);
    chat_end(f);
}
