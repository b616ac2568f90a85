/* tags: threads */
#include <pthread.h>

#include "base/file.h"
#include "base/mem.h"
#include "fixture_tokenizer.h"

static const char QWEN35_SPLIT[] =
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}| "
    "?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
    "\"behavior\":\"Isolated\",\"invert\":false}," FIXTURE_BYTE_LEVEL "]}";

/* ab = 256, and added tokens as given: content, flags, and so on; their ids are 300 upward. */
static tokenizer *open_with(const char *const *added, int n, const char *pretokenizer)
{
    buf list;
    buf_init(&list);
    buf_put_byte(&list, '[');
    for (int i = 0; i < n; i++) fixture_put_added(&list, 300 + i, added[2 * i], added[2 * i + 1]);
    buf_put_byte(&list, ']');
    tokenizer *t = fixture_must_open((fixture_parts){.pieces = ",\"ab\":256,\"bc\":257",
                                                     .merges = "[\"a b\",\"b c\"]",
                                                     .added = list.ptr,
                                                     .pretokenizer = pretokenizer});
    buf_fini(&list);
    return t;
}

static const char *const MARKERS[] = {"<|x|>", "s", "<think>", ""};

TEST(added_tokens_are_recognised_only_where_asked)
{
    tokenizer *t = open_with(MARKERS, 2, NULL);
    assert_string_equal(fixture_encode(t, "a<|x|>b<think>"), "97,300,98,301");
    token_ids ids = {0};
    err e = {0};
    CHECK_OK(tokenizer_encode(t, STR("<|x|>"), false, 0, &ids, &e), &e);
    assert_int_equal(ids.n, 5);
    token_ids_fini(&ids);
    tokenizer_close(t);
}

TEST(segments_are_one_text)
{
    tokenizer *t = open_with(MARKERS, 2, NULL);
    /* A merge across a border; a token across a border of marked segments; none across others. */
    assert_string_equal(
        fixture_ids(t, (tokenizer_segment[]){{STR("a"), true}, {STR("b"), false}}, 2), "256");
    assert_string_equal(
        fixture_ids(
            t, (tokenizer_segment[]){{STR("<|"), true}, {STR(""), false}, {STR("x|>"), true}}, 3),
        "300");
    assert_string_equal(
        fixture_ids(t, (tokenizer_segment[]){{STR("<|"), true}, {STR("x|>"), false}}, 2),
        "60,124,120,124,62");
    assert_string_equal(fixture_ids(t,
                                    (tokenizer_segment[]){{STR("<|x|>"), true},
                                                          {STR("<|x|>"), false},
                                                          {STR("<think>"), true}},
                                    3),
                        "300,60,124,120,124,62,301");
    assert_string_equal(fixture_ids(t, NULL, 0), "");
    tokenizer_close(t);
}

TEST(a_word_across_segments_is_cut_as_in_one_text)
{
    tokenizer *t = open_with(MARKERS, 2, QWEN35_SPLIT);
    assert_string_equal(fixture_encode(t, "a bc"), "97,32,257");
    assert_string_equal(
        fixture_ids(
            t, (tokenizer_segment[]){{STR("a "), true}, {STR("b"), false}, {STR("c"), true}}, 3),
        "97,32,257");
    /* decomposed over a border: e + acute is one character, as in one text */
    assert_string_equal(
        fixture_ids(t, (tokenizer_segment[]){{STR("e"), false}, {STR("\xcc\x81"), true}}, 2),
        "195,169");
    tokenizer_close(t);
}

TEST(tokens_matched_after_normalising_mind_the_segments)
{
    static const char *const added[] = {"\xc3\xa9x", "n"};
    tokenizer *t = open_with(added, 1, NULL);
    assert_string_equal(fixture_encode(t, "e\xcc\x81x.\xc3\xa9x"), "300,46,300");
    tokenizer_segment off[] = {{STR("e\xcc\x81x"), false}, {STR(".e\xcc\x81x"), true}};
    assert_string_equal(fixture_ids(t, off, 2), "195,169,120,46,300");
    /* the border lies inside the character that normalising makes */
    tokenizer_segment half[] = {{STR("e"), false}, {STR("\xcc\x81x"), true}};
    assert_string_equal(fixture_ids(t, half, 2), "195,169,120");
    tokenizer_close(t);
}

TEST(the_text_of_a_normalised_token_is_normalised_too)
{
    static const char *const added[] = {"e\xcc\x81x", "n"};
    tokenizer *t = open_with(added, 1, NULL);
    assert_string_equal(fixture_encode(t, "e\xcc\x81x.\xc3\xa9x"), "300,46,300");
    tokenizer_close(t);
}

TEST(flags_of_added_tokens_work_together)
{
    static const char *const added[] = {"<l>", "l", "<r>", "r", "cd", "w"};
    tokenizer *t = open_with(added, 3, NULL);
    assert_string_equal(fixture_encode(t, "x \xe3\x80\x80<l>"), "120,300");
    assert_string_equal(fixture_encode(t, "x \n<l><r> \n<l>y"), "120,300,301,300,121");
    assert_string_equal(fixture_encode(t, "cd cd! xcd"), "302,32,302,33,32,120,99,100");
    tokenizer_close(t);
}

TEST(white_space_that_a_token_took_is_gone)
{
    static const char *const added[] = {"<r>", "r", " y", ""};
    tokenizer *t = open_with(added, 2, NULL);
    assert_string_equal(fixture_encode(t, "<r>  yy y"), "300,121,121,301");
    tokenizer_close(t);
}

TEST(ill_formed_bytes_are_replacement_characters)
{
    tokenizer *t = open_with(MARKERS, 2, NULL);
    assert_string_equal(fixture_encode(t, "a\xff"
                                          "b\xe2\x82"),
                        "97,239,191,189,98,239,191,189");
    /* each segment by itself: two halves of a character in two segments are two signs */
    tokenizer_segment halves[] = {{STR("\xc3"), true}, {STR("\xa9"), true}};
    assert_string_equal(fixture_ids(t, halves, 2), "239,191,189,239,191,189");
    assert_string_equal(fixture_encode(t, "\xff<|x|>\xff"), "239,191,189,300,239,191,189");
    tokenizer_close(t);
}

TEST(a_space_is_put_before_a_text_when_the_file_says_so)
{
    tokenizer *t = open_with(MARKERS, 2,
                             "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":"
                             "true,\"trim_offsets\":true}");
    assert_string_equal(fixture_encode(t, "ab<|x|> c<|x|>"), "32,256,300,32,99,300");
    tokenizer_close(t);
}

TEST(stages_cut_one_after_another)
{
    tokenizer *t = open_with(MARKERS, 2,
                             "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                             "\"pattern\":{\"Regex\":\"x\"},\"behavior\":\"Isolated\",\"invert\":"
                             "false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<=a)(?=b)\"},"
                             "\"behavior\":\"Isolated\",\"invert\":true}," FIXTURE_BYTE_LEVEL "]}");
    assert_string_equal(fixture_encode(t, "abcxbc"), "97,257,120,257");
    tokenizer_close(t);
}

TEST(more_tokens_than_allowed_are_an_error_and_leave_nothing)
{
    tokenizer *t = open_with(MARKERS, 2, QWEN35_SPLIT);
    token_ids ids = {0};
    err e = {0};
    assert_true(token_ids_push(&ids, 42));
    CHECK_OK(tokenizer_encode(t, STR("a b c"), true, 5, &ids, &e), &e);
    assert_int_equal(ids.n, 6);
    CHECK_STATUS(tokenizer_encode(t, STR("a b c"), true, 4, &ids, &e), ERR_LIMIT);
    CHECK_STATUS(tokenizer_encode(t, STR("<|x|><|x|>"), true, 1, &ids, &e), ERR_LIMIT);
    assert_int_equal(ids.n, 6);
    assert_int_equal(ids.ptr[0], 42);
    token_ids_fini(&ids);
    tokenizer_close(t);
}

/* A word that cannot fit is refused before room for merging it is made. */
TEST(a_huge_word_over_the_limit_costs_nothing)
{
    enum { N = 8 << 20 };
    tokenizer *t = open_with(MARKERS, 2, QWEN35_SPLIT);
    char *text = mem_new(N);
    token_ids ids = {0};
    err e = {0};
    memset(text, '\n', N);
    CHECK_OK(tokenizer_encode(t, STR("warm"), true, 0, &ids, &e), &e);
    int64_t calls = mem_count().n_calls;
    CHECK_STATUS(tokenizer_encode(t, (str){text, N}, true, 1000, &ids, &e), ERR_LIMIT);
    assert_true(mem_count().n_calls - calls <= 2);
    token_ids_fini(&ids);
    mem_free(text);
    tokenizer_close(t);
}

TEST(a_text_of_more_than_the_cap_is_refused)
{
    tokenizer *t = open_with(MARKERS, 2, NULL);
    token_ids ids = {0};
    err e = {0};
    static const char byte = 'a';
    tokenizer_segment s[] = {{{&byte, 1}, true}, {{&byte, TOKENIZER_TEXT_CAP}, true}};
    CHECK_STATUS(tokenizer_encode_segments(t, s, 2, 0, &ids, &e), ERR_LIMIT);
    s[1].text.len = SIZE_MAX;
    CHECK_STATUS(tokenizer_encode_segments(t, s, 2, 0, &ids, &e), ERR_LIMIT);
    tokenizer_close(t);
}

static status encode_once(const tokenizer *t, token_ids *ids, err *e)
{
    static const char text[] =
        "ab <l> e\xcc\x81x \xff <|x|> aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1 2 3";
    status s = tokenizer_encode(t, STR(text), true, 0, ids, e);
    if (s != ERR_OK) token_ids_fini(ids);
    return s;
}

TEST(encoding_survives_every_failed_allocation)
{
    static const char *const added[] = {"<l>", "l", "\xc3\xa9x", "n"};
    tokenizer *t = open_with(added, 2, FIXTURE_GPT2); /* by PCRE2 */
    token_ids ids = {0};
    err e = {0};
    for (int64_t n = 1;; n++) {
        mem_fail_at(n);
        status s = encode_once(t, &ids, &e);
        mem_fail_at(0);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        assert_null(ids.ptr);
        assert_true(n < 1000);
    }
    token_ids again = {0};
    CHECK_OK(encode_once(t, &again, &e), &e);
    assert_int_equal(again.n, ids.n);
    assert_memory_equal(again.ptr, ids.ptr, (size_t)ids.n * sizeof *ids.ptr);
    token_ids_fini(&ids);
    token_ids_fini(&again);
    tokenizer_close(t);
}

TEST(nothing_is_allocated_once_warm)
{
    tokenizer *t = open_with(MARKERS, 2, QWEN35_SPLIT);
    token_ids ids = {0};
    err e = {0};
    CHECK_OK(encode_once(t, &ids, &e), &e);
    ids.n = 0;
    mem_guard_begin("encode");
    CHECK_OK(encode_once(t, &ids, &e), &e);
    mem_guard_end();
    token_ids_fini(&ids);
    tokenizer_close(t);
}

typedef struct {
    const tokenizer *t;
    int failures;
} job;

static void *encode_many(void *arg)
{
    job *j = arg;
    for (int i = 0; i < 300; i++) {
        char text[64];
        token_ids ids = {0};
        err e;
        int n = snprintf(text, sizeof text, "ab<|x|>%d ab", i);
        status s = tokenizer_encode(j->t, (str){text, (size_t)n}, true, 0, &ids, &e);
        if (s != ERR_OK || ids.ptr[0] != 256 || ids.ptr[1] != 300 || ids.ptr[ids.n - 1] != 256)
            j->failures++;
        token_ids_fini(&ids);
    }
    return NULL;
}

TEST(a_word_gives_the_same_tokens_again)
{
    static const char *const words[] = {"ab", "abababababab", "bcbcbcbcbcbcbcbcbcb", "ab\x01"};
    tokenizer *t = open_with(MARKERS, 2, NULL);
    for (int i = 0; i < 4; i++) {
        char first[256];
        snprintf(first, sizeof first, "%s", fixture_encode(t, words[i]));
        assert_string_equal(fixture_encode(t, words[i]), first);
    }
    /* zeros at the end are part of the word */
    tokenizer_segment zeros[] = {{STR("ab\0"), true}};
    assert_string_equal(fixture_ids(t, zeros, 1), "256,0");
    tokenizer_close(t);
}

TEST(many_threads_encode_with_one_tokenizer)
{
    enum { N = 4 };
    tokenizer *t = open_with(MARKERS, 2, QWEN35_SPLIT);
    pthread_t threads[N];
    job jobs[N];
    for (int i = 0; i < N; i++) {
        jobs[i] = (job){.t = t};
        assert_int_equal(pthread_create(&threads[i], NULL, encode_many, &jobs[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].failures, 0);
    }
    tokenizer_close(t);
}
