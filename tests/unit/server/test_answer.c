#include "chat_fixture.h"

#define TOOLS                                                                                   \
    "[{'type':'function','function':{'name':'add','parameters':{'type':'object','properties':{" \
    "'a':{'type':'integer'}}}}}]"

static chat_fixture fixture, *const f = &fixture;
static const int32_t some[8] = {300, 301, 302, 303, 304, 305, 306, 307};

TEST(text_is_told_apart_from_reasoning)
{
    chat_begin(f, 1, false, NULL, true);
    chat_say(f, 0, "I thi", some, 2);
    chat_say(f, 0, "nk.\n</th", some, 1);
    chat_say(f, 0, "ink>\n\nYes.", some, 2);
    chat_finish(f, 0, ENGINE_STOP);
    answer *c = &f->answers[0];
    assert_string_equal(buf_str(&c->reasoning).ptr, "I think.");
    assert_string_equal(buf_str(&c->content).ptr, "Yes.");
    assert_string_equal(answer_finish_reason(c), "stop");
    assert_true(c->is_done);
    chat_end(f);
}

TEST(calls_are_collected_and_change_the_reason)
{
    chat_begin(f, 1, false, TOOLS, false);
    chat_say(f, 0, "Sure.\n\n<tool_call>\n<function=add>\n<parameter=a>\n4", some, 2);
    chat_say(f, 0, "17\n</parameter>\n</function>\n</tool_call>", some, 2);
    chat_finish(f, 0, ENGINE_STOP);
    answer *c = &f->answers[0];
    assert_int_equal(c->n_calls, 1);
    assert_string_equal(buf_str(&c->calls[0].name).ptr, "add");
    assert_string_equal(buf_str(&c->calls[0].arguments).ptr, "{\"a\":417}");
    assert_true(strncmp(c->calls[0].id, "call_", 5) == 0 && strlen(c->calls[0].id) == 29);
    assert_string_equal(buf_str(&c->content).ptr, "Sure.");
    assert_string_equal(answer_finish_reason(c), "tool_calls");
    chat_end(f);
}

TEST(without_tools_a_call_is_text)
{
    chat_begin(f, 1, false, NULL, false);
    chat_say(f, 0, "<tool_call>\n<function=add>\n</function>\n</tool_call>", some, 2);
    chat_finish(f, 0, ENGINE_STOP);
    assert_int_equal(f->answers[0].n_calls, 0);
    assert_true(str_starts(buf_str(&f->answers[0].content), STR("<tool_call>")));
    assert_string_equal(answer_finish_reason(&f->answers[0]), "stop");
    chat_end(f);
}

TEST(more_calls_than_fit_at_first_keep_their_own_ids)
{
    chat_begin(f, 1, false, TOOLS, false);
    for (int i = 0; i < 9; i++)
        chat_say(f, 0,
                 "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n"
                 "</function>\n</tool_call>\n",
                 some, 1);
    chat_finish(f, 0, ENGINE_STOP);
    answer *c = &f->answers[0];
    assert_int_equal(c->n_calls, 9);
    for (int i = 1; i < 9; i++) assert_string_not_equal(c->calls[i].id, c->calls[i - 1].id);
    chat_end(f);
}

TEST(reasoning_tokens_are_counted_up_to_the_closing_mark)
{
    chat_begin(f, 1, false, NULL, true);
    assert_true(f->s.think_close > 0);
    int32_t ids[5] = {300, 301, f->s.think_close, 302, 303};
    chat_say(f, 0, "ab</think>c", ids, 5);
    assert_int_equal(f->answers[0].reasoning_tokens, 3);
    int32_t again[3] = {f->s.think_open, 300, f->s.think_close};
    chat_say(f, 0, "", again, 3);
    assert_int_equal(f->answers[0].reasoning_tokens, 6);
    chat_say(f, 0, "", some, 4);
    assert_int_equal(f->answers[0].reasoning_tokens, 6);
    chat_end(f);
}

TEST(length_is_length_with_calls_too)
{
    chat_begin(f, 1, false, TOOLS, false);
    chat_say(f, 0, "<tool_call>\n<function=add>\n<parameter=a>\n1", some, 1);
    chat_finish(f, 0, ENGINE_LENGTH);
    assert_int_equal(f->answers[0].n_calls, 1);
    assert_string_equal(answer_finish_reason(&f->answers[0]), "length");
    arena a;
    arena_init(&a, 0);
    err e = {0};
    const json *v;
    CHECK_OK(json_parse(&a, buf_str(&f->answers[0].calls[0].arguments), "arguments", 8, 0, &v, &e),
             &e);
    arena_fini(&a);
    chat_end(f);
}

/* The text as its tokens, `step` of them an event, and an end. */
static void say_tokens(const char *text, int step)
{
    token_ids ids = {0};
    err e = {0};
    CHECK_OK(tokenizer_encode(f->tokens, str_from(text), true, 0, &ids, &e), &e);
    for (int at = 0; at < ids.n; at += step)
        chat_say(f, 0, "(not looked at)", ids.ptr + at, at + step < ids.n ? step : ids.n - at);
    chat_finish(f, 0, ENGINE_STOP);
    token_ids_fini(&ids);
}

static void begin_stopping(const str *stops, int n, const char *tools)
{
    chat_begin(f, 0, false, tools, true);
    err e = {0};
    f->g.request.stop = stops;
    f->g.request.n_stop = n;
    f->g.request.n = 1;
    CHECK_OK(answer_open(&f->answers[0], &f->g, 0, &e), &e);
}

TEST(a_stop_string_counts_in_content_alone)
{
    static const str stops[] = {{"golden", 6}, {"zzz", 3}};
    static const char call[] = "golden why</think>\n\nlan gold\n\n<tool_call>\n<function=add>\n"
                               "<parameter=b>\ngolden\n</parameter>\n</function>\n</tool_call>";
    begin_stopping(stops, 2, TOOLS);
    say_tokens(call, 3);
    answer *c = &f->answers[0];
    assert_string_equal(buf_str(&c->reasoning).ptr, "golden why");
    assert_string_equal(buf_str(&c->content).ptr, "lan gold");
    assert_string_equal(buf_str(&c->calls[0].arguments).ptr, "{\"b\":\"golden\"}");
    assert_false(c->is_cut);
    assert_int_equal(c->stop_string, -1);
    assert_string_equal(answer_finish_reason(c), "tool_calls");
    chat_end(f);
}

/* Where the answer ends, and after how many tokens, is the same however many tokens came at once.
 */
TEST(a_stop_string_cuts_at_its_token)
{
    static const str stops[] = {{"zzz", 3}, {"lden ke", 7}};
    static const char text[] = "why</think>\n\nlantern token golden kettle merge golden kettle";
    int64_t n_tokens = 0;
    for (int step = 1; step < 40; step += step < 6 ? 1 : 30) {
        begin_stopping(stops, 2, NULL);
        say_tokens(text, step);
        answer *c = &f->answers[0];
        assert_string_equal(buf_str(&c->content).ptr, "lantern token go");
        assert_true(c->is_cut && c->is_done && c->reason == ENGINE_STOP_STRING);
        assert_int_equal(c->stop_string, 1);
        assert_string_equal(answer_finish_reason(c), "stop");
        if (step == 1) n_tokens = c->usage.completion_tokens;
        assert_int_equal(c->usage.completion_tokens, n_tokens);
        chat_end(f);
    }
    token_ids ids = {0};
    err e = {0};
    chat_load(f);
    CHECK_OK(tokenizer_encode(f->tokens, STR(text), true, 0, &ids, &e), &e);
    assert_true(n_tokens > 4 && n_tokens < ids.n);
    token_ids_fini(&ids);
    f->g.request.n = 0;
    chat_end(f);
}

TEST(what_might_have_become_a_stop_string_is_shown_at_the_end)
{
    static const str stops[] = {{"kettle!", 7}};
    begin_stopping(stops, 1, NULL);
    say_tokens("why</think>\n\ngolden kettle", 2);
    assert_string_equal(buf_str(&f->answers[0].content).ptr, "golden kettle");
    assert_string_equal(answer_finish_reason(&f->answers[0]), "stop");
    assert_int_equal(f->answers[0].stop_string, -1);
    chat_end(f);
}

TEST(the_rate_leaves_the_first_emission_out)
{
    chat_begin(f, 1, false, NULL, false);
    assert_true(answer_rate(&f->answers[0]) == 0);
    chat_say(f, 0, "a", some, 4); /* 40 ms */
    assert_true(answer_rate(&f->answers[0]) == 0);
    chat_say(f, 0, "b", some, 6); /* 60 ms more */
    assert_true(answer_rate(&f->answers[0]) == 100);
    chat_end(f);
}

TEST(memory_that_runs_out_is_told)
{
    int64_t before = mem_count().n_live;
    int n_failed = 0;
    for (int64_t n = 1; n < 200; n++) {
        err e = {0};
        chat_begin(f, 1, false, TOOLS, true);
        engine_event ev = {.kind = ENGINE_TOKENS,
                           .ids = some,
                           .n_ids = 1,
                           .text = STR("why</think>x<tool_call>\n<function=add>\n<parameter=a>\n"
                                       "1\n</parameter>\n"
                                       "</function>\n</tool_call>")};
        mem_fail_at(n);
        status s = answer_take(&f->answers[0], &ev, &e);
        ev = (engine_event){.kind = ENGINE_FINISH, .reason = ENGINE_STOP};
        if (s == ERR_OK) s = answer_take(&f->answers[0], &ev, &e);
        mem_fail_at(0);
        if (s != ERR_OK) {
            CHECK_STATUS(s, ERR_NOMEM);
            n_failed++;
        }
        chat_end(f);
        assert_int_equal(mem_count().n_live, before);
        if (s == ERR_OK) break;
    }
    assert_true(n_failed > 3);
}
