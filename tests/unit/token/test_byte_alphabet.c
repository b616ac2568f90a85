#include "fixture_tokenizer.h"
#include "token/byte_alphabet_priv.h"

TEST(each_byte_has_one_letter_and_back)
{
    for (int byte = 0; byte < 256; byte++) {
        char letter[4], out[4];
        size_t n = 0;
        size_t len = (size_t)utf8_encode(fixture_letter(byte), letter);
        assert_int_equal(byte_alphabet_byte(fixture_letter(byte)), byte);
        assert_true(byte_alphabet_decode((str){letter, len}, out, &n));
        assert_int_equal(n, 1);
        assert_int_equal((unsigned char)out[0], byte);
    }
}

TEST(the_alphabet_has_256_letters)
{
    int n = 0;
    for (uint32_t cp = 0; cp < 0x3000; cp++) n += byte_alphabet_byte(cp) >= 0;
    assert_int_equal(n, 256);
}

TEST(a_character_outside_the_alphabet_is_refused)
{
    static const char *const bad[] = {" ",    "a b",          "\n",       "\xc2\xad",
                                      "\xc4", "\xc4\xc4",     "\xc5\x84", "\xe2\x82\xac",
                                      "\x80", "\xc3\xa9\xff", "\x7f"};
    char out[16];
    size_t n;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(byte_alphabet_decode(str_from(bad[i]), out, &n));
    assert_true(byte_alphabet_decode(STR(""), out, &n));
    assert_int_equal(n, 0);
}
