#include "cache/kv_pool.h"

#include "base/mem.h"
#include "support/test.h"

static kv_pool *open_pool(int n)
{
    err e = {0};
    kv_pool *p = NULL;
    CHECK_OK(kv_pool_open(&p, n, &e), &e);
    return p;
}

TEST(take_gives_distinct_blocks_with_count_one)
{
    kv_pool *p = open_pool(5);
    int32_t ids[5];
    assert_int_equal(kv_pool_take(p, 5, ids), ERR_OK);
    int seen = 0;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(kv_pool_count(p, ids[i]), 1);
        seen |= 1 << ids[i];
    }
    assert_int_equal(seen, 31);
    assert_int_equal(kv_pool_n_free(p), 0);
    kv_pool_close(p);
}

TEST(take_refuses_and_takes_nothing_when_short)
{
    kv_pool *p = open_pool(3);
    int32_t ids[4] = {-7, -7, -7, -7};
    assert_int_equal(kv_pool_take(p, 4, ids), ERR_LIMIT);
    assert_int_equal(ids[0], -7);
    assert_int_equal(kv_pool_n_free(p), 3);
    kv_pool_close(p);
}

TEST(a_shared_block_is_free_only_after_its_last_drop)
{
    kv_pool *p = open_pool(2);
    int32_t id;
    assert_int_equal(kv_pool_take(p, 1, &id), ERR_OK);
    kv_pool_share(p, &id, 1);
    kv_pool_drop(p, &id, 1);
    assert_int_equal(kv_pool_n_free(p), 1);
    kv_pool_drop(p, &id, 1);
    assert_int_equal(kv_pool_n_free(p), 2);
    kv_pool_close(p);
}

TEST(free_and_held_always_add_up_under_random_use)
{
    uint64_t rng = test_seed();
    kv_pool *p = open_pool(37);
    int32_t held[37];
    int n_held = 0;
    for (int step = 0; step < 20000; step++) {
        int n = (int)(test_random(&rng) % 5) + 1;
        if (test_random(&rng) & 1) {
            if (kv_pool_take(p, n, held + n_held) == ERR_OK) n_held += n;
        } else if (n <= n_held) {
            n_held -= n;
            kv_pool_drop(p, held + n_held, n);
        }
        assert_int_equal(kv_pool_n_free(p) + n_held, 37);
    }
    kv_pool_close(p);
}

TEST(open_survives_an_allocator_that_fails)
{
    err e = {0};
    kv_pool *p = NULL;
    int64_t live = mem_count().n_live;
    assert_int_equal(kv_pool_open(&p, 0, &e), ERR_INVALID);
    for (int n = 1;; n++) {
        mem_fail_at(n);
        status s = kv_pool_open(&p, 8, &e);
        mem_fail_at(0);
        if (s == ERR_OK) break;
        assert_int_equal(s, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, live);
    }
    kv_pool_close(p);
    assert_int_equal(mem_count().n_live, live);
}
