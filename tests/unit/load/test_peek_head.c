/* The first bytes of a GGUF file: enough of them are a model, fewer ask for more. */
#include "base/mem.h"
#include "fixture_gguf_model.h"
#include "load/load.h"
#include "support/guard.h"

/* The first n bytes of a file of n_file, behind which no byte can be read. */
static status peek(load_model *m, const made_bytes *file, size_t n, size_t n_file, bool *is_short,
                   err *e)
{
    uint8_t *bytes = guard_copy(file->ptr, n);
    *e = (err){0};
    *is_short = false;
    status s = load_model_peek_head(m, "m.gguf", bytes, (int64_t)n, (int64_t)n_file, is_short, e);
    guard_free(bytes, n);
    return s;
}

TEST(a_head_is_short_until_all_tables_are_there)
{
    made_gguf g = model_target(true, true);
    made_bytes file = made_end(&g);
    load_model m;
    err e;
    bool is_short, was_enough = false;
    int64_t live = mem_count().n_live;
    for (size_t n = 0; n <= file.len; n += n < 200 ? 1 : 61) {
        status s = peek(&m, &file, n, file.len, &is_short, &e);
        assert_true(s == ERR_OK ? !is_short : is_short && s == ERR_FORMAT);
        assert_true(!was_enough || s == ERR_OK); /* more bytes never make it worse */
        was_enough = s == ERR_OK;
        if (was_enough) {
            assert_true(m.target.family == ARCH_QWEN35_MOE && m.target.V == T_V && !m.weights);
            assert_int_equal(m.tokenizer.n_pieces, T_V);
            load_model_close(&m);
        }
        assert_int_equal(mem_count().n_live, live);
    }
    assert_true(was_enough);
    free(file.ptr);
}

TEST(a_head_whose_file_is_too_small_is_cut_and_not_short)
{
    made_gguf g = model_target(false, false);
    made_bytes file = made_end(&g);
    load_model m;
    err e;
    bool is_short;
    CHECK_STATUS(peek(&m, &file, 4000, 4000, &is_short, &e), ERR_FORMAT);
    assert_false(is_short);
    /* The tables are whole, but the last tensor would lie behind the end. */
    CHECK_STATUS(peek(&m, &file, file.len - 100, file.len - 100, &is_short, &e), ERR_FORMAT);
    assert_false(is_short);
    CHECK_OK(peek(&m, &file, file.len - 100, file.len, &is_short, &e), &e);
    load_model_close(&m);
    free(file.ptr);
}

TEST(a_claim_that_no_file_of_its_size_can_meet_asks_for_nothing)
{
    static const uint8_t bytes[24] = {'G', 'G', 'U', 'F', 3, 0, 0, 0, 0, 0, 0, 0,
                                      0,   0,   0,   0,   1, 0, 0, 0, 0, 0, 0, 0};
    uint8_t claim[40] = {0};
    uint64_t n_name = 1 << 30;
    load_model m;
    err e;
    bool is_short;
    memcpy(claim, bytes, 24);
    memcpy(claim + 24, &n_name, 8);
    made_bytes file = {.ptr = claim, .len = 40};
    CHECK_STATUS(peek(&m, &file, 40, 1 << 20, &is_short, &e), ERR_FORMAT);
    assert_false(is_short);
    CHECK_STATUS(peek(&m, &file, 40, (int64_t)2 << 30, &is_short, &e), ERR_FORMAT);
    assert_true(is_short);
}

TEST(the_first_part_may_have_no_tensor)
{
    made_gguf g = made_new();
    load_model m;
    err e;
    bool is_short;
    model_target_keys(&g, false, 4);
    model_tokens(&g, T_V);
    made_u16(&g, "split.count", 2);
    made_bytes file = made_end(&g);
    CHECK_OK(peek(&m, &file, file.len, file.len, &is_short, &e), &e);
    assert_int_equal(m.target.V, T_V);
    load_model_close(&m);
    free(file.ptr);
}

TEST(a_type_that_cannot_be_read_is_named_before_its_bytes_are_there)
{
    made_gguf g = model_target(false, true);
    static const int64_t ne[] = {32};
    load_model m;
    err e;
    bool is_short;
    made_tensor(&g, "v.patch", 1, ne, 142, "0123", 4);
    made_bytes file = made_end(&g);
    CHECK_OK(peek(&m, &file, file.len, file.len, &is_short, &e), &e);
    load_model_close(&m);
    free(file.ptr);
    g = model_target(false, true);
    made_tensor(&g, "blk.0.extra", 1, ne, 142, "0123", 4);
    file = made_end(&g);
    CHECK_STATUS(peek(&m, &file, file.len, file.len, &is_short, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "'blk.0.extra' has ggml type 142"));
    free(file.ptr);
}

TEST(every_failed_allocation_of_a_peek_is_out_of_memory_and_leaks_nothing)
{
    made_gguf g = model_target(true, true);
    made_bytes file = made_end(&g);
    load_model m;
    err e;
    bool is_short;
    int64_t live = mem_count().n_live;
    status s = ERR_NOMEM;
    for (int64_t n = 1; s != ERR_OK; n++) {
        mem_fail_at(n);
        s = peek(&m, &file, file.len, file.len, &is_short, &e);
        mem_fail_at(0);
        if (s != ERR_OK) CHECK_STATUS(s, ERR_NOMEM);
        if (s == ERR_OK) load_model_close(&m);
        assert_int_equal(mem_count().n_live, live);
        assert_true(n < 1000);
    }
    free(file.ptr);
}
