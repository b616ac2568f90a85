#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/json_priv.h"
#include "base/mem.h"
#include "support/test.h"

static status parse(str text, err *e)
{
    arena a;
    const json *v = NULL;
    arena_init(&a, 0);
    status s = json_parse(&a, text, "test", 128, JSON_UNIQUE_KEYS, &v, e);
    assert_true((s == ERR_OK) == (v != NULL));
    arena_fini(&a);
    return s;
}

static void check_repeated(const char *marked)
{
    char text[400];
    size_t at = strcspn(marked, "^");
    memcpy(text, marked, at);
    strcpy(text + at, marked + at + 1);
    err e;
    CHECK_STATUS(parse(str_from(text), &e), ERR_FORMAT);
    if (e.pos != (long)at) fail_msg("%s: at %ld", marked, e.pos);
    assert_non_null(strstr(e.msg, "repeated key"));
}

TEST(the_second_key_is_reported_at_its_quote)
{
    check_repeated("{\"a\":1,^\"a\":2}");
    check_repeated("{\"a\":1, ^\"a\"  \n: [2]}");
    check_repeated("{\"a\":1,^\"\\u0061\":2}");
    check_repeated("{\"\":1,^\"\":2}");
    check_repeated("[{\"x\":{\"a\":1,\"b\":2,^\"a\":2}}]");
    check_repeated("{\"q\\\"\":1,^\"q\\\"\":2}");
    check_repeated("{\"q\\\\\":1,^\"q\\\\\":2}");
    check_repeated("{\"\\\\\\\"\":1,^\"\\\\\\\"\":2}");
}

TEST(the_first_of_many_repetitions_is_reported)
{
    check_repeated("{\"a\":1,\"b\":1,^\"b\":1,\"a\":2}");
    check_repeated("{\"k0\":0,\"k1\":0,\"k2\":0,\"k3\":0,\"k4\":0,\"k5\":0,\"k6\":0,\"k7\":0,"
                   "\"k8\":0,\"k9\":0,^\"k5\":0,\"k1\":0,\"k0\":0,\"k5\":1}");
}

TEST(the_same_key_in_different_objects_is_fine)
{
    err e;
    CHECK_OK(parse(STR("[{\"a\":{\"a\":1}},{\"a\":2}]"), &e), &e);
    CHECK_OK(parse(STR("{\"a\":1,\"A\":2,\"a \":3,\"\":4}"), &e), &e);
}

/* Every size around the switch from comparing all pairs to sorting, every pair repeated. */
TEST(every_pair_of_every_small_object_is_found)
{
    for (int n = 2; n < 24; n++)
        for (int i = 0; i < n; i++)
            for (int k = i + 1; k < n; k++) {
                json members[24];
                char keys[24][4];
                memset(members, 0, sizeof members);
                for (int m = 0; m < n; m++) {
                    int len = snprintf(keys[m], sizeof keys[m], "%d", m == k ? i : m);
                    members[m].key = (str){keys[m], (size_t)len};
                    members[m].pos = m;
                    members[m].next = m + 1 < n ? &members[m + 1] : NULL;
                }
                json object = {.kind = JSON_OBJECT, .n = n, .first = members};
                const json *found = NULL;
                assert_true(json_find_repeated(&object, &found));
                assert_ptr_equal(found, &members[k]);
            }
}

TEST(a_hundred_thousand_keys_take_no_quadratic_time)
{
    enum { N = 100000 };
    char *text = malloc(N * 24 + 100);
    size_t n = 0;
    text[n++] = '{';
    for (int i = 0; i < N; i++) n += (size_t)sprintf(text + n, "\"some-key-%d\":0,", i);
    n += (size_t)sprintf(text + n, "\"last\":0}");
    err e;
    int64_t start = clock_ns();
    CHECK_OK(parse((str){text, n}, &e), &e);
    assert_true(clock_ms_since(start) < 3000); /* all pairs would take minutes */
    memcpy(text + n - 9, "\"l\":0}   ", 9);
    CHECK_OK(parse((str){text, n}, &e), &e);
    n = n - 9 + (size_t)sprintf(text + n - 9, "\"some-key-7\":0}");
    CHECK_STATUS(parse((str){text, n}, &e), ERR_FORMAT);
    assert_int_equal(e.pos, n - 15);
    free(text);
}

TEST(no_memory_to_tell_is_nomem)
{
    err e;
    int64_t live = mem_count().n_live;
    str text = STR(
        "{\"0\":0,\"1\":0,\"2\":0,\"3\":0,\"4\":0,\"5\":0,\"6\":0,\"7\":0,\"8\":0,\"9\":0}");
    mem_fail_at(2);
    CHECK_STATUS(parse(text, &e), ERR_NOMEM);
    mem_fail_at(0);
    CHECK_OK(parse(text, &e), &e);
    assert_int_equal(mem_count().n_live, live);
}
