/* tags: threads */
/* Redirects and the heads of answers. */
#include "hub/http_fetch.h"
#include "hub_server.h"

typedef struct {
    hub_server server;
    http_fetch *h;
    char url[128];
    buf body;
    int n_heads;
} fixture;

static status take(void *ctx, const uint8_t *bytes, size_t n, err *e)
{
    fixture *x = ctx;
    (void)e;
    buf_put(&x->body, bytes, n);
    return ERR_OK;
}

static status count_head(void *ctx, const http_head *h, err *e)
{
    fixture *x = ctx;
    (void)h;
    (void)e;
    x->n_heads++;
    return ERR_OK;
}

static void open_fixture(fixture *x)
{
    err e = {0};
    memset(x, 0, sizeof *x);
    hub_server_open(&x->server);
    buf_init(&x->body);
    CHECK_OK(http_fetch_open(&x->h, &e), &e);
    snprintf(x->url, sizeof x->url, "http://127.0.0.1:%d/o/r/resolve/" HUB_COMMIT "/f",
             x->server.port);
}

static void close_fixture(fixture *x)
{
    http_fetch_close(x->h);
    buf_fini(&x->body);
    hub_server_close(&x->server);
}

static status get(fixture *x, int64_t from, int64_t to, http_head *head, err *e)
{
    bool is_passing;
    buf_clear(&x->body);
    x->n_heads = 0;
    http_request q = {.url = x->url,
                      .token = "t",
                      .from = from,
                      .to = to,
                      .timeout_ms = 20000,
                      .on_head = count_head,
                      .on_bytes = take,
                      .ctx = x};
    return http_fetch_get(x->h, &q, head, &is_passing, e);
}

TEST(the_first_answer_tells_the_digest_and_the_last_one_the_range)
{
    fixture x;
    http_head head;
    err e = {0};
    open_fixture(&x);
    hub_server_put(&x.server, "f", STR("0123456789"), true);
    CHECK_OK(get(&x, 2, 5, &head, &e), &e);
    assert_true(str_is(buf_str(&x.body), "234"));
    assert_true(head.code == 206 && head.range_from == 2 && head.range_total == 10);
    assert_true(head.n_body == 3 && x.n_heads == 1);
    assert_string_equal(head.etag, x.server.files[0].digest);
    assert_string_equal(head.commit, HUB_COMMIT);
    close_fixture(&x);
}

TEST(an_empty_body_is_announced_and_that_of_an_error_is_dropped)
{
    fixture x;
    http_head head;
    err e = {0};
    open_fixture(&x);
    hub_server_fault(&x.server, (hub_fault){"/f", "", HUB_BODY, 0, 1});
    CHECK_OK(get(&x, -1, 0, &head, &e), &e);
    assert_true(head.code == 200 && x.n_heads == 1 && x.body.len == 0);
    CHECK_OK(get(&x, -1, 0, &head, &e), &e);
    assert_true(head.code == 404 && x.n_heads == 0 && x.body.len == 0);
    assert_string_equal(head.problem, "EntryNotFound");
    close_fixture(&x);
}

TEST(a_redirect_that_stays_keeps_the_token)
{
    fixture x;
    http_head head;
    err e = {0};
    open_fixture(&x);
    hub_server_put(&x.server, "f", STR("abc"), false);
    hub_server_fault(&x.server, (hub_fault){"/f", "/cdn/f", HUB_GOTO, 0, 1});
    CHECK_OK(get(&x, -1, 0, &head, &e), &e);
    assert_true(str_is(buf_str(&x.body), "abc"));
    assert_string_equal(x.server.seen[1].url, "/cdn/f");
    assert_string_equal(x.server.seen[1].token, "Bearer t");
    close_fixture(&x);
}
