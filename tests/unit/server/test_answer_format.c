#include "server/answer_format_priv.h"

#include "chat_fixture.h"

static chat_fixture fixture, *const f = &fixture;
static grammar_cache cache;
static err last;

#define TOOLS                                                                                   \
    "'tools':[{'type':'function','function':{'name':'look','strict':true,'parameters':{'type':" \
    "'object','properties':{'n':{'type':'integer'}},'required':['n']}}},"                       \
    "{'type':'function','function':{'name':'wait'}}]"

static void begin(void)
{
    chat_load(f);
    grammar_cache_init(&cache, 100000);
}

static void end(void)
{
    grammar_cache_fini(&cache);
    chat_end(f);
}

/* The format of a chat request's fields, checked against its own tools. */
static status read_format(const char *text, answer_format *out)
{
    const json *body = chat_parse(&f->mem, text);
    bool uses = true;
    *out = (answer_format){0};
    last = (err){0};
    TRY(answer_format_chat(body, out, &last));
    TRY(answer_format_choice_chat(body, out, &uses, &last));
    return answer_format_tools(body, uses ? json_get(body, "tools") : NULL, NULL, &f->mem, out,
                               &last);
}

static grammar *compile(const char *text)
{
    answer_format format;
    bool is_whole;
    grammar *g = NULL;
    CHECK_OK(read_format(text, &format), &last);
    assert_true(answer_format_has_grammar(&format));
    CHECK_OK(answer_format_compile(&format, json_get(chat_parse(&f->mem, text), "tools"), &cache,
                                   &g, &is_whole, &last),
             &last);
    return g;
}

static bool takes(const char *request, const char *text)
{
    grammar *g = compile(request);
    grammar_state *s = NULL;
    CHECK_OK(grammar_state_open(&s, g, NULL, 1, &last), &last);
    bool took = grammar_state_advance_bytes(s, str_from(text)) && grammar_state_can_end(s);
    grammar_state_close(s);
    grammar_close(g);
    return took;
}

#define LOOK(n) \
    "<tool_call>\n<function=look>\n<parameter=n>\n" n "\n</parameter>\n</function>\n</tool_call>"
#define WAIT "<tool_call>\n<function=wait>\n</function>\n</tool_call>"
#define SCHEMA "'response_format':{'type':'json_schema','json_schema':{'schema':{'type':'array'}}}"

TEST(fields_become_the_texts_they_mean)
{
    static const struct {
        const char *request, *good, *bad;
    } cases[] = {
        {"{'response_format':{'type':'json_object'}}", "{\"a\":[1]}", "[1]"},
        {"{" SCHEMA "}", "[1]", "{}"},
        {"{'response_format':{'type':'json_object','schema':{'type':'string'}}}", "\"a\"", "{}"},
        {"{'regex':'a+'}", "aa", "b"},
        {"{'grammar':'root ::= [xy]'}", "y", "z"},
        /* strict tools: text with or without calls, and those keep their schema */
        {"{" TOOLS "}", "Just text.", LOOK("x")},
        {"{" TOOLS "}", "Text, then" LOOK("7") "\n" WAIT, "Text, then" LOOK("")},
        {"{" TOOLS ",'parallel_tool_calls':false}", LOOK("7"), WAIT "\n" WAIT},
        {"{" TOOLS ",'tool_choice':'required'}", WAIT "\n" LOOK("7"), "Text" WAIT},
        {"{" TOOLS ",'tool_choice':{'type':'function','function':{'name':'look'}}}", LOOK("7"),
         WAIT},
        {"{" TOOLS ",'tool_choice':{'type':'function','name':'wait'}}", WAIT, LOOK("7")},
        /* both: a call or the value */
        {"{" TOOLS "," SCHEMA "}", "[[]]", "text"},
        {"{" TOOLS "," SCHEMA "}", WAIT, "[]" WAIT},
        {"{" TOOLS ",'tool_choice':'required'," SCHEMA "}", WAIT, "[]"},
        /* a grammar is the whole answer */
        {"{" TOOLS ",'regex':'a+'}", "a", WAIT},
    };
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!takes(cases[i].request, cases[i].good))
            fail_msg("%s refuses %s", cases[i].request, cases[i].good);
        if (takes(cases[i].request, cases[i].bad))
            fail_msg("%s takes %s", cases[i].request, cases[i].bad);
    }
    end();
}

TEST(nothing_asked_for_needs_no_grammar)
{
    static const char *const free_ones[] = {
        "{}",
        "{'response_format':{'type':'text'}}",
        "{'tools':[{'type':'function','function':{'name':'wait'}}]}",
        "{" TOOLS ",'tool_choice':'none'}",
    };
    begin();
    for (size_t i = 0; i < sizeof free_ones / sizeof *free_ones; i++) {
        answer_format format;
        CHECK_OK(read_format(free_ones[i], &format), &last);
        if (answer_format_has_grammar(&format)) fail_msg("%s", free_ones[i]);
    }
    end();
}

TEST(what_differs_in_meaning_differs_in_the_cache)
{
    static const char *const requests[] = {
        "{" SCHEMA "}",
        "{" SCHEMA "," TOOLS "}",
        "{" SCHEMA "," TOOLS ",'parallel_tool_calls':false}",
        "{" TOOLS "}",
        "{" TOOLS ",'tool_choice':'required'}",
        "{" TOOLS ",'tool_choice':{'type':'function','name':'wait'}}",
        "{" TOOLS ",'tool_choice':{'type':'function','name':'look'}}",
        "{'regex':'a'}",
        "{'grammar':'root ::= [a]'}",
        "{'response_format':{'type':'json_object'}}",
        ("{'response_format':{'type':'json_schema','json_schema':{'strict':true,'schema':{'type':"
         "'array'}}}}"),
    };
    enum { N = sizeof requests / sizeof *requests };
    grammar *first[N];
    begin();
    for (int i = 0; i < N; i++) {
        first[i] = compile(requests[i]);
        for (int k = 0; k < i; k++) assert_ptr_not_equal(first[i], first[k]);
    }
    for (int i = 0; i < N; i++) {
        grammar *again = compile(requests[i]);
        assert_ptr_equal(again, first[i]);
        grammar_close(again);
        grammar_close(first[i]);
    }
    end();
}

TEST(only_a_strict_schema_refuses_what_it_cannot_keep)
{
#define WITH_NOT(strict)                                                                           \
    "{'response_format':{'type':'json_schema','json_schema':{'strict':" strict ",'schema':{'a/b':" \
    "1,'properties':{'x':{'not':{'const':1}}},'type':'object'}}}}"
    answer_format format;
    grammar *g = NULL;
    bool is_whole = true;
    begin();
    CHECK_OK(read_format(WITH_NOT("true"), &format), &last);
    CHECK_STATUS(answer_format_compile(&format, NULL, &cache, &g, &is_whole, &last),
                 ERR_UNSUPPORTED);
    assert_string_equal(last.where, "response_format#/properties/x/not");
    CHECK_OK(read_format(WITH_NOT("false"), &format), &last);
    for (int i = 0; i < 2; i++) { /* the second one from the cache */
        is_whole = true;
        CHECK_OK(answer_format_compile(&format, NULL, &cache, &g, &is_whole, &last), &last);
        assert_false(is_whole);
        grammar_close(g);
    }
    end();
}

TEST(without_memory_it_is_nomem_and_nothing_stays)
{
    bool is_done = false;
    for (int n = 1; !is_done; n++) {
        begin();
        answer_format format;
        grammar *g = NULL;
        bool is_whole;
        CHECK_OK(read_format("{" TOOLS "," SCHEMA "}", &format), &last);
        const json *tools = json_get(chat_parse(&f->mem, "{" TOOLS "}"), "tools");
        mem_fail_at(n);
        status s = answer_format_compile(&format, tools, &cache, &g, &is_whole, &last);
        mem_fail_at(0);
        if (s != ERR_OK) CHECK_STATUS(s, ERR_NOMEM);
        is_done = s == ERR_OK && cache.entries[0].grammar;
        grammar_close(g);
        end();
        assert_true(n < 2000);
    }
}
