#include "base/utf8.h"
#include "support/guard.h"
#include "support/test.h"

static int is_scalar(uint32_t cp)
{
    return cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff);
}

TEST(every_code_point_survives_encode_and_decode)
{
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        if (!is_scalar(cp)) continue;
        char bytes[4];
        uint32_t got = 0;
        int n = utf8_encode(cp, bytes);
        int want = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
        if (n != want || utf8_decode((str){bytes, (size_t)n}, 0, &got) != n || got != cp)
            fail_msg("U+%04X", cp);
    }
}

/* All texts of up to three bytes, and all of four with edges in the middle, against a definition
 * by enumeration: a text is one well-formed sequence iff it is some scalar's encoding. */
TEST(exactly_the_encodings_of_scalars_decode)
{
    static unsigned char seen[1 << 24];
    memset(seen, 0, sizeof seen);
    for (uint32_t cp = 0x80; cp <= 0xffff; cp++) {
        unsigned char b[4];
        if (!is_scalar(cp)) continue;
        int n = utf8_encode(cp, (char *)b);
        if (n == 2) seen[b[0] << 8 | b[1]] = 2;
        if (n == 3) seen[b[0] << 16 | b[1] << 8 | b[2]] = 3;
    }
    for (uint32_t v = 0; v < 1 << 24; v++) {
        char b[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
        uint32_t cp;
        int n = utf8_decode((str){b, 3}, 0, &cp);
        int want = v >> 16 < 0x80 ? 1 : seen[v] == 3 ? 3 : seen[v >> 8] == 2 ? 2 : 0;
        if (n != want) fail_msg("%06x: %d, want %d", v, n, want);
    }
    const unsigned char edges[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    for (int lead = 0xf0; lead < 0x100; lead++)
        for (size_t i = 0; i < 1000; i++) {
            char b[4] = {(char)lead, (char)edges[i / 100], (char)edges[i / 10 % 10],
                         (char)edges[i % 10]};
            uint32_t v = (uint32_t)(lead & 7) << 18 | (uint32_t)(b[1] & 63) << 12, cp;
            int follow = 1;
            for (int k = 1; k < 4; k++) follow &= ((unsigned char)b[k] & 0xc0) == 0x80;
            int want = lead < 0xf8 && follow && v >= 0x10000 && v <= 0x10ffff ? 4 : 0;
            assert_int_equal(utf8_decode((str){b, 4}, 0, &cp), want);
        }
}

TEST(decode_of_a_cut_sequence_is_zero_and_reads_no_further)
{
    const char *full[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < 3; i++)
        for (size_t n = 1; n < strlen(full[i]); n++) {
            char *p = guard_copy(full[i], n);
            uint32_t cp;
            assert_int_equal(utf8_decode((str){p, n}, 0, &cp), 0);
            assert_int_equal(utf8_check((str){p, n}), 0);
            assert_int_equal(utf8_tail((str){p, n}), n);
            guard_free(p, n);
        }
}

TEST(check_gives_the_offset_of_the_first_ill_formed_byte)
{
    struct {
        const char *text;
        int64_t want;
    } cases[] = {
        {"", -1},
        {"plain ascii, more than eight", -1},
        {"gr\xc3\xbc\xc3\x9f gott", -1},
        {"\xff", 0},
        {"12345678\x80", 8},
        {"1234567\x80", 7},
        {"ab\xc3", 2},
        {"ab\xc3(", 2},
        {"\xed\xa0\x80", 0},
        {"x\xf4\x90\x80\x80", 1},
        {"\xe2\x82\xac\xc0\x80", 3},
        {"\xf0\x8f\xbf\xbf", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].text);
        char *p = guard_copy(cases[i].text, n);
        assert_int_equal(utf8_check((str){p, n}), cases[i].want);
        guard_free(p, n);
    }
}

TEST(check_agrees_with_decoding_one_by_one_on_random_bytes)
{
    uint64_t rng = test_seed();
    for (int i = 0; i < 20000; i++) {
        char text[40];
        size_t n = 0;
        while (n < sizeof text - 4) {
            uint64_t r = test_random(&rng);
            uint32_t cp = (uint32_t)(r >> 8) % 0x110000;
            if (r % 40 == 0)
                text[n++] = (char)(r >> 32);
            else if (r % 3 == 0 || !is_scalar(cp))
                text[n++] = (char)(r >> 40 & 0x7f);
            else
                n += (size_t)utf8_encode(cp, text + n);
        }
        int64_t want = -1;
        for (size_t pos = 0; pos < n;) {
            uint32_t cp;
            int len = utf8_decode((str){text, n}, pos, &cp);
            if (len == 0) {
                want = (int64_t)pos;
                break;
            }
            pos += (size_t)len;
        }
        assert_int_equal(utf8_check((str){text, n}), want);
    }
}

TEST(tail_counts_only_what_can_still_become_a_character)
{
    struct {
        const char *text;
        int want;
    } cases[] = {
        {"", 0},
        {"abc", 0},
        {"abc\xc3", 1},
        {"\xc3\xa4", 0},
        {"x\xe2", 1},
        {"x\xe2\x82", 2},
        {"x\xe2\x82\xac", 0},
        {"\xf0", 1},
        {"\xf0\x9f", 2},
        {"\xf0\x9f\x98", 3},
        {"\xf0\x9f\x98\x80", 0},
        {"\xe0\x80", 0}, /* overlong: never a character */
        {"\xed\xa0", 0}, /* a surrogate */
        {"\xf4\x90", 0}, /* above U+10FFFF */
        {"\xf0\x80\x80", 0},
        {"\x80", 0},
        {"\xc3\xa4\x80", 0},
        {"\xc0", 0},
        {"\xf5", 0},
        {"\xe2\xe2", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (utf8_tail(str_from(cases[i].text)) != cases[i].want) fail_msg("case %zu", i);
}

TEST(every_cut_of_good_text_is_good_text_and_its_tail)
{
    str s = STR("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z\xed\x9f\xbf\xf4\x8f\xbf\xbf");
    assert_int_equal(utf8_check(s), -1);
    for (size_t n = 0; n <= s.len; n++) {
        size_t tail = (size_t)utf8_tail((str){s.ptr, n});
        assert_int_equal(utf8_check((str){s.ptr, n - tail}), -1);
        assert_int_equal(utf8_check((str){s.ptr, n}), tail ? (int64_t)(n - tail) : -1);
    }
}
