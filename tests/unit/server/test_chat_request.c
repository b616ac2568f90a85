#include "server/chat_request_priv.h"

#include "chat_fixture.h"

static chat_fixture fixture, *const f = &fixture;
static err last;

static status read_request(const char *text, generation_request *r)
{
    policy defaults = policy_neutral();
    defaults.temperature = 0.7;
    chat_context x = {.defaults = &defaults,
                      .V = 4096,
                      .choices_max = 64,
                      .seed = 99,
                      .caps = template_get_caps(f->s.template)};
    return chat_request_parse(chat_parse(&f->mem, text), &x, &f->mem, r, &last);
}

#define HI "'messages':[{'role':'user','content':'Hi'}]"
#define TOOLS \
    "'tools':[{'type':'function','function':{'name':'add','parameters':{'type':'object'}}}]"

TEST(a_bare_request_takes_the_defaults)
{
    generation_request r;
    chat_load(f);
    CHECK_OK(read_request("{" HI "}", &r), &last);
    assert_true(r.policy.temperature == 0.7 && r.policy.seed == 99);
    assert_true(r.n == 1 && r.max_tokens == 0 && r.n_stop == 0 && r.top_logprobs == 0);
    assert_false(r.streams || r.includes_usage || r.wants_logprobs);
    assert_int_equal(r.chat.messages->n, 1);
    assert_null(r.chat.tools);
    chat_end(f);
}

TEST(every_field_has_its_place)
{
    generation_request r;
    chat_load(f);
    CHECK_OK(read_request("{" HI "," TOOLS ",'stream':true,"
                          "'stream_options':{'include_usage':true},'n':4,"
                          "'max_tokens':50,'max_completion_tokens':60,'temperature':0.2,"
                          "'seed':5,'stop':['a','b'],"
                          "'logprobs':true,'top_logprobs':20,'tool_choice':'auto',"
                          "'parallel_tool_calls':false,"
                          "'unknown':{},'enable_thinking':false}",
                          &r),
             &last);
    assert_true(r.streams && r.includes_usage && r.wants_logprobs);
    assert_true(r.n == 4 && r.max_tokens == 60 && r.n_stop == 2 && r.top_logprobs == 20);
    assert_true(r.policy.temperature == 0.2 && r.policy.seed == 5);
    assert_int_equal(r.chat.tools->n, 1);
    assert_true(r.chat.is_thinking_off);
    CHECK_OK(read_request("{" HI "," TOOLS ",'tool_choice':'none'}", &r), &last);
    assert_null(r.chat.tools);
    chat_end(f);
}

TEST(a_failure_leaves_the_output)
{
    generation_request r = {.n = 77};
    chat_load(f);
    CHECK_STATUS(read_request("{" HI ",'n':1,'response_format':{'type':'xml'}}", &r),
                 ERR_UNSUPPORTED);
    assert_string_equal(last.where, "response_format");
    CHECK_STATUS(read_request("{'n':1}", &r), ERR_INVALID);
    CHECK_STATUS(read_request("[]", &r), ERR_INVALID);
    assert_int_equal(r.n, 77);
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
    const json *body = chat_parse(&f->mem, "{" HI "," TOOLS ",'stop':'x','logit_bias':{'1':2}}");
    int n_failed = 0;
    for (int64_t n = 1; n < 100; n++) {
        arena a;
        arena_init(&a, 0);
        mem_fail_at(n);
        status s = chat_request_parse(body, &x, &a, &r, &last);
        mem_fail_at(0);
        arena_fini(&a);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        n_failed++;
    }
    assert_true(n_failed >= 1 && n_failed < 99);
    chat_end(f);
}
