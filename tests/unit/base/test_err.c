#include "support/test.h"

TEST(set_fills_every_field_and_returns_the_code)
{
    err e;
    assert_int_equal(err_set(&e, ERR_FORMAT, "a.json", 17, "want %d, got %s", 3, "x"), ERR_FORMAT);
    assert_int_equal(e.code, ERR_FORMAT);
    assert_string_equal(e.where, "a.json");
    assert_int_equal(e.pos, 17);
    assert_string_equal(e.msg, "want 3, got x");
}

TEST(set_without_detail_object_only_returns_the_code)
{
    assert_int_equal(err_set(NULL, ERR_IO, "a", 0, "x"), ERR_IO);
}

TEST(set_truncates_and_terminates)
{
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    err e;
    err_set(&e, ERR_LIMIT, text, -1, "%s", text);
    assert_int_equal(strlen(e.where), sizeof e.where - 1);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
}

TEST(set_may_use_its_own_old_text)
{
    err e;
    err_set(&e, ERR_IO, "inner", 5, "disk on fire");
    err_set(&e, ERR_IO, e.where, e.pos, "while loading: %s", e.msg);
    assert_string_equal(e.where, "inner");
    assert_string_equal(e.msg, "while loading: disk on fire");
}

TEST(set_accepts_no_place)
{
    err e;
    err_set(&e, ERR_IO, NULL, -1, "x");
    assert_string_equal(e.where, "");
}

TEST(every_status_has_a_name_and_a_sentence)
{
#define CHECK_ROW(name, value, text)                     \
    assert_int_equal(ERR_##name, value);                 \
    assert_string_equal(status_name(ERR_##name), #name); \
    assert_string_equal(status_text(ERR_##name), text);
    STATUS_MAP(CHECK_ROW)
#undef CHECK_ROW
    assert_int_equal(ERR_OK, 0);
    assert_string_equal(status_name((status)77), "UNKNOWN");
    assert_non_null(status_text((status)77));
}

TEST(format_shows_place_position_and_message)
{
    err e;
    char out[400];
    err_set(&e, ERR_FORMAT, "a.json", 17, "bad");
    err_format(&e, out, sizeof out);
    assert_string_equal(out, "a.json:17: bad");
    err_set(&e, ERR_FORMAT, "a.json", -1, "bad");
    err_format(&e, out, sizeof out);
    assert_string_equal(out, "a.json: bad");
    err_set(&e, ERR_FORMAT, NULL, -1, "bad");
    err_format(&e, out, sizeof out);
    assert_string_equal(out, "bad");
}

TEST(format_truncates_and_terminates)
{
    err e;
    char out[8] = "zzzzzzz";
    err_set(&e, ERR_FORMAT, "a.json", 17, "bad");
    err_format(&e, out, 5);
    assert_string_equal(out, "a.js");
    assert_int_equal(out[5], 'z');
    err_format(&e, out, 0);
    assert_string_equal(out, "a.js");
}

static status three(int which, int *n_reached)
{
    for (int i = 0; i < 3; i++) {
        TRY(i == which ? ERR_CANCELED : ERR_OK);
        ++*n_reached;
    }
    return ERR_OK;
}

TEST(try_returns_the_first_failure)
{
    int n = 0;
    assert_int_equal(three(1, &n), ERR_CANCELED);
    assert_int_equal(n, 1);
    n = 0;
    assert_int_equal(three(9, &n), ERR_OK);
    assert_int_equal(n, 3);
}
