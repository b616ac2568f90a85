#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "fixture_gguf.h"
#include "load/gguf_set_priv.h"

static const int64_t ONE[] = {8};
static const uint8_t BYTES[32];

/* Part i of n with one tensor "tI"; `said` is what split.no says, `total` split.tensors.count. */
static void write_part(const fixture *f, int i, int n, int said, int total)
{
    char name[64], tensor_name[8];
    made_gguf g = made_new();
    snprintf(name, sizeof name, "m-%05d-of-%05d.gguf", i + 1, n);
    snprintf(tensor_name, sizeof tensor_name, "t%d", i);
    made_u16(&g, "split.no", (uint16_t)said);
    made_u16(&g, "split.count", (uint16_t)n);
    made_u32(&g, "split.tensors.count", (uint32_t)total);
    if (i == 0) made_str(&g, "general.architecture", "qwen35");
    made_tensor(&g, tensor_name, 1, ONE, 0, BYTES, 32);
    made_write(&g, fixture_path(f, name));
}

static void check_fails(const fixture *f, const char *name, status want, const char *where,
                        const char *words)
{
    gguf_set s;
    err e = {0};
    int64_t live = mem_count().n_live;
    CHECK_STATUS(gguf_set_open(&s, fixture_path(f, name), &e), want);
    if (!strstr(e.msg, words) || !strstr(e.where, where))
        fail_msg("%s: \"%s\", want %s: \"%s\"", e.where, e.msg, where, words);
    assert_int_equal(mem_count().n_live, live);
}

TEST(all_parts_are_opened_whichever_is_named)
{
    fixture f;
    fixture_init(&f);
    for (int i = 0; i < 3; i++) write_part(&f, i, 3, i, 3);
    for (int i = 1; i <= 3; i++) {
        char name[64];
        gguf_set s;
        err e = {0};
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i);
        CHECK_OK(gguf_set_open(&s, fixture_path(&f, name), &e), &e);
        assert_int_equal(s.n, 3);
        assert_non_null(gguf_find(s.files[0], "general.architecture"));
        const gguf *file = NULL;
        const gguf_item *it = gguf_set_find(&s, "t2", &file);
        assert_true(it && file == s.files[2]);
        assert_null(gguf_set_find(&s, "t3", NULL));
        assert_true(gguf_set_forget(&s, it->t.data, it->t.n_bytes));
        assert_false(gguf_set_forget(&s, &s, 1));
        gguf_set_close(&s);
    }
    fixture_fini(&f);
}

TEST(parts_that_do_not_belong_together_are_refused)
{
    fixture f;
    fixture_init(&f);
    write_part(&f, 0, 2, 0, 2);
    check_fails(&f, "m-00001-of-00002.gguf", ERR_IO, "m-00002-of-00002.gguf",
                "part 2 of 2 is missing");
    write_part(&f, 1, 2, 0, 2);
    check_fails(&f, "m-00001-of-00002.gguf", ERR_FORMAT, "m-00002-of-00002.gguf",
                "say part 1 of 2, its name 2 of 2");
    write_part(&f, 1, 2, 1, 2);
    write_part(&f, 0, 2, 0, 3);
    check_fails(&f, "m-00001-of-00002.gguf", ERR_FORMAT, "m-00001-of-00002.gguf",
                "'split.tensors.count' is 3, but the parts have 2");
    made_gguf g = made_new();
    made_u16(&g, "split.no", 1);
    made_u16(&g, "split.count", 2);
    made_tensor(&g, "t0", 1, ONE, 0, BYTES, 32);
    made_write(&g, fixture_path(&f, "m-00002-of-00002.gguf"));
    write_part(&f, 0, 2, 0, 2);
    check_fails(&f, "m-00001-of-00002.gguf", ERR_FORMAT, "m-00002",
                "tensor 't0' also stands in part 1");
    made_u16(&g, "split.count", 2);
    made_write(&g, fixture_path(&f, "model.gguf"));
    check_fails(&f, "model.gguf", ERR_FORMAT, "model.gguf",
                "its name must end in -00001-of-00002.gguf");
    made_u16(&g, "split.count", 60000);
    made_write(&g, fixture_path(&f, "model.gguf"));
    check_fails(&f, "model.gguf", ERR_FORMAT, "model.gguf", "'split.count' must be a number");
    fixture_fini(&f);
}

TEST(every_failed_allocation_of_open_is_out_of_memory_and_leaks_nothing)
{
    fixture f;
    fixture_init(&f);
    for (int i = 0; i < 2; i++) write_part(&f, i, 2, i, 2);
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        gguf_set s;
        err e;
        mem_fail_at(at);
        status st = gguf_set_open(&s, fixture_path(&f, "m-00001-of-00002.gguf"), &e);
        mem_fail_at(0);
        if (st != ERR_OK) CHECK_STATUS(st, ERR_NOMEM);
        if (st == ERR_OK) gguf_set_close(&s);
        assert_int_equal(mem_count().n_live, live);
        if (st == ERR_OK) break;
    }
    fixture_fini(&f);
}
