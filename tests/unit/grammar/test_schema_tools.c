/* Calls of tools in the Qwen form. Quotes are written as ' in schemas, never in replies. */
#include "fixture_grammar.h"
#include "support/grammar_walk.h"

static const char TOOLS[] =
    "[{'type':'function','function':{'name':'write','strict':true,'parameters':{'type':'object',"
    "'properties':{'path':{'type':'string','pattern':'^[a-z./]+$'},'text':{'type':'string',"
    "'maxLength':20},'mode':{'enum':['new','add',7]},'lines':{'type':'array','items':{'type':"
    "'integer'}},'tag':{'type':['string','null'],'minLength':2}},'required':['path','text'],"
    "'additionalProperties':false}}},"
    "{'type':'function','function':{'name':'look','parameters':{'type':'object','properties':"
    "{'x':{'not':{}}}}}}]";

static status open_tools(grammar **g, const char *tools, grammar_tools_wish w, err *e)
{
    arena a;
    arena_init(&a, 0);
    status s = json_parse(&a, fixture_quotes(&a, tools), "test", 64, 0, &w.tools, e);
    grammar_json_options opt = {0, false};
    if (s == ERR_OK) s = grammar_open_tools(g, &w, &opt, NULL, e);
    arena_fini(&a);
    return s;
}

static bool takes(const grammar *g, const char *text)
{
    err e = {0};
    grammar_state *s = NULL;
    CHECK_OK(grammar_state_open(&s, g, NULL, 1, &e), &e);
    bool took = grammar_state_advance_bytes(s, str_from(text)) && grammar_state_can_end(s);
    grammar_state_close(s);
    return took;
}

#define CALL(name, body) "<tool_call>\n<function=" name ">\n" body "</function>\n</tool_call>"
#define ARG(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"

TEST(a_strict_call_follows_its_schema)
{
    static const char *const good[] = {
        CALL("write", ARG("path", "a/b.c") ARG("text", "")),
        CALL("write", ARG("path", "a") ARG("text", "x\n</parameter> \"y\"")),
        CALL("write", ARG("path", "a") ARG("text", "\xc3\xa9\n\n</para") ARG("mode", "add")),
        CALL("write", ARG("path", "a") ARG("text", "t") ARG("mode", "7") ARG("lines", "[1,2]")),
        CALL("write", ARG("path", "a") ARG("text", "t") ARG("tag", "null")),
        CALL("write", ARG("path", "a") ARG("text", "t") ARG("tag", "xy")),
        CALL("write", ARG("path", "a") ARG("text", "12345678901234567890")),
        "\n\n" CALL("look", ARG("anything", "at\nall") ARG("x", "")),
        CALL("look", "") "\n" CALL("look", ""),
    };
    static const char *const bad[] = {
        CALL("write", ARG("path", "a")),
        CALL("write", ARG("text", "a") ARG("path", "a")),
        CALL("write", ARG("path", "A") ARG("text", "")),
        CALL("write", ARG("path", "a") ARG("text", "123456789012345678901")),
        CALL("write", ARG("path", "a") ARG("text", "t") ARG("mode", "old")),
        CALL("write", ARG("path", "a") ARG("text", "t") ARG("lines", "[1,'2']")),
        CALL("write", ARG("path", "a") ARG("text", "t") ARG("tag", "x")),
        CALL("write", ARG("path", "a") ARG("text", "t") ARG("other", "x")),
        CALL("read", ""),
        "x" CALL("look", ""),
        CALL("look", "") CALL("look", ""),
        "",
    };
    err e = {0};
    grammar *g = NULL;
    CHECK_OK(open_tools(&g, TOOLS, (grammar_tools_wish){.least = 1, .most = -1}, &e), &e);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!takes(g, good[i])) fail_msg("refuses %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (takes(g, bad[i])) fail_msg("takes %s", bad[i]);
    grammar_close(g);
}

TEST(text_numbers_and_names_of_calls_can_be_bound)
{
    err e = {0};
    grammar *g = NULL;
    grammar_tools_wish w = {.least = 0, .most = 1, .has_text = true};
    CHECK_OK(open_tools(&g, TOOLS, w, &e), &e);
    assert_true(takes(g, ""));
    assert_true(takes(g, "just <tool text"));
    assert_true(takes(g, "first\n" CALL("look", "")));
    assert_false(takes(g, "<tool_call>"));
    assert_false(takes(g, CALL("look", "") "\n" CALL("look", "")));
    grammar_close(g);
    w = (grammar_tools_wish){.least = 1, .most = 1, .only = STR("write")};
    CHECK_OK(open_tools(&g, TOOLS, w, &e), &e);
    assert_true(takes(g, CALL("write", ARG("path", "a") ARG("text", "t"))));
    assert_false(takes(g, CALL("look", "")));
    grammar_close(g);
}

TEST(what_cannot_be_is_named_with_its_tool)
{
    err e = {0};
    grammar *g = NULL;
    grammar_tools_wish w = {.least = 1, .most = 1, .all_strict = true};
    CHECK_STATUS(open_tools(&g,
                            "[{'type':'function','function':{'name':'f','parameters':{'properties':"
                            "{'a':{'type':'array','uniqueItems':true}}}}}]",
                            w, &e),
                 ERR_UNSUPPORTED);
    assert_string_equal(e.where, "f#/properties/a/uniqueItems");
    CHECK_STATUS(
        open_tools(&g, "[{'type':'function','function':{'name':'f','parameters':{'anyOf':[]}}}]", w,
                   &e),
        ERR_UNSUPPORTED);
    assert_string_equal(e.where, "f#/anyOf");
    CHECK_STATUS(open_tools(&g, "[{'type':'function','function':{'name':'</function>'}}]", w, &e),
                 ERR_INVALID);
    assert_string_equal(e.where, "tools");
    buf many;
    buf_init(&many);
    buf_put_c(&many, "[{'function':{'name':'f','parameters':{'properties':{");
    for (int i = 0; i <= 1000; i++) buf_printf(&many, "%s'p%d':{}", i ? "," : "", i);
    buf_put_c(&many, "}}}}]");
    buf_put_byte(&many, 0);
    CHECK_STATUS(open_tools(&g, buf_str(&many).ptr, w, &e), ERR_UNSUPPORTED);
    assert_string_equal(e.where, "f#/properties");
    buf_fini(&many);
    w.only = STR("missing");
    CHECK_STATUS(open_tools(&g, TOOLS, w, &e), ERR_INVALID);
    w.least = 2;
    CHECK_STATUS(open_tools(&g, TOOLS, w, &e), ERR_INVALID);
}

static uint64_t pick(void *ctx, uint64_t below)
{
    return test_random(ctx) % below;
}

TEST(no_state_of_a_call_is_a_dead_end)
{
    uint64_t seed = test_seed();
    err e = {0};
    grammar *g = NULL;
    CHECK_OK(open_tools(&g, TOOLS, (grammar_tools_wish){.least = 1, .most = 2}, &e), &e);
    for (int i = 0; i < 20; i++) {
        buf text;
        buf_init(&text);
        grammar_walk(g, 150, pick, &seed, &text); /* asserts inside */
        buf_fini(&text);
    }
    grammar_close(g);
}

TEST(masks_within_a_raw_string_are_what_advance_takes)
{
    static const str pieces[] = {
        {"\n</", 3}, {"ab", 2},      {"</parameter>", 12},  {"\n</parameter>\n</", 17},
        {"a\n", 2},  {"xyz xyz", 7}, {"parameter>\n<", 12}, {"abc\n</parameter>\n", 18}};
    int32_t eos = FIXTURE_EOS;
    uint64_t seed = test_seed();
    err e = {0};
    grammar *g = NULL;
    grammar_tokens *t = NULL;
    vocab *v = fixture_vocab(pieces, 8);
    uint32_t words[16];
    CHECK_OK(open_tools(&g, TOOLS, (grammar_tools_wish){.least = 1, .most = -1}, &e), &e);
    CHECK_OK(grammar_tokens_open(&t, v, vocab_count(v), &eos, 1, &e), &e);
    for (int k = 0; k < 10; k++) {
        grammar_state *s = NULL;
        CHECK_OK(grammar_state_open(&s, g, t, 2, &e), &e);
        assert_true(grammar_state_advance_bytes(
            s, STR("<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n"
                   "<parameter=text>\n")));
        for (int i = 0; i < 40; i++) {
            int n = grammar_state_mask(s, words);
            assert_true(n > 0);
            for (int32_t id = 0; id < vocab_count(v); id++) {
                bool fits = grammar_state_advance(s, id);
                if (fits) grammar_state_rollback(s, 1);
                if (fits != (words[id / 32] >> (id % 32) & 1)) fail_msg("token %d: %d", id, fits);
            }
            int32_t id = test_random(&seed) % 2 ? 258 + (int32_t)(test_random(&seed) % 8)
                                                : 2 + (int32_t)(test_random(&seed) % 128);
            if (!grammar_state_advance(s, id)) i--, seed++;
            if (grammar_state_can_end(s)) break;
        }
        grammar_state_close(s);
    }
    grammar_tokens_close(t);
    grammar_close(g);
    vocab_close(v);
}

TEST(a_call_may_be_left_out_for_a_value)
{
    err e = {0};
    arena a;
    grammar *g = NULL;
    str strict[] = {STR("look")};
    grammar_tools_wish w = {.least = 0, .most = 1, .strict = strict, .n_strict = 1};
    arena_init(&a, 0);
    str schema = fixture_quotes(
        &a,
        "{'$ref':'#/$defs/n','$defs':{'n':{'type':'array','maxItems':1,'items':{'$ref':'#'}}}}");
    CHECK_OK(json_parse(&a, schema, "test", 64, 0, &w.answer, &e), &e);
    /* tools without the outer object are read too */
    CHECK_OK(open_tools(&g,
                        "[{'name':'look','parameters':{'properties':{'x':{'type':'integer'}},"
                        "'required':['x']}}]",
                        w, &e),
             &e);
    arena_fini(&a);
    assert_true(takes(g, "[[[]]]"));
    assert_true(takes(g, CALL("look", ARG("x", "5"))));
    assert_false(takes(g, CALL("look", ARG("x", "five"))));
    assert_false(takes(g, CALL("look", "")));
    assert_false(takes(g, "text"));
    assert_false(takes(g, "[]" CALL("look", ARG("x", "5"))));
    assert_false(takes(g, "[[],[]]"));
    grammar_close(g);
}
