#include "backend/cpu/cpu_mem_priv.h"
#include "base/mem.h"
#include "support/test.h"

TEST(blocks_are_zeroed_apart_and_aligned)
{
    cpu_pool p = {0};
    cpu_chunk *c[3];
    char *b[3];
    for (int i = 0; i < 3; i++) {
        b[i] = cpu_pool_take(&p, 100 + i, &c[i]);
        assert_non_null(b[i]);
        assert_int_equal((uintptr_t)b[i] % 64, 0);
        for (int k = 0; k < 100 + i; k++) assert_int_equal(b[i][k], 0);
        memset(b[i], 1, (size_t)(100 + i));
    }
    for (int i = 0; i < 3; i++) cpu_pool_drop(c[i]);
    cpu_pool_close(&p);
}

TEST(blocks_outlive_the_pool_and_nothing_leaks)
{
    int64_t live = mem_count().n_live;
    cpu_pool p = {0};
    cpu_chunk *small, *big, *more[5];
    assert_non_null(cpu_pool_take(&p, 1000, &small));
    assert_non_null(cpu_pool_take(&p, 20 << 20, &big)); /* one of its own */
    for (int i = 0; i < 5; i++) assert_non_null(cpu_pool_take(&p, 10 << 20, &more[i]));
    cpu_pool_close(&p);
    cpu_pool_drop(small);
    for (int i = 0; i < 5; i++) cpu_pool_drop(more[i]);
    cpu_pool_drop(big);
    cpu_pool_drop(NULL);
    assert_int_equal(mem_count().n_live, live);
}

TEST(take_fails_cleanly_at_each_allocation)
{
    for (int n = 1; n <= 2; n++) {
        int64_t live = mem_count().n_live;
        cpu_pool p = {0};
        cpu_chunk *c;
        mem_fail_at(n);
        void *b = cpu_pool_take(&p, 1000, &c);
        mem_fail_at(0);
        assert_null(b);
        cpu_pool_close(&p);
        assert_int_equal(mem_count().n_live, live);
    }
}
