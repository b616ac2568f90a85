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
