#include "base/mem.h"
#include "fixture_gguf.h"

static made_bytes sample(void)
{
    static const char *const list[] = {"x", "", "zz"};
    static const int32_t ints[] = {-1, 7};
    static const int64_t ab[] = {4, 2}, q[] = {64, 3};
    static float values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    static uint8_t blocks[6 * 34];
    made_gguf g = made_new();
    made_str(&g, "general.architecture", "qwen35");
    made_u32(&g, "b", 4000000000u);
    made_strs(&g, "list", list, 3);
    made_ints(&g, "ints", ints, 2);
    made_bool(&g, "flag", 1);
    made_tensor(&g, "z", 2, ab, 0, values, sizeof values);
    made_tensor(&g, "q", 2, q, 8, blocks, sizeof blocks);
    made_tensor(&g, "unknown", 2, ab, 142, blocks, 1);
    return made_end(&g);
}

TEST(keys_are_found_with_their_values)
{
    made_bytes b = sample();
    gguf *g = NULL;
    err e = {0};
    CHECK_OK(gguf_open_bytes(&g, b.ptr, (int64_t)b.len, "f", &e), &e);
    assert_int_equal(gguf_count_keys(g), 5);
    assert_true(str_is(gguf_key_at(g, 1)->key, "b"));
    int64_t n, at = 0;
    assert_true(gguf_int_at(gguf_find(g, "b"), 0, &n) && n == 4000000000ll);
    assert_false(gguf_int_at(gguf_find(g, "b"), 1, &n));
    assert_true(gguf_int_at(gguf_find(g, "ints"), 0, &n) && n == -1);
    assert_true(gguf_int_at(gguf_find(g, "flag"), 0, &n) && n == 1);
    const gguf_value *list = gguf_find(g, "list");
    assert_true(list->is_array && list->type == GGUF_STRING && list->n == 3);
    assert_false(gguf_int_at(list, 0, &n));
    assert_true(str_is(gguf_next_string(list, &at), "x"));
    assert_true(str_is(gguf_next_string(list, &at), ""));
    assert_true(str_is(gguf_next_string(list, &at), "zz"));
    assert_int_equal(at, list->n_bytes);
    assert_null(gguf_find(g, "a"));
    assert_null(gguf_find(g, "bb"));
    gguf_close(g);
    free(b.ptr);
}

TEST(tensors_have_their_shape_outermost_first_and_their_bytes)
{
    made_bytes b = sample();
    gguf *g = NULL;
    err e = {0};
    CHECK_OK(gguf_open_bytes(&g, b.ptr, (int64_t)b.len, "f.gguf", &e), &e);
    assert_int_equal(gguf_count(g), 3);
    const gguf_item *z = gguf_find_tensor(g, "z");
    assert_true(z && z == gguf_at(g, 0) && z->t.type == DTYPE_F32 && z->t.n_dims == 2);
    assert_true(z->t.shape[0] == 2 && z->t.shape[1] == 4 && z->t.n_bytes == 32);
    float row[64];
    tensor_row_f32(&z->t, 1, row);
    assert_true(row[0] == 4 && row[3] == 7);
    const gguf_item *q = gguf_find_tensor(g, "q");
    assert_true(q->t.type == DTYPE_Q8_0 && q->t.n_bytes == 6 * 34 && q->offset == 32);
    tensor_row_f32(&q->t, 2, row);
    const gguf_item *u = gguf_find_tensor(g, "unknown");
    assert_true(u->type_id == 142 && u->t.type == DTYPE_NONE && !u->t.data);
    assert_null(gguf_find_tensor(g, "zz"));
    assert_string_equal(gguf_path(g), "f.gguf");
    assert_false(gguf_forget(g, z->t.data, 8)); /* no mapping */
    gguf_close(g);
    gguf_close(NULL);
    free(b.ptr);
}

TEST(version_2_and_another_alignment_can_be_read)
{
    static const int64_t one[] = {1};
    made_gguf g = made_new();
    g.version = 2;
    made_u32(&g, "general.alignment", 64);
    made_info(&g, "w", 1, one, 0, 64);
    made_bytes b = made_end(&g);
    while (b.len % 64 != 0) put_bytes(&b, "", 1);
    size_t begin = b.len;
    for (int i = 0; i < 68; i++) put_bytes(&b, &(uint8_t){(uint8_t)i}, 1);
    gguf *f = NULL;
    err e = {0};
    CHECK_OK(gguf_open_bytes(&f, b.ptr, (int64_t)b.len, "f", &e), &e);
    assert_ptr_equal(gguf_at(f, 0)->t.data, b.ptr + begin + 64);
    gguf_close(f);
    free(b.ptr);
}

TEST(a_missing_file_is_an_io_error_and_a_mapped_one_can_be_forgotten)
{
    char path[] = "/tmp/riptide-gguf-XXXXXX";
    gguf *g = NULL;
    err e = {0};
    CHECK_STATUS(gguf_open(&g, "/nowhere/x.gguf", &e), ERR_IO);
    assert_string_equal(e.where, "/nowhere/x.gguf");
    made_bytes b = sample();
    int fd = mkstemp(path);
    assert_int_equal(write(fd, b.ptr, b.len), (ssize_t)b.len);
    close(fd);
    CHECK_OK(gguf_open(&g, path, &e), &e);
    const gguf_item *z = gguf_find_tensor(g, "z");
    assert_true(gguf_forget(g, z->t.data, z->t.n_bytes));
    assert_false(gguf_forget(g, &e, 1));
    gguf_close(g);
    unlink(path);
    free(b.ptr);
}

TEST(every_failed_allocation_of_open_is_out_of_memory_and_leaks_nothing)
{
    made_bytes b = sample();
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        gguf *g = NULL;
        err e;
        mem_fail_at(at);
        status s = gguf_open_bytes(&g, b.ptr, (int64_t)b.len, "f", &e);
        mem_fail_at(0);
        if (s != ERR_OK) CHECK_STATUS(s, ERR_NOMEM);
        gguf_close(g);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
    }
    free(b.ptr);
}
