/* test: TEST(name) registers itself with cmocka; one binary a file.
 *
 * Names are sentences: TEST(take_refuses_and_takes_nothing_when_short). Use cmocka's assert_*;
 * skip with a reason by TEST_SKIP. */
#ifndef RIPTIDE_TESTS_TEST_H
#define RIPTIDE_TESTS_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

typedef struct test_case {
    const char *name;
    void (*run)(void **state);
    struct test_case *next;
} test_case;
void test_register(test_case *t);

#define TEST(id)                                                      \
    static void test_##id(void **state);                              \
    static test_case test_case_##id = {#id, test_##id, NULL};         \
    __attribute__((constructor)) static void test_register_##id(void) \
    {                                                                 \
        test_register(&test_case_##id);                               \
    }                                                                 \
    static void test_##id(void **state __attribute__((unused)))

#define TEST_SKIP(...)                       \
    do {                                     \
        print_message("SKIP: " __VA_ARGS__); \
        print_message("\n");                 \
        skip();                              \
    } while (0)

/* Fails with the error's words when a call did not succeed. */
#define CHECK_OK(expr, e)                                                                        \
    do {                                                                                         \
        status check_status_ = (expr);                                                           \
        if (check_status_ != ERR_OK)                                                             \
            fail_msg("%s: %s: %s: %s", #expr, status_name(check_status_), (e)->where, (e)->msg); \
    } while (0)
#define CHECK_STATUS(expr, want) assert_string_equal(status_name(expr), status_name(want))

/* Optional: what the program is when its first argument is no name of a test but `serve`; argv[0]
 * is that word. For tests of what a process does to itself. */
__attribute__((weak)) int test_as_program(int argc, char **argv);

/* The folder ../shared beside the checkout (its data is only there at the developers'), or NULL. */
const char *test_shared(void);
/* The root of the checkout. */
const char *test_root(void);
/* A fresh seed, printed; RIPTIDE_TEST_SEED repeats one. */
uint64_t test_seed(void);
/* A number from a splitmix64 stream; uniform in [0,1); standard normal. */
uint64_t test_random(uint64_t *state);
double test_uniform(uint64_t *state);
double test_normal(uint64_t *state);

#endif
