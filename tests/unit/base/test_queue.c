/* tags: threads */
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/queue.h"
#include "support/test.h"

static int items[100];

TEST(items_come_out_in_order_around_the_ring)
{
    err e;
    queue *q = NULL;
    CHECK_OK(queue_open(&q, 7, &e), &e);
    int pushed = 0, popped = 0;
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 5; i++) assert_true(queue_push(q, &items[pushed++]));
        assert_int_equal(queue_count(q), 5);
        for (int i = 0; i < 5; i++) assert_ptr_equal(queue_pop(q), &items[popped++]);
    }
    assert_null(queue_pop(q));
    assert_int_equal(queue_count(q), 0);
    queue_close(q);
}

TEST(a_full_queue_refuses_and_keeps_what_it_has)
{
    err e;
    queue *q = NULL;
    CHECK_OK(queue_open(&q, 2, &e), &e);
    assert_true(queue_push(q, &items[0]));
    assert_true(queue_push(q, &items[1]));
    assert_false(queue_push(q, &items[2]));
    assert_ptr_equal(queue_pop(q), &items[0]);
    assert_true(queue_push(q, &items[3]));
    assert_ptr_equal(queue_pop(q), &items[1]);
    assert_ptr_equal(queue_pop(q), &items[3]);
    queue_close(q);
}

TEST(a_timed_wait_ends_and_an_item_ends_it_at_once)
{
    err e;
    queue *q = NULL;
    CHECK_OK(queue_open(&q, 2, &e), &e);
    int64_t start = clock_ns();
    assert_null(queue_pop_wait(q, 10000000));
    assert_true(clock_ms_since(start) >= 9.9);
    assert_null(queue_pop_wait(q, 0));
    queue_push(q, &items[0]);
    start = clock_ns();
    assert_ptr_equal(queue_pop_wait(q, 60000000000), &items[0]);
    assert_true(clock_ms_since(start) < 10000);
    queue_close(q);
}

TEST(a_wake_is_not_lost_when_nobody_waits_yet)
{
    err e;
    queue *q = NULL;
    CHECK_OK(queue_open(&q, 2, &e), &e);
    queue_wake(q);
    assert_null(queue_pop_wait(q, -1));
    assert_null(queue_pop_wait(q, 1000000));
    queue_wake(q);
    queue_push(q, &items[5]);
    assert_ptr_equal(queue_pop_wait(q, -1), &items[5]);
    assert_null(queue_pop_wait(q, -1));
    queue_close(q);
}

enum { PRODUCERS = 3, EACH = 3000 };
static queue *shared_queue;
static int numbers[PRODUCERS][EACH];

static void *produce(void *arg)
{
    int *mine = arg;
    for (int i = 0; i < EACH; i++) {
        mine[i] = i;
        while (!queue_push(shared_queue, &mine[i])) sched_yield();
    }
    return NULL;
}

TEST(many_producers_lose_nothing_and_keep_their_own_order)
{
    err e;
    thread threads[PRODUCERS] = {0};
    CHECK_OK(queue_open(&shared_queue, 16, &e), &e);
    for (int i = 0; i < PRODUCERS; i++)
        CHECK_OK(thread_start(&threads[i], "produce", produce, numbers[i], &e), &e);
    int next[PRODUCERS] = {0};
    for (int i = 0; i < PRODUCERS * EACH; i++) {
        int *item = queue_pop_wait(shared_queue, -1);
        assert_non_null(item);
        int from = (int)((item - &numbers[0][0]) / EACH);
        assert_int_equal(*item, next[from]++);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        thread_join(&threads[i]);
        assert_int_equal(next[i], EACH);
    }
    assert_null(queue_pop(shared_queue));
    queue_close(shared_queue);
}

static void *wake_later(void *arg)
{
    struct timespec t = {0, 5000000};
    nanosleep(&t, NULL);
    queue_wake(arg);
    return NULL;
}

TEST(a_wake_from_another_thread_ends_an_endless_wait)
{
    err e;
    thread t = {0};
    queue *q = NULL;
    CHECK_OK(queue_open(&q, 2, &e), &e);
    CHECK_OK(thread_start(&t, "wake", wake_later, q, &e), &e);
    assert_null(queue_pop_wait(q, -1));
    thread_join(&t);
    queue_close(q);
}

TEST(open_checks_its_argument_and_survives_every_failed_allocation)
{
    err e;
    queue *q = NULL;
    CHECK_STATUS(queue_open(&q, 0, &e), ERR_INVALID);
    int64_t live = mem_count().n_live;
    int n = 1;
    for (;; n++) {
        mem_fail_at(n);
        status s = queue_open(&q, 4, &e);
        mem_fail_at(0);
        if (s == ERR_OK) break;
        assert_int_equal(s, ERR_NOMEM);
        assert_null(q);
        assert_int_equal(mem_count().n_live, live);
    }
    assert_true(n > 1);
    queue_close(q);
    queue_close(NULL);
    assert_int_equal(mem_count().n_live, live);
}
