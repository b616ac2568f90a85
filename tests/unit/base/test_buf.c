#include "base/buf.h"
#include "base/mem.h"
#include "support/test.h"

TEST(puts_append_and_stay_terminated)
{
    buf b;
    buf_init(&b);
    assert_int_equal(buf_str(&b).len, 0);
    assert_non_null(buf_str(&b).ptr);
    buf_put(&b, "ab", 2);
    buf_put_byte(&b, '\0');
    buf_put_c(&b, "cd");
    buf_put_str(&b, STR("ef"));
    buf_printf(&b, "%d-%s", 42, "x");
    assert_int_equal(b.len, 11);
    assert_memory_equal(b.ptr, "ab\0cdef42-x", 12);
    buf_fini(&b);
    buf_fini(&b);
    assert_null(b.ptr);
}

TEST(random_puts_equal_one_concatenation)
{
    static char want[300000];
    size_t n = 0;
    uint64_t rng = test_seed();
    buf b;
    buf_init(&b);
    while (n + 5000 < sizeof want) {
        char piece[5000];
        size_t len = (size_t)(test_random(&rng) % sizeof piece);
        memset(piece, (int)(test_random(&rng) & 0xff), len);
        memcpy(want + n, piece, len);
        n += len;
        buf_put(&b, piece, len);
    }
    assert_int_equal(b.len, n);
    assert_memory_equal(b.ptr, want, n);
    assert_int_equal(b.ptr[n], 0);
    buf_fini(&b);
}

TEST(long_printf_is_whole)
{
    buf b;
    buf_init(&b);
    buf_printf(&b, "%0500d|%s", 7, "end");
    assert_int_equal(b.len, 504);
    assert_string_equal(b.ptr + 499, "7|end");
    buf_fini(&b);
}

TEST(clear_keeps_memory_and_limit)
{
    buf b;
    buf_init(&b);
    b.limit = 10;
    buf_put_c(&b, "12345678901");
    assert_true(b.failed);
    buf_clear(&b);
    assert_false(b.failed);
    buf_put_c(&b, "1234567890");
    assert_false(b.failed);
    size_t cap = b.cap;
    buf_clear(&b);
    assert_int_equal(b.cap, cap);
    assert_string_equal(b.ptr, "");
    assert_int_equal(b.limit, 10);
    buf_fini(&b);
}

TEST(a_put_over_the_limit_keeps_the_old_content_and_stops_later_puts)
{
    buf b;
    buf_init(&b);
    b.limit = 5;
    buf_put_c(&b, "abc");
    buf_put_c(&b, "def");
    assert_true(b.failed);
    buf_put_c(&b, "d");
    buf_printf(&b, "%d", 1);
    assert_true(str_is(buf_str(&b), "abc"));
    buf_fini(&b);
}

TEST(a_failed_growth_keeps_the_old_content)
{
    buf b;
    buf_init(&b);
    buf_put_c(&b, "abc");
    mem_fail_at(1);
    char big[500] = {0};
    buf_put(&b, big, sizeof big);
    mem_fail_at(0);
    assert_true(b.failed);
    assert_true(str_is(buf_str(&b), "abc"));
    assert_false(buf_reserve(&b, 1));
    buf_fini(&b);
    mem_fail_at(1);
    buf_put_c(&b, "x");
    mem_fail_at(0);
    assert_true(b.failed && b.len == 0 && buf_str(&b).ptr[0] == '\0');
    buf_fini(&b);
}

TEST(reserve_of_absurd_size_fails)
{
    buf b;
    buf_init(&b);
    buf_put_c(&b, "abc");
    assert_false(buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    buf_clear(&b);
    assert_false(buf_reserve(&b, SIZE_MAX / 2));
    buf_fini(&b);
}

TEST(reserve_then_puts_take_nothing_from_mem)
{
    buf b;
    buf_init(&b);
    assert_true(buf_reserve(&b, 1000));
    mem_guard_begin("buf test");
    for (int i = 0; i < 1000; i++) buf_put_byte(&b, 'x');
    mem_guard_end();
    assert_int_equal(b.len, 1000);
    buf_fini(&b);
}

TEST(consume_removes_from_the_front)
{
    buf b;
    buf_init(&b);
    buf_consume(&b, 0);
    buf_put_c(&b, "abcdef");
    buf_consume(&b, 2);
    assert_true(str_is(buf_str(&b), "cdef"));
    assert_string_equal(b.ptr, "cdef");
    buf_consume(&b, 4);
    assert_int_equal(b.len, 0);
    buf_put_c(&b, "z");
    assert_string_equal(b.ptr, "z");
    buf_fini(&b);
}

TEST(no_block_is_left)
{
    int64_t live = mem_count().n_live;
    buf b;
    buf_init(&b);
    buf_put_c(&b, "abc");
    buf_fini(&b);
    assert_int_equal(mem_count().n_live, live);
}
