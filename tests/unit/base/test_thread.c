/* tags: threads */
#include "base/clock.h"
#include "base/thread.h"
#include "support/test.h"

static void *set_flag(void *arg)
{
    *(int *)arg = 1;
    return NULL;
}

TEST(a_started_thread_runs_and_can_be_joined_twice)
{
    err e;
    thread t = {0};
    int flag = 0;
    CHECK_OK(thread_start(&t, "a name longer than the kernel takes", set_flag, &flag, &e), &e);
    assert_true(t.is_started);
    thread_join(&t);
    assert_int_equal(flag, 1);
    assert_false(t.is_started);
    thread_join(&t);
}

typedef struct {
    mutex m;
    cond c;
    int n, turn;
} table;

static void *count_up(void *arg)
{
    table *t = arg;
    for (int i = 0; i < 10000; i++) {
        mutex_lock(&t->m);
        t->n++;
        mutex_unlock(&t->m);
    }
    return NULL;
}

TEST(a_mutex_keeps_counts_exact)
{
    err e;
    table t = {.n = 0};
    thread threads[4] = {0};
    mutex_init(&t.m);
    for (int i = 0; i < 4; i++) CHECK_OK(thread_start(&threads[i], "count", count_up, &t, &e), &e);
    for (int i = 0; i < 4; i++) thread_join(&threads[i]);
    assert_int_equal(t.n, 40000);
    mutex_fini(&t.m);
}

static void *answer(void *arg)
{
    table *t = arg;
    mutex_lock(&t->m);
    for (int i = 0; i < 200; i++) {
        while (t->turn != 1) cond_wait(&t->c, &t->m);
        t->n++;
        t->turn = 0;
        cond_broadcast(&t->c);
    }
    mutex_unlock(&t->m);
    return NULL;
}

TEST(conditions_hand_the_turn_back_and_forth)
{
    err e;
    table t = {.n = 0};
    thread other = {0};
    mutex_init(&t.m);
    cond_init(&t.c);
    CHECK_OK(thread_start(&other, "answer", answer, &t, &e), &e);
    mutex_lock(&t.m);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(t.n, i);
        t.turn = 1;
        cond_signal(&t.c);
        while (t.turn != 0) cond_wait(&t.c, &t.m);
    }
    mutex_unlock(&t.m);
    thread_join(&other);
    assert_int_equal(t.n, 200);
    cond_fini(&t.c);
    mutex_fini(&t.m);
}

TEST(a_timed_wait_ends_by_itself_on_the_monotonic_clock)
{
    table t;
    mutex_init(&t.m);
    cond_init(&t.c);
    mutex_lock(&t.m);
    int64_t start = clock_ns();
    while (cond_wait_ns(&t.c, &t.m, 20000000)) start = clock_ns();
    double ms = clock_ms_since(start);
    assert_true(ms >= 19.9 && ms < 5000);
    while (cond_wait_ns(&t.c, &t.m, -5)) continue;
    mutex_unlock(&t.m);
    cond_fini(&t.c);
    mutex_fini(&t.m);
}

TEST(there_is_at_least_one_core)
{
    assert_in_range(thread_n_cores(), 1, 100000);
}
