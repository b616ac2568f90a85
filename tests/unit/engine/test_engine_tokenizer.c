#include "engine/engine_tokenizer.h"
#include "support/test.h"

enum { N_BYTES = 256, N_PIECES = N_BYTES + 2 };

/* The byte alphabet (model-spec 4.5), then "ab" and a control token. */
static void make_pieces(str *pieces, int32_t *types, char texts[N_BYTES][2])
{
    int n_moved = 0;
    for (int b = 0; b < N_BYTES; b++) {
        bool is_printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        int cp = is_printable ? b : 256 + n_moved++;
        size_t n = cp < 128 ? 1 : 2;
        texts[b][0] = (char)(cp < 128 ? cp : 0xc0 | cp >> 6);
        texts[b][1] = (char)(0x80 | (cp & 63));
        pieces[b] = (str){texts[b], n};
        types[b] = 1;
    }
    pieces[N_BYTES] = STR("ab");
    types[N_BYTES] = 1;
    pieces[N_BYTES + 1] = STR("<|x|>");
    types[N_BYTES + 1] = 3;
}

TEST(a_gguf_files_arrays_make_a_tokenizer)
{
    static const str merges[] = {{"a b", 3}};
    str pieces[N_PIECES];
    int32_t types[N_PIECES];
    char texts[N_BYTES][2];
    make_pieces(pieces, types, texts);
    load_model m = {.path = "m.gguf",
                    .name = "m",
                    .tokenizer = {pieces, types, N_PIECES, merges, 1, STR("qwen35")}};
    tokenizer *t = NULL;
    token_ids ids = {0};
    err e = {0};
    m.tokenizer_json = STR("");
    CHECK_OK(engine_tokenizer_open(&t, &m, &e), &e);
    CHECK_OK(tokenizer_encode(t, STR("ab<|x|>c"), true, 0, &ids, &e), &e);
    assert_true(ids.n == 3 && ids.ptr[0] == 256 && ids.ptr[1] == 257 && ids.ptr[2] == 'c');
    token_ids_fini(&ids);
    tokenizer_close(t);
    m.tokenizer.pretokenizer = STR("llama-bpe");
    CHECK_STATUS(engine_tokenizer_open(&t, &m, &e), ERR_UNSUPPORTED);
    assert_string_equal(e.where, "m");
}

TEST(a_text_must_come_back_and_its_ids_be_rows_of_the_embedding)
{
    str pieces[N_PIECES];
    int32_t types[N_PIECES];
    char texts[N_BYTES][2];
    make_pieces(pieces, types, texts);
    load_model m = {.path = "m.gguf",
                    .name = "m",
                    .tokenizer = {pieces, types, N_PIECES, NULL, 0, STR("qwen35")}};
    tokenizer *t = NULL;
    err e = {0};
    m.tokenizer_json = STR("");
    m.target.V = N_PIECES;
    CHECK_OK(engine_tokenizer_open(&t, &m, &e), &e);
    tokenizer_close(t);
    t = NULL;
    m.target.V = 200; /* the sample has bytes above */
    CHECK_STATUS(engine_tokenizer_open(&t, &m, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "the embedding has 200 rows"));
    assert_null(t);
    m.target.V = N_PIECES;
    types['q'] = 5; /* a byte without a token */
    CHECK_STATUS(engine_tokenizer_open(&t, &m, &e), ERR_FORMAT);
    assert_null(t);
}

TEST(a_model_without_either_form_is_refused)
{
    load_model m = {.path = "m.gguf", .name = "m", .tokenizer_json = STR("")};
    tokenizer *t = NULL;
    err e = {0};
    CHECK_STATUS(engine_tokenizer_open(&t, &m, &e), ERR_FORMAT);
    assert_string_equal(e.where, "m.gguf");
}
