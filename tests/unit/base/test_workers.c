/* tags: threads */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/workers.h"
#include "support/test.h"

typedef struct {
    int64_t n, grain;
    int n_workers;
    unsigned char *hits; /* [n] how often each item was done */
    int calls[64];
    int bad;
} job;

static void mark(void *ctx, int64_t begin, int64_t end, int worker)
{
    job *j = ctx;
    int is_bad = worker < 0 || worker >= j->n_workers || begin >= end || end > j->n ||
                 begin % j->grain != 0 || (end != j->n && end % j->grain != 0);
    if (is_bad) {
        __atomic_store_n(&j->bad, 1, __ATOMIC_RELAXED);
        return;
    }
    j->calls[worker]++;
    for (int64_t i = begin; i < end; i++) j->hits[i]++;
}

static void check_job(workers *w, int64_t n, int64_t grain)
{
    static unsigned char hits[4096];
    job j = {.n = n, .grain = grain, .n_workers = workers_count(w), .hits = hits};
    memset(hits, 0, sizeof hits);
    workers_for(w, n, grain, mark, &j);
    if (j.bad) fail_msg("bad share for n %lld, grain %lld", (long long)n, (long long)grain);
    for (int64_t i = 0; i < n; i++)
        if (hits[i] != 1) fail_msg("item %lld done %d times", (long long)i, hits[i]);
    for (int i = 1; i < j.n_workers; i++) assert_true(j.calls[i] <= 1);
}

TEST(every_item_is_done_once_on_grain_borders)
{
    err e;
    for (int n_workers = 1; n_workers <= 9; n_workers++) {
        workers *w = NULL;
        CHECK_OK(workers_open(&w, n_workers, &e), &e);
        assert_int_equal(workers_count(w), n_workers);
        for (int64_t n = 0; n < 70; n++)
            for (int64_t grain = 1; grain < 20; grain += 3) check_job(w, n, grain);
        check_job(w, 4096, 64);
        check_job(w, 4095, 64);
        workers_close(w);
    }
}

TEST(shares_are_even_to_one_grain)
{
    err e;
    workers *w = NULL;
    CHECK_OK(workers_open(&w, 3, &e), &e);
    check_job(w, 100, 10);
    workers_close(w);
}

typedef struct {
    int64_t end[103]; /* of the share that begins there */
} cut;

static void note_cut(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    ((cut *)ctx)->end[begin] = end;
}

TEST(the_cut_is_the_same_every_time)
{
    err e;
    workers *w = NULL;
    CHECK_OK(workers_open(&w, 3, &e), &e);
    cut first = {{0}};
    workers_for(w, 103, 10, note_cut, &first);
    assert_int_equal(first.end[0], 30);
    assert_int_equal(first.end[30], 70);
    assert_int_equal(first.end[70], 103);
    for (int i = 0; i < 500; i++) {
        cut again = {{0}};
        workers_for(w, 103, 10, note_cut, &again);
        assert_memory_equal(&again, &first, sizeof first);
    }
    workers_close(w);
}

typedef struct {
    pthread_t by[16]; /* the thread of a worker */
    int calls[16];
} crew;

/* The caller's share takes so long that the others begin theirs, most times. */
static void note_thread(void *ctx, int64_t begin, int64_t end, int worker)
{
    crew *c = ctx;
    (void)end;
    if (begin == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
    c->by[worker] = pthread_self();
    c->calls[worker]++;
}

/* Runs until every worker has had a share. */
static void meet(workers *w, crew *c)
{
    *c = (crew){0};
    for (int seen = 0; seen < workers_count(w);) {
        workers_for(w, workers_count(w), 1, note_thread, c);
        seen = 0;
        for (int i = 0; i < workers_count(w); i++) seen += c->calls[i] > 0;
    }
}

TEST(the_caller_is_worker_zero_and_alone_when_n_is_one)
{
    err e;
    workers *w = NULL;
    crew c = {0};
    CHECK_OK(workers_open(&w, 1, &e), &e);
    workers_for(w, 100, 1, note_thread, &c);
    assert_true(pthread_equal(c.by[0], pthread_self()));
    workers_close(w);
    CHECK_OK(workers_open(&w, 4, &e), &e);
    meet(w, &c);
    assert_true(pthread_equal(c.by[0], pthread_self()));
    for (int i = 1; i < 4; i++) assert_false(pthread_equal(c.by[i], pthread_self()));
    workers_close(w);
}

static void add_up(void *ctx, int64_t begin, int64_t end, int worker)
{
    int64_t *sums = ctx;
    for (int64_t i = begin; i < end; i++) sums[worker * 8] += i;
}

/* Far more threads than cores, back to back runs of changing width: must neither hang nor lose a
 * share. Run under the thread sanitizer too. */
TEST(an_oversubscribed_pool_survives_thousands_of_runs)
{
    err e;
    workers *w = NULL;
    CHECK_OK(workers_open(&w, 16, &e), &e);
    uint64_t rng = test_seed();
    for (int i = 0; i < 3000; i++) {
        int64_t sums[16 * 8] = {0}, total = 0, n = (int64_t)(test_random(&rng) % 40);
        workers_for(w, n, 1, add_up, sums);
        for (int k = 0; k < 16; k++) total += sums[k * 8];
        assert_int_equal(total, n * (n - 1) / 2);
    }
    workers_close(w);
}

TEST(sleeping_workers_wake_for_the_next_run)
{
    err e;
    workers *w = NULL;
    CHECK_OK(workers_open(&w, 3, &e), &e);
    for (int i = 0; i < 10; i++) {
        struct timespec t = {0, 3000000}; /* far beyond the spin */
        nanosleep(&t, NULL);
        check_job(w, 300, 7);
    }
    workers_close(w);
}

static void sleep_unless_caller(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)end;
    struct timespec t = {0, 20000000};
    if (worker != 0) nanosleep(&t, NULL);
    ((int *)ctx)[begin] = 1;
}

TEST(the_caller_waits_for_slow_workers)
{
    err e;
    workers *w = NULL;
    CHECK_OK(workers_open(&w, 3, &e), &e);
    int done[3] = {0};
    workers_for(w, 3, 1, sleep_unless_caller, done);
    assert_int_equal(done[1] + done[2], 2);
    workers_close(w);
}

/* ---- a busy machine ----------------------------------------------------------------------- */

static atomic_int n_begun, n_back, is_over;

/* Where a worker is while something else has its core. It comes back by itself, should the caller
 * need a lock that it held. */
static void stall(int signal)
{
    (void)signal;
    atomic_fetch_add(&n_begun, 1);
    for (int i = 0; i < 500 && !atomic_load(&is_over); i++) poll(NULL, 0, 1);
    atomic_fetch_add(&n_back, 1);
}

static void wait_for(atomic_int *count, int n)
{
    while (atomic_load(count) < n) poll(NULL, 0, 1);
}

static void count_share(void *ctx, int64_t begin, int64_t end, int worker)
{
    crew *c = ctx;
    c->by[begin] = pthread_self();
    for (int64_t i = begin; i < end; i++) c->calls[i]++;
    assert_true(worker >= 0);
}

TEST(the_caller_does_the_shares_of_workers_that_cannot_begin)
{
    err e;
    workers *w = NULL;
    crew c;
    bool did_all = false;
    struct sigaction action = {.sa_handler = stall, .sa_flags = SA_RESTART}, old;
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    CHECK_OK(workers_open(&w, 4, &e), &e);
    meet(w, &c);
    for (int attempt = 0; attempt < 20 && !did_all; attempt++) {
        crew run = {0};
        atomic_store(&n_begun, 0);
        atomic_store(&n_back, 0);
        atomic_store(&is_over, 0);
        for (int i = 1; i < 4; i++) assert_int_equal(pthread_kill(c.by[i], SIGUSR1), 0);
        wait_for(&n_begun, 3);
        workers_for(w, 4, 1, count_share, &run);
        did_all = true;
        for (int i = 0; i < 4; i++) {
            assert_int_equal(run.calls[i], 1);
            did_all = did_all && pthread_equal(run.by[i], pthread_self());
        }
        atomic_store(&is_over, 1);
        wait_for(&n_back, 3);
    }
    assert_true(did_all);
    /* Those that come too late find nothing to do, and are there for the next run. */
    meet(w, &c);
    workers_close(w);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

static void *burn(void *arg)
{
    while (!atomic_load((atomic_int *)arg)) continue;
    return NULL;
}

TEST(shares_are_done_once_beside_others_that_take_the_cores)
{
    err e;
    workers *w = NULL;
    thread others[4] = {{0}};
    atomic_int is_enough = 0;
    for (int i = 0; i < 4; i++)
        CHECK_OK(thread_start(&others[i], "burn", burn, &is_enough, &e), &e);
    CHECK_OK(workers_open(&w, 2, &e), &e);
    uint64_t rng = test_seed();
    for (int i = 0; i < 100; i++)
        check_job(w, 1 + (int64_t)(test_random(&rng) % 4000), 1 + (int64_t)(test_random(&rng) % 9));
    workers_close(w);
    atomic_store(&is_enough, 1);
    for (int i = 0; i < 4; i++) thread_join(&others[i]);
}

static void note_core(void *ctx, int64_t begin, int64_t end, int worker)
{
    cpu_set_t set;
    (void)end;
    if (begin == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
    ((int *)ctx)[worker] = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

TEST(pinned_workers_have_one_core_each_and_the_caller_all)
{
    err e;
    workers *w = NULL;
    int n = thread_n_cores(), n_cores[2] = {0};
    CHECK_OK(workers_open(&w, n + 1, &e), &e);
    CHECK_STATUS(workers_pin(w, &e), ERR_INVALID);
    assert_string_equal(e.where, "pin-threads");
    workers_close(w);
    if (n < 2) TEST_SKIP("one core");
    CHECK_OK(workers_open(&w, 2, &e), &e);
    CHECK_OK(workers_pin(w, &e), &e);
    while (n_cores[1] == 0) workers_for(w, 2, 1, note_core, n_cores);
    assert_int_equal(n_cores[1], 1);
    assert_true(n_cores[0] >= n);
    workers_close(w);
}

TEST(a_run_allocates_nothing)
{
    err e;
    workers *w = NULL;
    CHECK_OK(workers_open(&w, 2, &e), &e);
    int64_t calls = mem_count().n_calls, sums[16] = {0};
    mem_guard_begin("workers test");
    workers_for(w, 1000, 1, add_up, sums);
    mem_guard_end();
    assert_int_equal(mem_count().n_calls, calls);
    workers_close(w);
}

TEST(zero_takes_the_cores_of_the_process_and_bad_counts_are_refused)
{
    err e;
    workers *w = NULL;
    CHECK_OK(workers_open(&w, 0, &e), &e);
    assert_int_equal(workers_count(w), thread_n_cores());
    workers_close(w);
    w = NULL;
    CHECK_STATUS(workers_open(&w, -1, &e), ERR_INVALID);
    CHECK_STATUS(workers_open(&w, 1 << 20, &e), ERR_INVALID);
    assert_null(w);
    workers_close(NULL);
}

TEST(open_survives_every_failed_allocation)
{
    int64_t live = mem_count().n_live;
    int n = 1;
    for (;; n++) {
        err e;
        workers *w = NULL;
        mem_fail_at(n);
        status s = workers_open(&w, 3, &e);
        mem_fail_at(0);
        workers_close(w);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        assert_int_equal(s, ERR_NOMEM);
        assert_null(w);
    }
    assert_true(n > 1);
}
