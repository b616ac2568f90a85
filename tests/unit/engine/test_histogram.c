#include "engine/histogram.h"

#include <math.h>

#include "support/test.h"

TEST(a_time_falls_into_the_class_whose_bound_it_does_not_exceed)
{
    histogram h = {0};
    histogram_add(&h, 0.5);
    histogram_add(&h, 0.50001);
    histogram_add(&h, 60000);
    histogram_add(&h, 1e9);
    assert_int_equal(h.n, 4);
    assert_int_equal(h.count[0], 1);
    assert_int_equal(h.count[1], 1);
    assert_int_equal(h.count[HISTOGRAM_CLASSES - 2], 1);
    assert_int_equal(h.count[HISTOGRAM_CLASSES - 1], 1);
}

TEST(what_is_no_time_counts_as_none)
{
    histogram h = {0};
    histogram_add(&h, (double)NAN);
    histogram_add(&h, -3);
    assert_int_equal(h.count[0], 2);
    assert_true(h.sum_ms == 0);
}

TEST(a_quantile_is_the_bound_of_its_class)
{
    histogram h = {0};
    assert_true(histogram_quantile(&h, 0.5) == 0);
    for (int i = 0; i < 90; i++) histogram_add(&h, 3);
    for (int i = 0; i < 9; i++) histogram_add(&h, 150);
    histogram_add(&h, 1e7);
    assert_true(histogram_quantile(&h, 0.5) == 5);
    assert_true(histogram_quantile(&h, 0.9) == 5);
    assert_true(histogram_quantile(&h, 0.95) == 200);
    assert_true(isinf(histogram_quantile(&h, 1)));
}

TEST(bounds_ascend)
{
    for (int i = 1; i < HISTOGRAM_CLASSES - 1; i++)
        assert_true(histogram_bounds[i] > histogram_bounds[i - 1]);
}
