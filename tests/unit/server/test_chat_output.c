#include "build_id.h"
#include "chat_fixture.h"

#define HEAD_OF(object)                                                                     \
    "{\"id\":\"chatcmpl-1\",\"object\":\"" object "\",\"created\":1234,\"model\":\"tiny\"," \
    "\"system_fingerprint\":\"riptide-" RIPTIDE_BUILD_ID "\","
#define CHUNK "data: " HEAD_OF("chat.completion.chunk") "\"choices\":["
#define TOOLS                                                                                   \
    "[{'type':'function','function':{'name':'add','parameters':{'type':'object','properties':{" \
    "'s':{'type':'string'}}}}}]"

static chat_fixture fixture, *const f = &fixture;
static const int32_t some[8] = {300, 301, 302, 303, 304, 305, 306, 307};

static void expect_out(const char *want)
{
    assert_string_equal(buf_str(&f->g.out).ptr, want);
    buf_clear(&f->g.out);
}

TEST(chunks_have_the_shape_of_the_protocol)
{
    chat_begin(f, 2, true, NULL, true);
    chat_put_role(&f->g.out, &f->g, &f->answers[1]);
    expect_out(CHUNK "{\"index\":1,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                     "\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
    chat_say(f, 0, "hm\"", some, 1);
    expect_out(CHUNK "{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\\\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
    chat_say(f, 0, "</think>\n\nyes\nno", some, 1);
    expect_out(CHUNK "{\"index\":0,\"delta\":{\"content\":\"yes\\nno\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
    f->g.request.includes_usage = true;
    chat_finish(f, 0, ENGINE_LENGTH);
    assert_int_equal(f->g.out.len, 0);
    chat_put_finish(&f->g.out, &f->g, &f->answers[0]);
    expect_out(CHUNK
               "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"}"
               "],\"usage\":null,"
               "\"timings\":{\"prompt_n\":7,\"cache_n\":0,\"cache_stop\":\"off\",\"predicted_n\":2,"
               "\"queue_ms\":0,\"prompt_ms\":2,"
               "\"predicted_ms\":20,\"prompt_per_second\":3500,"
               "\"predicted_per_second\":100,\"cycles\":0,"
               "\"draft_n\":0,\"draft_n_accepted\":0}}\n\n");
    chat_say(f, 1, "more", some, 5);
    buf_clear(&f->g.out);
    chat_put_usage(&f->g.out, &f->g);
    expect_out("data: " HEAD_OF(
        "chat.completion.chunk") "\"choices\":[],"
                                 "\"usage\":{\"prompt_tokens\":7,"
                                 "\"completion_tokens\":7,\"total_tokens\":14,"
                                 "\"prompt_tokens_details\":{\"cached_tokens\":0},"
                                 "\"completion_tokens_details\":{\"reasoning_tokens\":7}}}\n\n");
    chat_end(f);
}

/* The pieces of one call in a stream, joined; fails when one is too long or no proper text. */
static void join_arguments(buf *joined)
{
    arena a;
    err e = {0};
    arena_init(&a, 0);
    size_t at = 0;
    for (int64_t from; (from = str_find(buf_str(&f->g.out), STR("data: "), at)) >= 0;) {
        int64_t to = str_find(buf_str(&f->g.out), STR("\n\n"), (size_t)from);
        const json *v;
        CHECK_OK(json_parse(&a, str_slice(buf_str(&f->g.out), (size_t)from + 6, (size_t)to),
                            "chunk", 16, 0, &v, &e),
                 &e);
        const json *calls = json_get(json_get(json_at(json_get(v, "choices"), 0), "delta"),
                                     "tool_calls");
        const json *text = json_get(json_get(json_at(calls, 0), "function"), "arguments");
        assert_true(json_is(text, JSON_STRING) && text->text.len <= ANSWER_PIECE_MAX);
        assert_true(str_find(text->text, STR("\xef\xbf\xbd"), 0) < 0);
        buf_put_str(joined, text->text);
        at = (size_t)to;
    }
    arena_fini(&a);
}

TEST(a_call_is_named_once_and_its_arguments_come_in_pieces)
{
    chat_begin(f, 1, true, TOOLS, false);
    chat_say(f, 0, "<tool_call>\n<function=add>\n<parameter=s>\nab", some, 1);
    char want[1024];
    snprintf(want, sizeof want,
             CHUNK "{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"%s\","
                   "\"type\":\"function\",\"function\":{"
                   "\"name\":\"add\",\"arguments\":\"\"}}]},\"logprobs\":null,"
                   "\"finish_reason\":null}]}\n\n",
             f->answers[0].calls[0].id);
    assert_true(str_starts(buf_str(&f->g.out), str_from(want)));
    buf joined;
    buf_init(&joined);
    chat_say(f, 0, "c\n</parameter>\n", some, 1);
    chat_finish(f, 0, ENGINE_LENGTH);
    join_arguments(&joined);
    assert_string_equal(buf_str(&joined).ptr, "{\"s\":\"abc\"}");
    int n_names = 0;
    for (int64_t at = 0; (at = str_find(buf_str(&f->g.out), STR("\"name\""), (size_t)at)) >= 0;
         at++)
        n_names++;
    assert_int_equal(n_names, 1);
    buf_fini(&joined);
    chat_end(f);
}

TEST(long_arguments_are_cut_between_characters)
{
    chat_begin(f, 1, true, TOOLS, false);
    buf text, joined;
    buf_init(&text);
    buf_init(&joined);
    buf_put_c(&text, "<tool_call>\n<function=add>\n<parameter=s>\n");
    for (int i = 0; i < 20000; i++) buf_put_c(&text, i % 7 ? "\xe2\x82\xac" : "x");
    buf_put_c(&text, "\n</parameter>\n</function>\n</tool_call>");
    chat_say(f, 0, buf_str(&text).ptr, some, 1);
    join_arguments(&joined);
    arena a;
    arena_init(&a, 0);
    err e = {0};
    const json *v;
    CHECK_OK(json_parse(&a, buf_str(&joined), "arguments", 8, 0, &v, &e), &e);
    assert_int_equal(json_get(v, "s")->text.len, 20000 / 7 + 1 + 3 * (20000 - 20000 / 7 - 1));
    arena_fini(&a);
    buf_fini(&text);
    buf_fini(&joined);
    chat_end(f);
}

TEST(a_whole_answer_has_its_parts_where_they_are_typed)
{
    chat_begin(f, 2, false, TOOLS, true);
    chat_say(f, 0, "why</think>because", some, 3);
    chat_finish(f, 0, ENGINE_STOP);
    chat_say(f, 1,
             "</think><tool_call>\n<function=add>\n<parameter=s>\n02134\n</parameter>\n"
             "</function>\n</tool_call>",
             some, 2);
    chat_finish(f, 1, ENGINE_STOP);
    chat_put_completion(&f->g.out, &f->g);
    char want[2048];
    snprintf(
        want, sizeof want,
        HEAD_OF(
            "chat.completion") "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                               "\"content\":\"because\",\"refusal\":null,"
                               "\"reasoning_content\":\"why\"},\"logprobs\":null,"
                               "\"finish_reason\":\"stop\"},"
                               "{\"index\":1,\"message\":{"
                               "\"role\":\"assistant\",\"content\":null,\"refusal\":null,"
                               "\"tool_calls\":[{\"id\":\"%s\",\"type\":\"function\","
                               "\"function\":{\"name\":\"add\","
                               "\"arguments\":\"{\\\"s\\\":\\\"02134\\\"}\"}}]},"
                               "\"logprobs\":null,"
                               "\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":7,"
                               "\"completion_tokens\":5,\"total_tokens\":12,",
        f->answers[1].calls[0].id);
    assert_true(str_starts(buf_str(&f->g.out), str_from(want)));
    chat_end(f);
}

TEST(logprobs_go_out_with_the_next_chunk)
{
    chat_begin(f, 1, true, NULL, false);
    err e = {0};
    f->g.request.wants_logprobs = true;
    f->g.request.top_logprobs = 1;
    engine_logprob p[2] = {
        {.logprob = -0.5f, .top_ids = {10, 11}, .top_logprobs = {-0.5f, -INFINITY}},
        {.logprob = -INFINITY, .top_ids = {-1}}};
    int32_t ids[2] = {10, 2069}; /* the second is the end token */
    engine_event ev = {
        .kind = ENGINE_TOKENS, .ids = ids, .n_ids = 2, .logprobs = p, .text = STR("")};
    CHECK_OK(answer_take(&f->answers[0], &ev, &e), &e);
    assert_int_equal(f->g.out.len, 0);
    chat_finish(f, 0, ENGINE_STOP);
    chat_put_finish(&f->g.out, &f->g, &f->answers[0]);
    str out = buf_str(&f->g.out);
    assert_true(str_find(out, STR("\"logprobs\":{\"content\":[{\"token\":"), 0) > 0);
    assert_true(str_find(out, STR("\"logprob\":-0.5,\"bytes\":["), 0) > 0);
    assert_true(str_find(out, STR("}]}],\"refusal\":null},\"finish_reason\":\"stop\""), 0) > 0);
    assert_int_equal(f->answers[0].n_logprobs, 0);

    buf_clear(&f->g.out);
    ids[1] = 11;
    ev.text = STR("x");
    CHECK_OK(answer_take(&f->answers[0], &ev, &e), &e);
    assert_true(str_find(buf_str(&f->g.out), STR("\"logprob\":-9999,"), 0) > 0);
    chat_end(f);
}
