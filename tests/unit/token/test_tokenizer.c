#include "base/file.h"
#include "base/mem.h"
#include "fixture_tokenizer.h"
#include "token/detok.h"
#include "token/vocab_priv.h"

static const char MINI[] = "models/mini-dense/tokenizer.json";

static str read_mini(arena *a)
{
    str text;
    err e;
    CHECK_OK(file_read(a, MINI, 1 << 26, &text, &e), &e);
    return text;
}

static tokenizer *open_mini(void)
{
    arena a;
    err e;
    tokenizer *t = NULL;
    arena_init(&a, 0);
    CHECK_OK(tokenizer_open(&t, read_mini(&a), MINI, &e), &e);
    arena_fini(&a); /* the text is not needed any more */
    return t;
}

/* Ids as Hugging Face's tokenizers give them; tests/oracle/tokenizer.sh compares thousands. */
TEST(the_bundled_file_gives_known_ids)
{
    tokenizer *t = open_mini();
    assert_int_equal(vocab_count(tokenizer_vocab(t)), 2081);
    assert_string_equal(fixture_encode(t, "<|im_start|>user\nHello!<|im_end|>\n"),
                        "2068,329,198,1407,0,2069,198");
    assert_string_equal(fixture_encode(t, "cafe\xcc\x81 \xe4\xb8\xad 12"),
                        "66,64,69,127,102,220,160,116,255,220,16,17");
    tokenizer_close(t);
}

TEST(added_tokens_are_found_by_their_text)
{
    tokenizer *t = open_mini();
    assert_int_equal(tokenizer_find_added(t, STR("<|im_end|>")), 2069);
    assert_int_equal(tokenizer_find_added(t, STR("<think>")), 2078);
    assert_int_equal(tokenizer_find_added(t, STR("<thin")), -1);
    assert_int_equal(tokenizer_find_added(t, STR("the")), -1);
    const vocab *v = tokenizer_vocab(t);
    assert_true(vocab_is_special(v, 2069) && !vocab_is_special(v, 2078));
    assert_true(vocab_is_added(v, 2078) && !vocab_is_added(v, 100));
    tokenizer_close(t);
}

TEST(ids_of_any_text_give_the_text_back)
{
    uint64_t seed = test_seed();
    tokenizer *t = open_mini();
    token_ids ids = {0};
    buf text, out;
    buf_init(&text);
    buf_init(&out);
    for (int round = 0; round < 500; round++) {
        err e;
        buf_clear(&text);
        buf_clear(&out);
        for (uint64_t n = test_random(&seed) % 60; n > 0; n--) {
            /* below U+0300 nothing is changed by normalising */
            char bytes[4];
            uint64_t r = test_random(&seed);
            uint32_t cp = (uint32_t)((r >> 8) % (r % 3 ? 128 : 0x300));
            buf_put(&text, bytes, (size_t)utf8_encode(cp, bytes));
        }
        ids.n = 0;
        CHECK_OK(tokenizer_encode(t, buf_str(&text), true, 0, &ids, &e), &e);
        detok d;
        detok_init(&d, tokenizer_vocab(t), false);
        for (int i = 0; i < ids.n; i++) detok_push(&d, ids.ptr[i], &out);
        detok_flush(&d, &out);
        assert_true(str_equal(buf_str(&out), buf_str(&text)));
    }
    buf_fini(&text);
    buf_fini(&out);
    token_ids_fini(&ids);
    tokenizer_close(t);
}

/* The same vocabulary as a GGUF file would hold it. */
static tokenizer *open_mini_pieces(arena *a, str pretokenizer)
{
    const json *root = NULL;
    err e;
    CHECK_OK(json_parse(a, read_mini(a), MINI, 32, 0, &root, &e), &e);
    const json *model = json_get(root, "model"), *merges = json_get(model, "merges");
    enum { N = 2084 };
    static str pieces[N], lines[4000];
    static int32_t types[N];
    int64_t id;
    for (int i = 0; i < N; i++) types[i] = 5;
    for (const json *v = json_get(model, "vocab")->first; v; v = v->next) {
        assert_true(json_to_int64(v, &id) && id < N);
        pieces[id] = v->key;
        types[id] = 1;
    }
    for (const json *v = json_get(root, "added_tokens")->first; v; v = v->next) {
        bool special;
        assert_true(json_to_int64(json_get(v, "id"), &id) && id < N);
        assert_true(json_to_bool(json_get(v, "special"), &special));
        pieces[id] = json_get(v, "content")->text;
        types[id] = special ? 3 : 4;
    }
    int n = 0;
    for (const json *v = merges->first; v; v = v->next) {
        buf line;
        buf_init(&line);
        buf_put_str(&line, v->first->text);
        buf_put_byte(&line, ' ');
        buf_put_str(&line, v->first->next->text);
        lines[n++] = (str){arena_copy(a, line.ptr, line.len), line.len};
        buf_fini(&line);
    }
    tokenizer_pieces p = {.pieces = pieces,
                          .types = types,
                          .n_pieces = N,
                          .merges = lines,
                          .n_merges = n,
                          .pretokenizer = pretokenizer};
    tokenizer *t = NULL;
    CHECK_OK(tokenizer_open_pieces(&t, &p, "pieces", &e), &e);
    return t;
}

TEST(borrowed_arrays_give_the_ids_of_the_file)
{
    static const char text[] =
        "<|im_start|>system\nYou can't <think>caf\xc3\xa9 e\xcc\x81\n\n</think>"
        "  def f(x):\r\n\treturn x ** 2 # \xe4\xb8\xad\xe6\x96\x87 \xe0\xa4"
        "\x95\xe0\xa4\xbf 1234<|im_end|>";
    arena a;
    arena_init(&a, 0);
    tokenizer *t = open_mini_pieces(&a, STR("qwen35"));
    arena_fini(&a);
    tokenizer *of_file = open_mini();
    char want[4096];
    snprintf(want, sizeof want, "%s", fixture_encode(of_file, text));
    assert_string_equal(fixture_encode(t, text), want);
    assert_int_equal(vocab_count(tokenizer_vocab(t)), 2084);
    assert_false(vocab_has(tokenizer_vocab(t), 2083)); /* padded rows are holes */
    assert_int_equal(tokenizer_find_added(t, STR("<|im_end|>")), 2069);
    tokenizer_close(t);
    tokenizer_close(of_file);
}

TEST(a_contradiction_between_pieces_and_added_tokens_is_refused)
{
    buf added;
    tokenizer *t = NULL;
    err e = {0};
    buf_init(&added);
    buf_put_byte(&added, '[');
    fixture_put_added(&added, 300, "ab", "s");
    buf_put_byte(&added, ']');
    fixture_parts p = {.pieces = ",\"ab\":256", .added = added.ptr};
    CHECK_STATUS(fixture_open(&t, p, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "\"ab\" is token 256 and added token 300");
    buf_clear(&added);
    buf_put_byte(&added, '[');
    fixture_put_added(&added, 300, "cd", "s");
    fixture_put_added(&added, 301, "cd", "");
    buf_put_byte(&added, ']');
    p.added = added.ptr;
    CHECK_STATUS(fixture_open(&t, p, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "token 301: a second added token \"cd\"");
    assert_null(t);
    buf_fini(&added);
}

TEST(errors_of_the_parts_come_through)
{
    tokenizer *t = NULL;
    err e = {0};
    CHECK_STATUS(fixture_open(&t, (fixture_parts){.n_bytes = 200}, &e), ERR_FORMAT);
    CHECK_STATUS(fixture_open(&t, (fixture_parts){.merges = "[\"a b\"]"}, &e), ERR_FORMAT);
    CHECK_STATUS(
        fixture_open(&t,
                     (fixture_parts){.pretokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{"
                                                     "\"type\":\"Split\",\"pattern\":{\"Regex\":"
                                                     "\"^a\"},\"behavior\":\"Isolated\",\"invert\":"
                                                     "false}," FIXTURE_BYTE_LEVEL "]}"},
                     &e),
        ERR_UNSUPPORTED);
    assert_string_equal(e.msg, "pre-tokeniser pattern: an anchor at byte 0 is not supported");
    assert_string_equal(e.where, "fixture");
    assert_null(t);
}

TEST(opening_survives_every_failed_allocation)
{
    static const char merges[] = "[\"a b\",\"b c\"]";
    buf added, text;
    tokenizer *t = NULL;
    err e;
    buf_init(&added);
    buf_init(&text);
    buf_put_byte(&added, '[');
    fixture_put_added(&added, 300, "<|x|>", "s");
    fixture_put_added(&added, 301, "e\xcc\x81", "n");
    buf_put_byte(&added, ']');
    fixture_write(&text, (fixture_parts){.pieces = ",\"ab\":256,\"bc\":257",
                                         .merges = merges,
                                         .added = added.ptr,
                                         .pretokenizer = FIXTURE_GPT2});
    FIXTURE_STAIRCASE(tokenizer_open(&t, buf_str(&text), "fixture", &e), &e, tokenizer_close(t));
    buf_fini(&added);
    buf_fini(&text);
    tokenizer_close(NULL);
}

TEST(a_cut_file_is_an_error_wherever_it_ends)
{
    buf text;
    err e;
    buf_init(&text);
    fixture_write(&text, (fixture_parts){0});
    for (size_t n = 0; n < text.len; n += 7) {
        tokenizer *t = NULL;
        CHECK_STATUS(tokenizer_open(&t, (str){text.ptr, n}, "cut", &e), ERR_FORMAT);
        assert_null(t);
    }
    buf_fini(&text);
}
