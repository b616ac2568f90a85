#include "base/mem.h"
#include "fixture_tokenizer.h"
#include "token/vocab_priv.h"

static status open_texts(vocab **v, const char *const *texts, const uint8_t *flags, int n, err *e)
{
    str slices[16];
    for (int i = 0; i < n; i++) slices[i] = str_from(texts[i]);
    return vocab_open(v, slices, flags, n, "test", e);
}

/* U+0120 is a space, U+010A a line end in the byte alphabet. */
static const char *const TEXTS[] = {"\xc4\xa0the", NULL,  "\xc4\x8a", "<|x|>",
                                    "\xc3\xa9",    "a b", ""};
static const uint8_t FLAGS[] = {VOCAB_MODEL, 0,           VOCAB_MODEL, VOCAB_ADDED | VOCAB_SPECIAL,
                                VOCAB_ADDED, VOCAB_MODEL, VOCAB_MODEL};

TEST(pieces_are_decoded_and_added_tokens_are_as_they_stand)
{
    vocab *v = NULL;
    err e;
    CHECK_OK(open_texts(&v, TEXTS, FLAGS, 7, &e), &e);
    assert_int_equal(vocab_count(v), 7);
    assert_true(str_is(vocab_bytes(v, 0), " the"));
    assert_true(str_is(vocab_bytes(v, 2), "\n"));
    assert_true(str_is(vocab_bytes(v, 3), "<|x|>"));
    assert_true(str_is(vocab_bytes(v, 4), "\xc3\xa9"));
    assert_true(str_is(vocab_bytes(v, 5), "a b")); /* not in the alphabet: as it stands */
    assert_int_equal(vocab_longest(v), 5);
    vocab_close(v);
}

TEST(holes_and_ids_outside_stand_for_nothing)
{
    vocab *v = NULL;
    err e;
    CHECK_OK(open_texts(&v, TEXTS, FLAGS, 7, &e), &e);
    static const int32_t none[] = {1, -1, 7, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 5; i++) {
        assert_false(vocab_has(v, none[i]));
        assert_false(vocab_is_special(v, none[i]) || vocab_is_added(v, none[i]));
        assert_false(vocab_is_piece(v, none[i]));
        assert_int_equal(vocab_bytes(v, none[i]).len, 0);
    }
    assert_true(vocab_has(v, 6) && vocab_bytes(v, 6).len == 0);
    vocab_close(v);
}

TEST(only_pieces_are_found_by_their_bytes)
{
    vocab *v = NULL;
    err e;
    CHECK_OK(open_texts(&v, TEXTS, FLAGS, 7, &e), &e);
    assert_int_equal(vocab_find(v, STR(" the")), 0);
    assert_int_equal(vocab_find(v, STR("\n")), 2);
    assert_int_equal(vocab_find(v, STR("<|x|>")), -1);
    assert_int_equal(vocab_find(v, STR("\xc3\xa9")), -1);
    assert_int_equal(vocab_find(v, STR("a b")), -1);
    assert_int_equal(vocab_find(v, STR("th")), -1);
    assert_true(vocab_is_special(v, 3) && !vocab_is_special(v, 4));
    assert_true(vocab_is_added(v, 3) && vocab_is_added(v, 4) && !vocab_is_added(v, 0));
    vocab_close(v);
}

TEST(two_pieces_of_the_same_bytes_are_refused)
{
    static const char *const texts[] = {"ab", "b", "ab"};
    static const uint8_t flags[] = {VOCAB_MODEL, VOCAB_MODEL, VOCAB_MODEL};
    vocab *v = NULL;
    err e;
    CHECK_STATUS(open_texts(&v, texts, flags, 3, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "tokens 0 and 2 have the same text");
    assert_null(v);
}

TEST(sizes_outside_the_range_are_refused)
{
    vocab *v = NULL;
    err e;
    CHECK_STATUS(vocab_open(&v, NULL, NULL, 0, "test", &e), ERR_INVALID);
    CHECK_STATUS(vocab_open(&v, NULL, NULL, VOCAB_CAP + 1, "test", &e), ERR_INVALID);
    assert_null(v);
}

TEST(opening_survives_every_failed_allocation)
{
    vocab *v = NULL;
    err e;
    FIXTURE_STAIRCASE(open_texts(&v, TEXTS, FLAGS, 7, &e), &e, vocab_close(v));
    vocab_close(NULL);
}
