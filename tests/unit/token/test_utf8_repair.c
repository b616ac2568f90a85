#include "base/utf8.h"
#include "support/guard.h"
#include "support/test.h"
#include "token/utf8_repair_priv.h"

#define SIGN UTF8_REPAIR_SIGN

/* Maximal parts: the examples of the Unicode standard, table 3-8, and their like. */
TEST(each_maximal_part_becomes_one_sign)
{
    static const struct {
        str in, out;
    } cases[] = {
        {STR(""), STR("")},
        {STR("plain \xc3\xa9"), STR("plain \xc3\xa9")},
        {STR("a\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
         STR("a" SIGN SIGN SIGN "b" SIGN "c" SIGN SIGN "d")},
        {STR("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"),
         STR(SIGN SIGN SIGN SIGN SIGN SIGN SIGN SIGN "A")},
        {STR("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"),
         STR(SIGN SIGN SIGN SIGN SIGN SIGN SIGN SIGN "A")},
        {STR("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"),
         STR(SIGN SIGN SIGN SIGN SIGN "A" SIGN SIGN "B")},
        {STR("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), STR(SIGN SIGN SIGN SIGN "A")},
        {STR("end \xf0\x9f\x98"), STR("end " SIGN)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[64];
        assert_int_equal(utf8_repair_count(cases[i].in), cases[i].out.len);
        utf8_repair_write(cases[i].in, out);
        assert_memory_equal(out, cases[i].out.ptr, cases[i].out.len);
    }
}

TEST(any_bytes_become_well_formed_text_without_a_look_beyond)
{
    uint64_t seed = test_seed();
    for (int round = 0; round < 20000; round++) {
        static const unsigned char often[] = {0x80, 0xbf, 0xc2, 0xe0, 0xed, 0xf0, 0xf4, 0x9f, 'a'};
        unsigned char bytes[24];
        char out[3 * sizeof bytes];
        size_t n = test_random(&seed) % (sizeof bytes + 1);
        for (size_t i = 0; i < n; i++)
            bytes[i] = test_random(&seed) % 3 ? often[test_random(&seed) % sizeof often]
                                              : (unsigned char)test_random(&seed);
        char *in = guard_copy(bytes, n);
        str s = {in, n};
        size_t n_out = utf8_repair_count(s);
        assert_true(n_out <= sizeof out);
        utf8_repair_write(s, out);
        assert_int_equal(utf8_check((str){out, n_out}), -1);
        if (utf8_check(s) < 0) assert_true(str_equal(s, (str){out, n_out}));
        guard_free(in, n);
    }
}
