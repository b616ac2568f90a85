#include "base/mem.h"
#include "chat/outparse.h"
#include "support/test.h"

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},"
    "\"n\":{\"type\":\"number\"},"
    "\"b\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"},\"l\":{\"type\":\"array\",\"items\":"
    "{\"type\":\"integer\"}},\"z\":{\"type\":\"null\"},\"opt\":{\"anyOf\":[{\"type\":\"string\"},"
    "{\"type\":\"null\"}]},\"a\":{\"anyOf\":[{\"type\":\"number\"}]},"
    "\"r\":{\"$ref\":\"#/$defs/p\"},\"u\":{}},\"$defs\":{\"p\":{\"type\":\"object\","
    "\"properties\":{\"x\":{\"type\":\"number\"}}}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]";

typedef struct {
    buf joined; /* R[reasoning] C[content] <name arguments> or <name arguments! when cut off */
    buf arguments;
    int kind, n_pieces;
    const json *tools;
    arena a;
} record;

static record r;

static void collect(void *ctx, const outparse_event *event)
{
    record *to = ctx;
    if (event->kind != OUTPARSE_CALL_END) assert_true(event->text.len > 0);
    if (to->kind != (int)event->kind &&
        (to->kind == OUTPARSE_REASONING || to->kind == OUTPARSE_CONTENT))
        buf_put_c(&to->joined, "]");
    switch (event->kind) {
    case OUTPARSE_REASONING:
    case OUTPARSE_CONTENT:
        if (to->kind != (int)event->kind)
            buf_put_c(&to->joined, event->kind == OUTPARSE_REASONING ? "R[" : "C[");
        buf_put_str(&to->joined, event->text);
        break;
    case OUTPARSE_CALL_BEGIN:
        buf_printf(&to->joined, "<%d:%.*s ", event->index, STR_ARG(event->text));
        break;
    case OUTPARSE_ARGUMENTS:
        to->n_pieces++;
        buf_put_str(&to->joined, event->text);
        buf_put_str(&to->arguments, event->text);
        break;
    case OUTPARSE_CALL_END: {
        arena a;
        const json *v = NULL;
        err e = {0};
        buf_put_c(&to->joined, event->is_complete ? ">" : "!");
        arena_init(&a, 0);
        CHECK_OK(json_parse(&a, buf_str(&to->arguments), "arguments", 64, 0, &v, &e), &e);
        assert_true(json_is(v, JSON_OBJECT));
        arena_fini(&a);
        buf_clear(&to->arguments);
        break;
    }
    }
    to->kind = (int)event->kind;
}

static bool text_has_no_calls;

/* Parse text given in pieces of `step` bytes (0: all at once). */
static const char *parse_cut(const char *text, bool in_reasoning, bool has_tools, size_t step)
{
    err e = {0};
    outparse *p = NULL;
    str s = str_from(text);
    if (!r.tools) {
        arena_init(&r.a, 0);
        CHECK_OK(json_parse(&r.a, STR(tools_text), "tools", 64, 0, &r.tools, &e), &e);
    }
    buf_clear(&r.joined);
    r.kind = -1;
    r.n_pieces = 0;
    outparse_options o = {has_tools ? r.tools : NULL, in_reasoning, collect, &r, text_has_no_calls};
    CHECK_OK(outparse_open(&p, &o, &e), &e);
    for (size_t at = 0; at < s.len; at += step ? step : s.len) {
        size_t n = step && step < s.len - at ? step : s.len - at;
        CHECK_OK(outparse_feed(p, str_slice(s, at, at + n), &e), &e);
    }
    CHECK_OK(outparse_finish(p, &e), &e);
    outparse_close(p);
    if (r.kind == OUTPARSE_REASONING || r.kind == OUTPARSE_CONTENT) buf_put_c(&r.joined, "]");
    buf_put_c(&r.joined, "");
    return r.joined.ptr ? r.joined.ptr : "";
}

/* The same for every step. */
static void check(const char *text, bool in_reasoning, bool has_tools, const char *want)
{
    for (size_t step = 0; step < 12; step++) {
        const char *got = parse_cut(text, in_reasoning, has_tools, step);
        if (strcmp(got, want) != 0) fail_msg("%s\n by %zu: %s\n   want: %s", text, step, got, want);
    }
}
#define CHECK_TOOLS(text, want) check(text, false, true, want)
#define CALL(body) "<tool_call>\n<function=f>\n" body "</function>\n</tool_call>"
#define PARAM(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"

TEST(text_is_content)
{
    check("Hello <b>world</b>", false, true, "C[Hello <b>world</b>]");
    check("", false, true, "");
    check(" \n ", false, true, "");
    check("a < b and <too", false, true, "C[a < b and <too]");
    check("x\n", false, true, "C[x\n]");
    check("  indented", false, true, "C[  indented]");
}

TEST(reasoning_ends_at_its_tag_and_is_trimmed)
{
    check("\n why \n</think>\n\nAnswer", true, true, "R[why]C[Answer]");
    check("why", true, true, "R[why]");
    check("why </thin", true, true, "R[why </thin]");
    check("a\n\nb</think>c", true, true, "R[a\n\nb]C[c]");
    check("</think>\n\n    code", true, true, "C[    code]");
    check("a</think></think>\n</think>\nb", true, true, "R[a]C[b]");
    check("<think>\na</think>b", true, true, "R[a]C[b]");
    check("<think>\na</think>b", false, true, "R[a]C[b]");
    check("b <think> c </think>", false, true, "C[b <think> c </think>]");
    check("\n</think>\n\n" CALL(""), true, true, "<0:f {}>");
}

TEST(calls_give_name_and_arguments)
{
    CHECK_TOOLS(CALL(PARAM("s", "Oslo") PARAM("i", "2")), "<0:f {\"s\":\"Oslo\",\"i\":2}>");
    CHECK_TOOLS("Sure.\n\n" CALL("") "\n" CALL(PARAM("s", "x")),
                "C[Sure.]<0:f {}><1:f {\"s\":\"x\"}>");
    CHECK_TOOLS("<tool_call>\n<function=unknown>\n" PARAM("k", "v") "</function>\n</tool_call>",
                "<0:unknown {\"k\":\"v\"}>");
    CHECK_TOOLS("<tool_call>\n<function=\"f\">\n</function>\n</tool_call>", "<0:f {}>");
    CHECK_TOOLS(CALL("") "\n\nDone.", "<0:f {}>C[Done.]");
    CHECK_TOOLS("A\n\n" CALL("") "\n\nB\n", "C[A]<0:f {}>C[\n\nB\n]");
    CHECK_TOOLS(CALL("") "\n", "<0:f {}>");
}

/* P5: typed by the schema only. */
TEST(values_have_the_type_of_their_schema)
{
    CHECK_TOOLS(CALL(PARAM("s", "02134")), "<0:f {\"s\":\"02134\"}>");
    CHECK_TOOLS(CALL(PARAM("s", "null")), "<0:f {\"s\":\"null\"}>");
    CHECK_TOOLS(CALL(PARAM("s", "1e5") PARAM("i", "1e5")), "<0:f {\"s\":\"1e5\",\"i\":100000}>");
    CHECK_TOOLS(CALL(PARAM("s", "5.0") PARAM("i", "5.0") PARAM("n", "5.0")),
                "<0:f {\"s\":\"5.0\",\"i\":5,\"n\":5.0}>");
    CHECK_TOOLS(CALL(PARAM("i", "02134")), "<0:f {\"i\":\"02134\"}>");
    CHECK_TOOLS(CALL(PARAM("i", "\"30\"")), "<0:f {\"i\":30}>");
    CHECK_TOOLS(CALL(PARAM("b", "True")), "<0:f {\"b\":true}>");
    CHECK_TOOLS(CALL(PARAM("b", "false")), "<0:f {\"b\":false}>");
    CHECK_TOOLS(CALL(PARAM("l", "[\"10\",\"20\"]")), "<0:f {\"l\":[10,20]}>");
    CHECK_TOOLS(CALL(PARAM("o", "{\"b\": 1.0, \"a\": [null]}")),
                "<0:f {\"o\":{\"b\":1.0,\"a\":[null]}}>");
    CHECK_TOOLS(CALL(PARAM("o", "not json")), "<0:f {\"o\":\"not json\"}>");
    CHECK_TOOLS(CALL(PARAM("z", "null")), "<0:f {\"z\":null}>");
    CHECK_TOOLS(CALL(PARAM("opt", "null")), "<0:f {\"opt\":null}>");
    CHECK_TOOLS(CALL(PARAM("opt", "nullify")), "<0:f {\"opt\":\"nullify\"}>");
    CHECK_TOOLS(CALL(PARAM("a", "3")), "<0:f {\"a\":3}>");
    CHECK_TOOLS(CALL(PARAM("r", "{\"x\": \"2.5\"}")), "<0:f {\"r\":{\"x\":2.5}}>");
    CHECK_TOOLS(CALL(PARAM("u", "5")), "<0:f {\"u\":\"5\"}>");
    CHECK_TOOLS(CALL(PARAM("new", "true")), "<0:f {\"new\":\"true\"}>");
}

TEST(exactly_one_newline_goes_at_each_end)
{
    CHECK_TOOLS(CALL(PARAM("s", "\n\na\n\n")), "<0:f {\"s\":\"\\n\\na\\n\\n\"}>");
    CHECK_TOOLS(CALL(PARAM("s", "")), "<0:f {\"s\":\"\"}>");
    CHECK_TOOLS(CALL("<parameter=s>\n</parameter>\n"), "<0:f {\"s\":\"\"}>");
    CHECK_TOOLS(CALL("<parameter=s>inline</parameter>"), "<0:f {\"s\":\"inline\"}>");
    CHECK_TOOLS(CALL("<parameter=i> 7 </parameter>"), "<0:f {\"i\":7}>");
}

/* P3: markup inside values. */
TEST(values_are_verbatim)
{
    CHECK_TOOLS(CALL(PARAM("s", "<html>\n<b>x</b></html>")),
                "<0:f {\"s\":\"<html>\\n<b>x</b></html>\"}>");
    CHECK_TOOLS(CALL(PARAM("s", "print('</parameter>')\n# </function> and </tool_call>.")),
                "<0:f {\"s\":\"print('</parameter>')\\n# </function> and </tool_call>.\"}>");
    CHECK_TOOLS(CALL(PARAM("s", "a <parameter=i> b\n<parameter=zzz>\n")),
                "<0:f {\"s\":\"a <parameter=i> b\\n<parameter=zzz>\\n\"}>");
    CHECK_TOOLS(CALL(PARAM("s", "<tool_call>\n<function=f>\n")),
                "<0:f {\"s\":\"<tool_call>\\n<function=f>\\n\"}>");
    CHECK_TOOLS(CALL(PARAM("o", "{\"k\": \"</parameter></function></tool_call>\"}")),
                "<0:f {\"o\":{\"k\":\"</parameter></function></tool_call>\"}}>");
    CHECK_TOOLS(CALL(PARAM("s", "\"q\" \\ \t\x01 \xc3\xa9 \xf0\x9f\x98\x80")),
                "<0:f {\"s\":\"\\\"q\\\" \\\\ \\t\\u0001 \xc3\xa9 \xf0\x9f\x98\x80\"}>");
    CHECK_TOOLS(CALL(PARAM("s", "</think><think>")), "<0:f {\"s\":\"</think><think>\"}>");
}

/* P1: closing tags that are missing or doubled. */
TEST(damaged_closing_never_loses_a_call)
{
    static const char want[] = "<0:f {\"s\":\"x\",\"i\":2}>";
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n</parameter>\n"
                "<parameter=i>\n2\n</parameter>\n</function>\n</tool_call>",
                want);
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nx\n<parameter=i>\n2\n</parameter>\n"
                "</function>\n</tool_call>",
                want);
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=i>\n2\n"
                "</function>\n</tool_call>",
                want);
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=i>\n2\n"
                "</parameter>\n</tool_call>",
                want);
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=i>\n2\n"
                "</tool_call>",
                want);
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=i>\n2\n"
                "</parameter>\n</function>\n</function>\n</tool_call>\n</tool_call>\n",
                want);
    CHECK_TOOLS("<tool_call><function=f><parameter=s>x</parameter><parameter=i>2</parameter>"
                "</function></tool_call>",
                want);
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=i>\n2\n"
                "</parameter>\n</function>",
                want);
    CHECK_TOOLS("<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=i>\n2\n</parameter>\n"
                "</function>\n</tool_call>",
                want);
    CHECK_TOOLS("<tool_call>\n<function=f>\noops " PARAM("s", "x")
                    PARAM("i", "2") "</function>\n</tool_call>",
                want);
    CHECK_TOOLS(CALL(PARAM("s", "x") PARAM("i", "2") PARAM("s", "again")), want);
    CHECK_TOOLS(
        "<tool_call>\n<function=f>\n" PARAM("s", "x") "<tool_call>\n<function=g>\n</function>",
        "<0:f {\"s\":\"x\"}><1:g {}>");
}

TEST(a_cut_call_is_still_valid)
{
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nhel", "<0:f {\"s\":\"hel\"}!");
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nhel\n</para", "<0:f {\"s\":\"hel\"}!");
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=s>\nhel\n</parameter>\n</fun",
                "<0:f {\"s\":\"hel\"}!");
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=o>\n{\"a\": [1",
                "<0:f {\"o\":\"{\\\"a\\\": [1\"}!");
    CHECK_TOOLS("<tool_call>\n<function=f>\n<parameter=i>\n12", "<0:f {\"i\":12}!");
    CHECK_TOOLS("<tool_call>\n<function=f>\n<param", "<0:f {}!");
    CHECK_TOOLS("<tool_call>\n<function=f>\n", "<0:f {}!");
    CHECK_TOOLS("<tool_call>\n<func", "C[<tool_call>\n<func]");
    CHECK_TOOLS("<tool_call>\n<function=f>\nand so on", "<0:f {}!C[and so on]");
    /* Text behind a closing tag makes the tag part of the value. */
    CHECK_TOOLS("<tool_call>\n<function=f>\n" PARAM("s", "x") "and so on",
                "<0:f {\"s\":\"x\\n</parameter>\\nand so on\"}!");
}

TEST(a_call_inside_the_reasoning_ends_it)
{
    check("I will call.\n" CALL(PARAM("s", "x")), true, true, "R[I will call.]<0:f {\"s\":\"x\"}>");
    check("Maybe <tool_call> or <function=zzz>", true, true,
          "R[Maybe <tool_call> or <function=zzz>]");
    check("<tool_call>\n<function=unknown>\n</think>a", true, true,
          "R[<tool_call>\n<function=unknown>]C[a]");
}

/* P7: without tools a call is text. */
TEST(without_tools_nothing_is_a_call)
{
    check(
        CALL(PARAM("s", "x")), false, false,
        "C[<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n</function>\n</tool_call>]");
    check("why</think>\n\n" CALL(""), true, false,
          "R[why]C[<tool_call>\n<function=f>\n</function>\n</tool_call>]");
}

TEST(what_only_looks_like_a_tag_is_text)
{
    CHECK_TOOLS("<tool_call> is a tag", "C[<tool_call> is a tag]");
    CHECK_TOOLS("<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
                "C[<tool_call>\n{\"name\": \"f\"}\n</tool_call>]");
    CHECK_TOOLS("use <function=other> here", "C[use <function=other> here]");
    CHECK_TOOLS("</tool_call>", "C[</tool_call>]");
    CHECK_TOOLS("<<tool_call", "C[<<tool_call]");
}

TEST(strings_are_streamed_while_they_are_written)
{
    parse_cut(CALL(PARAM("s", "0123456789012345678901234567890123456789")), false, true, 4);
    assert_true(r.n_pieces > 10);
    parse_cut(CALL(PARAM("opt", "0123456789012345678901234567890123456789")), false, true, 4);
    assert_true(r.n_pieces > 10);
    parse_cut(CALL(PARAM("o", "[0123456789012345678901234567890123456]")), false, true, 4);
    assert_true(r.n_pieces <= 4);
}

TEST(any_way_of_cutting_gives_the_same)
{
    static const char *const pieces[] = {"<tool_call>",
                                         "\n",
                                         "<function=f>",
                                         "<parameter=s>",
                                         "<parameter=i>",
                                         "<parameter=opt>",
                                         "x",
                                         "</parameter>",
                                         "</function>",
                                         "</tool_call>",
                                         "</think>",
                                         "<think>",
                                         "nu",
                                         "ll",
                                         "<",
                                         " ",
                                         "\xc3\xa9",
                                         "{\"a\": \"",
                                         "\"}",
                                         "12",
                                         "<parameter=o>",
                                         "<function=g>",
                                         "\xf0\x9f\x98\x80"};
    uint64_t seed = test_seed();
    for (int i = 0; i < 1500; i++) {
        char text[600] = "", whole[4000];
        size_t n = 0;
        int n_pieces = 1 + (int)(test_random(&seed) % 24);
        for (int k = 0; k < n_pieces; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s",
                                  pieces[test_random(&seed) % (sizeof pieces / sizeof pieces[0])]);
        bool in_reasoning = test_random(&seed) & 1;
        snprintf(whole, sizeof whole, "%s", parse_cut(text, in_reasoning, true, 0));
        size_t step = 1 + test_random(&seed) % 5;
        const char *cut = parse_cut(text, in_reasoning, true, step);
        if (strcmp(whole, cut) != 0)
            fail_msg("%s\n whole: %s\n by %zu: %s", text, whole, step, cut);
    }
}

TEST(text_that_may_hold_anything_ends_calls)
{
    text_has_no_calls = true;
    check("a</think>\n\n{\"x\":\"<tool_call><function=f></function></tool_call>\"}", true, true,
          "R[a]C[{\"x\":\"<tool_call><function=f></function></tool_call>\"}]");
    check("\n" CALL("") "\n" CALL(""), false, true, "<0:f {}><1:f {}>");
    text_has_no_calls = false;
}

TEST(the_end_of_a_prompt_tells_whether_reasoning_is_open)
{
    assert_true(outparse_is_open_think(STR("<|im_start|>assistant\n<think>\n")));
    assert_false(outparse_is_open_think(STR("<|im_start|>assistant\n<think>\n\n</think>\n\n")));
    assert_false(outparse_is_open_think(STR("<|im_start|>assistant\n")));
}

static void ignore(void *ctx, const outparse_event *event)
{
    (void)ctx, (void)event;
}

TEST(every_allocation_may_fail)
{
    static const char text[] = "a\n" CALL(PARAM("s", "x\ny")
                                              PARAM("o", "{\"a\": [1, \"2\"]}") "junk");
    err e = {0};
    (void)parse_cut("x", false, true, 0); /* reads the tools */
    for (int n = 1;; n++) {
        int64_t live = mem_count().n_live;
        outparse *p = NULL;
        outparse_options o = {r.tools, false, ignore, NULL, false};
        mem_fail_at(n);
        status s = outparse_open(&p, &o, &e);
        for (size_t i = 0; i < sizeof text - 1 && s == ERR_OK; i++)
            s = outparse_feed(p, (str){text + i, 1}, &e);
        if (s == ERR_OK) s = outparse_finish(p, &e);
        mem_fail_at(0);
        if (s && p) CHECK_STATUS(outparse_feed(p, STR("more"), &e), ERR_NOMEM);
        outparse_close(p);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
    }
    outparse_close(NULL);
}
