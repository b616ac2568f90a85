/* tags: threads, timeout=120 */
#include "hostile.h"
#include "serve_fixture.h"

static serve_fixture fixture, *const f = &fixture;

#define CHAT "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"

/* A request with fields of one's own (Host included); returns the status. */
static int ask_with(const char *method, const char *path, const char *fields, const char *body)
{
    buf q;
    buf_init(&q);
    buf_printf(&q, "%s %s HTTP/1.1\r\n%sConnection: close\r\n", method, path, fields);
    if (body) buf_printf(&q, "Content-Length: %zu\r\n", strlen(body));
    buf_put_c(&q, "\r\n");
    if (body) buf_put_c(&q, body);
    client_fetch(f->port, buf_str(&q), &f->in);
    buf_fini(&q);
    return client_status(&f->in);
}

static bool has(const char *text)
{
    return str_find(buf_str(&f->in), str_from(text), 0) >= 0;
}

TEST(no_hostile_request_reaches_the_engine)
{
    static char big[HOSTILE_MEGABYTE];
    str megabyte = {big, hostile_megabyte(big)};
    serve_open(f, serve_options(), 1, 4, 512);
    for (int i = 0; i < N_HOSTILE; i++) {
        const hostile_request *r = &hostile_requests[i];
        client_fetch(f->port, r->bytes.ptr ? r->bytes : megabyte, &f->in);
        if (client_status(&f->in) != r->status)
            fail_msg("%s: %.*s", r->name, STR_ARG(buf_str(&f->in)));
    }
    assert_int_equal(engine_stats(f->en).submitted, 0);
    assert_int_equal(serve_ask(f, "POST", "/v1/chat/completions", CHAT), 200);
    serve_close(f);
}

TEST(paths_and_methods_have_json_errors)
{
    serve_open(f, serve_options(), 1, 4, 512);
    assert_int_equal(serve_ask(f, "GET", "/nothing", NULL), 404);
    serve_expect_text(serve_json(f), "error/code", "not_found");
    assert_int_equal(serve_ask(f, "GET", "/v1/chat/completions", NULL), 405);
    serve_expect_text(serve_json(f), "error/code", "method_not_allowed");
    assert_true(has("Allow: POST, OPTIONS\r\n"));
    assert_int_equal(serve_ask(f, "DELETE", "/v1/models", NULL), 405);
    assert_true(has("Allow: GET, HEAD, OPTIONS\r\n"));
    assert_int_equal(serve_ask(f, "PUT", "/health", "x"), 405);
    assert_int_equal(serve_ask(f, "POST", "/v1/chat/completions?beta=true&x=%20", CHAT), 200);
    assert_int_equal(serve_ask(f, "HEAD", "/", NULL), 200);
    assert_true(str_ends(buf_str(&f->in), STR("\r\n\r\n")));
    assert_int_equal(serve_ask(f, "GET", "/", NULL), 200);
    assert_true(has("<!DOCTYPE html>") && has("X-Request-Id: req_"));
    assert_true(has("Content-Security-Policy: default-src ") && has("script-src 'nonce-"));
    assert_true(str_ends(buf_str(&f->in), STR("</html>\n")));
    assert_int_equal(ask_with("POST", "/v1/chat/completions",
                              "Host: localhost\r\n"
                              "Content-Encoding: gzip\r\n",
                              CHAT),
                     415);
    assert_int_equal(ask_with("POST", "/v1/chat/completions",
                              "Host: localhost\r\n"
                              "Content-Encoding: identity\r\n",
                              CHAT),
                     200);
    serve_close(f);
}

TEST(the_key_is_wanted_before_the_body_everywhere_but_at_health)
{
    server_options o = serve_options();
    o.access.key = STR("secret");
    serve_open(f, o, 1, 4, 512);
    assert_int_equal(serve_ask(f, "POST", "/v1/chat/completions", CHAT), 401);
    assert_true(has("WWW-Authenticate: Bearer\r\n"));
    serve_expect_text(serve_json(f), "error/code", "authentication_error");
    assert_int_equal(serve_ask(f, "GET", "/nothing", NULL), 401);
    assert_int_equal(serve_ask(f, "GET", "/v1/models", NULL), 401);
    assert_int_equal(serve_ask(f, "GET", "/health", NULL), 200);
    assert_int_equal(serve_ask(f, "GET", "/ready", NULL), 200);
    assert_int_equal(ask_with("POST", "/v1/chat/completions",
                              "Host: localhost\r\n"
                              "Authorization: Bearer secret\r\n",
                              CHAT),
                     200);
    assert_int_equal(ask_with("GET", "/v1/models",
                              "Host: localhost\r\nX-Api-Key: "
                              "secret\r\n",
                              NULL),
                     200);
    assert_int_equal(ask_with("GET", "/v1/models",
                              "Host: localhost\r\nX-Api-Key: secret\r\n"
                              "Authorization: Bearer x\r\n",
                              NULL),
                     401);
    /* Not a byte of the body was sent. */
    client_fetch(f->port,
                 STR("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                     "Content-Length: 99999999\r\n\r\n"),
                 &f->in);
    assert_int_equal(client_status(&f->in), 401);
    serve_close(f);
}

TEST(other_hosts_and_foreign_pages_are_kept_out)
{
    str hosts[] = {STR("box.lan")}, origins[] = {STR("http://app.example:3000")};
    server_options o = serve_options();
    o.access.hosts = hosts;
    o.access.n_hosts = 1;
    o.access.origins = origins;
    o.access.n_origins = 1;
    serve_open(f, o, 1, 4, 512);
    assert_int_equal(ask_with("GET", "/health", "Host: evil.example\r\n", NULL), 403);
    serve_expect_text(serve_json(f), "error/code", "forbidden");
    assert_true(has("--allowed-host"));
    assert_int_equal(ask_with("GET", "/health", "Host: box.lan:80\r\n", NULL), 200);
    assert_int_equal(ask_with("GET", "/health", "Host: a b\r\n", NULL), 400);
    assert_int_equal(ask_with("POST", "/v1/chat/completions",
                              "Host: localhost\r\nOrigin: "
                              "http://evil.example\r\n",
                              CHAT),
                     403);
    assert_true(has("--allowed-origin") && !has("Access-Control-Allow-Origin"));
    assert_int_equal(ask_with("POST", "/v1/chat/completions",
                              "Host: localhost\r\nOrigin: "
                              "http://app.example:3000\r\n",
                              CHAT),
                     200);
    assert_true(has("Access-Control-Allow-Origin: http://app.example:3000\r\nVary: Origin\r\n"));
    assert_int_equal(ask_with("GET", "/v1/models",
                              "Host: localhost:1\r\nOrigin: "
                              "http://localhost:1\r\n",
                              NULL),
                     200);
    serve_close(f);
}

TEST(a_preflight_is_answered_without_a_key)
{
    str origins[] = {STR("http://app.example")};
    server_options o = serve_options();
    o.access.origins = origins;
    o.access.n_origins = 1;
    o.access.key = STR("secret");
    serve_open(f, o, 1, 4, 512);
    assert_int_equal(ask_with("OPTIONS", "/v1/chat/completions",
                              "Host: localhost\r\nOrigin: http://app.example\r\n"
                              "Access-Control-Request-Method: POST\r\n"
                              "Access-Control-Request-Headers: authorization, "
                              "x-stainless-os\r\n",
                              NULL),
                     204);
    assert_true(has("Access-Control-Allow-Origin: http://app.example\r\n"));
    assert_true(has("Access-Control-Allow-Methods: POST, OPTIONS\r\n"));
    assert_true(has("Access-Control-Allow-Headers: authorization, x-stainless-os\r\n"));
    assert_true(has("Access-Control-Max-Age: 600\r\n"));
    assert_false(has("Content-Length") || has("Content-Type"));
    assert_int_equal(ask_with("OPTIONS", "/v1/chat/completions",
                              "Host: localhost\r\nOrigin: "
                              "http://evil.example\r\n",
                              NULL),
                     403);
    assert_int_equal(ask_with("OPTIONS", "*", "Host: localhost\r\n", NULL), 204);
    assert_true(has("Allow: OPTIONS\r\n") && !has("Access-Control"));
    serve_close(f);
}

TEST(a_body_above_the_limit_is_413_before_it_is_read)
{
    server_options o = serve_options();
    o.body_max = 1024;
    serve_open(f, o, 1, 4, 512);
    client_fetch(f->port,
                 STR("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                     "Content-Length: 1025\r\n\r\n"),
                 &f->in);
    assert_int_equal(client_status(&f->in), 413);
    serve_expect_text(serve_json(f), "error/code", "request_too_large");
    client_fetch(f->port,
                 STR("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                     "65537\r\n\r\n"),
                 &f->in);
    assert_int_equal(client_status(&f->in), 413);
    serve_close(f);
}

TEST(opening_survives_memory_that_runs_out)
{
    server_options o = serve_options();
    int64_t before = mem_count().n_live;
    for (int64_t n = 1;; n++) {
        server *s = NULL;
        err e = {0};
        mem_fail_at(n);
        status st = server_open(&s, &o, &e);
        mem_fail_at(0);
        if (st == ERR_OK) {
            server_close(s);
            assert_true(n >= 3);
            break;
        }
        CHECK_STATUS(st, ERR_NOMEM);
        assert_null(s);
        assert_int_equal(mem_count().n_live, before);
    }
    assert_int_equal(mem_count().n_live, before);
    server_close(NULL);
}

TEST(attaching_survives_memory_that_runs_out)
{
    err e = {0};
    engine *en;
    server *s;
    server_options o = serve_options();
    engine_options eo = {.model = "models/mini-dense",
                         .backend = "cpu",
                         .n_threads = 1,
                         .n_lanes = 1,
                         .max_context = 256};
    CHECK_OK(engine_open(&en, &eo, &e), &e);
    CHECK_OK(server_open(&s, &o, &e), &e);
    int64_t before = mem_count().n_live;
    for (int64_t n = 1;; n += 1 + n / 8) {
        mem_fail_at(n);
        status st = server_attach(s, en, &e);
        mem_fail_at(0);
        if (st == ERR_OK) break;
        CHECK_STATUS(st, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, before);
    }
    server_close(s);
    engine_close(en);
}
