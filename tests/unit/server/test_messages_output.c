#include "server/messages_output_priv.h"

#include "chat_fixture.h"

#define TOOLS                                                                                   \
    "[{'type':'function','function':{'name':'add','parameters':{'type':'object','properties':{" \
    "'a':{'type':'integer'}}}}}]"

static chat_fixture fixture, *const f = &fixture;
static const int32_t some[8] = {300, 301, 302, 303, 304, 305, 306, 307};

static void put_part(generation *g, answer *c, const outparse_event *part)
{
    messages_put_part(&g->out, g, c, part);
}
static const dialect messages = {.call_prefix = "toolu_", .keeps_text = true, .part = put_part};

static void begin(bool streams, const char *tools, bool thinks)
{
    chat_begin(f, 1, streams, tools, thinks);
    f->g.dialect = &messages;
    f->g.n_prompt = 7;
    f->g.request.max_tokens = 50;
}

/* The events of the stream as "name data;" with single quotes; ids of calls are cut. */
static const char *events(void)
{
    static char text[8000];
    size_t n = 0;
    str all = buf_str(&f->g.out);
    for (size_t at = 0; at < all.len;) {
        int64_t line = str_find(all, STR("\ndata: "), at), end = str_find(all, STR("\n\n"), at);
        assert_true(line > 0 && end > line);
        str name = str_slice(all, at + 7, (size_t)line),
            data = str_slice(all, (size_t)line + 7, (size_t)end);
        const json *v = NULL;
        CHECK_OK(json_parse(&f->mem, data, "event", 16, JSON_UNIQUE_KEYS, &v, NULL), &(err){0});
        assert_true(str_equal(json_get(v, "type")->text, name));
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s;\n", STR_ARG(data));
        at = (size_t)end + 2;
    }
    for (size_t i = 0; i < n; i++)
        if (text[i] == '"') text[i] = '\'';
    return text;
}

static void expect(const char *piece)
{
    if (!strstr(events(), piece)) fail_msg("no %s in\n%s", piece, events());
}

TEST(blocks_of_a_stream_open_and_close_in_order)
{
    begin(true, TOOLS, true);
    messages_put_start(&f->g.out, &f->g);
    chat_say(f, 0, "why</think>\n\nSo.\n\n<tool_call>\n<function=add>\n", some, 2);
    chat_say(f, 0, "<parameter=a>\n4\n</parameter>\n</function>\n</tool_call>", some, 2);
    chat_finish(f, 0, ENGINE_STOP);
    messages_put_finish(&f->g.out, &f->g, &f->answers[0]);
    expect("{'type':'message_start','message':{'id':'chatcmpl-1','type':'message',"
           "'role':'assistant','model':'tiny','container':null,'diagnostics':null,'content':[],"
           "'stop_reason':null,'stop_sequence':null,'stop_details':null,"
           "'usage':{'input_tokens':7,");
    expect("{'type':'ping'};\n"
           "{'type':'content_block_start','index':0,'content_block':{'type':'thinking',"
           "'thinking':'','signature':''}};\n"
           "{'type':'content_block_delta','index':0,'delta':{'type':'thinking_delta',"
           "'thinking':'why'}};\n"
           "{'type':'content_block_delta','index':0,'delta':{'type':'signature_delta',"
           "'signature':'riptide.hash.");
    expect("'}};\n{'type':'content_block_stop','index':0};\n"
           "{'type':'content_block_start','index':1,'content_block':{'type':'text','text':'',"
           "'citations':[]}};\n"
           "{'type':'content_block_delta','index':1,'delta':{'type':'text_delta','text':'So.'}};\n"
           "{'type':'content_block_stop','index':1};\n"
           "{'type':'content_block_start','index':2,'content_block':{'type':'tool_use','id':"
           "'toolu_");
    expect("'name':'add','input':{},'caller':{'type':'direct'}}};\n");
    expect("'delta':{'type':'input_json_delta','partial_json':'}'}};\n"
           "{'type':'content_block_stop','index':2};\n"
           "{'type':'message_delta','delta':{'container':null,'stop_reason':'tool_use',"
           "'stop_sequence':null,'stop_details':null},'usage':{'input_tokens':7,");
    expect("{'type':'message_stop'};\n");
    chat_end(f);
}

TEST(the_whole_message_has_the_same_blocks)
{
    begin(false, TOOLS, true);
    chat_say(f, 0, "why</think>\n\nSo.\n\n<tool_call>\n<function=add>\n", some, 2);
    chat_say(f, 0, "<parameter=a>\n4\n</parameter>\n</function>\n</tool_call>\nAnd on.", some, 2);
    chat_finish(f, 0, ENGINE_STOP);
    messages_put_message(&f->g.out, &f->g);
    const json *v = NULL;
    err e = {0};
    CHECK_OK(json_parse(&f->mem, buf_str(&f->g.out), "message", 16, JSON_UNIQUE_KEYS, &v, &e), &e);
    const json *content = json_get(v, "content");
    static const char *const types[] = {"thinking", "text", "tool_use", "text"};
    assert_int_equal(content->n, 4);
    for (int i = 0; i < 4; i++)
        assert_true(str_is(json_get(json_at(content, i), "type")->text, types[i]));
    assert_true(str_is(json_get(json_at(content, 0), "thinking")->text, "why"));
    assert_true(str_is(json_get(json_at(content, 1), "text")->text, "So."));
    int64_t n;
    assert_true(json_to_int64(json_get(json_get(json_at(content, 2), "input"), "a"), &n) && n == 4);
    assert_true(str_is(json_get(json_at(content, 3), "text")->text, "\nAnd on."));
    assert_true(str_is(json_get(v, "stop_reason")->text, "tool_use"));
    chat_end(f);
}

TEST(thinking_that_is_not_shown_is_in_its_signature)
{
    for (int streams = 0; streams < 2; streams++) {
        begin(streams, NULL, true);
        f->g.request.hides_reasoning = true;
        chat_say(f, 0, "why</think>\n\nSo.", some, 2);
        chat_finish(f, 0, ENGINE_STOP);
        if (streams)
            messages_put_finish(&f->g.out, &f->g, &f->answers[0]);
        else
            messages_put_message(&f->g.out, &f->g);
        str out = buf_str(&f->g.out);
        assert_true(str_find(out, STR("\"signature\":\"riptide.whole.776879\""), 0) > 0);
        assert_true(str_find(out, STR("thinking_delta"), 0) < 0);
        assert_true(str_find(out, STR("\"thinking\":\"\""), 0) > 0);
        assert_true(str_find(out, STR("why"), 0) < 0);
        chat_end(f);
    }
}

TEST(reasons_for_the_end_have_their_names)
{
    static const str stops[] = {{"xx", 2}, {"y\"", 2}};
    static const struct {
        engine_finish reason;
        int stop, max;
        const char *want;
    } cases[] = {
        {ENGINE_STOP, -1, 50, "\"stop_reason\":\"end_turn\",\"stop_sequence\":null"},
        {ENGINE_STOP_STRING, 1, 50,
         "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"y\\\"\""},
        {ENGINE_LENGTH, -1, 2, "\"stop_reason\":\"max_tokens\""},
        {ENGINE_LENGTH, -1, 50, "\"stop_reason\":\"model_context_window_exceeded\""},
    };
    for (int i = 0; i < 4; i++) {
        begin(false, NULL, false);
        f->g.request.stop = stops;
        f->g.request.n_stop = 2;
        f->g.request.max_tokens = cases[i].max;
        chat_say(f, 0, "a", some, 2);
        chat_finish(f, 0, cases[i].reason);
        f->answers[0].stop_string = cases[i].stop;
        messages_put_message(&f->g.out, &f->g);
        if (str_find(buf_str(&f->g.out), str_from(cases[i].want), 0) < 0)
            fail_msg("no %s in %s", cases[i].want, f->g.out.ptr);
        chat_end(f);
    }
}

TEST(a_warm_up_says_nothing)
{
    begin(false, NULL, true);
    f->g.request.is_warm_up = true;
    chat_say(f, 0, "why</think>\n\nSo.", some, 1);
    chat_finish(f, 0, ENGINE_LENGTH);
    messages_put_message(&f->g.out, &f->g);
    assert_true(str_find(buf_str(&f->g.out), STR("\"content\":[]"), 0) > 0);
    assert_true(str_find(buf_str(&f->g.out), STR("\"output_tokens\":0"), 0) > 0);
    chat_end(f);
}

TEST(an_error_is_an_event)
{
    api_error a;
    begin(true, NULL, false);
    api_error_set(&a, 503, "frontend_overloaded", NULL, "too \"much\"");
    messages_put_error(&f->g.out, &a);
    assert_string_equal(f->g.out.ptr,
                        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                        "\"overloaded_error\",\"message\":\"too \\\"much\\\"\"}}\n\n");
    chat_end(f);
}
