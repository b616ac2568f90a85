/* tags: threads */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/test.h"

static int is_zero(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0) return 0;
    return 1;
}

TEST(new_gives_zeroed_aligned_bytes)
{
    for (size_t n = 0; n < 3000; n += 37) {
        unsigned char *p = mem_new(n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_true(is_zero(p, n));
        memset(p, 0xaa, n);
        mem_free(p);
    }
}

TEST(new_aligned_gives_zeroed_bytes_also_from_used_memory)
{
    const size_t sizes[] = {0, 1, 100, 5000, (1 << 20) - 1, 1 << 20, (3 << 20) + 12345};
    for (size_t align = 16; align <= 1 << 16; align *= 4) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (int again = 0; again < 2; again++) {
                unsigned char *p = mem_new_aligned(sizes[i], align);
                assert_non_null(p);
                assert_int_equal((uintptr_t)p % align, 0);
                assert_true(is_zero(p, sizes[i]));
                memset(p, 0xaa, sizes[i]);
                mem_free(p);
            }
        }
    }
}

TEST(impossible_sizes_give_null)
{
    int64_t live = mem_count().n_live;
    /* Volatile, so that the compiler does not see (and refuse) the absurd size. */
    volatile size_t huge = SIZE_MAX / 2 + 1;
    assert_null(mem_new_array(huge, 2));
    assert_null(mem_new_array(huge, 3));
    assert_null(mem_new_aligned(huge, 64));
    assert_int_equal(mem_count().n_live, live);
}

TEST(resize_keeps_content_and_counts_one_block)
{
    int64_t live = mem_count().n_live;
    char *p = mem_resize(NULL, 4);
    assert_int_equal(mem_count().n_live, live + 1);
    memcpy(p, "abc", 4);
    p = mem_resize(p, 100000);
    assert_string_equal(p, "abc");
    assert_int_equal(mem_count().n_live, live + 1);
    mem_free(p);
    assert_int_equal(mem_count().n_live, live);
}

TEST(free_of_null_is_harmless)
{
    int64_t live = mem_count().n_live;
    mem_free(NULL);
    assert_int_equal(mem_count().n_live, live);
}

TEST(counters_follow_calls_and_live_blocks)
{
    mem_counters before = mem_count();
    void *a = mem_new(1), *b = mem_new_aligned(10, 64), *c = mem_new_array(3, 3);
    mem_counters after = mem_count();
    assert_int_equal(after.n_calls, before.n_calls + 3);
    assert_int_equal(after.n_live, before.n_live + 3);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    assert_int_equal(mem_count().n_live, before.n_live);
    assert_int_equal(mem_count().n_calls, before.n_calls + 3);
}

TEST(fail_at_fails_from_the_nth_on_until_turned_off)
{
    mem_counters before = mem_count();
    mem_fail_at(3);
    void *a = mem_new(1), *b = mem_new_aligned(1, 32);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(mem_new(1));
    assert_null(mem_new_array(1, 1));
    assert_null(mem_new_aligned(1, 16));
    assert_null(mem_resize(a, 10));
    assert_int_equal(mem_count().n_calls, before.n_calls + 2);
    mem_fail_at(1);
    assert_null(mem_new(1));
    mem_fail_at(0);
    void *c = mem_new(1);
    assert_non_null(c);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    assert_int_equal(mem_count().n_live, before.n_live);
}

static void *allocate_a_lot(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) mem_free(mem_new(8));
    return NULL;
}

TEST(counters_are_exact_over_threads)
{
    mem_counters before = mem_count();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_a_lot, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(mem_count().n_calls, before.n_calls + 8000);
    assert_int_equal(mem_count().n_live, before.n_live);
}

/* Runs `body` in a child and returns what it wrote on standard error; *aborted tells its end. */
static void run_child(void (*body)(void), char *text, size_t cap, int *aborted)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t r;
    while (n < cap - 1 && (r = read(ends[0], text + n, cap - 1 - n)) > 0) n += (size_t)r;
    text[n] = '\0';
    close(ends[0]);
    int how = 0;
    waitpid(pid, &how, 0);
    *aborted = WIFSIGNALED(how) ? WTERMSIG(how) == SIGABRT : WEXITSTATUS(how) != 0;
}

static void allocate_in_phase(void)
{
    mem_guard_begin("decode step");
    mem_free(mem_new(1));
}

static void resize_in_phase(void)
{
    mem_guard_begin("decode step");
    mem_free(mem_resize(NULL, 1));
}

static void check_in_phase(void)
{
    mem_guard_check();
    mem_guard_begin("decode step");
    mem_guard_check();
}

static void allocate_after_phase(void)
{
    void *p = mem_new(1);
    mem_guard_begin("decode step");
    mem_free(p);
    mem_guard_end();
    mem_free(mem_new(1));
}

static void *allocate_once(void *arg)
{
    mem_free(mem_new(1));
    return arg;
}

static void allocate_on_another_thread(void)
{
    pthread_t t;
    mem_guard_begin("decode step");
    if (pthread_create(&t, NULL, allocate_once, NULL) == 0) pthread_join(t, NULL);
}

TEST(guard_stops_the_program_and_names_the_phase)
{
    char text[4000];
    int aborted;
    run_child(allocate_in_phase, text, sizeof text, &aborted);
    assert_true(aborted);
    assert_non_null(strstr(text, "\"decode step\""));
    run_child(resize_in_phase, text, sizeof text, &aborted);
    assert_true(aborted);
    run_child(check_in_phase, text, sizeof text, &aborted);
    assert_true(aborted);
    assert_non_null(strstr(text, "\"decode step\""));
}

TEST(guard_allows_frees_and_ends)
{
    char text[4000];
    int aborted;
    run_child(allocate_after_phase, text, sizeof text, &aborted);
    assert_false(aborted);
}

TEST(guard_binds_only_its_own_thread)
{
    char text[4000];
    int aborted;
    run_child(allocate_on_another_thread, text, sizeof text, &aborted);
    assert_false(aborted);
}
