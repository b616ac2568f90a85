#include "backend/dev_arena.h"
#include "base/mem.h"
#include "support/test.h"

static backend *open_ref(void)
{
    err e = {0};
    backend *b = NULL;
    backend_options o = {.name = "ref", .n_threads = 1};
    CHECK_OK(backend_open(&b, &o, &e), &e);
    return b;
}

TEST(planned_pieces_are_aligned_apart_and_inside)
{
    err e = {0};
    backend *b = open_ref();
    static const int64_t size[] = {1, 256, 257, 0, 4000};
    dev_arena a = {0};
    for (int i = 0; i < 5; i++) {
        dev_buf planned = dev_arena_take(&a, size[i]);
        assert_null(planned.ptr);
        assert_int_equal(planned.n_bytes, size[i]);
    }
    assert_int_equal(a.used, 256 + 256 + 512 + 0 + 4096);
    CHECK_OK(dev_arena_open(&a, b, &e), &e);
    char *end = NULL;
    for (int i = 0; i < 5; i++) {
        dev_buf d = dev_arena_take(&a, size[i]);
        if (end)
            assert_true((char *)d.ptr >= end && ((char *)d.ptr - (char *)a.mem.ptr) % 256 == 0);
        end = (char *)d.ptr + size[i];
        assert_true(end <= (char *)a.mem.ptr + a.mem.n_bytes);
    }
    dev_arena_close(&a, b);
    dev_arena_close(&a, b);
    b->ops->close(b);
}

TEST(an_arena_without_memory_stays_closed)
{
    err e = {0};
    backend *b = open_ref();
    dev_arena a = {0};
    dev_arena_take(&a, 1000);
    mem_fail_at(1);
    CHECK_STATUS(dev_arena_open(&a, b, &e), ERR_NOMEM);
    mem_fail_at(0);
    assert_false(a.is_open);
    CHECK_OK(dev_arena_open(&a, b, &e), &e);
    dev_arena_close(&a, b);
    b->ops->close(b);
}
