#include "bench/abba_priv.h"

#include "support/test.h"

static abba_metric judge(double a1, double b1, double b2, double a2)
{
    double r[ABBA_ROUNDS] = {a1, b1, b2, a2};
    return abba_judge("x", r);
}

TEST(a_verdict_follows_spread_and_allowance)
{
    assert_int_equal(judge(100, 100, 100, 100).verdict, ABBA_PASS);
    assert_int_equal(judge(100, 101.9, 101.9, 100).verdict, ABBA_PASS);
    assert_int_equal(judge(100, 102.5, 102.5, 100).verdict, ABBA_FAIL);
    assert_int_equal(judge(100, 105, 105, 100).verdict, ABBA_FAIL);
    assert_int_equal(judge(100, 50, 50, 100).verdict, ABBA_PASS);
    /* Rounds of one side 2 % apart allow 4 %. */
    assert_int_equal(judge(100, 104, 104, 102).verdict, ABBA_PASS);
    assert_int_equal(judge(99, 105.5, 105.5, 101).verdict, ABBA_FAIL);
    /* One round 20 % slower: nothing is known, on either side. */
    assert_int_equal(judge(120, 100, 100, 100).verdict, ABBA_INCONCLUSIVE);
    assert_int_equal(judge(100, 100, 120, 100).verdict, ABBA_INCONCLUSIVE);
    assert_int_equal(judge(0, 0, 0, 0).verdict, ABBA_INCONCLUSIVE);
}

static scenario_record record(double ms, uint64_t output)
{
    return (scenario_record){.metrics = {{"m ms", {ms, ms + 50, ms}, 3, output}},
                             .n = 1,
                             .drafted = 100,
                             .accepted = 60};
}

static abba_result compare(scenario_record r[ABBA_ROUNDS], bool expects_change)
{
    static abba_result out;
    err e = {0};
    CHECK_OK(abba_compare(r, expects_change, &out, &e), &e);
    return out;
}

TEST(outputs_must_be_equal_unless_a_change_is_expected)
{
    scenario_record r[] = {record(10, 7), record(10, 7), record(10, 7), record(10, 7)};
    assert_true(compare(r, false).passed);
    r[2].metrics[0].output = 8;
    assert_false(compare(r, false).passed);
    assert_true(compare(r, true).passed);
    r[1].accepted = r[2].accepted = 57; /* 0.03 less */
    assert_false(compare(r, true).passed);
    r[1].accepted = r[2].accepted = 59;
    assert_true(compare(r, true).passed);
    r[3].n_failures = 1;
    assert_false(compare(r, true).passed);
}

TEST(rounds_that_measured_other_things_are_refused)
{
    static abba_result out;
    err e = {0};
    scenario_record r[] = {record(10, 7), record(10, 7), record(10, 7), record(10, 7)};
    r[1].metrics[0].name[0] = 'n';
    assert_int_equal(abba_compare(r, false, &out, &e), ERR_INVALID);
    r[1] = record(10, 7);
    r[2].n = 0;
    assert_int_equal(abba_compare(r, false, &out, &e), ERR_INVALID);
}

static status parse(const char *text, scenario_record *out)
{
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = abba_parse(&a, str_from(text), out, &e);
    arena_fini(&a);
    return s;
}

TEST(a_record_is_read_and_what_is_none_is_refused)
{
    static scenario_record r;
    assert_int_equal(parse("{\"metrics\":[{\"name\":\"a ms\",\"samples\":[1.5,2],\"output\":"
                           "\"00ff\"}],\"failures\":[\"x\"],\"drafted\":7,\"accepted\":3}",
                           &r),
                     ERR_OK);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.metrics[0].n, 2);
    assert_true(r.metrics[0].samples[1] == 2 && r.metrics[0].output == 255);
    assert_int_equal(r.drafted, 7);
    assert_int_equal(r.n_failures, 1);
    static const char *const bad[] = {
        "",
        "7",
        "{}",
        "{\"metrics\":[],\"drafted\":0,\"accepted\":0}",
        "{\"metrics\":[7],\"drafted\":0,\"accepted\":0}",
        "{\"metrics\":[{\"name\":\"a\",\"samples\":[],\"output\":\"0\"}],\"drafted\":0,"
        "\"accepted\":0}",
        "{\"metrics\":[{\"name\":\"a\",\"samples\":[\"x\"],\"output\":\"0\"}],\"drafted\":0,"
        "\"accepted\":0}",
        "{\"metrics\":[{\"name\":\"a\",\"samples\":[1],\"output\":\"zz\"}],\"drafted\":0,"
        "\"accepted\":0}",
        "{\"metrics\":[{\"name\":\"a\",\"samples\":[1],\"output\":\"0\"}]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parse(bad[i], &r) == ERR_OK) fail_msg("taken: %s", bad[i]);
}

TEST(a_round_is_what_a_command_prints)
{
    static scenario_record r;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    CHECK_OK(abba_round(&a,
                        "echo '{\"metrics\":[{\"name\":\"a\",\"samples\":[4],\"output\":\"1\"}],"
                        "\"drafted\":0,\"accepted\":0}'; exit 1",
                        &r, &e),
             &e);
    assert_true(r.metrics[0].samples[0] == 4);
    assert_int_equal(abba_round(&a, "exit 2", &r, &e), ERR_IO);
    assert_int_equal(abba_round(&a, "true", &r, &e), ERR_IO);
    assert_int_equal(abba_round(&a, "echo no", &r, &e), ERR_FORMAT);
    arena_fini(&a);
}
