#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support/test.h"

static test_case *first;
static int n_tests;

void test_register(test_case *t)
{
    test_case **at = &first;
    while (*at) at = &(*at)->next;
    *at = t;
    n_tests++;
}

/* What the linker puts in front of every pthread_create of ours: the runner is told of threads. */
static bool has_threads;
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *ctx);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *ctx);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *ctx)
{
    __atomic_store_n(&has_threads, true, __ATOMIC_RELAXED);
    return __real_pthread_create(t, a, run, ctx);
}

static int is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

const char *test_root(void)
{
    static char root[4096];
    if (root[0]) return root;
    const char *given = getenv("RIPTIDE_ROOT");
    if (given) {
        snprintf(root, sizeof root, "%s", given);
    } else if (getcwd(root, sizeof root) == NULL) {
        abort();
    }
    return root;
}

const char *test_shared(void)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s/../shared", test_root());
    return is_dir(path) ? path : NULL;
}

uint64_t test_seed(void)
{
    static uint64_t seed;
    if (seed == 0) {
        const char *given = getenv("RIPTIDE_TEST_SEED");
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        seed = given ? strtoull(given, NULL, 0)
                     : (uint64_t)t.tv_sec * 1000003u ^ (uint64_t)t.tv_nsec;
        print_message("RIPTIDE_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

uint64_t test_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

double test_uniform(uint64_t *state)
{
    return (double)(test_random(state) >> 11) * 0x1p-53;
}

double test_normal(uint64_t *state)
{
    double u = test_uniform(state), v = test_uniform(state);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

/* Usage: test_x [substring of a name] */
int main(int argc, char **argv)
{
    if (argc > 1 && test_as_program && strcmp(argv[1], "serve") == 0)
        return test_as_program(argc - 1, argv + 1);
    /* The runner reads a pipe: a crash must not take the lines before it along. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct CMUnitTest *tests = calloc((size_t)n_tests + 1, sizeof *tests);
    int n = 0;
    for (test_case *t = first; t; t = t->next) {
        if (argc > 1 && strstr(t->name, argv[1]) == NULL) continue;
        tests[n].name = t->name;
        tests[n++].test_func = t->run;
    }
    int failed = n ? _cmocka_run_group_tests(argv[0], tests, (size_t)n, NULL, NULL) : 0;
    free(tests);
    if (__atomic_load_n(&has_threads, __ATOMIC_RELAXED)) printf("it started threads\n");
    return failed ? 1 : 0;
}
