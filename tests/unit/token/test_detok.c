#include "base/mem.h"
#include "base/utf8.h"
#include "support/test.h"
#include "token/detok.h"
#include "token/utf8_repair_priv.h"
#include "token/vocab_priv.h"

/* All 256 bytes (those below 0x80 first, then spelled as U+0100 upward would need the alphabet:
 * added tokens are taken as they are), a special and a hole. */
static vocab *open_bytes(void)
{
    static char bytes[256];
    static str texts[260];
    static uint8_t flags[260];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        texts[i] = (str){&bytes[i], 1};
        flags[i] = VOCAB_ADDED;
    }
    texts[256] = STR("<|end|>");
    flags[256] = VOCAB_ADDED | VOCAB_SPECIAL;
    texts[258] = STR("h\xc3");
    flags[258] = VOCAB_ADDED;
    texts[259] = STR("\xa9llo \xf0\x9f");
    flags[259] = VOCAB_ADDED;
    vocab *v = NULL;
    err e;
    CHECK_OK(vocab_open(&v, texts, flags, 260, "bytes", &e), &e);
    return v;
}

TEST(half_a_character_is_held_until_the_rest_comes)
{
    vocab *v = open_bytes();
    detok d;
    buf out;
    buf_init(&out);
    detok_init(&d, v, false);
    detok_push(&d, 258, &out);
    assert_true(str_is(buf_str(&out), "h"));
    detok_push(&d, 259, &out);
    assert_true(str_is(buf_str(&out), "h\xc3\xa9llo "));
    detok_push(&d, 0x98, &out);
    assert_true(str_is(buf_str(&out), "h\xc3\xa9llo "));
    detok_push(&d, 0x80, &out);
    assert_true(str_is(buf_str(&out), "h\xc3\xa9llo \xf0\x9f\x98\x80"));
    detok_flush(&d, &out);
    assert_true(str_is(buf_str(&out), "h\xc3\xa9llo \xf0\x9f\x98\x80"));
    buf_fini(&out);
    vocab_close(v);
}

TEST(a_flush_ends_an_unfinished_character_once)
{
    vocab *v = open_bytes();
    detok d;
    buf out;
    buf_init(&out);
    detok_init(&d, v, false);
    detok_push(&d, 259, &out);
    buf_clear(&out);
    detok_flush(&d, &out);
    detok_flush(&d, &out);
    assert_true(str_is(buf_str(&out), UTF8_REPAIR_SIGN));
    buf_fini(&out);
    vocab_close(v);
}

TEST(special_tokens_are_text_or_nothing_as_asked)
{
    vocab *v = open_bytes();
    detok d;
    buf out;
    buf_init(&out);
    detok_init(&d, v, true);
    detok_push(&d, 'a', &out);
    detok_push(&d, 256, &out);
    detok_push(&d, 257, &out);   /* a hole */
    detok_push(&d, 99999, &out); /* beyond the vocabulary: a row of logits without a token */
    detok_push(&d, -1, &out);
    assert_true(str_is(buf_str(&out), "a"));
    detok_init(&d, v, false);
    detok_push(&d, 256, &out);
    assert_true(str_is(buf_str(&out), "a<|end|>"));
    buf_fini(&out);
    vocab_close(v);
}

/* Against repairing the whole at once, for any bytes and any cuts. */
TEST(the_cuts_do_not_change_the_text_and_every_part_is_whole)
{
    static const unsigned char often[] = {0x80, 0xbf, 0xc3, 0xe2, 0xed, 0xf0, 0xf4, 0x9f, 'a'};
    uint64_t seed = test_seed();
    vocab *v = open_bytes();
    buf out;
    buf_init(&out);
    for (int round = 0; round < 20000; round++) {
        char bytes[32], want[96];
        size_t n = test_random(&seed) % (sizeof bytes + 1), n_shown = 0;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)(test_random(&seed) % 4 ? often[test_random(&seed) % sizeof often]
                                                     : test_random(&seed));
        detok d;
        detok_init(&d, v, false);
        buf_clear(&out);
        for (size_t at = 0; at < n;) {
            size_t step = 1 + test_random(&seed) % 5;
            if (step > n - at) step = n - at;
            detok_push_bytes(&d, (str){bytes + at, step}, &out);
            assert_int_equal(utf8_check(str_skip(buf_str(&out), n_shown)), -1);
            assert_true(d.n_held <= 3);
            n_shown = out.len;
            at += step;
        }
        detok_flush(&d, &out);
        str s = {bytes, n};
        assert_int_equal(out.len, utf8_repair_count(s));
        utf8_repair_write(s, want);
        assert_memory_equal(out.ptr ? out.ptr : "", want, out.len);
    }
    buf_fini(&out);
    vocab_close(v);
}

TEST(a_token_allocates_nothing_once_the_buffer_is_large_enough)
{
    vocab *v = open_bytes();
    detok d;
    buf out;
    buf_init(&out);
    assert_true(buf_reserve(&out, 100000));
    detok_init(&d, v, false);
    mem_guard_begin("detok");
    for (int i = 0; i < 10000; i++) detok_push(&d, i % 260, &out);
    detok_flush(&d, &out);
    mem_guard_end();
    assert_true(out.len > 10000);
    buf_fini(&out);
    vocab_close(v);
}
