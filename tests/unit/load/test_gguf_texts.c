#include "fixture_gguf_model.h"
#include "load/gguf_texts_priv.h"

/* Read the texts of a made file into *m, whose arena the caller ends. */
static status read_texts(made_gguf g, load_model *m, err *e)
{
    gguf *file = NULL;
    made_bytes b = made_end(&g);
    *m = (load_model){0};
    arena_init(&m->mem, 0);
    m->chat_template = m->bos_token = m->eos_token = STR("");
    CHECK_OK(gguf_open_bytes(&file, b.ptr, (int64_t)b.len, "m.gguf", e), e);
    status s = gguf_texts_read(m, file, e);
    gguf_close(file);
    memset(b.ptr, 0xee, b.len); /* what was read must not lie in the file */
    free(b.ptr);
    return s;
}

TEST(tokens_merges_and_template_outlive_the_file)
{
    made_gguf g = made_new();
    load_model m;
    err e = {0};
    model_tokens(&g, 10);
    CHECK_OK(read_texts(g, &m, &e), &e);
    assert_true(m.tokenizer.n_pieces == 10 && m.tokenizer.n_merges == 1);
    assert_true(str_is(m.tokenizer.pieces[2], "ab") && str_is(m.tokenizer.pieces[9], "[P9]"));
    assert_true(m.tokenizer.types[3] == 3 && m.tokenizer.types[5] == 4 &&
                m.tokenizer.types[9] == 5);
    assert_true(str_is(m.tokenizer.merges[0], "a b") && str_is(m.tokenizer.pretokenizer, "qwen35"));
    assert_true(str_is(m.chat_template, "{{ messages }}") && str_is(m.eos_token, "<|im_end|>"));
    assert_true(str_is(m.bos_token, "<|endoftext|>"));
    arena_fini(&m.mem);
}

TEST(a_file_without_tokens_has_none)
{
    load_model m;
    err e = {0};
    CHECK_OK(read_texts(made_new(), &m, &e), &e);
    assert_true(m.tokenizer.n_pieces == 0 && m.chat_template.len == 0);
    arena_fini(&m.mem);
}

static void check_fails(made_gguf g, status want, const char *words)
{
    load_model m;
    err e = {0};
    CHECK_STATUS(read_texts(g, &m, &e), want);
    if (!strstr(e.msg, words)) fail_msg("\"%s\", want \"%s\"", e.msg, words);
    assert_int_equal(m.tokenizer.n_pieces, 0);
    arena_fini(&m.mem);
}

TEST(what_does_not_fit_together_is_refused)
{
    static const char *const two[] = {"a", "b"};
    static const int32_t one[] = {1};
    made_gguf g = made_new();
    made_strs(&g, "tokenizer.ggml.tokens", two, 2);
    check_fails(g, ERR_UNSUPPORTED, "key 'tokenizer.ggml.model' is ''");
    g = made_new();
    made_strs(&g, "tokenizer.ggml.tokens", two, 2);
    made_str(&g, "tokenizer.ggml.model", "llama");
    check_fails(g, ERR_UNSUPPORTED, "key 'tokenizer.ggml.model' is 'llama'");
    g = made_new();
    made_strs(&g, "tokenizer.ggml.tokens", two, 2);
    made_str(&g, "tokenizer.ggml.model", "gpt2");
    check_fails(g, ERR_FORMAT, "key 'tokenizer.ggml.token_type' has 0 entries for 2 tokens");
    g = made_new();
    made_strs(&g, "tokenizer.ggml.tokens", two, 2);
    made_str(&g, "tokenizer.ggml.model", "gpt2");
    made_ints(&g, "tokenizer.ggml.token_type", one, 1);
    check_fails(g, ERR_FORMAT, "token_type' has 1 entries for 2 tokens");
    g = made_new();
    made_ints(&g, "tokenizer.ggml.tokens", one, 1);
    check_fails(g, ERR_FORMAT, "key 'tokenizer.ggml.tokens' must be a list of at most");
    g = made_new();
    made_u32(&g, "tokenizer.chat_template", 1);
    check_fails(g, ERR_FORMAT, "key 'tokenizer.chat_template' must be a string");
}
