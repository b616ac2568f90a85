#include <time.h>

#include "base/clock.h"
#include "support/test.h"

TEST(monotonic_time_never_goes_back)
{
    int64_t last = clock_ns();
    for (int i = 0; i < 100000; i++) {
        int64_t now = clock_ns();
        assert_true(now >= last);
        last = now;
    }
}

TEST(a_sleep_is_seen_in_the_right_unit)
{
    struct timespec t = {0, 20000000};
    int64_t start = clock_ns();
    nanosleep(&t, NULL);
    double ms = clock_ms_since(start);
    assert_true(ms >= 20 && ms < 5000);
    assert_true(clock_ns() - start >= 20000000);
}

TEST(wall_clock_is_after_this_was_written)
{
    assert_true(clock_unix_s() > 1700000000);
    assert_in_range(clock_unix_s() - (int64_t)time(NULL) + 2, 0, 4);
}
