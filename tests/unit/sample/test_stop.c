#include "sample/stop.h"

#include "support/test.h"

/* Push `text` in pieces whose lengths come from rng (or one byte each without), and compare. */
static void expect(const str *stops, int n, const char *text, const char *want, int want_hit,
                   uint64_t *rng)
{
    stop s;
    buf out;
    buf_init(&out);
    stop_init(&s, stops, n);
    size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        size_t piece = rng ? test_random(rng) % 7 + 1 : 1;
        if (piece > len - at) piece = len - at;
        stop_push(&s, (str){text + at, piece}, &out);
        at += piece;
    }
    if (s.hit < 0) stop_flush(&s, &out);
    assert_int_equal(s.hit, want_hit);
    assert_int_equal(out.len, strlen(want));
    assert_memory_equal(buf_str(&out).ptr, want, out.len);
    stop_fini(&s);
    buf_fini(&out);
}

TEST(text_is_cut_exactly_before_the_stop_string)
{
    str stops[] = {STR("own fox")};
    expect(stops, 1, "The quick brown fox jumps", "The quick br", 0, NULL);
}

TEST(a_stop_string_across_pieces_is_found_at_every_split)
{
    uint64_t rng = test_seed();
    str stops[] = {STR("beta gamma"), STR("zz")};
    for (int i = 0; i < 200; i++)
        expect(stops, 2, "alpha beta gammy beta gamma delta", "alpha beta gammy ", 0, &rng);
}

TEST(an_unfinished_stop_string_is_shown_at_the_end)
{
    str stops[] = {STR("</tool>")};
    expect(stops, 1, "x </too", "x </too", -1, NULL);
}

TEST(the_string_completed_first_wins_and_of_equal_ends_the_longer)
{
    str stops[] = {STR("abcd"), STR("bc")};
    expect(stops, 2, "xabcd", "xa", 1, NULL);
    str same_end[] = {STR("cd"), STR("bcd")};
    expect(same_end, 2, "abcd", "a", 1, NULL);
}

TEST(a_repetitive_stop_string_is_matched_like_a_search_does)
{
    str stops[] = {STR("aab")};
    expect(stops, 1, "aaaab", "aa", 0, NULL);
}

TEST(only_what_may_begin_a_stop_string_is_held_back)
{
    str stops[] = {STR("END")};
    stop s;
    buf out;
    buf_init(&out);
    stop_init(&s, stops, 1);
    stop_push(&s, STR("abE"), &out);
    assert_int_equal(out.len, 2);
    stop_push(&s, STR("x"), &out);
    assert_int_equal(out.len, 4);
    stop_fini(&s);
    buf_fini(&out);
}
