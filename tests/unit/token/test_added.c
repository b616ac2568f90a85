#include "base/mem.h"
#include "fixture_tokenizer.h"
#include "token/added_priv.h"

static const added_token *match(const added_set *s, str text, size_t *start, size_t *stop)
{
    return added_set_match(s, text, 0, text.len, start, stop);
}

static added_set open_set(added_token *tokens, const char *const *patterns, int n)
{
    added_set s;
    str slices[16];
    err e;
    for (int i = 0; i < n; i++) {
        slices[i] = str_from(patterns[i]);
        tokens[i].content = slices[i];
        tokens[i].id = 100 + i;
    }
    CHECK_OK(added_set_init(&s, tokens, slices, n, &e), &e);
    return s;
}

TEST(the_leftmost_match_wins_and_then_the_longest)
{
    static const char *const patterns[] = {"<a", "<a>", "a>b", "<ab>c", "x"};
    added_token tokens[5] = {0};
    added_set s = open_set(tokens, patterns, 5);
    size_t start, stop;
    assert_int_equal(match(&s, STR("..<a>b"), &start, &stop)->id, 101);
    assert_int_equal(start, 2);
    assert_int_equal(stop, 5);
    /* <ab>c begins well and breaks off: what was found on the way counts */
    assert_int_equal(match(&s, STR("<ab>d"), &start, &stop)->id, 100);
    assert_int_equal(stop, 2);
    assert_int_equal(match(&s, STR("<<<ab>c"), &start, &stop)->id, 103);
    assert_int_equal(start, 2);
    assert_null(match(&s, STR("nothing < here"), &start, &stop));
    assert_null(match(&s, STR(""), &start, &stop));
    added_set_fini(&s);
    added_set_fini(&s);
}

TEST(a_match_lies_within_the_bounds)
{
    static const char *const patterns[] = {"abc", "b"};
    added_token tokens[2] = {0};
    added_set s = open_set(tokens, patterns, 2);
    size_t start, stop;
    assert_int_equal(added_set_match(&s, STR("abc"), 0, 3, &start, &stop)->id, 100);
    assert_int_equal(added_set_match(&s, STR("abc"), 0, 2, &start, &stop)->id, 101);
    assert_null(added_set_match(&s, STR("abc"), 2, 3, &start, &stop));
    added_set_fini(&s);
}

TEST(an_exact_text_is_found)
{
    static const char *const patterns[] = {"<a>", "<a>b"};
    added_token tokens[2] = {0};
    added_set s = open_set(tokens, patterns, 2);
    assert_ptr_equal(added_set_get(&s, STR("<a>")), &tokens[0]);
    assert_ptr_equal(added_set_get(&s, STR("<a>b")), &tokens[1]);
    assert_null(added_set_get(&s, STR("<a")));
    assert_null(added_set_get(&s, STR("<a>bc")));
    assert_null(added_set_get(&s, STR("")));
    added_set_fini(&s);
}

TEST(of_equal_patterns_a_special_one_counts)
{
    static const char *const patterns[] = {"x", "x", ""};
    added_token tokens[3] = {[1] = {.special = true}};
    added_set s = open_set(tokens, patterns, 3);
    size_t start, stop;
    assert_int_equal(match(&s, STR("x"), &start, &stop)->id, 101);
    added_set_fini(&s);
}

static bool fits(added_token t, str text, size_t from, size_t start, size_t stop, size_t *begin,
                 size_t *end)
{
    *begin = start;
    *end = stop;
    return added_token_fit(&t, text, from, begin, end);
}

TEST(a_single_word_stands_alone)
{
    added_token t = {.single_word = true};
    size_t b, e;
    assert_true(fits(t, STR("ab"), 0, 0, 2, &b, &e));
    assert_true(fits(t, STR("-ab-"), 0, 1, 3, &b, &e));
    assert_false(fits(t, STR("xab"), 0, 1, 3, &b, &e));
    assert_false(fits(t, STR("ab_"), 0, 0, 2, &b, &e));
    assert_false(fits(t,
                      STR("\xc3\xa9"
                          "ab"),
                      0, 2, 4, &b, &e));
    assert_false(fits(t, STR("ab\xcc\x81"), 0, 0, 2, &b, &e));     /* a mark */
    assert_false(fits(t, STR("ab\xe2\x80\x8d"), 0, 0, 2, &b, &e)); /* a joiner */
    assert_true(fits(t, STR("ab\xe2\x91\xa0"), 0, 0, 2, &b, &e));  /* circled one: no digit */
}

TEST(white_space_is_taken_as_the_flags_say)
{
    str s = STR("a \xe3\x80\x80<x>\n\t b");
    size_t b, e;
    assert_true(fits((added_token){.lstrip = true}, s, 0, 5, 8, &b, &e));
    assert_int_equal(b, 1);
    assert_int_equal(e, 8);
    assert_true(fits((added_token){.lstrip = true}, s, 2, 5, 8, &b, &e));
    assert_int_equal(b, 2);
    assert_true(fits((added_token){.rstrip = true}, s, 0, 5, 8, &b, &e));
    assert_int_equal(b, 5);
    assert_int_equal(e, 11);
    assert_true(fits((added_token){.rstrip = true, .lstrip = true}, STR(" <x> "), 0, 1, 4, &b, &e));
    assert_int_equal(b, 0);
    assert_int_equal(e, 5);
}

TEST(a_set_survives_a_failed_allocation)
{
    added_set s;
    added_token t = {0};
    str pattern = STR("abc");
    err e;
    FIXTURE_STAIRCASE(added_set_init(&s, &t, &pattern, 1, &e), &e, added_set_fini(&s));
}
