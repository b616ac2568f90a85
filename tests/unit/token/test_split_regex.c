#include "base/clock.h"
#include "base/mem.h"
#include "fixture_tokenizer.h"
#include "token/split_regex_priv.h"

/* The parts with '|' between. */
static const char *parts(const char *pattern, const char *text)
{
    static char out[512];
    split_regex *r = NULL;
    split_regex_work *w = NULL;
    err e = {0};
    size_t n = 0;
    CHECK_OK(split_regex_open(&r, str_from(pattern), "test", &e), &e);
    CHECK_OK(split_regex_work_open(&w, &e), &e);
    split_walk walk = {.text = str_from(text)};
    for (str part;;) {
        CHECK_OK(split_regex_next(r, w, &walk, &part, &e), &e);
        if (part.len == 0) break;
        if (n > 0) out[n++] = '|';
        memcpy(out + n, part.ptr, part.len);
        n += part.len;
    }
    out[n] = '\0';
    split_regex_work_close(w);
    split_regex_close(r);
    return out;
}

TEST(matches_and_what_lies_between_are_parts)
{
    assert_string_equal(parts("\\d+", "ab12cd3"), "ab|12|cd|3");
    assert_string_equal(parts("\\d+", "12"), "12");
    assert_string_equal(parts("\\d+", "none"), "none");
    assert_string_equal(parts("\\d", ""), "");
    assert_string_equal(parts("\\s+(?!\\S)|\\s+", "a  b  "), "a| | |b|  ");
}

/* An empty match cuts where it is, but not right behind the match before. */
TEST(empty_matches_cut_too)
{
    assert_string_equal(parts("x*", "axxb"), "a|xx|b");
    assert_string_equal(parts("(?=b)", "aab\xc3\xa9"
                                       "b"),
                        "aa|b\xc3\xa9|b");
    assert_string_equal(parts("", "a\xc3\xa9"
                                  "b"),
                        "a|\xc3\xa9|b");
}

TEST(case_folding_knows_the_long_s_and_the_kelvin_sign)
{
    assert_string_equal(parts("(?i:'s|k)", "a'\xc5\xbf"
                                           "b\xe2\x84\xaa"
                                           "c"),
                        "a|'\xc5\xbf|b|\xe2\x84\xaa|c");
}

TEST(unicode_16_is_known)
{
    /* U+31350 and U+105C0 came with 15 and 16, U+16EA0 with 17. */
    assert_string_equal(parts("\\p{L}+", "-\xf0\xb1\x8d\x90\xf0\x90\x97\x80-\xf0\x96\xba\xa0"),
                        "-|\xf0\xb1\x8d\x90\xf0\x90\x97\x80|-\xf0\x96\xba\xa0");
    assert_string_equal(parts("\\s+", "a\xe1\xa0\x8e"
                                      "b"),
                        "a\xe1\xa0\x8e"
                        "b"); /* U+180E */
}

TEST(a_pattern_that_explodes_stops)
{
    split_regex *r = NULL;
    split_regex_work *w = NULL;
    err e;
    char text[4001];
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, "xb", 2); /* a b at the end, or PCRE2 sees that none can match */
    CHECK_OK(split_regex_open(&r, STR("(a*)*b"), "test", &e), &e);
    CHECK_OK(split_regex_work_open(&w, &e), &e);
    split_walk walk = {.text = {text, sizeof text}};
    str part;
    int64_t start = clock_ns();
    CHECK_STATUS(split_regex_next(r, w, &walk, &part, &e), ERR_LIMIT);
    assert_true(clock_ms_since(start) < 20000);
    split_regex_work_close(w);
    split_regex_close(r);
}

TEST(a_long_text_is_no_reason_to_stop)
{
    enum { N = 24000000 };
    static char text[N];
    split_regex *r = NULL;
    split_regex_work *w = NULL;
    err e;
    memset(text, ' ', N - 1);
    text[N - 1] = 'x';
    CHECK_OK(split_regex_open(&r, STR("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"), "test", &e), &e);
    CHECK_OK(split_regex_work_open(&w, &e), &e);
    split_walk walk = {.text = {text, N}};
    str part;
    CHECK_OK(split_regex_next(r, w, &walk, &part, &e), &e);
    assert_int_equal(part.len, N - 2);
    split_regex_work_close(w);
    split_regex_close(r);
}

TEST(a_pattern_that_pcre2_refuses_is_refused)
{
    split_regex *r = NULL;
    err e;
    CHECK_STATUS(split_regex_open(&r, STR("(?<=a+)b"), "test", &e), ERR_UNSUPPORTED);
    CHECK_STATUS(split_regex_open(&r, STR("(a"), "test", &e), ERR_FORMAT);
    assert_null(r);
}

TEST(opening_survives_every_failed_allocation)
{
    split_regex *r = NULL;
    split_regex_work *w = NULL;
    err e;
    FIXTURE_STAIRCASE(split_regex_open(&r, STR("\\p{L}+|(?i:'s)| ?x"), "test", &e), &e,
                      split_regex_close(r));
    FIXTURE_STAIRCASE(split_regex_work_open(&w, &e), &e, split_regex_work_close(w));
    split_regex_close(NULL);
    split_regex_work_close(NULL);
}
