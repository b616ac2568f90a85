#include "server/responses_output_priv.h"

#include "chat_fixture.h"

static chat_fixture fixture, *const f = &fixture;
static responses_echo echo;
static const int32_t some[8] = {300, 301, 302, 303, 304, 305, 306, 307};
static const responses_tool known[] = {
    {{"m__add", 6}, {"m", 1}, {"add", 3}, false},
    {{"patch", 5}, {"", 0}, {"patch", 5}, true},
};
#define TOOLS                                                                                      \
    "[{'type':'function','function':{'name':'m__add','parameters':{'type':'object','properties':{" \
    "'a':{'type':'integer'}}}}},{'type':'function','function':{'name':'patch'}}]"

static void put_part(generation *g, answer *c, const outparse_event *part)
{
    responses_put_part(g, c, part);
}
static const dialect responses = {.keeps_text = true, .part = put_part};

static void begin(bool streams, bool thinks)
{
    chat_begin(f, 1, streams, TOOLS, thinks);
    echo = (responses_echo){.tools = known,
                            .n_tools = 2,
                            .items = STR("[{\"x\":1}]"),
                            .instructions = STR("null"),
                            .tools_text = STR("null"),
                            .metadata = STR("null"),
                            .reasoning = STR("null"),
                            .tool_choice = STR("null"),
                            .format = STR("null"),
                            .is_stored = true};
    f->g.dialect = &responses;
    f->g.extra = &echo;
    f->g.n_prompt = 7;
    snprintf(f->g.id, sizeof f->g.id, "resp_1");
}

static const json *parse(str text)
{
    const json *v = NULL;
    err e = {0};
    CHECK_OK(json_parse(&f->mem, text, "answer", 16, JSON_UNIQUE_KEYS, &v, &e), &e);
    return v;
}

/* Names of the events in their order, without "response."; each is checked for its number. */
static void expect_events(const char *want)
{
    char names[2000] = "";
    size_t n = 0;
    int64_t number = 0, given;
    str all = buf_str(&f->g.out);
    for (size_t at = 0; at < all.len; number++) {
        int64_t line = str_find(all, STR("\ndata: "), at), end = str_find(all, STR("\n\n"), at);
        const json *v = parse(str_slice(all, (size_t)line + 7, (size_t)end));
        str name = str_slice(all, at + 7, (size_t)line);
        assert_true(str_equal(json_get(v, "type")->text, name));
        assert_true(json_to_int64(json_get(v, "sequence_number"), &given) && given == number);
        n += (size_t)snprintf(names + n, sizeof names - n, "%.*s ",
                              STR_ARG(str_skip(name, strlen("response."))));
        at = (size_t)end + 2;
    }
    assert_string_equal(names, want);
}

static bool has(const char *piece)
{
    return str_find(buf_str(&f->g.out), str_from(piece), 0) >= 0;
}

TEST(events_come_in_order_and_are_numbered)
{
    begin(true, true);
    responses_put_start(&f->g);
    chat_say(f, 0, "why</think>\n\nSo.\n\n<tool_call>\n<function=m__add>\n", some, 2);
    chat_say(f, 0, "<parameter=a>\n4\n</parameter>\n</function>\n</tool_call>", some, 2);
    chat_finish(f, 0, ENGINE_STOP);
    responses_put_finish(&f->g, &f->answers[0]);
    expect_events("created in_progress "
                  "output_item.added reasoning_summary_part.added reasoning_summary_text.delta "
                  "reasoning_summary_text.done reasoning_summary_part.done output_item.done "
                  "output_item.added content_part.added output_text.delta output_text.done "
                  "content_part.done output_item.done "
                  "output_item.added function_call_arguments.delta function_call_arguments.delta "
                  "function_call_arguments.delta function_call_arguments.delta "
                  "function_call_arguments.done output_item.done completed ");
    assert_true(has("\"item_id\":\"rs_1_0\",\"output_index\":0,\"summary_index\":0,\"delta\":"
                    "\"why\"}"));
    assert_true(has("\"item_id\":\"msg_1_1\",\"output_index\":1,\"content_index\":0,\"delta\":"
                    "\"So.\",\"logprobs\":[]}"));
    assert_true(has("\"item_id\":\"fc_1_2\",\"output_index\":2,\"name\":\"add\",\"arguments\":"
                    "\"{\\\"a\\\":4}\"}"));
    assert_true(has("\"name\":\"add\",\"namespace\":\"m\",\"arguments\":\"\""));
    assert_true(has("\"status\":\"completed\",\"error\":null,\"incomplete_details\":null"));
    chat_end(f);
}

/* Log probabilities of an item's text or of the deltas, as "token token …". */
static void show_tokens(const json *list, buf *out)
{
    for (const json *v = list ? list->first : NULL; v; v = v->next) {
        buf_put_str(out, json_get(v, "token")->text);
        buf_put_byte(out, '|');
    }
}

static void show_deltas(buf *out)
{
    str all = buf_str(&f->g.out), key = STR("\ndata: ");
    for (int64_t at = 0; (at = str_find(all, key, (size_t)at)) >= 0; at++) {
        int64_t end = str_find(all, STR("\n\n"), (size_t)at);
        const json *v = parse(str_slice(all, (size_t)at + key.len, (size_t)end));
        if (str_is(json_get(v, "type")->text, "response.output_text.delta"))
            show_tokens(json_get(v, "logprobs"), out);
    }
}

TEST(only_what_is_said_has_log_probabilities)
{
    static const char said[] =
        "why?</think>\n\nSo <b> is\n\nit.\n\n<tool_call>\n<function=m__add>\n"
        "<parameter=a>\n4\n</parameter>\n</function>\n</tool_call>";
    buf whole, deltas;
    buf_init(&whole);
    for (int step = 1; step < 8; step++) {
        buf_init(&deltas);
        begin(true, true);
        f->g.request.prompt = PROMPT_CHAT;
        f->g.request.wants_logprobs = true;
        f->g.request.logprobs = LOGPROBS_OF_CONTENT;
        answer_close(&f->answers[0]);
        assert_int_equal(answer_open(&f->answers[0], &f->g, 0, NULL), ERR_OK);
        chat_say_tokens(f, 0, said, step);
        chat_finish(f, 0, ENGINE_STOP);
        show_deltas(&deltas);
        buf_clear(&f->g.out);
        responses_put_response(&f->g.out, &f->g);
        const json *item = json_at(json_get(parse(buf_str(&f->g.out)), "output"), 1);
        const json *text = json_at(json_get(item, "content"), 0);
        assert_true(str_is(json_get(text, "text")->text, "So <b> is\n\nit."));
        if (step == 1) show_tokens(json_get(text, "logprobs"), &whole);
        assert_true(str_equal(buf_str(&deltas), buf_str(&whole)));
        chat_end(f);
        buf_fini(&deltas);
    }
    /* The tokens of the text, and no other's. */
    str rest = buf_str(&whole);
    buf joined;
    buf_init(&joined);
    for (size_t i = 0; i < rest.len; i++)
        if (rest.ptr[i] != '|') buf_put_byte(&joined, rest.ptr[i]);
    /* The last one may end in white space that is not said. */
    assert_true(str_is(str_trim(buf_str(&joined)), "So <b> is\n\nit."));
    buf_fini(&joined);
    buf_fini(&whole);
}

TEST(a_custom_tool_is_called_with_text)
{
    static const char call[] = "<tool_call>\n<function=patch>\n<parameter=input>\na \"b\"\n"
                               "</parameter>\n</function>\n</tool_call>";
    begin(true, false);
    chat_say(f, 0, call, some, 2);
    chat_finish(f, 0, ENGINE_STOP);
    expect_events("output_item.added custom_tool_call_input.delta custom_tool_call_input.done "
                  "output_item.done ");
    assert_true(has("\"item_id\":\"ctc_1_0\",\"output_index\":0,\"input\":\"a \\\"b\\\"\"}"));
    chat_end(f);
    begin(false, false);
    chat_say(f, 0, call, some, 2);
    chat_finish(f, 0, ENGINE_STOP);
    responses_put_response(&f->g.out, &f->g);
    const json *item = json_get(parse(buf_str(&f->g.out)), "output")->first;
    assert_true(str_is(json_get(item, "type")->text, "custom_tool_call"));
    assert_true(str_is(json_get(item, "input")->text, "a \"b\""));
    assert_null(json_get(item, "arguments"));
    chat_end(f);
}

TEST(a_call_without_its_namespace_still_finds_it)
{
    begin(false, false);
    chat_say(f, 0, "<tool_call>\n<function=add>\n</function>\n</tool_call>", some, 1);
    chat_finish(f, 0, ENGINE_STOP);
    responses_put_response(&f->g.out, &f->g);
    assert_true(has("\"name\":\"add\",\"namespace\":\"m\",\"arguments\":\"{}\""));
    chat_end(f);
}

TEST(an_answer_that_is_cut_says_so)
{
    begin(true, true);
    chat_say(f, 0, "why", some, 2);
    chat_finish(f, 0, ENGINE_LENGTH);
    responses_put_finish(&f->g, &f->answers[0]);
    assert_true(has("event: response.incomplete\n"));
    assert_true(has("\"status\":\"incomplete\",\"error\":null,\"incomplete_details\":{\"reason\":"
                    "\"max_output_tokens\"}"));
    assert_true(has("\"text\":\"why\"}],\"status\":\"incomplete\"}"));
    chat_end(f);
}

TEST(a_failure_is_the_last_event)
{
    api_error a;
    begin(true, false);
    api_error_set(&a, 500, "engine_failed", NULL, "gone \"now\"");
    chat_say(f, 0, "x", some, 1);
    responses_put_failure(&f->g, &a);
    assert_true(has("event: response.failed\n"));
    assert_true(has("\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"gone "
                    "\\\"now\\\"\"}"));
    chat_end(f);
}

TEST(the_conversation_goes_on_from_its_items)
{
    begin(false, true);
    echo.wants_encrypted = true;
    chat_say(f, 0, "why</think>\n\nSo.", some, 2);
    chat_finish(f, 0, ENGINE_STOP);
    responses_put_items(&f->g.out, &f->g);
    const json *items = parse(buf_str(&f->g.out));
    assert_int_equal(items->n, 3);
    assert_non_null(json_get(json_at(items, 0), "x"));
    assert_true(str_is(json_get(json_at(items, 1), "type")->text, "reasoning"));
    assert_true(json_get(json_at(items, 1), "encrypted_content")->text.len > 0);
    assert_true(str_is(json_get(json_at(items, 2), "type")->text, "message"));
    chat_end(f);
    begin(false, false);
    echo.items = STR("[]");
    chat_finish(f, 0, ENGINE_STOP);
    responses_put_items(&f->g.out, &f->g);
    assert_string_equal(buf_str(&f->g.out).ptr, "[]");
    chat_end(f);
}
