#include "server/access_priv.h"

#include "support/test.h"

static const access_rules loopback = {.is_loopback = true, .bind_name = {"127.0.0.1", 9}};

static status check_host(const access_rules *r, const char *host)
{
    err e = {0};
    return access_check_host(r, str_from(host), &e);
}

TEST(a_loopback_bind_takes_loopback_names_only)
{
    static const char *const good[] = {
        "localhost", "localhost:8000", "LocalHost:1", "127.0.0.1",     "127.0.0.1:8000",
        "127.9.9.9", "[::1]",          "[::1]:8000",  "app.localhost", "x.y.localhost:3"};
    static const char *const bad[] = {
        "evil.example", "evil.example:8000",  "127.0.0.1.evil.example", "localhost.evil",
        "192.168.1.7",  "[2001:db8::1]:8000", "notlocalhost",           "1",
        "0.0.0.0"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_STATUS(check_host(&loopback, good[i]), ERR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(check_host(&loopback, bad[i]), ERR_INVALID);
    CHECK_STATUS(check_host(&loopback, NULL), ERR_OK); /* HTTP/1.0 */
}

TEST(the_refusal_names_the_flag)
{
    err e = {0};
    CHECK_STATUS(access_check_host(&loopback, STR("evil.example"), &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "evil.example"));
    assert_non_null(strstr(e.msg, "--allowed-host"));
    CHECK_STATUS(access_check_origin(&loopback, STR("http://evil.example"), STR("localhost"), &e),
                 ERR_INVALID);
    assert_non_null(strstr(e.msg, "--allowed-origin"));
}

TEST(what_is_no_host_is_malformed)
{
    static const char *const bad[] = {
        "",      ":80",           "a b",         "a/b",     "user@localhost", "localhost:",
        "a:b",   "a:65536",       "[::1",        "[]",      "[::1]x",         "[localhost]",
        "a:1:2", "localhost\x01", "caf\xc3\xa9", "[::1]:-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (check_host(&loopback, bad[i]) != ERR_FORMAT) fail_msg("\"%s\"", bad[i]);
    char longest[300];
    memset(longest, 'a', sizeof longest);
    err e = {0};
    CHECK_STATUS(access_check_host(&loopback, (str){longest, 256}, &e), ERR_FORMAT);
    CHECK_STATUS(access_check_host(&loopback, (str){longest, 255}, &e), ERR_INVALID);
}

TEST(allowed_hosts_are_taken_as_they_are)
{
    str hosts[] = {STR("box.lan"), STR("10.0.0.1")};
    access_rules r = loopback;
    r.hosts = hosts;
    r.n_hosts = 2;
    CHECK_STATUS(check_host(&r, "BOX.lan:8000"), ERR_OK);
    CHECK_STATUS(check_host(&r, "10.0.0.1"), ERR_OK);
    CHECK_STATUS(check_host(&r, "x.box.lan"), ERR_INVALID);
}

TEST(another_bind_takes_addresses_its_name_and_with_a_key_all)
{
    access_rules r = {.bind_name = STR("box.lan")};
    CHECK_STATUS(check_host(&r, "box.lan:1"), ERR_OK);
    CHECK_STATUS(check_host(&r, "192.168.1.7:1"), ERR_OK);
    CHECK_STATUS(check_host(&r, "[2001:db8::1]"), ERR_OK);
    CHECK_STATUS(check_host(&r, "localhost"), ERR_OK);
    CHECK_STATUS(check_host(&r, "evil.example"), ERR_INVALID);
    r.key = STR("secret");
    CHECK_STATUS(check_host(&r, "evil.example"), ERR_OK);
    CHECK_STATUS(check_host(&r, "a b"), ERR_FORMAT);
}

static status check_origin(const access_rules *r, const char *origin, const char *host)
{
    return access_check_origin(r, str_from(origin), str_from(host), NULL);
}

TEST(an_origin_must_be_our_own_or_listed)
{
    access_rules r = loopback;
    CHECK_STATUS(check_origin(&r, NULL, "localhost:8000"), ERR_OK);
    CHECK_STATUS(check_origin(&r, "http://localhost:8000", "localhost:8000"), ERR_OK);
    CHECK_STATUS(check_origin(&r, "https://LOCALHOST:8000", "localhost:8000"), ERR_OK);
    CHECK_STATUS(check_origin(&r, "http://localhost:3000", "localhost:8000"), ERR_INVALID);
    CHECK_STATUS(check_origin(&r, "http://evil.example", "localhost:8000"), ERR_INVALID);
    CHECK_STATUS(check_origin(&r, "null", "localhost:8000"), ERR_INVALID);
    CHECK_STATUS(check_origin(&r, "", "localhost:8000"), ERR_INVALID);
    CHECK_STATUS(check_origin(&r, "http://localhost:8000", NULL), ERR_INVALID);
    CHECK_STATUS(check_origin(&r, "ftp://localhost:8000", "localhost:8000"), ERR_INVALID);
    str origins[] = {STR("http://localhost:3000"), STR("null")};
    r.origins = origins;
    r.n_origins = 2;
    CHECK_STATUS(check_origin(&r, "http://localhost:3000", "localhost:8000"), ERR_OK);
    CHECK_STATUS(check_origin(&r, "null", "localhost:8000"), ERR_OK);
    CHECK_STATUS(check_origin(&r, "http://localhost:3001", "localhost:8000"), ERR_INVALID);
    origins[0] = STR("*");
    CHECK_STATUS(check_origin(&r, "http://evil.example", "localhost:8000"), ERR_OK);
}

static bool has_key(const access_rules *r, const char *authorization, const char *x_api_key)
{
    return access_has_key(r, str_from(authorization), str_from(x_api_key));
}

TEST(the_key_is_wanted_in_either_field_and_right_in_both)
{
    access_rules r = {.key = STR("secret")};
    assert_true(has_key(&r, "Bearer secret", NULL));
    assert_true(has_key(&r, "bearer  secret", NULL));
    assert_true(has_key(&r, NULL, "secret"));
    assert_true(has_key(&r, "Bearer secret", "secret"));
    assert_false(has_key(&r, NULL, NULL));
    assert_false(has_key(&r, "Bearer secret", "other"));
    assert_false(has_key(&r, "Bearer other", "secret"));
    static const char *const wrong[] = {
        "Bearer secre", "Bearer secrets",      "Bearer ",      "Bearer", "secret", "",
        "Basic secret", "Bearer secretsecret", "Bearer Secret"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(has_key(&r, wrong[i], NULL));
    assert_false(has_key(&r, NULL, ""));
    assert_false(has_key(&r, NULL, "secretsecret"));
}

TEST(without_a_key_everybody_has_it)
{
    access_rules r = {0};
    assert_true(has_key(&r, NULL, NULL));
    assert_true(has_key(&r, "Bearer anything", NULL));
}
