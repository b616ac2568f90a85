#include "base/machine.h"

#include "support/test.h"

TEST(the_memory_of_this_machine_is_known_and_plausible)
{
    int64_t n = machine_memory();
    assert_true(n > 64 << 20);
    assert_true(n < (int64_t)1 << 50);
    assert_int_equal(n, machine_memory());
}
