/* tags: threads */
#include "serve_fixture.h"

static serve_fixture fixture, *const f = &fixture;

/* As the engine does when its device has failed. */
static void break_device(server *s)
{
    err failure = {0};
    err_set(&failure, ERR_DEVICE, "attn", -1, "fault");
    server_take_failure(s, &failure);
}

TEST(health_and_readiness_tell_the_truth)
{
    serve_open(f, serve_options(), 1, 4, 512);
    assert_int_equal(serve_ask(f, "GET", "/health", NULL), 200);
    serve_expect_text(serve_json(f), "status", "ok");
    assert_int_equal(serve_ask(f, "GET", "/ready", NULL), 200);
    serve_expect_text(serve_json(f), "status", "ready");
    f->on_poke = break_device;
    uv_async_send(&f->poke);
    CLIENT_WAIT_FOR(serve_ask(f, "GET", "/health", NULL) == 503);
    serve_expect_text(serve_json(f), "status", "failed");
    assert_int_equal(serve_ask(f, "GET", "/ready", NULL), 503);
    serve_expect_text(serve_json(f), "status", "unavailable");
    assert_true(str_find(buf_str(&f->in), STR("Retry-After: 1\r\n"), 0) > 0);
    serve_close(f);
}
