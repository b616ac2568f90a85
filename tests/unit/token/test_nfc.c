#include <stdlib.h>
#include <utf8proc.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fixture_tokenizer.h"
#include "token/nfc_priv.h"
#include "token/unicode_priv.h"

static void check(str in, str want)
{
    nfc_work w = {0};
    buf out;
    buf_init(&out);
    CHECK_STATUS(nfc_write(&w, in, &out), ERR_OK);
    assert_int_equal(out.len, want.len);
    assert_memory_equal(out.ptr ? out.ptr : "", want.ptr, want.len);
    buf_fini(&out);
    nfc_work_fini(&w);
}

TEST(known_texts_are_normalised)
{
    size_t b, e;
    check(STR("plain"), STR("plain"));
    check(STR("cafe\xcc\x81!"), STR("caf\xc3\xa9!"));
    /* a + dot below + acute, in both orders */
    check(STR("a\xcc\xa3\xcc\x81"), STR("\xe1\xba\xa1\xcc\x81"));
    check(STR("a\xcc\x81\xcc\xa3"), STR("\xe1\xba\xa1\xcc\x81"));
    check(STR("\xe2\x84\xa6"), STR("\xce\xa9"));                             /* ohm */
    check(STR("\xe0\xa5\x98"), STR("\xe0\xa4\x95\xe0\xa4\xbc"));             /* excluded */
    check(STR("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), STR("\xed\x95\x9c")); /* Hangul */
    check(STR("\xea\xb0\x80\xe1\x86\xa8"), STR("\xea\xb0\x81"));             /* LV + T */
    check(STR("\xc3\xa9\xcc\xa3"), STR("\xe1\xba\xb9\xcc\x81"));             /* opens e-acute */
    assert_false(nfc_find(STR("q\xd6\x91 \xc3\xa9 \xed\x95\x9c \xe4\xb8\xad"), 0, &b, &e));
}

TEST(code_points_after_unicode_9_join_nothing)
{
    size_t b, e;
    /* Dives Akuru 11935 + 11930 and Todhri 105d2 + 0307 compose in later versions. */
    check(STR("\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0"), STR("\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0"));
    check(STR("\xf0\x90\x97\x92\xcc\x87"), STR("\xf0\x90\x97\x92\xcc\x87"));
    /* U+07FD has class 220 since 11.0: not moved before the acute. */
    assert_false(nfc_find(STR("\xe0\xa4\x95\xdf\xbd"), 0, &b, &e));
    check(STR("k\xcc\x81\xdf\xbd"), STR("\xe1\xb8\xb1\xdf\xbd"));
    check(STR("\xe0\xa4\x95\xcc\x81\xdf\xbd"), STR("\xe0\xa4\x95\xcc\x81\xdf\xbd"));
}

static bool is_old(uint32_t cp)
{
    /* What both versions normalise alike: flagged, or below the blocks of later marks. */
    return cp < 0x300 || (unicode_flags(cp) & (UNICODE_NFC_CLASS | UNICODE_NFC_CHANGES)) ||
           (unicode_flags(cp) & UNICODE_NFC_BASE) || (cp >= 0x4e00 && cp < 0x9000);
}

static uint32_t random_point(uint64_t *seed)
{
    static const uint32_t often[] = {'a',   'e',    'q',    0x301,  0x323,  0x345,  0x334,   0x307,
                                     0xe9,  0x1100, 0x1161, 0x11a8, 0xac00, 0x3099, 0x304b,  0x915,
                                     0x93c, 0x5d0,  0x5b0,  0x302a, 0x2126, 0xf900, 0x1d15e, 0x9c7};
    if (test_random(seed) % 3) return often[test_random(seed) % 24];
    for (;;) {
        uint32_t cp = (uint32_t)(test_random(seed) % 0x20000);
        if ((cp < 0xd800 || cp > 0xdfff) && is_old(cp)) return cp;
    }
}

/* utf8proc's own function, on code points that it treats like Unicode 9. */
TEST(random_texts_are_those_of_utf8proc)
{
    uint64_t seed = test_seed();
    for (int round = 0; round < 20000; round++) {
        char text[256];
        size_t n = 0;
        for (uint64_t k = 1 + test_random(&seed) % 40; k > 0; k--)
            n += (size_t)utf8_encode(random_point(&seed), text + n);
        utf8proc_uint8_t *want = NULL;
        utf8proc_ssize_t n_want = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n,
                                               &want, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        assert_true(n_want > 0);
        check((str){text, n}, (str){(const char *)want, (size_t)n_want});
        size_t b, e;
        if (!nfc_find((str){text, n}, 0, &b, &e))
            assert_true(str_equal((str){text, n}, (str){(const char *)want, (size_t)n_want}));
        free(want);
    }
}

TEST(spans_tell_where_text_went)
{
    nfc_work w = {0};
    buf out;
    buf_init(&out);
    CHECK_STATUS(nfc_write(&w, STR("xxe\xcc\x81yy\xe2\x84\xa6"), &out), ERR_OK);
    assert_int_equal(w.n_spans, 2);
    nfc_span *s = w.spans;
    assert_true(s[0].in == 2 && s[0].in_end == 5 && s[0].out == 2 && s[0].out_end == 4);
    assert_true(s[1].in == 6 && s[1].in_end == 10 && s[1].out == 5 && s[1].out_end == 8);
    buf_fini(&out);
    nfc_work_fini(&w);
}

/* Sorting marks one by one would take 10^11 steps here. */
TEST(a_megabyte_of_marks_in_bad_order_takes_no_time)
{
    enum { MARKS = 500000 };
    buf in, out;
    nfc_work w = {0};
    buf_init(&in);
    buf_init(&out);
    buf_put_byte(&in, 'a');
    for (int i = 0; i < MARKS; i++) buf_put_c(&in, i % 2 ? "\xcc\xa3" : "\xcc\x82");
    int64_t start = clock_ns();
    CHECK_STATUS(nfc_write(&w, buf_str(&in), &out), ERR_OK);
    assert_true(clock_ms_since(start) < 20000);
    /* a + dot below + circumflex are one character (U+1EAD); the other dots come first. */
    assert_true(str_starts(buf_str(&out), STR("\xe1\xba\xad\xcc\xa3\xcc\xa3")));
    assert_true(str_ends(buf_str(&out), STR("\xcc\x82\xcc\x82")));
    assert_int_equal(out.len, 3 + 2 * (MARKS - 2));
    buf_fini(&in);
    buf_fini(&out);
    nfc_work_fini(&w);
}

/* Leaves nothing behind when it fails. */
static status write_once(nfc_work *w, buf *out)
{
    status s = nfc_write(w, STR("e\xcc\x81 e\xcc\x81 e\xcc\x81"), out);
    if (s == ERR_OK) return s;
    buf_fini(out);
    nfc_work_fini(w);
    return s;
}

TEST(normalising_survives_every_failed_allocation)
{
    nfc_work w = {0};
    buf out;
    err e;
    buf_init(&out);
    FIXTURE_STAIRCASE(write_once(&w, &out), &e, (buf_fini(&out), nfc_work_fini(&w)));
}
