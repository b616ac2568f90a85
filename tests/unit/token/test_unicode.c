#include "support/test.h"
#include "token/unicode_priv.h"

static int has(uint32_t cp, int flags)
{
    return (unicode_flags(cp) & flags) == flags;
}

TEST(ascii_is_block_zero)
{
    assert_int_equal(unicode_index[0], 0);
    for (uint32_t c = 0; c < 128; c++) {
        int is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        int is_digit = c >= '0' && c <= '9';
        int is_space = c == ' ' || (c >= 9 && c <= 13);
        int want = is_letter * UNICODE_LETTER | is_digit * UNICODE_NUMBER |
                   is_space * UNICODE_SPACE;
        if (is_letter || is_digit || c == '_') want |= UNICODE_WORD;
        assert_int_equal(unicode_flags(c) & ~UNICODE_NFC_BASE, want);
    }
}

/* Facts of the Unicode character database. */
TEST(classes_are_those_of_unicode_16)
{
    static const uint32_t letters[] = {0xaa, 0x17f, 0x4e2d, 0xac00, 0x2ebf0, 0x31350, 0x105c0};
    static const uint32_t marks[] = {0x300, 0x903, 0x897, 0x11f00, 0x1e5ee, 0xfe0f, 0x1171e};
    static const uint32_t numbers[] = {0xb2, 0xbd, 0x660, 0x3007, 0x2160, 0x10d40, 0x1ccf0};
    static const uint32_t spaces[] = {0x85, 0xa0, 0x1680, 0x2000, 0x200a, 0x2029, 0x3000};
    static const uint32_t none[] = {0x180e, 0x200b, 0x16ea0, 0xfffd, 0x1f600, 0xe000, 0x10ffff};
    for (int i = 0; i < 7; i++) {
        assert_true(has(letters[i], UNICODE_LETTER | UNICODE_WORD));
        assert_true(has(marks[i], UNICODE_MARK | UNICODE_WORD));
        assert_true(has(numbers[i], UNICODE_NUMBER));
        assert_true(has(spaces[i], UNICODE_SPACE));
        assert_int_equal(unicode_flags(none[i]) & 31, 0);
    }
    assert_true(has(0x203f, UNICODE_WORD) && has(0x200d, UNICODE_WORD));
    assert_false(has(0x2070, UNICODE_WORD)); /* superscript zero is No, no decimal digit */
}

TEST(counts_of_classes_are_those_of_unicode_16)
{
    int letters = 0, marks = 0, numbers = 0, spaces = 0;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        letters += has(cp, UNICODE_LETTER);
        marks += has(cp, UNICODE_MARK);
        numbers += has(cp, UNICODE_NUMBER);
        spaces += has(cp, UNICODE_SPACE);
    }
    assert_int_equal(letters, 141028);
    assert_int_equal(marks, 2501);
    assert_int_equal(numbers, 1911);
    assert_int_equal(spaces, 25);
}

TEST(normalisation_knows_only_unicode_9)
{
    assert_true(has(0x301, UNICODE_NFC_CLASS | UNICODE_NFC_CHANGES));
    assert_true(has(0x1e000, UNICODE_NFC_CLASS));  /* Glagolitic, 9.0 */
    assert_false(has(0x7fd, UNICODE_NFC_CLASS));   /* NKo, 11.0 */
    assert_false(has(0x1e2ae, UNICODE_NFC_CLASS)); /* Toto, 14.0 */
    assert_false(has(0x11935, UNICODE_NFC_BASE));  /* Dives Akuru, 13.0 */
    assert_true(has(0x2126, UNICODE_NFC_CHANGES) && has(0x1161, UNICODE_NFC_CHANGES));
    assert_true(has(0x1100, UNICODE_NFC_BASE) && has('e', UNICODE_NFC_BASE));
    assert_false(has('q', UNICODE_NFC_BASE));
}

TEST(reading_forwards_and_backwards_agree)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    static const uint32_t points[] = {'a', 0xe9, 0x20ac, 0x1f600};
    int64_t at = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t cp;
        int n = unicode_read(text + at, &cp), n_flags;
        assert_int_equal(cp, points[i]);
        assert_int_equal(n, i + 1);
        assert_int_equal(unicode_flags_at(text + at, &n_flags), unicode_flags(cp));
        assert_int_equal(n_flags, n);
        at += n;
        assert_int_equal(unicode_back(text, at), n);
    }
}

TEST(what_unicode_16_added_is_in_order_and_apart)
{
    assert_true(unicode_n_added > 100);
    for (int i = 0; i < unicode_n_added; i++) {
        assert_true(unicode_added[i].first <= unicode_added[i].last);
        if (i > 0) assert_true(unicode_added[i - 1].last < unicode_added[i].first);
    }
}
