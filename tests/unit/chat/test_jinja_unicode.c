/* Expected values are those of Python 3.11's str methods. */
#include "base/utf8.h"
#include "chat/jinja_unicode_priv.h"
#include "support/test.h"

static const char *lower(const char *text)
{
    static char out[100];
    size_t n = 0;
    uint32_t cp, to[3];
    str s = str_from(text);
    for (size_t at = 0; at < s.len;) {
        size_t pos = at;
        at += (size_t)junicode_at(s, at, &cp);
        int count = junicode_lower(s, pos, cp, to);
        for (int i = 0; i < count; i++) n += (size_t)utf8_encode(to[i], out + n);
    }
    out[n] = 0;
    return out;
}

TEST(white_space_is_what_python_strips)
{
    static const uint32_t yes[] = {9, 13, 28, 31, ' ', 0x85, 0xa0, 0x1680, 0x2000, 0x2029, 0x3000};
    static const uint32_t no[] = {8, 14, 'a', 0x200b, 0xfeff, 0x180e};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) assert_true(junicode_is_space(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) assert_false(junicode_is_space(no[i]));
}

TEST(case_mappings_are_full)
{
    uint32_t out[3];
    assert_int_equal(junicode_upper(0xdf, out), 2); /* sharp s */
    assert_int_equal(out[0], 'S');
    assert_int_equal(out[1], 'S');
    assert_int_equal(junicode_title(0xfb03, out), 3); /* the ligature ffi */
    assert_int_equal(out[0], 'F');
    assert_int_equal(junicode_upper(0xe9, out), 1);
    assert_int_equal(out[0], 0xc9);
    assert_int_equal(junicode_title(0x1c6, out), 1);
    assert_int_equal(out[0], 0x1c5);
}

TEST(a_capital_sigma_is_final_at_the_end_of_a_word)
{
    assert_string_equal(lower("\xce\x91\xce\xa3"), "\xce\xb1\xcf\x82");
    assert_string_equal(lower("\xce\x91\xce\xa3\xce\x91"), "\xce\xb1\xcf\x83\xce\xb1");
    assert_string_equal(lower("\xce\xa3"), "\xcf\x83");
    assert_string_equal(lower("A\xce\xa3. B"), "a\xcf\x82. b");
    assert_string_equal(lower("\xc4\xb0"), "i\xcc\x87");
}

TEST(digits_and_numbers_are_told_apart)
{
    assert_true(junicode_is_decimal('7') && junicode_is_decimal(0x663));
    assert_true(junicode_is_digit(0xb2) && !junicode_is_decimal(0xb2));
    assert_true(junicode_is_numeric(0xbd) && !junicode_is_digit(0xbd));
    assert_true(junicode_is_numeric(0x4e00) && junicode_is_alpha(0x4e00));
    assert_int_equal(junicode_digit_value(0x663), 3);
    assert_int_equal(junicode_digit_value(0x1d7ff), 9);
    assert_int_equal(junicode_digit_value(0xb2), -1);
}

TEST(repr_shows_what_is_printable)
{
    assert_true(junicode_is_printable('a') && junicode_is_printable(0xe9) &&
                junicode_is_printable(' '));
    assert_false(junicode_is_printable(0x7f) || junicode_is_printable(0xa0));
    assert_false(junicode_is_printable(0x200b) || junicode_is_printable(0xe000));
}

TEST(offsets_count_characters)
{
    str s = STR("a\xc3\xa9\xf0\x9f\x98\x80z");
    assert_int_equal(junicode_count(s), 4);
    assert_int_equal(junicode_offset(s, 2), 3);
    assert_int_equal(junicode_offset(s, 9), s.len);
    assert_int_equal(junicode_before(s, 7), 3);
    assert_int_equal(junicode_before(s, 3), 1);
    uint32_t cp;
    assert_int_equal(junicode_at(STR("\xff"), 0, &cp), 1);
    assert_int_equal(cp, 0xfffd);
}
