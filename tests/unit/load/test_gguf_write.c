/* tags: threads */
#include "base/file.h"
#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "load/gguf_priv.h"
#include "load/gguf_write.h"

/* Element c of row r of tensor i is 100 i + r + c / 64. */
static status make_row(void *ctx, int worker, int i, int64_t row, float *out, err *e)
{
    int width = ((const int *)ctx)[i];
    if (worker < 0 || worker >= 2) return err_set(e, ERR_INVALID, "worker", -1, "%d", worker);
    if (width < 0) return err_set(e, ERR_CANCELED, "row", -1, "stop at tensor %d", i);
    for (int c = 0; c < width; c++) out[c] = (float)(100 * i + (int)row) + (float)c / 64;
    return ERR_OK;
}

static const gguf_out_tensor list[] = {{"one", DTYPE_F32, 1, {3}},
                                       {"two", DTYPE_Q8_0, 2, {5, 64}},
                                       {"three", DTYPE_BF16, 3, {2, 3, 4}}};
static const int widths[] = {3, 64, 4};

static void put_keys(gguf_out_keys *k)
{
    static const str texts[] = {{"x", 1}, {"", 0}};
    static const int32_t ints[] = {-1, 9};
    gguf_out_init(k);
    gguf_out_str(k, "general.architecture", STR("test"));
    gguf_out_u32(k, "n", 4000000000u);
    gguf_out_f32(k, "x", 0.25f);
    gguf_out_bool(k, "flag", true);
    gguf_out_ints(k, "ints", ints, 2);
    gguf_out_strs(k, "texts", texts, 2);
}

static status write_list(const char *path, const gguf_out_tensor *from, const int *w, err *e)
{
    gguf_out_keys k;
    workers *pool = NULL;
    TRY(workers_open(&pool, 2, e));
    put_keys(&k);
    status s = gguf_write(path, &k, from, 3, pool, make_row, (void *)(uintptr_t)w, e);
    gguf_out_fini(&k);
    workers_close(pool);
    return s;
}

TEST(what_is_written_is_read_again)
{
    fixture f;
    err e = {0};
    gguf *g = NULL;
    int64_t n, at = 0;
    float row[64], x;
    fixture_init(&f);
    const char *path = fixture_path(&f, "m.gguf");
    CHECK_OK(write_list(path, list, widths, &e), &e);
    CHECK_OK(gguf_open(&g, path, &e), &e);
    assert_true(gguf_count_keys(g) == 6 && gguf_count(g) == 3);
    assert_true(gguf_int_at(gguf_find(g, "n"), 0, &n) && n == 4000000000ll);
    assert_true(gguf_int_at(gguf_find(g, "flag"), 0, &n) && n == 1);
    assert_true(gguf_int_at(gguf_find(g, "ints"), 0, &n) && n == -1);
    memcpy(&x, gguf_find(g, "x")->data, 4);
    assert_true(x == 0.25f);
    assert_true(str_is(gguf_next_string(gguf_find(g, "texts"), &at), "x"));
    const tensor *t = &gguf_find_tensor(g, "two")->t;
    assert_true(t->type == DTYPE_Q8_0 && t->shape[0] == 5 && t->shape[1] == 64);
    tensor_row_f32(t, 4, row);
    assert_true(fabsf(row[63] - 104.98f) < 0.6f); /* half a step of 105 / 127 */
    t = &gguf_find_tensor(g, "three")->t;
    assert_true(t->n_dims == 3 && t->shape[0] == 2 && t->shape[2] == 4);
    tensor slice = tensor_slice(t, 1);
    tensor_row_f32(&slice, 2, row);
    assert_true(row[0] == 205); /* row 5 of all; 205 fits bf16 */
    gguf_close(g);
    fixture_fini(&f);
}

/* Row r holds r + c / 128, more rows than one batch has, a few wider than a batch. */
static status make_wide_row(void *ctx, int worker, int i, int64_t row, float *out, err *e)
{
    const gguf_out_tensor *t = (const gguf_out_tensor *)ctx + i;
    (void)worker;
    (void)e;
    for (int64_t c = 0; c < t->shape[1]; c++) out[c] = (float)row + (float)(c % 128) / 128;
    return ERR_OK;
}

TEST(any_number_of_threads_writes_the_same_bytes)
{
    static const gguf_out_tensor wide[] = {{"rows", DTYPE_F32, 2, {3001, 160}},
                                           {"wide", DTYPE_Q8_0, 2, {3, 1 << 21}}};
    static const int threads[] = {1, 2, 5};
    fixture f;
    str text[3];
    arena a;
    err e = {0};
    fixture_init(&f);
    arena_init(&a, 0);
    for (int i = 0; i < 3; i++) {
        gguf_out_keys k;
        workers *pool = NULL;
        CHECK_OK(workers_open(&pool, threads[i], &e), &e);
        put_keys(&k);
        const char *path = fixture_path(&f, "m.gguf");
        CHECK_OK(gguf_write(path, &k, wide, 2, pool, make_wide_row, (void *)(uintptr_t)wide, &e),
                 &e);
        gguf_out_fini(&k);
        workers_close(pool);
        CHECK_OK(file_read(&a, path, 1 << 24, &text[i], &e), &e);
        assert_true(text[i].len > 3001 * 160 * 4 + 3 * (1 << 21));
        assert_true(str_equal(text[i], text[0]));
    }
    gguf *g = NULL;
    float row[160];
    CHECK_OK(gguf_open(&g, fixture_path(&f, "m.gguf"), &e), &e);
    tensor_row_f32(&gguf_find_tensor(g, "rows")->t, 2900, row);
    assert_true(row[64] == 2900.5f);
    gguf_close(g);
    arena_fini(&a);
    fixture_fini(&f);
}

TEST(a_failed_write_leaves_the_old_file)
{
    fixture f;
    err e = {0};
    gguf *g = NULL;
    static const int stop[] = {3, 64, -1};
    fixture_init(&f);
    const char *path = fixture_path(&f, "m.gguf");
    CHECK_OK(write_list(path, list, widths, &e), &e);
    CHECK_STATUS(write_list(path, list, stop, &e), ERR_CANCELED);
    assert_string_equal(e.msg, "stop at tensor 2");
    CHECK_OK(gguf_open(&g, path, &e), &e);
    assert_int_equal(gguf_count(g), 3);
    gguf_close(g);
    CHECK_STATUS(write_list("/nowhere/m.gguf", list, widths, &e), ERR_IO);
    fixture_fini(&f); /* fails to remove the folder when something was left beside */
    assert_int_not_equal(access(f.dir, F_OK), 0);
}

TEST(a_tensor_that_the_format_cannot_hold_is_refused)
{
    static const gguf_out_tensor bad[] = {
        {"", DTYPE_F32, 1, {3}},         {"w", DTYPE_IQ2_S, 2, {5, 256}},
        {"w", DTYPE_AFFINE, 2, {5, 64}}, {"w", DTYPE_Q8_0, 2, {5, 33}},
        {"w", DTYPE_F32, 0, {0}},        {"w", DTYPE_F32, 2, {0, 3}}};
    fixture f;
    fixture_init(&f);
    for (int i = 0; i < 6; i++) {
        gguf_out_tensor three[3] = {list[0], list[1], bad[i]};
        err e = {0};
        CHECK_STATUS(write_list(fixture_path(&f, "m.gguf"), three, widths, &e), ERR_INVALID);
        assert_int_not_equal(access(fixture_path(&f, "m.gguf"), F_OK), 0);
    }
    fixture_fini(&f);
}

TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
    fixture f;
    fixture_init(&f);
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        err e = {0};
        mem_fail_at(at);
        status s = write_list(fixture_path(&f, "m.gguf"), list, widths, &e);
        mem_fail_at(0);
        if (s != ERR_OK) CHECK_STATUS(s, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
    }
    fixture_fini(&f);
}
