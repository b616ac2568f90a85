#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "support/guard.h"
#include "support/test.h"

static arena a;
static err e;

static status parse_flags(str text, int depth, int flags, const json **out)
{
    arena_fini(&a);
    return json_parse(&a, text, "test", depth, flags, out, &e);
}

static const json *parse(const char *text)
{
    const json *v = NULL;
    CHECK_OK(parse_flags(str_from(text), JSON_DEPTH_DEFAULT, 0, &v), &e);
    return v;
}

/* The text with a mark: '^' stands before the byte that must be reported. */
static void check_error(str marked, int depth, int flags, status want)
{
    int64_t at = str_find(marked, STR("^"), 0);
    assert_true(at >= 0);
    char text[400];
    size_t n = marked.len - 1;
    memcpy(text, marked.ptr, (size_t)at);
    memcpy(text + at, marked.ptr + at + 1, n - (size_t)at);
    const json *v = (const json *)text;
    char *guarded = guard_copy(text, n);
    status got = parse_flags((str){guarded, n}, depth, flags, &v);
    guard_free(guarded, n);
    if (got != want || e.pos != at)
        fail_msg("%.*s: %s at %ld, want %s at %lld (%s)", STR_ARG(marked), status_name(got), e.pos,
                 status_name(want), (long long)at, e.msg);
    assert_ptr_equal(v, text);
    assert_string_equal(e.where, "test");
}

TEST(scalars_have_kind_text_and_position)
{
    const json *v = parse(" -1.50e+3 ");
    assert_true(json_is(v, JSON_NUMBER));
    assert_true(str_is(v->text, "-1.50e+3"));
    assert_int_equal(v->pos, 1);
    assert_true(json_is(parse("true"), JSON_TRUE));
    assert_true(json_is(parse("\tfalse\r\n"), JSON_FALSE));
    assert_true(json_is(parse("null"), JSON_NULL));
    assert_true(str_is(parse("\"\"")->text, ""));
    assert_true(str_is(parse("\"ab\"")->text, "ab"));
}

TEST(containers_keep_order_counts_keys_and_positions)
{
    const json *v = parse("{\"b\": [1, [], {}], \"a\" : {\"x\":null} }");
    assert_int_equal(v->kind, JSON_OBJECT);
    assert_int_equal(v->n, 2);
    const json *b = v->first, *x = b->next;
    assert_true(str_is(b->key, "b") && str_is(x->key, "a"));
    assert_null(x->next);
    assert_int_equal(b->pos, 6);
    assert_int_equal(b->n, 3);
    assert_int_equal(json_at(b, 0)->pos, 7);
    assert_int_equal(json_at(b, 1)->kind, JSON_ARRAY);
    assert_int_equal(json_at(b, 2)->kind, JSON_OBJECT);
    assert_int_equal(json_at(b, 2)->n, 0);
    assert_int_equal(x->n, 1);
}

TEST(strings_without_escapes_borrow_the_source)
{
    const char *text = "[\"plain\"]";
    assert_ptr_equal(json_at(parse(text), 0)->text.ptr, text + 2);
}

TEST(escapes_are_decoded)
{
    struct {
        const char *text;
        str want;
    } cases[] = {
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", STR("\"\\/\b\f\n\r\t")},
        {"\"a\\u0041\\u00e4\\u20AC z\"", STR("aA\xc3\xa4\xe2\x82\xac z")},
        {"\"\\uD83D\\uDe00\"", STR("\xf0\x9f\x98\x80")},
        {"\"\\u0000\"", STR("\0")},
        {"\"x\\u0000y\"", STR("x\0y")},
        {"\"\\uffff\\uFFFE\"", STR("\xef\xbf\xbf\xef\xbf\xbe")},
        {"\"\\uDBFF\\uDFFF\"", STR("\xf4\x8f\xbf\xbf")},
        {"\"long enough to pass the eight byte step \\u0041 and beyond it\"",
         STR("long enough to pass the eight byte step A and beyond it")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const json *v = parse(cases[i].text);
        if (!str_equal(v->text, cases[i].want))
            fail_msg("%s gave %.*s", cases[i].text, STR_ARG(v->text));
    }
}

TEST(a_lone_surrogate_becomes_the_replacement_character)
{
    struct {
        const char *text;
        const char *want;
    } cases[] = {
        {"\"\\ud800\"", "\xef\xbf\xbd"},
        {"\"\\udc00x\"", "\xef\xbf\xbdx"},
        {"\"\\ud800\\u0041\"", "\xef\xbf\xbd\x41"},
        {"\"\\ud800\\ud83d\\ude00\"", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
        {"\"\\ude00\\ud83d\"", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\"\\ud800\\n\"", "\xef\xbf\xbd\n"},
        {"\"\\ud800abcdefg\"", "\357\277\275abcdefg"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(str_is(parse(cases[i].text)->text, cases[i].want));
}

TEST(keys_are_decoded_too)
{
    const json *v = parse("{\"\\u0061\\\"\": 1, \"\": 2, \"n\\u0000l\": 3}");
    assert_int_equal(json_get(v, "a\"")->pos, 13);
    assert_true(str_is(json_get(v, "")->text, "2"));
    assert_true(str_is(json_get_str(v, STR("n\0l"))->text, "3"));
}

TEST(each_error_is_reported_at_its_byte)
{
    const char *cases[] = {
        "^",
        "  ^",
        "^x",
        "1 ^2",
        "[]^]",
        "{}^,",
        "^]",
        "^}",
        "^,",
        "^:",
        "[^",
        "[1^",
        "[1,^",
        "[1,^]",
        "[^,1]",
        "[1 ^2]",
        "[1^:2]",
        "[1^}",
        "{^",
        "{^1:2}",
        "{}^x}",
        "{\"a\"^",
        "{\"a\"^}",
        "{\"a\":^",
        "{\"a\":^}",
        "{\"a\":1^",
        "{\"a\":1,^}",
        "{\"a\":1,^",
        "{\"a\":1^]",
        "{\"a\"^,1}",
        "{\"a\":^:1}",
        "{^a:1}",
        "{^'a':1}",
        "[^'a']",
        "\"^",
        "\"abc^",
        "\"abcdefgh^",
        "\"a\\^",
        "\"a\\^x\"",
        "\"\\^'\"",
        "\"\\u^",
        "\"\\u12^",
        "\"\\u123^\"",
        "\"\\u12^G4\"",
        "\"\\^U0041\"",
        "\"a^\nb\"",
        "\"abcdefgh^\tb\"",
        "\"^\x1f\"",
        "\"a^\xff\"",
        "\"a^\xc3\"",
        "\"a^\xed\xa0\x80\"",
        "\"12345678901^\xc0\x80\"",
        "[\"ok\", \"^\xf4\x90\x80\x80\"]",
        "^\xef\xbb\xbf{}",
        "^\xc3\xa4",
        "[1,^\f2]",
        "t^",
        "tr^",
        "tru^x",
        "nul^",
        "nul^L",
        "fals^ ",
        "^True",
        "^NaN",
        "^Infinity",
        "-^Infinity",
        "-^",
        "[-^]",
        "^+1",
        "^.5",
        "0^1",
        "-0^1",
        "1.^",
        "1.^e5",
        "[1.^]",
        "1e^",
        "1e+^",
        "1e^x",
        "1e-^.5",
        "0^x10",
        "1^_000",
        "1^ff",
        "[1^/**/]",
        "^// c\n1",
        "true^false",
        "null^\"a\"",
        "\"a\"^\"b\"",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_error(str_from(cases[i]), 128, 0, ERR_FORMAT);
    check_error(STR("^\0"), 128, 0, ERR_FORMAT);
    check_error(STR("[1^\0]"), 128, 0, ERR_FORMAT);
    check_error(STR("\"a^\0b\""), 128, 0, ERR_FORMAT);
    check_error(STR("123^\0"), 128, 0, ERR_FORMAT);
}

TEST(messages_say_what_was_found_and_what_was_wanted)
{
    const json *v;
    CHECK_STATUS(parse_flags(STR("[1 2]"), 128, 0, &v), ERR_FORMAT);
    assert_string_equal(e.msg, "JSON: '2' where a comma or ] should be");
    CHECK_STATUS(parse_flags(STR("{\"a\""), 128, 0, &v), ERR_FORMAT);
    assert_string_equal(e.msg, "JSON: the text ends where a colon should be");
    CHECK_STATUS(parse_flags(STR("[\x01]"), 128, 0, &v), ERR_FORMAT);
    assert_string_equal(e.msg, "JSON: byte 0x01 where a value should be");
}

static const char everything[] =
    " { \"num\\u0062ers\" : [ 0 , -1 , 12.5e+10 , 1E-2 , -0.0 ] ,\r\n\t\"words\":[true,false,null],"
    "\"text\":\"plain \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \\\\ \\\" \\/ \\b\\f\\n\\r\\t "
    "\\u20ac\\ud83d\\ude00 end\",\"nested\":[[[{}],[]],{\"a\":{\"b\":[{\"c\":1}]}}],\"\":\"\" } ";

TEST(every_prefix_is_an_error_and_no_byte_beyond_it_is_read)
{
    size_t full = strlen(everything) - 1; /* without the last space it is complete too */
    for (size_t n = 0; n < full; n++) {
        char *p = guard_copy(everything, n);
        const json *v = NULL;
        status s = parse_flags((str){p, n}, 128, 0, &v);
        if (s != ERR_FORMAT || e.pos < 0 || (size_t)e.pos > n || v)
            fail_msg("prefix of %zu bytes: %s at %ld", n, status_name(s), e.pos);
        guard_free(p, n);
    }
    for (size_t n = full; n <= full + 1; n++) {
        char *p = guard_copy(everything, n);
        const json *v;
        CHECK_OK(parse_flags((str){p, n}, 128, 0, &v), &e);
        guard_free(p, n);
    }
}

/* A prefix of good text is wrong only in that it ends, or that it ends inside a character. */
TEST(a_prefix_of_good_text_is_reported_where_it_ends)
{
    for (size_t n = 0; n + 2 < sizeof everything; n++) {
        const json *v;
        str prefix = {everything, n};
        CHECK_STATUS(parse_flags(prefix, 128, 0, &v), ERR_FORMAT);
        assert_int_equal(e.pos, n - (size_t)utf8_tail(prefix));
    }
}

TEST(any_single_changed_byte_is_handled)
{
    char text[sizeof everything];
    for (size_t i = 0; i + 1 < sizeof everything; i++)
        for (int byte = 0; byte < 256; byte += 3) {
            memcpy(text, everything, sizeof text);
            text[i] = (char)byte;
            char *p = guard_copy(text, sizeof text - 1);
            const json *v = NULL;
            status s = parse_flags((str){p, sizeof text - 1}, 128, JSON_UNIQUE_KEYS, &v);
            assert_true(s == ERR_OK || s == ERR_FORMAT);
            assert_true((s == ERR_OK) == (v != NULL));
            guard_free(p, sizeof text - 1);
        }
}

TEST(depth_is_limited_exactly)
{
    const json *v;
    CHECK_OK(parse_flags(STR("[[{\"a\":[]}]]"), 4, 0, &v), &e);
    check_error(STR("[[{\"a\":^[]}]]"), 3, 0, ERR_LIMIT);
    check_error(STR("[[^[[[[[["), 2, 0, ERR_LIMIT);
    check_error(STR("^[]"), 0, 0, ERR_LIMIT);
    CHECK_OK(parse_flags(STR("1"), 0, 0, &v), &e);
    /* Closed ones do not count. */
    CHECK_OK(parse_flags(STR("[[],[],{},{},[],[1]]"), 2, 0, &v), &e);
}

TEST(a_million_levels_need_no_stack)
{
    enum { N = 1000000 };
    char *text = malloc(2 * N);
    memset(text, '[', N);
    memset(text + N, ']', N);
    const json *v;
    CHECK_OK(parse_flags((str){text, 2 * N}, N, 0, &v), &e);
    int depth = 0;
    for (; v; v = v->first) depth++;
    assert_int_equal(depth, N);
    CHECK_STATUS(parse_flags((str){text, N}, N, 0, &v), ERR_FORMAT);
    assert_int_equal(e.pos, N);
    free(text);
    arena_fini(&a);
}

TEST(get_finds_the_last_of_repeated_keys)
{
    const json *v = parse("{\"a\":1,\"b\":2,\"a\":3}");
    assert_int_equal(v->n, 3);
    assert_true(str_is(json_get(v, "a")->text, "3"));
    assert_true(str_is(v->first->text, "1"));
    assert_null(json_get(v, "c"));
    assert_null(json_get(NULL, "a"));
    assert_null(json_get(parse("[1]"), "a"));
    assert_null(json_get(parse("[1]"), ""));
}

TEST(at_finds_elements_of_arrays_only)
{
    const json *v = parse("[1,2]");
    assert_true(str_is(json_at(v, 1)->text, "2"));
    assert_null(json_at(v, 2));
    assert_null(json_at(v, -1));
    assert_null(json_at(NULL, 0));
    assert_null(json_at(parse("{\"a\":1}"), 0));
}

TEST(readers_take_only_their_kind)
{
    bool b = false;
    str s = STR("before");
    assert_true(json_to_bool(parse("true"), &b) && b);
    assert_true(json_to_bool(parse("false"), &b) && !b);
    assert_false(json_to_bool(parse("1"), &b) || json_to_bool(NULL, &b));
    assert_true(json_is_bool(parse("false")) && !json_is_bool(parse("null")));
    assert_false(json_to_str(parse("1"), &s) || json_to_str(NULL, &s));
    assert_true(str_is(s, "before"));
    assert_true(json_to_str(parse("\"x\""), &s) && str_is(s, "x"));
    assert_false(json_is(NULL, JSON_NULL));
}

TEST(parse_survives_every_failed_allocation)
{
    arena_fini(&a);
    int64_t live = mem_count().n_live;
    int n = 1;
    for (;; n++) {
        const json *v = NULL;
        mem_fail_at(n);
        status s = parse_flags(str_from(everything), 128, JSON_UNIQUE_KEYS, &v);
        mem_fail_at(0);
        arena_fini(&a);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        assert_int_equal(s, ERR_NOMEM);
        assert_null(v);
    }
    assert_true(n > 1);
}

TEST(a_limited_arena_is_respected)
{
    arena small;
    arena_init(&small, 3000);
    char text[2000];
    memset(text, '[', 1);
    for (size_t i = 1; i < sizeof text - 1; i += 2) memcpy(text + i, "1,", 2);
    memcpy(text + sizeof text - 3, "1]", 2);
    const json *v;
    CHECK_STATUS(json_parse(&small, (str){text, sizeof text - 1}, "test", 8, 0, &v, &e), ERR_NOMEM);
    assert_true(small.n_bytes <= 3000);
    arena_fini(&small);
}

TEST(an_empty_slice_without_pointer_is_an_empty_text)
{
    const json *v;
    CHECK_STATUS(parse_flags((str){NULL, 0}, 128, 0, &v), ERR_FORMAT);
    assert_int_equal(e.pos, 0);
}

TEST(zz_memory_goes_back)
{
    arena_fini(&a);
    assert_int_equal(mem_count().n_live, 0);
}
