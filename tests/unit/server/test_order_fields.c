#include "chat_fixture.h"

static generation_request r;
static err last;

static status read_order(const char *text)
{
    arena mem;
    arena_init(&mem, 0);
    r = (generation_request){0};
    last = (err){0};
    status s = order_fields_parse(chat_parse(&mem, text), &r, &last);
    arena_fini(&mem);
    return s;
}

TEST(a_priority_has_a_name)
{
    CHECK_OK(read_order("{}"), &last);
    assert_true(r.priority == 0 && r.timeout_ms == 0);
    CHECK_OK(read_order("{'priority':null,'timeout':null}"), &last);
    assert_true(r.priority == 0 && r.timeout_ms == 0);
    CHECK_OK(read_order("{'priority':'foreground'}"), &last);
    int high = r.priority;
    CHECK_OK(read_order("{'priority':'normal'}"), &last);
    int middle = r.priority;
    CHECK_OK(read_order("{'priority':'background'}"), &last);
    assert_true(high > middle && middle > r.priority);
}

TEST(a_timeout_is_in_seconds_and_never_none)
{
    CHECK_OK(read_order("{'timeout':1.5}"), &last);
    assert_int_equal(r.timeout_ms, 1500);
    CHECK_OK(read_order("{'timeout':1e-9}"), &last);
    assert_int_equal(r.timeout_ms, 1);
}

TEST(what_is_wrong_is_named)
{
    static const char *const bad[][2] = {
        {"{'priority':'urgent'}", "priority"}, {"{'priority':1}", "priority"},
        {"{'timeout':0}", "timeout"},          {"{'timeout':-1}", "timeout"},
        {"{'timeout':'5'}", "timeout"},        {"{'timeout':1e9}", "timeout"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_order(bad[i][0]), ERR_INVALID);
        assert_string_equal(last.where, bad[i][1]);
    }
}
