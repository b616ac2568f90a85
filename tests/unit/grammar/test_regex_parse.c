/* Regular expressions as whole-text grammars: what they match, and where they are refused. */
#include "fixture_grammar.h"

typedef struct {
    const char *pattern;
    const char *takes[6];
    const char *refuses[6];
} regex_case;

TEST(patterns_match_whole_texts)
{
    static const regex_case cases[] = {
        {"a|bc", {"a", "bc"}, {"", "b", "abc", "ab"}},
        {"a{2,3}b{2}c{1,}d?", {"aabbc", "aaabbccd"}, {"abbc", "aaaabbc", "aabbbc", "aabbcdd"}},
        {"(?:ab)*?x+?", {"x", "ababxx"}, {"", "abax"}},
        {"[a-cx-]+", {"abc-x"}, {"d", ""}},
        {"[^a-z]", {"A", "\xc3\xa9", "\xf0\x9f\x98\x80", "\n"}, {"a", "AB", "\xc3"}},
        {".", {"a", "\xe2\x82\xac"}, {"\n", "\r", "ab", "\xe2\x80\xa8"}},
        {"\\d\\w\\s\\D\\W\\S", {"1_ a !"}, {"11_a-!", "x_ a-!"}},
        {"\\x41\\u00e9\\u{1f600}\\ud83d\\ude00\\t\\.\\/\\-",
         {"A\xc3\xa9\xf0\x9f\x98\x80\xf0\x9f\x98\x80\t./-"},
         {"A"}},
        {"\\p{L}\\p{Lu}\\P{N}", {"aB-", "\xc3\xa9\xc3\x89 "}, {"abc", "aB1"}},
        {"^a$|^b", {"a", "b"}, {"ab", ""}},
        {"a^b|c$d|x", {"x"}, {"ab", "cd", "a", "c"}},
        {"(a|)(b|)", {"", "a", "b", "ab"}, {"ba"}},
        {"x{,3}", {"x{,3}"}, {"x", "xxx"}},
        {"[\\b]\\cA\\0", {NULL}, {"b"}},
        {"(?<name>a)\\)", {"a)"}, {"a"}},
        {"[\\d-x]+", {"1-x"}, {"y"}},
        {"a{0}b", {"b"}, {"ab"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        grammar *g = NULL;
        grammar_state *s = NULL;
        CHECK_OK(grammar_open_regex(&g, str_from(cases[i].pattern), &e), &e);
        for (int k = 0; k < 12; k++) {
            const char *text = k < 6 ? cases[i].takes[k] : cases[i].refuses[k - 6];
            if (!text) continue;
            CHECK_OK(grammar_state_open(&s, g, NULL, 1, &e), &e);
            bool took = grammar_state_advance_bytes(s, str_from(text)) && grammar_state_can_end(s);
            grammar_state_close(s);
            if (took != (k < 6)) fail_msg("/%s/ and '%s': %d", cases[i].pattern, text, took);
        }
        grammar_close(g);
    }
}

TEST(what_is_refused_is_named_with_its_byte)
{
    static const struct {
        const char *pattern, *status;
        int pos;
    } cases[] = {
        {"a(b", "FORMAT", 1},         {"a)b", "FORMAT", 1},           {"*a", "FORMAT", 0},
        {"[z-a]", "FORMAT", 1},       {"[ab", "FORMAT", 0},           {"a{3,2}", "FORMAT", 1},
        {"a\\", "FORMAT", 2},         {"\\q", "FORMAT", 0},           {"(?=a)", "UNSUPPORTED", 0},
        {"x(?!a)", "UNSUPPORTED", 1}, {"(?<=a)", "UNSUPPORTED", 0},   {"(a)\\1", "UNSUPPORTED", 3},
        {"\\bx", "UNSUPPORTED", 0},   {"\\p{Odd}", "UNSUPPORTED", 0}, {"a{30000}", "LIMIT", 1},
        {"\xff", "FORMAT", 0},        {"(?a)", "FORMAT", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        grammar *g = NULL;
        status s = grammar_open_regex(&g, str_from(cases[i].pattern), &e);
        if (strcmp(status_name(s), cases[i].status) != 0 || e.pos != cases[i].pos)
            fail_msg("/%s/: %s at %ld: %s", cases[i].pattern, status_name(s), e.pos, e.msg);
        assert_string_equal(e.where, "regex");
    }
}

TEST(deep_and_exploding_patterns_are_limits)
{
    err e = {0};
    grammar *g = NULL;
    buf b;
    buf_init(&b);
    for (int i = 0; i < 60000; i++) buf_put_byte(&b, '(');
    CHECK_STATUS(grammar_open_regex(&g, buf_str(&b), &e), ERR_LIMIT);
    CHECK_STATUS(grammar_open_regex(&g, STR("(a|b)*a(a|b){18}"), &e), ERR_LIMIT);
    CHECK_STATUS(grammar_open_regex(&g, STR("((a{1,500}){1,500}){1,500}"), &e), ERR_LIMIT);
    CHECK_STATUS(grammar_open_regex(&g, STR("[^\\s\\S]"), &e), ERR_INVALID);
    buf_fini(&b);
}
