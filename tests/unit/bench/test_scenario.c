/* tags: slow */
#include "bench/scenario_priv.h"

#include "support/test.h"

static const scenario_request mini = {
    .engine = {.model = "models/mini-dense", .backend = "cpu", .n_threads = 1, .max_context = 2048},
    .scale = 0.1,
    .samples = 1};

static int n_told;
static void on_metric(const scenario_metric *m)
{
    assert_true(m->n > 0 && m->samples[0] > 0 && m->output != 0);
    n_told++;
}

static const scenario_metric *find(const scenario_record *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->metrics[i].name, name) == 0) return &r->metrics[i];
    fail_msg("no metric %s", name);
    return NULL;
}

TEST(scenarios_measure_what_they_say_and_repeat_their_outputs)
{
    static scenario_record a, b;
    scenario_request r = mini;
    err e = {0};
    r.names = "partial,exact,beside";
    n_told = 0;
    CHECK_OK(scenario_run(&r, &a, on_metric, &e), &e);
    assert_int_equal(a.n, 7);
    assert_int_equal(n_told, a.n);
    CHECK_OK(scenario_run(&r, &b, NULL, &e), &e);
    for (int i = 0; i < a.n; i++) {
        assert_string_equal(a.metrics[i].name, b.metrics[i].name);
        assert_true(a.metrics[i].output == b.metrics[i].output);
    }
    assert_true(find(&a, "exact, cold, first token ms")->output ==
                find(&a, "exact, again, first token ms")->output);
    assert_true(find(&a, "partial, cold, first token ms")->output ==
                find(&a, "partial, hit, first token ms")->output);
}

TEST(what_is_no_scenario_is_named)
{
    static scenario_record a;
    scenario_request r = mini;
    err e = {0};
    r.names = "exact,nonsense";
    assert_int_equal(scenario_run(&r, &a, NULL, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "nonsense"));
}

TEST(a_median_is_the_middle_one_or_between_two)
{
    double s[] = {5, 1, 3, 100};
    assert_true(scenario_median(s, 3) == 3);
    assert_true(scenario_median(s, 4) == 4);
    assert_true(scenario_median(s, 1) == 5);
    assert_true(scenario_median(s, 0) == 0);
}
