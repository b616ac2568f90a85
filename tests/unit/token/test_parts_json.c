#include "base/mem.h"
#include "fixture_tokenizer.h"
#include "token/tokenizer_parts_priv.h"
#include "token/vocab_priv.h"

static status read_parts(tokenizer_parts *p, arena *a, fixture_parts f, err *e)
{
    static buf text;
    buf_clear(&text);
    fixture_write(&text, f);
    return tokenizer_parts_from_json(p, a, buf_str(&text), "test", e);
}

TEST(all_of_a_file_is_read)
{
    tokenizer_parts p;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    buf added;
    buf_init(&added);
    buf_put_byte(&added, '[');
    fixture_put_added(&added, 300, "<|x|>", "s");
    fixture_put_added(&added, 299, "word", "wlrn");
    fixture_put_added(&added, 256, "ab", "");
    buf_put_byte(&added, ']');
    CHECK_OK(read_parts(&p, &a,
                        (fixture_parts){
                            .pieces = ",\"ab\":256,\"cd\":260",
                            .merges = "[\"a b\",\"c d\"]",
                            .model = ",\"ignore_merges\":true,\"dropout\":null,\"unk_token\":null",
                            .added = added.ptr,
                            .pretokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                                            "\"Split\",\"pattern\":{\"Regex\":\"x+\"},\"behavior\":"
                                            "\"Isolated\",\"invert\":false}," FIXTURE_GPT2 "]}"},
                        &e),
             &e);
    assert_int_equal(p.n_ids, 301);
    assert_true(str_is(p.texts[260], "cd") && p.flags[260] == VOCAB_MODEL);
    assert_int_equal(p.flags[300], VOCAB_ADDED | VOCAB_SPECIAL);
    assert_int_equal(p.flags[256], VOCAB_ADDED | VOCAB_MODEL);
    assert_int_equal(p.flags[257], 0);
    assert_int_equal(p.n_merges, 2);
    assert_true(str_is(p.merges[1].left, "c") && str_is(p.merges[1].right, "d"));
    assert_int_equal(p.n_added, 3);
    added_token t = p.added[1];
    assert_true(t.id == 299 && t.single_word && t.lstrip && t.rstrip && t.normalized && !t.special);
    assert_true(p.keeps_pieces && p.normalises && !p.adds_space);
    assert_int_equal(p.n_splits, 2);
    assert_true(str_is(p.splits[0], "x+"));
    buf_fini(&added);
    arena_fini(&a);
}

TEST(merges_are_strings_or_pairs_and_a_head_line_is_passed_over)
{
    static const char *const forms[] = {"[\"#version: 0.2\",\"a b\",\"b c\"]",
                                        "[[\"a\",\"b\"],[\"b\",\"c\"]]"};
    for (int i = 0; i < 2; i++) {
        tokenizer_parts p;
        arena a;
        err e = {0};
        arena_init(&a, 0);
        CHECK_OK(read_parts(&p, &a, (fixture_parts){.merges = forms[i]}, &e), &e);
        assert_int_equal(p.n_merges, 2);
        assert_true(str_is(p.merges[0].left, "a") && str_is(p.merges[1].right, "c"));
        arena_fini(&a);
    }
}

TEST(a_file_of_old_without_a_type_of_model_is_taken)
{
    static const char text[] =
        "{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":" FIXTURE_GPT2
        ",\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}";
    tokenizer_parts p;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    CHECK_OK(tokenizer_parts_from_json(&p, &a, STR(text), "test", &e), &e);
    assert_false(p.normalises);
    arena_fini(&a);
}

#define ADDED_FLAGS \
    "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true"
#define SPLIT(pattern, behavior)                                                               \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{" pattern "}," \
    "\"behavior\":\"" behavior "\",\"invert\":false}," FIXTURE_BYTE_LEVEL "]}"

TEST(what_is_not_known_is_refused_by_name)
{
    static const struct {
        fixture_parts parts;
        status want;
        const char *words;
    } cases[] = {
        {{.model = ",\"type\":\"Unigram\""}, ERR_UNSUPPORTED, "a model of type \"Unigram\""},
        {{.model = ",\"dropout\":0.1"}, ERR_UNSUPPORTED, "dropout"},
        {{.model = ",\"end_of_word_suffix\":\"</w>\""}, ERR_UNSUPPORTED, "end_of_word_suffix"},
        {{.model = ",\"continuing_subword_prefix\":\"##\""}, ERR_UNSUPPORTED, "continuing_subword"},
        {{.model = ",\"ignore_merges\":1"}, ERR_FORMAT, "ignore_merges"},
        {{.model = ",\"vocab\":[]"}, ERR_FORMAT, "\"vocab\" must be an object"},
        {{.model = ",\"vocab\":{}"}, ERR_FORMAT, "the vocabulary is empty"},
        {{.pieces = ",\"x1\":7"}, ERR_FORMAT, "two tokens have the id 7"},
        {{.pieces = ",\"x1\":-1"}, ERR_FORMAT, "a token id must be a whole number"},
        {{.pieces = ",\"x1\":1.5"}, ERR_FORMAT, "a token id must be a whole number"},
        {{.pieces = ",\"x1\":\"7\""}, ERR_FORMAT, "a token id must be a whole number"},
        {{.pieces = ",\"x1\":4194304"}, ERR_FORMAT, "a token id must be a whole number"},
        {{.pieces = ",\"x1\":4194303"}, ERR_FORMAT, "ids up to 4194303 for only 257 tokens"},
        {{.merges = "{}"}, ERR_FORMAT, "\"merges\" must be a list"},
        {{.merges = "[\"ab\"]"}, ERR_FORMAT, "a merge must be two pieces"},
        {{.merges = "[\"a b c\"]"}, ERR_FORMAT, "a merge must be two pieces"},
        {{.merges = "[\"a b\",[\"a\",\"b\"]]"}, ERR_FORMAT, "a merge must be two pieces"},
        {{.merges = "[[\"a\",\"b\"],\"a b\"]"}, ERR_FORMAT, "a merge must be a pair"},
        {{.merges = "[[\"a\"]]"}, ERR_FORMAT, "a merge must be a pair"},
        {{.merges = "[[\"a\",3]]"}, ERR_FORMAT, "a merge must be a pair"},
        {{.added = "{}"}, ERR_FORMAT, "\"added_tokens\" must be a list"},
        {{.added = "[3]"}, ERR_FORMAT, "a token id must be"},
        {{.added = "[{\"id\":300," ADDED_FLAGS "}]"}, ERR_FORMAT, "must have a \"content\""},
        {{.added = "[{\"id\":300,\"content\":\"x\"}]"}, ERR_FORMAT, "\"single_word\" must be"},
        {{.added = "[{\"id\":7,\"content\":\"x1\"," ADDED_FLAGS "}]"}, ERR_FORMAT, "7 is taken by"},
        {{.added = "[{\"id\":300,\"content\":\"x1\"," ADDED_FLAGS
                   "},{\"id\":300,\"content\":\"x2\"," ADDED_FLAGS "}]"},
         ERR_FORMAT,
         "300 is taken by \"x1\""},
        {{.normalizer = "{\"type\":\"NFKC\"}"}, ERR_UNSUPPORTED, "a normalizer of type \"NFKC\""},
        {{.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
                        "{\"type\":\"Lowercase\"}]}"},
         ERR_UNSUPPORTED,
         "a normalizer of type \"Lowercase\""},
        {{.normalizer = "[]"}, ERR_UNSUPPORTED, "a normalizer of type \"?\""},
        {{.pretokenizer = "null"}, ERR_UNSUPPORTED, "without a pre_tokenizer"},
        {{.pretokenizer = "{\"type\":\"Metaspace\"}"}, ERR_UNSUPPORTED, "type \"Metaspace\""},
        {{.pretokenizer = "{\"type\":\"ByteLevel\"}"}, ERR_FORMAT, "\"add_prefix_space\" must be"},
        {{.pretokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[]}"},
         ERR_UNSUPPORTED,
         "does not end in ByteLevel"},
        {{.pretokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[" FIXTURE_BYTE_LEVEL
                          "," FIXTURE_BYTE_LEVEL "]}"},
         ERR_UNSUPPORTED,
         "a pre_tokenizer of type \"ByteLevel\""},
        {{.pretokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
                          "" FIXTURE_BYTE_LEVEL "]}"},
         ERR_UNSUPPORTED,
         "type \"Digits\""},
        {{.pretokenizer = SPLIT("\"String\":\"x\"", "Isolated")}, ERR_UNSUPPORTED, "but a Regex"},
        {{.pretokenizer = SPLIT("\"Regex\":\"x\"", "Removed")}, ERR_UNSUPPORTED, "not Isolated"},
        {{.pretokenizer =
              "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
              "\"Regex\":\"x\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\","
              "\"add_prefix_space\":true}]}"},
         ERR_UNSUPPORTED,
         "a prefix space for each word"},
        {{.decoder = "null"}, ERR_UNSUPPORTED, "without a decoder"},
        {{.decoder = "{\"type\":\"WordPiece\"}"}, ERR_UNSUPPORTED, "a decoder of type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tokenizer_parts p = {.n_ids = -7};
        arena a;
        err e = {0};
        arena_init(&a, 0);
        status s = read_parts(&p, &a, cases[i].parts, &e);
        if (s != cases[i].want || !strstr(e.msg, cases[i].words))
            fail_msg("case %zu: %s: \"%s\", want \"%s\"", i, status_name(s), e.msg, cases[i].words);
        assert_string_equal(e.where, "test");
        assert_int_equal(p.n_ids, -7);
        arena_fini(&a);
    }
}

TEST(text_that_is_no_such_json_is_refused)
{
    static const char *const texts[] = {"", "{", "[]", "3", "{}", "{\"model\":3}", "\xff"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tokenizer_parts p;
        arena a;
        err e = {0};
        arena_init(&a, 0);
        status s = tokenizer_parts_from_json(&p, &a, str_from(texts[i]), "test", &e);
        assert_true(s == ERR_FORMAT || s == ERR_UNSUPPORTED);
        arena_fini(&a);
    }
}

TEST(the_place_in_the_file_is_named)
{
    static const char text[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0}}}";
    tokenizer_parts p;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    CHECK_STATUS(tokenizer_parts_from_json(&p, &a, STR(text), "test", &e), ERR_FORMAT);
    assert_int_equal(e.pos, strstr(text, "0}") - text);
    arena_fini(&a);
}
