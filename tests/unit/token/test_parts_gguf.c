#include "fixture_tokenizer.h"
#include "token/pretok_priv.h"
#include "token/tokenizer_parts_priv.h"
#include "token/vocab_priv.h"

static const str PIECES[] = {{"a", 1}, {"ab", 2}, {"[PAD2]", 6}, {"<|x|>", 5}, {"<think>", 7}};
static const int32_t TYPES[] = {1, 1, 5, 3, 4};
static const str MERGES[] = {{"a b", 3}};

static tokenizer_pieces pieces(void)
{
    return (tokenizer_pieces){.pieces = PIECES,
                              .types = TYPES,
                              .n_pieces = 5,
                              .merges = MERGES,
                              .n_merges = 1,
                              .pretokenizer = STR("qwen35")};
}

TEST(types_become_flags_and_added_tokens)
{
    tokenizer_parts p;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    tokenizer_pieces from = pieces();
    CHECK_OK(tokenizer_parts_from_pieces(&p, &a, &from, "test", &e), &e);
    static const uint8_t want[] = {VOCAB_MODEL, VOCAB_MODEL, 0, VOCAB_ADDED | VOCAB_SPECIAL,
                                   VOCAB_ADDED};
    assert_memory_equal(p.flags, want, sizeof want);
    assert_int_equal(p.n_added, 2);
    assert_true(p.added[0].id == 3 && p.added[0].special && !p.added[0].normalized);
    assert_true(p.added[1].id == 4 && !p.added[1].special);
    assert_true(str_is(p.merges[0].left, "a") && str_is(p.merges[0].right, "b"));
    assert_true(p.normalises && p.n_splits == 1);
    assert_true(str_equal(p.splits[0], pretok_pattern(PRETOK_QWEN35)));
    arena_fini(&a);
}

static void check_refused(tokenizer_pieces from, status want, const char *words)
{
    tokenizer_parts p = {.n_ids = -7};
    arena a;
    err e = {0};
    arena_init(&a, 0);
    CHECK_STATUS(tokenizer_parts_from_pieces(&p, &a, &from, "test", &e), want);
    if (!strstr(e.msg, words)) fail_msg("\"%s\", want \"%s\"", e.msg, words);
    assert_int_equal(p.n_ids, -7);
    arena_fini(&a);
}

TEST(what_is_not_known_is_refused)
{
    static const int32_t byte_type[] = {1, 6, 5, 3, 4};
    static const str no_space[] = {{"ab", 2}};
    static const str bad_text[] = {{"a", 1}, {"ab", 2}, {"", 0}, {"<\xff>", 3}, {"", 0}};
    tokenizer_pieces p = pieces();
    p.pretokenizer = STR("llama-bpe");
    check_refused(p, ERR_UNSUPPORTED, "pre-tokeniser \"llama-bpe\"");
    p = pieces();
    p.types = byte_type;
    check_refused(p, ERR_UNSUPPORTED, "token 1 is of type 6");
    p = pieces();
    p.merges = no_space;
    check_refused(p, ERR_FORMAT, "merge 0 has no space");
    p = pieces();
    p.pieces = bad_text;
    check_refused(p, ERR_FORMAT, "token 3 is ill-formed UTF-8");
    p = pieces();
    p.n_pieces = 0;
    check_refused(p, ERR_FORMAT, "0 tokens");
    p.n_pieces = VOCAB_CAP + 1;
    check_refused(p, ERR_FORMAT, "tokens, want 1 to");
    p = pieces();
    p.n_merges = -1;
    check_refused(p, ERR_FORMAT, "-1 merges");
}

/* The family's vocabulary: the tags lie at its end, type 4. In the template they are one id each,
 * in a message's content letters. */
TEST(think_tags_are_one_id_in_the_template_and_text_in_content)
{
    enum { N = 248320, OPEN = 248068, CLOSE = 248069 };
    static str list[N];
    static int32_t types[N];
    buf letters;
    tokenizer *t = NULL;
    err e = {0};
    size_t ends[257] = {0};
    buf_init(&letters);
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        fixture_spell(&letters, (str){&byte, 1});
        ends[i + 1] = letters.len;
    }
    for (int i = 0; i < N; i++) {
        list[i] = STR("[PAD]");
        types[i] = 5;
    }
    for (int i = 0; i < 256; i++) {
        list[i] = (str){letters.ptr + ends[i], ends[i + 1] - ends[i]};
        types[i] = 1;
    }
    list[OPEN] = STR("<think>");
    list[CLOSE] = STR("</think>");
    types[OPEN] = types[CLOSE] = 4;
    tokenizer_pieces p = {
        .pieces = list, .types = types, .n_pieces = N, .pretokenizer = STR("qwen35")};
    CHECK_OK(tokenizer_open_pieces(&t, &p, "test", &e), &e);
    assert_string_equal(fixture_encode(t, "<think>a</think>"), "248068,97,248069");
    assert_string_equal(fixture_ids(t,
                                    (tokenizer_segment[]){{STR("<think>"), true},
                                                          {STR("<think></think>"), false},
                                                          {STR("</think>"), true}},
                                    3),
                        "248068,60,116,104,105,110,107,62,60,47,116,104,105,110,107,62,248069");
    tokenizer_close(t);
    buf_fini(&letters);
}
