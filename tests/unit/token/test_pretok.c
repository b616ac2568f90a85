#include "fixture_tokenizer.h"
#include "support/guard.h"
#include "token/pretok_priv.h"
#include "token/split_regex_priv.h"

/* The words of a text, with '|' between. */
static const char *words(pretok_kind kind, const char *text)
{
    static char out[4096];
    str s = str_from(text);
    size_t n = 0;
    for (size_t pos = 0, end; pos < s.len; pos = end) {
        end = pretok_next(kind, s, pos);
        assert_true(end > pos && end <= s.len);
        if (n > 0) out[n++] = '|';
        memcpy(out + n, s.ptr + pos, end - pos);
        n += end - pos;
    }
    out[n] = '\0';
    return out;
}

TEST(words_of_known_texts)
{
    static const struct {
        const char *text, *qwen2;
    } cases[] = {
        {"", ""},
        {"Hello, world! 123", "Hello|,| world|!| |1|2|3"},
        {"don't I'LL 'x 'sx", "don|'t| I|'LL| '|x| '|sx"},
        {"it'\xc5\xbf", "it|'\xc5\xbf"},
        {"a  b\tc", "a| | b|\tc"},
        {"a\n\n  b", "a|\n\n| | b"},
        {"x \n y  ", "x| \n| y|  "},
        {"\r\nfoo\r\n", "\r\n|foo|\r\n"},
        {"!!\n\n#", "!!\n\n|#"},
        {" (a) =b", " (|a|)| =|b"},
        {"\xe3\x80\x80 x", "\xe3\x80\x80| x"},
        {"\xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82", "\xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(words(PRETOK_QWEN2, cases[i].text), cases[i].qwen2);
        assert_string_equal(words(PRETOK_QWEN35, cases[i].text), cases[i].qwen2);
    }
}

TEST(marks_are_letters_only_in_the_newer_pattern)
{
    const char *text = "q\xcc\xa7q \xcc\xa7\xcc\xa7 \xcc\xa7q";
    assert_string_equal(words(PRETOK_QWEN2, text), "q|\xcc\xa7q| \xcc\xa7\xcc\xa7| \xcc\xa7|q");
    assert_string_equal(words(PRETOK_QWEN35, text), "q\xcc\xa7q| \xcc\xa7\xcc\xa7| \xcc\xa7q");
}

/* A regular expression of 800 characters, nearly all of them marks. */
TEST(a_pattern_of_marks_is_one_word_and_its_signs)
{
    char text[2000] = "[", want[2000];
    for (int i = 0; i < 797; i++) {
        char mark[] = {(char)(0xcc + i % 2), (char)(0x80 + i * 7 % 48), 0}; /* U+0300 to U+036F */
        strcat(text, mark);
    }
    snprintf(want, sizeof want, "%s|]+", text);
    strcat(text, "]+");
    assert_string_equal(words(PRETOK_QWEN35, text), want);
    assert_string_equal(words(PRETOK_QWEN2, text), text);
}

TEST(known_patterns_are_known_by_their_text_only)
{
    assert_int_equal(pretok_find(pretok_pattern(PRETOK_QWEN2)), PRETOK_QWEN2);
    assert_int_equal(pretok_find(pretok_pattern(PRETOK_QWEN35)), PRETOK_QWEN35);
    str cut = pretok_pattern(PRETOK_QWEN2);
    cut.len--;
    assert_int_equal(pretok_find(cut), PRETOK_REGEX);
    assert_int_equal(pretok_find(str_from(pretok_gpt2)), PRETOK_REGEX);
    assert_int_equal(pretok_pattern(PRETOK_REGEX).len, 0);
}

static size_t put_random(uint64_t *seed, char *out)
{
    static const char *const often[] = {" ",
                                        " ",
                                        "\n",
                                        "\r",
                                        "\r\n",
                                        "\t",
                                        "'",
                                        "'s",
                                        "'LL",
                                        "'\xc5\xbf",
                                        "'re",
                                        "a",
                                        "Z",
                                        "e",
                                        "1",
                                        "_",
                                        ".",
                                        "!",
                                        "\xcc\x81",
                                        "\xe3\x80\x80",
                                        "\xc2\xa0",
                                        "\xc2\x85",
                                        "\xe2\x80\xa8",
                                        "\xe1\xa0\x8e",
                                        "\xe4\xb8\xad",
                                        "\xc3\xa9",
                                        "\xd9\xa1",
                                        "\xf0\x9f\x98\x80",
                                        "\xe0\xa4\xbe",
                                        "\xe1\xb2\x89",
                                        "\xf0\xb1\x8d\x90",
                                        "\xef\xbf\xbd",
                                        "\v",
                                        "\x1c"};
    uint64_t pick = test_random(seed);
    if (pick % 4) {
        const char *text = often[(pick >> 8) % (sizeof often / sizeof often[0])];
        memcpy(out, text, strlen(text));
        return strlen(text);
    }
    uint32_t cp = (uint32_t)((pick >> 8) % (pick & 16 ? 0x33000 : 0x3400));
    if (cp >= 0xd800 && cp < 0xe000) cp -= 0x800;
    return (size_t)utf8_encode(cp, out);
}

/* The same pattern through PCRE2, whose meaning the comparison with Hugging Face's checks. */
static void compare(pretok_kind kind, const split_regex *r, split_regex_work *w, str s)
{
    split_walk walk = {.text = s};
    err e;
    size_t pos = 0;
    for (str part;; pos = pretok_next(kind, s, pos)) {
        CHECK_OK(split_regex_next(r, w, &walk, &part, &e), &e);
        if (part.len == 0) break;
        assert_ptr_equal(part.ptr, s.ptr + pos);
        assert_int_equal(part.len, pretok_next(kind, s, pos) - pos);
    }
    assert_int_equal(pos, s.len);
}

TEST(hand_written_words_are_those_of_the_pattern)
{
    uint64_t seed = test_seed();
    for (pretok_kind kind = PRETOK_QWEN2; kind <= PRETOK_QWEN35; kind++) {
        split_regex *r = NULL;
        split_regex_work *w = NULL;
        err e;
        CHECK_OK(split_regex_open(&r, pretok_pattern(kind), "test", &e), &e);
        CHECK_OK(split_regex_work_open(&w, &e), &e);
        for (int round = 0; round < 8000; round++) {
            char text[128];
            size_t n = 0;
            for (uint64_t k = test_random(&seed) % 24; k > 0; k--) n += put_random(&seed, text + n);
            char *copy = guard_copy(text, n); /* a look beyond the end is a crash */
            compare(kind, r, w, (str){copy, n});
            guard_free(copy, n);
        }
        split_regex_work_close(w);
        split_regex_close(r);
    }
}

TEST(every_code_point_is_cut_like_the_pattern_cuts_it)
{
    for (pretok_kind kind = PRETOK_QWEN2; kind <= PRETOK_QWEN35; kind++) {
        split_regex *r = NULL;
        split_regex_work *w = NULL;
        err e;
        CHECK_OK(split_regex_open(&r, pretok_pattern(kind), "test", &e), &e);
        CHECK_OK(split_regex_work_open(&w, &e), &e);
        for (uint32_t cp = 0; cp < 0x33000; cp++) {
            char text[16] = "a";
            if (cp >= 0xd800 && cp < 0xe000) continue;
            size_t n = 1 + (size_t)utf8_encode(cp, text + 1);
            text[n++] = 'b';
            compare(kind, r, w, (str){text, n});
        }
        split_regex_work_close(w);
        split_regex_close(r);
    }
}
