#include "base/arena.h"
#include "base/mem.h"
#include "support/test.h"

static int is_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0) return 0;
    return 1;
}

TEST(pieces_are_zeroed_aligned_and_apart)
{
    arena a;
    arena_init(&a, 0);
    unsigned char *pieces[500];
    for (size_t i = 0; i < 500; i++) {
        pieces[i] = arena_new(&a, i * 7);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        assert_true(is_zero(pieces[i], i * 7));
        memset(pieces[i], (int)(i & 0xff), i * 7);
    }
    for (size_t i = 0; i < 500; i++)
        for (size_t k = 0; k < i * 7; k++) assert_int_equal(pieces[i][k], i & 0xff);
    arena_fini(&a);
}

TEST(chunks_grow_so_that_calls_are_few)
{
    arena a;
    arena_init(&a, 0);
    int64_t calls = mem_count().n_calls;
    for (int i = 0; i < 1000000; i++) assert_non_null(arena_new(&a, 16));
    assert_true(mem_count().n_calls - calls < 20);
    arena_fini(&a);
}

TEST(a_big_piece_leaves_the_open_chunk_in_use)
{
    arena a;
    arena_init(&a, 0);
    assert_non_null(arena_new(&a, 16));
    assert_non_null(arena_new(&a, 9 << 20));
    size_t n_bytes = a.n_bytes;
    for (int i = 0; i < 50; i++) assert_non_null(arena_new(&a, 16));
    assert_int_equal(a.n_bytes, n_bytes);
    arena_fini(&a);
}

TEST(reset_forgets_keeps_one_chunk_and_zeroes_again)
{
    arena a;
    arena_init(&a, 0);
    int64_t live = mem_count().n_live;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 100; i++) {
            unsigned char *p = arena_new(&a, 1000 + i);
            assert_true(is_zero(p, 1000 + i));
            memset(p, 0xff, 1000 + i);
        }
        arena_reset(&a);
        assert_int_equal(mem_count().n_live, live + 1);
    }
    arena_fini(&a);
    assert_int_equal(mem_count().n_live, live);
}

TEST(a_warm_arena_takes_nothing_more_from_mem)
{
    arena a;
    arena_init(&a, 0);
    for (int i = 0; i < 100; i++) arena_new(&a, 1000);
    arena_reset(&a);
    mem_guard_begin("arena test");
    for (int i = 0; i < 50; i++) assert_non_null(arena_new(&a, 1000));
    mem_guard_end();
    arena_fini(&a);
}

TEST(reset_and_fini_of_nothing_are_harmless)
{
    arena a;
    arena_init(&a, 0);
    arena_reset(&a);
    arena_fini(&a);
    arena_fini(&a);
    assert_null(a.head);
}

TEST(limit_is_never_passed_and_can_be_reached)
{
    arena a;
    arena_init(&a, 100000);
    size_t given = 0;
    while (arena_new(&a, 128)) given += 128;
    assert_true(a.n_bytes <= 100000);
    assert_true(given > 90000);
    assert_null(arena_new(&a, 1 << 20));
    arena_reset(&a);
    assert_non_null(arena_new(&a, 128));
    assert_int_equal(a.limit, 100000);
    arena_fini(&a);
}

TEST(impossible_sizes_give_null)
{
    arena a;
    arena_init(&a, 0);
    volatile size_t huge = SIZE_MAX;
    assert_null(arena_new(&a, huge));
    assert_null(arena_new(&a, huge - 20));
    assert_null(arena_new_array(&a, huge / 2, 3));
    assert_null(arena_copy(&a, "x", huge));
    unsigned char *p = arena_new_array(&a, 3, 5);
    assert_true(is_zero(p, 15));
    arena_fini(&a);
}

TEST(copy_is_terminated_and_counted)
{
    arena a;
    arena_init(&a, 0);
    const char with_nul[] = {'a', '\0', 'b'};
    char *p = arena_copy(&a, with_nul, 3);
    assert_memory_equal(p, "a\0b", 4);
    assert_string_equal(arena_copy(&a, NULL, 0), "");
    arena_fini(&a);
}

TEST(a_failed_allocation_gives_null_and_leaves_the_arena_usable)
{
    int64_t live = mem_count().n_live;
    arena a;
    arena_init(&a, 0);
    mem_fail_at(1);
    assert_null(arena_new(&a, 10));
    mem_fail_at(0);
    assert_non_null(arena_new(&a, 10));
    mem_fail_at(1);
    assert_null(arena_new(&a, 1 << 20));
    assert_null(arena_new(&a, 20 << 20));
    mem_fail_at(0);
    assert_non_null(arena_new(&a, 1 << 20));
    arena_fini(&a);
    assert_int_equal(mem_count().n_live, live);
}
