/* tags: slow, timeout=240 */
#include <stdlib.h>

#include "serve_fixture.h"

#define ASK(text) "'messages':[{'role':'user','content':'" text "'}]"
#define SUM ASK("What is 12 + 30?")
#define PLAIN "'chat_template_kwargs':{'enable_thinking':false},"
#define FUNCTION(name, about, properties, required)                          \
    "{'type':'function','function':{'name':'" name "','description':'" about \
    "','parameters':{'type':'object','properties':{" properties "},'required':[" required "]}}}"
#define GET_WEATHER \
    FUNCTION("get_weather", "Current weather of a city", "'city':{'type':'string'}", "'city'")
#define ADD \
    FUNCTION("add", "Add two numbers", "'a':{'type':'integer'},'b':{'type':'integer'}", "'a','b'")
#define WEATHER "'tools':[" GET_WEATHER "," ADD "]"

static serve_fixture fixture, *const f = &fixture;

static void open_server(void)
{
    serve_open(f, serve_options(), 2, 32, 2048);
}

static const json *chat(const char *body)
{
    if (serve_chat(f, body) != 200) fail_msg("%s: %.*s", body, STR_ARG(buf_str(&f->in)));
    return serve_json(f);
}

TEST(an_answer_has_reasoning_content_and_usage)
{
    open_server();
    const json *a = chat("{" SUM ",'temperature':0}");
    serve_expect_text(a, "object", "chat.completion");
    serve_expect_text(a, "model", "mini-dense");
    assert_true(str_starts(serve_text(a, "id"), STR("chatcmpl-")));
    assert_true(serve_int(a, "created") > 1700000000);
    serve_expect_text(a, "choices/0/message/role", "assistant");
    serve_expect_text(a, "choices/0/finish_reason", "stop");
    assert_true(str_find(serve_text(a, "choices/0/message/content"), STR("42"), 0) >= 0);
    str reasoning = serve_text(a, "choices/0/message/reasoning_content");
    assert_true(reasoning.len > 0 && str_find(reasoning, STR("think>"), 0) < 0);
    assert_true(json_is(serve_at(a, "choices/0/logprobs"), JSON_NULL));
    assert_null(serve_at(a, "choices/0/message/tool_calls"));
    int64_t n_prompt = serve_int(a, "usage/prompt_tokens"),
            n_new = serve_int(a, "usage/completion_tokens");
    int64_t n_reasoning = serve_int(a, "usage/completion_tokens_details/reasoning_tokens");
    assert_true(n_prompt > 5 && n_new > 5 && n_reasoning > 5 && n_reasoning < n_new);
    assert_int_equal(serve_int(a, "usage/total_tokens"), n_prompt + n_new);
    assert_int_equal(serve_int(a, "timings/prompt_n"), n_prompt);
    assert_int_equal(serve_int(a, "timings/predicted_n"), n_new);
    assert_true(
        str_find(buf_str(&f->in), STR("Content-Type: application/json; charset=utf-8\r\n"), 0) > 0);
    serve_close(f);
}

TEST(a_stream_joins_to_the_whole_answer)
{
    static const char *const bodies[] = {
        SUM, PLAIN SUM, WEATHER "," ASK("What is the weather in Kyoto?"),
        WEATHER "," ASK("Compare the weather in Lagos and Vienna."),
        WEATHER "," ASK("Use the tool to add 417 and 288.")};
    int n_with_calls = 0;
    open_server();
    for (size_t i = 0; i < (SERVE_IS_SLOW ? 3 : sizeof bodies / sizeof *bodies); i++) {
        char body[2048];
        serve_stream s;
        buf calls;
        buf_init(&calls);
        snprintf(body, sizeof body,
                 "{%s,'temperature':0,'stream':true,'stream_options':{'include_usage':true}}",
                 bodies[i]);
        serve_chat_stream(f, body, &s);
        assert_true(s.is_done && !s.has_error);
        assert_int_equal(s.n_roles, 1);
        assert_true(s.n_chunks > 3);
        snprintf(body, sizeof body, "{%s,'temperature':0}", bodies[i]);
        const json *a = chat(body), *list = serve_at(a, "choices/0/message/tool_calls");
        assert_true(
            str_equal(buf_str(&s.reasoning), serve_text(a, "choices/0/message/reasoning_content")));
        assert_true(str_equal(buf_str(&s.content), serve_text(a, "choices/0/message/content")));
        for (const json *call = list ? list->first : NULL; call; call = call->next) {
            serve_expect_text(call, "type", "function");
            buf_printf(&calls, "%s%.*s %.*s", calls.len ? ";" : "",
                       STR_ARG(serve_text(call, "function/name")),
                       STR_ARG(serve_text(call, "function/arguments")));
        }
        assert_string_equal(buf_str(&s.calls).ptr, buf_str(&calls).ptr);
        serve_expect_text(a, "choices/0/finish_reason", s.finish);
        assert_string_equal(s.finish, calls.len ? "tool_calls" : "stop");
        assert_int_equal(s.completion_tokens, serve_int(a, "usage/completion_tokens"));
        n_with_calls += calls.len > 0;
        buf_fini(&calls);
        serve_stream_fini(&s);
    }
    assert_true(n_with_calls >= (SERVE_IS_SLOW ? 1 : 2));
    serve_close(f);
}

TEST(a_tool_is_called_and_its_result_ends_in_an_answer)
{
    open_server();
    const json *a = chat("{" WEATHER
                         ",'temperature':0," ASK("Use the tool to add 417 and 288.") "}");
    serve_expect_text(a, "choices/0/finish_reason", "tool_calls");
    serve_expect_text(a, "choices/0/message/tool_calls/0/function/name", "add");
    arena m;
    arena_init(&m, 0);
    err e = {0};
    const json *arguments;
    CHECK_OK(json_parse(&m, serve_text(a, "choices/0/message/tool_calls/0/function/arguments"),
                        "arguments", 8, 0, &arguments, &e),
             &e);
    assert_int_equal(serve_int(arguments, "a"), 417);
    assert_int_equal(serve_int(arguments, "b"), 288);

    buf q;
    buf_init(&q);
    buf_put_c(&q, "{" PLAIN WEATHER ",'temperature':0,'messages':[{'role':'user','content':"
                  "'Use the tool to add 417 and 288.'},");
    json_put_value(&q, serve_at(a, "choices/0/message"), JSON_COMPACT);
    buf_printf(&q, ",{'role':'tool','tool_call_id':'%.*s','content':'705'}]}",
               STR_ARG(serve_text(a, "choices/0/message/tool_calls/0/id")));
    a = chat(buf_str(&q).ptr);
    serve_expect_text(a, "choices/0/finish_reason", "stop");
    assert_true(str_find(serve_text(a, "choices/0/message/content"), STR("705"), 0) >= 0);
    buf_fini(&q);
    arena_fini(&m);
    serve_close(f);
}

TEST(tool_choice_none_leaves_the_tools_out)
{
    open_server();
    int64_t with = serve_int(chat("{" WEATHER ",'max_tokens':1," ASK("Hi") "}"),
                             "usage/prompt_tokens");
    int64_t without = serve_int(chat("{'max_tokens':1," ASK("Hi") "}"), "usage/prompt_tokens");
    const json *a = chat("{" WEATHER ",'tool_choice':'none','max_tokens':1," ASK("Hi") "}");
    assert_int_equal(serve_int(a, "usage/prompt_tokens"), without);
    a = chat("{" WEATHER ",'tool_choice':'auto','max_tokens':1," ASK("Hi") "}");
    assert_int_equal(serve_int(a, "usage/prompt_tokens"), with);
    assert_true(with > without + 20);
    serve_close(f);
}

TEST(thinking_can_be_turned_off_in_every_spelling)
{
    static const char *const off[] = {"'enable_thinking':false", "'reasoning_effort':'none'",
                                      "'chat_template_kwargs':{'enable_thinking':false}",
                                      "'reasoning':{'effort':'none'}"};
    open_server();
    for (int i = 0; i < 4; i++) {
        char body[512];
        snprintf(body, sizeof body, "{%s,'temperature':0," SUM "}", off[i]);
        const json *a = chat(body);
        assert_null(serve_at(a, "choices/0/message/reasoning_content"));
        assert_int_equal(serve_int(a, "usage/completion_tokens_details/reasoning_tokens"), 0);
    }
    serve_close(f);
}

TEST(a_stop_string_cuts_exactly)
{
    serve_stream s;
    open_server();
    const json *a = chat("{" PLAIN "'temperature':0," ASK(
        "Write in upper case: lantern token golden kettle merge") "}");
    str whole = serve_text(a, "choices/0/message/content");
    assert_true(whole.len > 15);
    char kept[16], stop[8], body[512];
    snprintf(kept, sizeof kept, "%.*s", 9, whole.ptr);
    snprintf(stop, sizeof stop, "%.*s", 5, whole.ptr + 9);
    snprintf(body, sizeof body,
             "{" PLAIN "'temperature':0,'stop':['zzz','%s']," ASK(
                 "Write in upper case: lantern token golden kettle merge") "%s}",
             stop, ",'stream':true");
    serve_chat_stream(f, body, &s);
    assert_string_equal(buf_str(&s.content).ptr, kept);
    assert_string_equal(s.finish, "stop");
    serve_stream_fini(&s);
    serve_close(f);
}

/* Words of the reasoning do not end the answer, and the work ends with it. */
TEST(a_stop_string_is_not_looked_for_in_reasoning)
{
    open_server();
    const json *a = chat("{'temperature':0," SUM "}");
    char reasoning[400], content[400], body[800];
    snprintf(reasoning, sizeof reasoning, "%.*s",
             STR_ARG(serve_text(a, "choices/0/message/reasoning_content")));
    snprintf(content, sizeof content, "%.*s", STR_ARG(serve_text(a, "choices/0/message/content")));
    int64_t n = serve_int(a, "usage/completion_tokens");
    assert_true(strlen(reasoning) > 5 && strlen(content) > 5);
    /* Three letters of the reasoning that the content does not have. */
    char stop[4] = "";
    for (size_t i = 0; reasoning[i + 3] && !stop[0]; i++) {
        char three[4] = {reasoning[i], reasoning[i + 1], reasoning[i + 2], 0};
        if (strpbrk(three, "\\\"'\n") || strstr(content, three)) continue;
        memcpy(stop, three, sizeof stop);
    }
    assert_int_equal(strlen(stop), 3);
    snprintf(body, sizeof body, "{'temperature':0,'stop':'%s'," SUM "}", stop);
    a = chat(body);
    serve_expect_text(a, "choices/0/message/reasoning_content", reasoning);
    serve_expect_text(a, "choices/0/message/content", content);
    assert_int_equal(serve_int(a, "usage/completion_tokens"), n);
    /* And one in the content cuts it there. */
    snprintf(body, sizeof body, "{'temperature':0,'stop':['%.3s'],'n':2," SUM "}", content + 2);
    a = chat(body);
    serve_expect_text(a, "choices/0/message/reasoning_content", reasoning);
    content[2] = 0;
    serve_expect_text(a, "choices/0/message/content", content);
    serve_expect_text(a, "choices/1/message/content", content);
    serve_expect_text(a, "choices/1/finish_reason", "stop");
    assert_true(serve_int(a, "usage/completion_tokens") < 2 * n);
    serve_close(f);
}

TEST(progress_of_a_long_prompt_is_told)
{
    open_server();
    buf q;
    buf_init(&q);
    buf_put_c(&q, "{'stream':true,'return_progress':true,'max_tokens':1,'messages':[{'role':'user',"
                  "'content':'");
    for (int i = 0; i < 300; i++) buf_put_c(&q, "lantern ");
    buf_put_c(&q, "'}]}");
    assert_int_equal(serve_chat(f, buf_str(&q).ptr), 200);
    buf joined;
    buf_init(&joined);
    serve_unchunk(serve_body(f), &joined);
    arena_fini(&f->tree);
    arena_init(&f->tree, 0);
    int64_t last = 0, total = 0;
    int n = 0;
    size_t at = 0;
    for (str event; !str_is(event = serve_next_event(buf_str(&joined), &at), "[DONE]");) {
        const json *p = json_get(serve_parse(f, event), "prompt_progress");
        if (!p) continue;
        assert_true(serve_int(p, "processed") >= last);
        last = serve_int(p, "processed");
        total = serve_int(p, "total");
        assert_true(last <= total && serve_int(p, "cache") <= last);
        n++;
    }
    assert_true(n >= 2 && total > 300);
    assert_int_equal(serve_chat(f, "{'return_progress':true," SUM "}"), 400);
    serve_expect_text(serve_json(f), "error/param", "return_progress");
    buf_fini(&joined);
    buf_fini(&q);
    serve_close(f);
}

TEST(an_answer_that_takes_too_long_is_a_504)
{
    serve_stream s;
    open_server();
    assert_int_equal(serve_chat(f, "{'timeout':0.01,'ignore_eos':true," SUM "}"), 504);
    serve_expect_text(serve_json(f), "error/code", "request_timeout");
    serve_chat_stream(f, "{'timeout':0.2,'stream':true,'ignore_eos':true," SUM "}", &s);
    assert_true(s.is_done && s.has_error);
    serve_stream_fini(&s);
    CLIENT_WAIT_FOR(engine_stats(f->en).canceled == 2);
    chat("{'timeout':3600,'max_tokens':1," SUM "}");
    static const char *const bad[] = {"0", "-1", "'1'", "1e9"};
    for (int i = 0; i < 4; i++) {
        char body[200];
        snprintf(body, sizeof body, "{'timeout':%s," SUM "}", bad[i]);
        assert_int_equal(serve_chat(f, body), 400);
        serve_expect_text(serve_json(f), "error/param", "timeout");
    }
    serve_close(f);
}

TEST(max_tokens_ends_with_length_under_both_names)
{
    open_server();
    const json *a = chat("{" SUM ",'max_tokens':3}");
    serve_expect_text(a, "choices/0/finish_reason", "length");
    assert_int_equal(serve_int(a, "usage/completion_tokens"), 3);
    a = chat("{" SUM ",'max_tokens':50,'max_completion_tokens':2}");
    assert_int_equal(serve_int(a, "usage/completion_tokens"), 2);
    /* More than there is room for is cut to it, not refused. */
    a = chat("{" SUM ",'max_tokens':100000000}");
    serve_expect_text(a, "choices/0/finish_reason", "stop");
    serve_close(f);
}

TEST(several_choices_differ_and_repeat_by_seed)
{
    static const char body[] = "{" PLAIN "'n':3,'seed':7,'temperature':1,'max_tokens':24," ASK(
        "Tell a story of 4 days about Theo in Warsaw.") "}";
    open_server();
    char first[3][256];
    const json *a = chat(body);
    int64_t n = serve_int(a, "usage/completion_tokens");
    assert_int_equal(serve_at(a, "choices")->n, 3);
    for (int i = 0; i < 3; i++) {
        char way[64];
        snprintf(way, sizeof way, "choices/%d/message/content", i);
        snprintf(first[i], sizeof first[i], "%.*s", STR_ARG(serve_text(a, way)));
        snprintf(way, sizeof way, "choices/%d/index", i);
        assert_int_equal(serve_int(a, way), i);
    }
    assert_string_not_equal(first[0], first[1]);
    assert_string_not_equal(first[1], first[2]);
    a = chat(body);
    assert_int_equal(serve_int(a, "usage/completion_tokens"), n);
    for (int i = 0; i < 3; i++) {
        char way[64];
        snprintf(way, sizeof way, "choices/%d/message/content", i);
        serve_expect_text(a, way, first[i]);
    }
    serve_close(f);
}

TEST(logprobs_come_with_their_alternatives)
{
    open_server();
    const json *a = chat("{" PLAIN "'temperature':0,'logprobs':true,'top_logprobs':3," SUM "}");
    const json *list = serve_at(a, "choices/0/logprobs/content");
    int n_list = list->n;
    str content = serve_text(a, "choices/0/message/content");
    buf joined;
    buf_init(&joined);
    /* The end token is counted, but is no part of what was said. */
    assert_int_equal(list->n, serve_int(a, "usage/completion_tokens") - 1);
    for (const json *t = list->first; t; t = t->next) {
        double p, q;
        assert_true(json_to_double(json_get(t, "logprob"), &p) && p <= 0);
        const json *top = json_get(t, "top_logprobs");
        assert_int_equal(top->n, 3);
        assert_true(json_to_double(serve_at(top, "0/logprob"), &q) && q == p);
        assert_true(str_equal(serve_text(t, "token"), serve_text(top, "0/token")));
        const json *bytes = json_get(t, "bytes");
        for (const json *b = bytes->first; b; b = b->next) {
            int64_t byte;
            assert_true(json_to_int64(b, &byte));
            buf_put_byte(&joined, (char)byte);
        }
    }
    assert_true(str_equal(str_trim(buf_str(&joined)), content));
    buf_fini(&joined);

    a = chat("{'logprobs':true,'max_tokens':2," SUM "}");
    assert_int_equal(serve_at(a, "choices/0/logprobs/content/0/top_logprobs")->n, 0);
    serve_stream s;
    serve_chat_stream(f, "{" PLAIN "'temperature':0,'logprobs':true,'stream':true," SUM "}", &s);
    int n = 0;
    for (int64_t at = 0; (at = str_find(buf_str(&f->in), STR("\"bytes\":["), (size_t)at)) >= 0;
         at++)
        n++;
    assert_int_equal(n, n_list);
    serve_stream_fini(&s);
    serve_close(f);
}

TEST(logit_bias_and_penalties_reach_the_sampler)
{
    open_server();
    const json *a = chat("{" PLAIN "'temperature':0,'logprobs':true,'max_tokens':1," SUM "}");
    str first = serve_text(a, "choices/0/logprobs/content/0/token");
    token_ids ids = {0};
    err e = {0};
    CHECK_OK(tokenizer_encode(engine_tokenizer(f->en), first, false, 0, &ids, &e), &e);
    assert_int_equal(ids.n, 1);
    char body[512], before[64];
    snprintf(before, sizeof before, "%.*s", STR_ARG(first));
    snprintf(body, sizeof body,
             "{" PLAIN
             "'temperature':0,'logprobs':true,'max_tokens':1,'logit_bias':{'%d':-100}," SUM "}",
             (int)ids.ptr[0]);
    a = chat(body);
    assert_false(str_is(serve_text(a, "choices/0/logprobs/content/0/token"), before));
    token_ids_fini(&ids);
    serve_close(f);
}

TEST(nulls_mean_the_defaults)
{
    open_server();
    chat("{'model':null,'stream':null,'stream_options':null,'max_tokens':4,"
         "'max_completion_tokens':null,"
         "'temperature':null,'top_p':null,'top_k':null,'min_p':null,'seed':null,'stop':null,"
         "'n':null,"
         "'presence_penalty':null,'frequency_penalty':null,'repetition_penalty':null,"
         "'logit_bias':null,"
         "'logprobs':null,'top_logprobs':null,'reasoning_effort':null,'chat_template_kwargs':null,"
         "'enable_thinking':null,'ignore_eos':null,'tools':null,'tool_choice':null,"
         "'parallel_tool_calls':null,"
         "'response_format':null,'functions':null,'modalities':null,'audio':null,'user':null," SUM
         "}");
    chat(
        "{'model':'default','response_format':{'type':'text'},'modalities':['text'],'max_tokens':2,"
        "'store':false,'metadata':{},'parallel_tool_calls':true," SUM "}");
    serve_close(f);
}

TEST(missing_null_and_empty_content_beside_calls_are_the_same)
{
    static const char *const content[] = {"", "'content':null,", "'content':'',"};
    int64_t n[3];
    open_server();
    for (int i = 0; i < 3; i++) {
        char body[2048];
        snprintf(
            body, sizeof body,
            "{" WEATHER
            ",'max_tokens':1,'messages':[{'role':'user','content':'What is the weather in Turin?'},"
            "{'role':'assistant',%s'tool_calls':[{'id':'call_1','type':'function',"
            "'function':{'name':"
            "'get_weather','arguments':'{\\'city\\':\\'Turin\\'}'}}]},"
            "{'role':'tool','tool_call_id':'call_1','content':'rainy'}]}",
            content[i]);
        n[i] = serve_int(chat(body), "usage/prompt_tokens");
    }
    assert_int_equal(n[0], n[1]);
    assert_int_equal(n[0], n[2]);
    serve_close(f);
}

TEST(marks_in_a_message_stay_text)
{
    open_server();
    int64_t one = serve_int(chat("{'max_tokens':1," ASK("a") "}"), "usage/prompt_tokens");
    int64_t mark = serve_int(chat("{'max_tokens':1," ASK("a<|im_end|>") "}"),
                             "usage/prompt_tokens");
    assert_true(mark > one + 1);
    serve_close(f);
}

TEST(the_prompt_is_never_cut)
{
    open_server();
    buf q;
    buf_init(&q);
    buf_put_c(&q, "{'messages':[{'role':'user','content':'");
    for (int i = 0; i < 3000; i++) buf_put_c(&q, "lantern ");
    buf_put_c(&q, "'}]}");
    assert_int_equal(serve_chat(f, buf_str(&q).ptr), 400);
    const json *a = serve_json(f);
    serve_expect_text(a, "error/code", "context_length_exceeded");
    serve_expect_text(a, "error/type", "invalid_request_error");
    serve_expect_text(a, "error/param", "messages");
    str message = serve_text(a, "error/message");
    assert_true(str_find(message, STR("2048"), 0) > 0);
    int64_t at = str_find(message, STR("prompt has "), 0);
    assert_true(at > 0 && strtol(message.ptr + at + 11, NULL, 10) >= 3000);
    buf_fini(&q);
    serve_close(f);
}

TEST(each_wrong_field_is_a_400_that_names_it)
{
    static const char *const bad[][2] = {
        {"{}", "messages"},
        {"{'messages':[]}", "messages"},
        {"{'messages':{}}", "messages"},
        {"{'messages':[1]}", "/messages/0"},
        {"{'messages':[{'content':'x'}]}", "/messages/0/role"},
        {"{'stream':'yes'," SUM "}", "stream"},
        {"{'stream_options':[]," SUM "}", "stream_options"},
        {"{'stream_options':{'include_usage':1}," SUM "}", "include_usage"},
        {"{'max_tokens':0," SUM "}", "max_tokens"},
        {"{'max_tokens':'9'," SUM "}", "max_tokens"},
        {"{'max_completion_tokens':-1," SUM "}", "max_completion_tokens"},
        {"{'n':0," SUM "}", "n"},
        {"{'n':65," SUM "}", "n"},
        {"{'temperature':3," SUM "}", "temperature"},
        {"{'top_logprobs':3," SUM "}", "top_logprobs"},
        {"{'logprobs':true,'top_logprobs':21," SUM "}", "top_logprobs"},
        {"{'stop':{}," SUM "}", "stop"},
        {"{'model':7," SUM "}", "model"},
        {"{'tool_choice':'required'," SUM "}", "tool_choice"},
        {"{'tool_choice':{'type':'function','function':{'name':'sub'}}," WEATHER "," SUM "}",
         "tool_choice"},
        {"{'tool_choice':{'type':'function'}," WEATHER "," SUM "}", "tool_choice"},
        {"{'tool_choice':{'type':'custom'}," WEATHER "," SUM "}", "tool_choice"},
        {"{'tool_choice':'sometimes'," SUM "}", "tool_choice"},
        {"{'tool_choice':1," SUM "}", "tool_choice"},
        {"{'tools':{}," SUM "}", "/tools"},
        {"{'response_format':{'type':'xml'}," SUM "}", "response_format"},
        {"{'response_format':{}," SUM "}", "response_format"},
        {"{'stop_token_ids':[1]," SUM "}", "stop_token_ids"},
        {"{'min_tokens':3," SUM "}", "min_tokens"},
        {"{'response_format':{'type':'json_object'},'regex':'a'," SUM "}", "regex"},
        {"{'response_format':{'type':'json_object'},'ignore_eos':true," SUM "}", "ignore_eos"},
        {"{'regex':'('," SUM "}", "regex"},
        {"{'grammar':'root ::= ('," SUM "}", "grammar"},
        {"{'thinking_budget':-2," SUM "}", "thinking_budget"},
        {"{'response_format':{'type':'json_schema','json_schema':{}}," SUM "}", "response_format"},
        {"{'modalities':['audio']," SUM "}", "modalities"},
        {"{'audio':{}," SUM "}", "audio"},
        {"{'functions':[]," SUM "}", "functions"},
        {"{'parallel_tool_calls':1," SUM "}", "parallel_tool_calls"},
        {"{'messages':[{'role':'user','content':[{'type':'text','text':'x'},{'type':'image_url',"
         "'image_url':{'url':'data:image/png;base64,AA'}}]}]}",
         "/messages/0/content/1"},
        {"{'messages':[{'role':'user','content':[{'type':'input_audio','input_audio':{}}]}]}",
         "/messages/0/content/0"},
    };
    open_server();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (serve_chat(f, bad[i][0]) != 400)
            fail_msg("%s: %.*s", bad[i][0], STR_ARG(buf_str(&f->in)));
        const json *a = serve_json(f);
        str param = serve_text(a, "error/param");
        if (!str_is(param, bad[i][1])) fail_msg("%s names %.*s", bad[i][0], STR_ARG(param));
        serve_expect_text(a, "error/type", "invalid_request_error");
        assert_true(serve_text(a, "error/message").len > 0);
    }
    assert_int_equal(engine_stats(f->en).submitted, 0);
    serve_close(f);
}

TEST(an_unknown_model_is_404_and_its_name_is_echoed_as_json)
{
    open_server();
    assert_int_equal(serve_chat(f, "{'model':'gpt-5 \\ud83d \\'x\\''," SUM "}"), 404);
    const json *a = serve_json(f);
    serve_expect_text(a, "error/code", "model_not_found");
    serve_expect_text(a, "error/param", "model");
    assert_true(str_find(serve_text(a, "error/message"), STR("gpt-5 \xef\xbf\xbd \"x\""), 0) > 0);
    serve_close(f);
}

TEST(what_is_no_json_is_400_with_the_place)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "[1,2",
                                      "{'messages':[}",
                                      "nul",
                                      "{} {}",
                                      "{'a':'\xff'}",
                                      "\xef\xbb\xbf{}",
                                      "{'a':1}",
                                      "[]",
                                      "7",
                                      "'x'"};
    open_server();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (serve_chat(f, bad[i]) != 400) fail_msg("%s: %.*s", bad[i], STR_ARG(buf_str(&f->in)));
        serve_expect_text(serve_json(f), "error/code", "invalid_request_error");
    }
    /* Nesting that a recursive reader would die of. */
    buf q;
    buf_init(&q);
    buf_put_c(&q, "{'tools':");
    for (int i = 0; i < 3000; i++) buf_put_byte(&q, '[');
    for (int i = 0; i < 3000; i++) buf_put_byte(&q, ']');
    buf_put_c(&q, "," SUM "}");
    assert_int_equal(serve_chat(f, buf_str(&q).ptr), 400);
    buf_fini(&q);
    /* Half a pair of a JavaScript string is repaired, as such agents send it. */
    chat("{'max_tokens':1," ASK("\\ud83d") "}");
    serve_close(f);
}

TEST(a_prompt_of_newlines_is_an_error_and_nothing_else)
{
    open_server();
    enum { N = SERVE_IS_SLOW ? 1 << 16 : 6 << 20 };
    char *body = mem_new(2 * N + 256);
    size_t at = (size_t)sprintf(body, "{'messages':[{'role':'user','content':'");
    for (int i = 0; i < N; i++) {
        body[at++] = '\\';
        body[at++] = 'n';
    }
    sprintf(body + at, "x'}]}");
    assert_int_equal(serve_chat(f, body), 400);
    assert_int_equal(serve_ask(f, "GET", "/health", NULL), 200);
    mem_free(body);
    serve_close(f);
}

/* More structure than the request may cost to read; the server goes on. */
TEST(a_request_that_takes_too_much_memory_is_413)
{
    open_server();
    enum { N = 3 << 20 };
    char *body = mem_new(2 * N + 256);
    size_t at = (size_t)sprintf(body, "{'x':[");
    for (int i = 0; i < N; i++) {
        body[at++] = '0';
        body[at++] = ',';
    }
    sprintf(body + at, "0]," SUM "}");
    assert_int_equal(serve_chat(f, body), 413);
    serve_expect_text(serve_json(f), "error/code", "request_too_large");
    assert_int_equal(serve_ask(f, "GET", "/health", NULL), 200);
    mem_free(body);
    serve_close(f);
}
