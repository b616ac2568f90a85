#include "server/responses_request_priv.h"

#include "chat_fixture.h"

static chat_fixture fixture, *const f = &fixture;
static err last;
static responses_echo echo;

static chat_context context(void)
{
    static policy defaults;
    defaults = policy_neutral();
    return (chat_context){.defaults = &defaults,
                          .V = 4096,
                          .choices_max = 64,
                          .seed = 99,
                          .caps = template_get_caps(f->s.template)};
}

static status read_request(const char *text, const char *before, generation_request *r)
{
    chat_context x = context();
    last = (err){0};
    return responses_request_parse(chat_parse(&f->mem, text),
                                   before ? chat_parse(&f->mem, before) : NULL, &x, &f->mem,
                                   &f->mem, r, &echo, &last);
}

TEST(a_bare_request_takes_the_defaults)
{
    generation_request r;
    chat_load(f);
    CHECK_OK(read_request("{'input':'Hi'}", NULL, &r), &last);
    assert_true(r.n == 1 && r.max_tokens == 0 && r.policy.seed == 99 && !r.streams);
    assert_true(echo.is_stored && echo.has_parallel_calls && !echo.wants_encrypted);
    assert_true(str_is(echo.instructions, "null") && str_is(echo.tools_text, "null"));
    assert_true(str_is(echo.items, "[{\"type\":\"message\",\"role\":\"user\",\"content\":"
                                   "\"Hi\"}]"));
    assert_true(echo.previous_id.len == 0 && echo.max_output == 0);
    chat_end(f);
}

TEST(every_field_has_its_place)
{
    generation_request r;
    chat_load(f);
    CHECK_OK(read_request("{'input':[{'role':'user','content':'b'}],'stream':true,'store':false,"
                          "'max_output_tokens':9,'temperature':0.5,'instructions':'i',"
                          "'metadata':{'k':'v'},'reasoning':{'effort':'low'},"
                          "'previous_response_id':'resp_1','parallel_tool_calls':false,"
                          "'include':['reasoning.encrypted_content'],'tool_choice':'auto',"
                          "'tools':[{'type':'namespace','name':'n','tools':[{'type':'function',"
                          "'name':'f'}]},{'type':'web_search'}],'text':{'format':{'type':'text'}},"
                          "'truncation':'disabled','background':false,'prompt_cache_key':'x'}",
                          "[{'role':'user','content':'a'}]", &r),
             &last);
    assert_true(r.streams && r.max_tokens == 9 && r.policy.temperature == 0.5);
    assert_int_equal(r.chat.messages->n, 3);
    assert_int_equal(r.chat.tools->n, 1);
    assert_true(!echo.is_stored && !echo.has_parallel_calls && echo.wants_encrypted);
    assert_true(str_is(echo.previous_id, "resp_1") && echo.max_output == 9);
    assert_true(str_is(echo.metadata, "{\"k\":\"v\"}") && str_is(echo.instructions, "\"i\""));
    assert_true(echo.n_tools == 1 && echo.n_ignored == 1);
    assert_true(str_is(echo.tools[0].space, "n") && str_is(echo.tools[0].flat, "n__f"));
    CHECK_OK(read_request("{'input':'a','tool_choice':'none','tools':[{'type':'function','name':"
                          "'f'}]}",
                          NULL, &r),
             &last);
    assert_null(r.chat.tools);
    chat_end(f);
}

TEST(log_probabilities_are_asked_for_by_either_field)
{
    static const struct {
        const char *request;
        bool wants;
        int top;
    } cases[] = {
        {"{'input':'a'}", false, 0},
        {"{'input':'a','top_logprobs':0}", false, 0},
        {"{'input':'a','top_logprobs':20}", true, 20},
        {"{'input':'a','include':['message.output_text.logprobs']}", true, 0},
        {"{'input':'a','include':['reasoning.encrypted_content']}", false, 0},
    };
    chat_load(f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        generation_request r;
        CHECK_OK(read_request(cases[i].request, NULL, &r), &last);
        assert_int_equal(r.wants_logprobs, cases[i].wants);
        assert_int_equal(r.top_logprobs, cases[i].top);
        assert_int_equal(r.logprobs, LOGPROBS_OF_CONTENT);
    }
    chat_end(f);
}

TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *request, *where;
        status code;
    } bad[] = {
        {"[]", "", ERR_INVALID},
        {"{}", "/input", ERR_FORMAT},
        {"{'input':'a','stream':1}", "stream", ERR_INVALID},
        {"{'input':'a','max_output_tokens':0}", "max_output_tokens", ERR_INVALID},
        {"{'input':'a','text':{'format':{'type':'json_schema'}}}", "text.format", ERR_INVALID},
        {"{'input':'a','text':{'format':{'type':'xml'}}}", "text.format", ERR_UNSUPPORTED},
        {"{'input':'a','background':true}", "background", ERR_UNSUPPORTED},
        {"{'input':'a','truncation':'auto'}", "truncation", ERR_UNSUPPORTED},
        {"{'input':'a','conversation':'c'}", "conversation", ERR_UNSUPPORTED},
        {"{'input':'a','prompt':{'id':'p'}}", "prompt", ERR_UNSUPPORTED},
        {"{'input':'a','top_logprobs':21}", "top_logprobs", ERR_INVALID},
        {"{'input':'a','metadata':[]}", "metadata", ERR_INVALID},
        {"{'input':'a','metadata':{'a':{}}}", "metadata", ERR_INVALID},
        {"{'input':'a','reasoning':{'effort':'odd'}}", "/reasoning/effort", ERR_INVALID},
        {"{'input':'a','tool_choice':'required'}", "tool_choice", ERR_INVALID},
        {"{'input':'a','tool_choice':{'type':'function','name':'x'}}", "tool_choice", ERR_INVALID},
        {"{'input':'a','tool_choice':{'type':'mcp'}}", "tool_choice", ERR_UNSUPPORTED},
        {"{'input':'a','store':1}", "store", ERR_INVALID},
        {"{'input':'a','include':1}", "include", ERR_INVALID},
        {"{'input':'a','temperature':'x'}", "temperature", ERR_INVALID},
        {"{'input':[{'type':'image_generation_call'}]}", "/input/0", ERR_UNSUPPORTED},
    };
    chat_load(f);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        generation_request r = {.n = 77};
        status s = read_request(bad[i].request, NULL, &r);
        if (s != bad[i].code || strcmp(last.where, bad[i].where) != 0)
            fail_msg("%s: %s at \"%s\"", bad[i].request, status_name(s), last.where);
        assert_int_equal(r.n, 77);
    }
    chat_end(f);
}

TEST(without_memory_it_is_nomem)
{
    chat_load(f);
    chat_context x = context();
    const json *body = chat_parse(&f->mem, "{'input':'a','metadata':{},'tools':[{'type':"
                                           "'function','name':'f'}],'instructions':'i'}");
    int n_failed = 0;
    for (int64_t n = 1; n < 100; n++) {
        generation_request r;
        arena a, keep;
        arena_init(&a, 0);
        arena_init(&keep, 0);
        mem_fail_at(n);
        status s = responses_request_parse(body, NULL, &x, &a, &keep, &r, &echo, &last);
        mem_fail_at(0);
        arena_fini(&a);
        arena_fini(&keep);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        n_failed++;
    }
    assert_true(n_failed >= 2 && n_failed < 99);
    chat_end(f);
}
