#include "base/mem.h"
#include "support/test.h"
#include "token/token_ids.h"

TEST(ids_are_kept_in_order_while_the_list_grows)
{
    token_ids ids = {0};
    for (int i = 0; i < 10000; i++) assert_true(token_ids_push(&ids, i * 3));
    assert_int_equal(ids.n, 10000);
    for (int i = 0; i < 10000; i++) assert_int_equal(ids.ptr[i], i * 3);
    token_ids_fini(&ids);
    token_ids_fini(&ids);
    assert_null(ids.ptr);
}

TEST(a_failed_growth_changes_nothing)
{
    token_ids ids = {0};
    assert_true(token_ids_push(&ids, 7));
    int cap = ids.cap;
    mem_fail_at(1);
    assert_false(token_ids_reserve(&ids, cap + 1));
    mem_fail_at(0);
    assert_int_equal(ids.cap, cap);
    assert_int_equal(ids.ptr[0], 7);
    assert_false(token_ids_reserve(&ids, (int64_t)1 << 40));
    token_ids_fini(&ids);
}
