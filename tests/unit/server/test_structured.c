/* tags: slow, timeout=240
 *
 * Structured answers of a running server in every protocol: forms, forced calls, strict tools,
 * what is refused. The model draws at temperature 1, so what is right is right by its masks. */
#include "serve_fixture.h"

#define ASK(text) "'messages':[{'role':'user','content':'" text "'}]"
#define PLAIN "'chat_template_kwargs':{'enable_thinking':false},"
#define HOT "'temperature':1,'seed':5,'max_tokens':150,"
#define PERSON                                                                                \
    "{'type':'object','properties':{'name':{'type':'string','maxLength':8},'age':{'type':"    \
    "'integer','minimum':1,'maximum':120}},'required':['name','age'],'additionalProperties':" \
    "false}"
#define PICK                                                                                    \
    "'parameters':{'type':'object','properties':{'color':{'enum':['red','green']},'n':{'type':" \
    "'integer','minimum':10,'maximum':99},'note':{'type':'string','maxLength':5}},'required':"  \
    "['color','n','note'],'additionalProperties':false}"
#define TOOLS                                                                                     \
    "'tools':[{'type':'function','function':{'name':'pick','strict':true," PICK "}},"             \
    "{'type':'function','function':{'name':'wait','parameters':{'type':'object','properties':{}}" \
    "}}]"

static serve_fixture fixture, *const f = &fixture;

static void open_server(void)
{
    serve_open(f, serve_options(), 3, 32, 2048);
}

static const json *ask(const char *path, const char *body)
{
    size_t n = strlen(body) + 1;
    char *copy = mem_new(n);
    for (size_t i = 0; i < n; i++) copy[i] = body[i] == '\'' ? '"' : body[i];
    int code = serve_ask(f, "POST", path, copy);
    mem_free(copy);
    if (code != 200) fail_msg("%s: %.*s", body, STR_ARG(buf_str(&f->in)));
    return serve_json(f);
}

static const json *chat(const char *body)
{
    return ask("/v1/chat/completions", body);
}

/* The text is a PERSON. */
static void expect_person(str text)
{
    const json *v = serve_parse(f, text);
    assert_int_equal(v->kind, JSON_OBJECT);
    assert_int_equal(v->n, 2);
    assert_true(serve_text(v, "name").ptr != NULL);
    assert_in_range(serve_int(v, "age"), 1, 120);
}

/* The text is an object of arguments for `pick`. */
static void expect_pick(const json *v)
{
    str color = serve_text(v, "color");
    assert_int_equal(v->n, 3);
    assert_true(str_is(color, "red") || str_is(color, "green"));
    assert_in_range(serve_int(v, "n"), 10, 99);
    assert_true(serve_text(v, "note").ptr != NULL);
}

TEST(a_schema_is_kept_in_every_protocol_with_and_without_thinking)
{
    open_server();
    const json *a = chat("{" HOT PLAIN ASK(
        "Mara, 31") ",'response_format':{'type':'json_schema',"
                    "'json_schema':{'name':'p','strict':true,'schema':" PERSON "}}}");
    serve_expect_text(a, "choices/0/finish_reason", "stop");
    expect_person(serve_text(a, "choices/0/message/content"));

    /* users.md J7: with thinking, reasoning comes first and the value is the content. */
    a = chat(
        "{'thinking_budget':20," HOT ASK("Mara, 31") ",'response_format':{'type':'json_schema',"
                                                     "'json_schema':{'schema':" PERSON "}}}");
    serve_expect_text(a, "choices/0/finish_reason", "stop");
    expect_person(serve_text(a, "choices/0/message/content"));
    int64_t n = serve_int(a, "usage/completion_tokens_details/reasoning_tokens");
    assert_in_range(n, 1, 21);
    assert_true(serve_text(a, "choices/0/message/reasoning_content").len > 0);

    a = ask("/v1/responses", "{'temperature':1,'seed':6,'max_output_tokens':150,'input':'Mara, 31',"
                             "'enable_thinking':false,'text':{'format':{'type':'json_schema',"
                             "'name':'p','strict':true,'schema':" PERSON "}}}");
    serve_expect_text(a, "status", "completed");
    serve_expect_text(a, "text/format/type", "json_schema");
    expect_person(serve_text(a, "output/0/content/0/text"));

    a = ask("/v1/messages", "{" HOT ASK("Mara, 31") ",'output_config':{'format':{'type':"
                                                    "'json_schema','schema':" PERSON "}}}");
    serve_expect_text(a, "stop_reason", "end_turn");
    expect_person(serve_text(a, "content/0/text"));

    a = ask("/v1/completions", "{'temperature':1,'seed':4,'max_tokens':60,'prompt':'x','n':2,"
                               "'response_format':{'type':'json_schema','schema':" PERSON "}}");
    expect_person(serve_text(a, "choices/0/text"));
    expect_person(serve_text(a, "choices/1/text"));
    serve_close(f);
}

TEST(a_stream_of_a_schema_joins_to_the_whole_answer)
{
    open_server();
    serve_stream joined;
#define BODY                                                                             \
    HOT ASK("Mara, 31") ",'thinking_budget':12,'response_format':{'type':'json_schema'," \
                        "'json_schema':{'strict':true,'schema':" PERSON "}}"
    const json *a = chat("{" BODY "}");
    char want[200];
    snprintf(want, sizeof want, "%.*s", STR_ARG(serve_text(a, "choices/0/message/content")));
    expect_person(str_from(want));
    serve_chat_stream(f, "{'stream':true," BODY "}", &joined);
    assert_true(str_is(buf_str(&joined.content), want));
    assert_true(joined.is_done && !joined.has_error && joined.reasoning.len > 0);
    serve_stream_fini(&joined);
    serve_close(f);
}

TEST(objects_grammars_and_expressions_are_kept)
{
    open_server();
    const json *a = chat("{" HOT PLAIN ASK("x") ",'response_format':{'type':'json_object'}}");
    if (str_is(serve_text(a, "choices/0/finish_reason"), "stop"))
        assert_int_equal(serve_parse(f, serve_text(a, "choices/0/message/content"))->kind,
                         JSON_OBJECT);
    assert_true(str_starts(serve_text(a, "choices/0/message/content"), STR("{")));

    a = chat("{" HOT PLAIN ASK("x") ",'grammar':'root ::= \\'yes\\' | \\'no, \\' [a-c]{3}'}");
    str text = serve_text(a, "choices/0/message/content");
    assert_true(str_is(text, "yes") || (str_starts(text, STR("no, ")) && text.len == 7));

    a = chat("{" HOT ASK("x") ",'thinking_budget':0,'regex':'(<tool_call>){2}'," TOOLS "}");
    serve_expect_text(a, "choices/0/message/content", "<tool_call><tool_call>");
    serve_close(f);
}

TEST(a_call_is_forced_and_strict_arguments_keep_their_schema)
{
    static const char *const choices[] = {
        "'tool_choice':{'type':'function','function':{'name':'pick'}}",
        "'tool_choice':'required'",
        "'tool_choice':'required','parallel_tool_calls':false",
    };
    open_server();
    for (int thinks = 0; thinks < 2; thinks++)
        for (size_t i = 0; i < 3; i++) {
            char body[1400];
            snprintf(body, sizeof body, "{%s" HOT "%s," TOOLS "," ASK("Pick one") "}",
                     thinks ? "'thinking_budget':8," : PLAIN, choices[i]);
            const json *a = chat(body), *calls = serve_at(a, "choices/0/message/tool_calls");
            if (!str_is(serve_text(a, "choices/0/finish_reason"), "tool_calls")) continue;
            assert_true(calls && calls->n >= 1);
            if (i != 1) assert_int_equal(calls->n, 1);
            for (const json *c = calls->first; c; c = c->next) {
                if (i == 0) serve_expect_text(c, "function/name", "pick");
                if (str_is(serve_text(c, "function/name"), "pick"))
                    expect_pick(serve_parse(f, serve_text(c, "function/arguments")));
            }
        }
    const json *a = ask(
        "/v1/messages",
        "{" HOT ASK("Pick") ",'tool_choice':{'type':'tool','name':"
                            "'pick'},'tools':[{'name':'pick','strict':true,'input_"
                            "schema':{'type':'object','properties':{'n':{'type':"
                            "'integer','minimum':10,'maximum':99}},'required':['n'],"
                            "'additionalProperties':false}}]}");
    serve_expect_text(a, "stop_reason", "tool_use");
    assert_in_range(serve_int(a, "content/0/input/n"), 10, 99);
    a = ask("/v1/responses", "{'temperature':1,'seed':2,'max_output_tokens':150,'input':'Pick',"
                             "'enable_thinking':false,'tool_choice':{'type':'function','name':"
                             "'pick'},'tools':[{'type':'namespace','name':'ns','tools':[{'type':"
                             "'function','name':'pick','strict':true," PICK "}]}]}");
    serve_expect_text(a, "output/0/type", "function_call");
    expect_pick(serve_parse(f, serve_text(a, "output/0/arguments")));
    serve_close(f);
}

TEST(with_tools_an_answer_is_a_call_or_the_value)
{
    open_server();
    for (int seed = 0; seed < 4; seed++) {
        char body[1600];
        snprintf(body, sizeof body,
                 "{'seed':%d,'temperature':1,'max_tokens':120,%s%s,'response_format':{'type':"
                 "'json_schema','json_schema':{'schema':%s}},%s}",
                 seed, PLAIN, TOOLS, PERSON, ASK("Mara, 31"));
        const json *a = chat(body), *calls = serve_at(a, "choices/0/message/tool_calls");
        if (str_is(serve_text(a, "choices/0/finish_reason"), "length")) continue;
        if (!calls) expect_person(serve_text(a, "choices/0/message/content"));
    }
    serve_close(f);
}

TEST(what_a_strict_schema_cannot_keep_is_named_by_its_pointer)
{
    static const char *const bad[][2] = {
        {"'response_format':{'type':'json_schema','json_schema':{'strict':true,'schema':{'type':"
         "'object','properties':{'a':{'not':{'type':'null'}}}}}}",
         "response_format#/properties/a/not"},
        {"'tools':[{'type':'function','function':{'name':'f','strict':true,'parameters':{'type':"
         "'object','properties':{'b':{'if':{}}}}}}]",
         "tools f#/properties/b/if"},
        {"'response_format':{'type':'json_schema','json_schema':{'schema':{'type':'objekt'}}}",
         "response_format#/type"},
    };
    open_server();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char body[800];
        snprintf(body, sizeof body, "{%s," ASK("x") "}", bad[i][0]);
        assert_int_equal(serve_chat(f, body), 400);
        serve_expect_text(serve_json(f), "error/param", bad[i][1]);
    }
    /* Not strict: the rest of it is kept, and nothing is claimed. */
    const json *a = chat("{" HOT PLAIN ASK(
        "x") ",'response_format':{'type':'json_schema',"
             "'json_schema':{'schema':{'type':'string','maxLength':3,'not':{'const':'abcd'}}}}}");
    assert_int_equal(serve_parse(f, serve_text(a, "choices/0/message/content"))->kind, JSON_STRING);
    serve_close(f);
}

TEST(the_same_request_gives_the_same_answer_from_a_cached_grammar)
{
    open_server();
    char first[300];
    for (int i = 0; i < 3; i++) {
        const json *a = chat("{" HOT PLAIN ASK(
            "Mara, 31") ",'response_format':{'type':"
                        "'json_schema','json_schema':{'strict':true,'schema':" PERSON "}}}");
        str text = serve_text(a, "choices/0/message/content");
        if (i == 0) snprintf(first, sizeof first, "%.*s", STR_ARG(text));
        assert_true(str_is(text, first));
    }
    int n = 0;
    for (int i = 0; i < GRAMMAR_CACHE_ENTRIES; i++) n += f->s->grammars.entries[i].grammar != NULL;
    assert_int_equal(n, 1);
    serve_close(f);
}

/* users.md H1. Each is refused, and the server answers the next one. */
TEST(grammars_that_only_nest_are_refused)
{
    enum { NESTED = 60000 };
    static const struct {
        const char *field, *open, *middle, *close;
    } cases[] = {
        {"grammar", "(", "\\'a\\'", ")"},
        {"regex", "(", "a", ")"},
        {"response_format", "{'type':'array','items':", "{}", "}"},
    };
    open_server();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf b;
        bool is_text = i < 2;
        buf_init(&b);
        buf_printf(&b, "{%s,'%s':%s", ASK("x"), cases[i].field,
                   is_text ? "'" : "{'type':'json_schema','json_schema':{'schema':");
        if (i == 0) buf_put_c(&b, "root ::= ");
        for (int k = 0; k < NESTED; k++) buf_put_c(&b, cases[i].open);
        buf_put_c(&b, cases[i].middle);
        for (int k = 0; k < NESTED; k++) buf_put_c(&b, cases[i].close);
        buf_put_c(&b, is_text ? "'}" : "}}}");
        buf_put_byte(&b, 0);
        assert_int_equal(serve_chat(f, b.ptr), 400);
        if (is_text) serve_expect_text(serve_json(f), "error/param", cases[i].field);
        buf_fini(&b);
    }
    const json *a = chat("{" HOT PLAIN ASK("x") ",'regex':'ok'}");
    serve_expect_text(a, "choices/0/message/content", "ok");
    serve_close(f);
}
