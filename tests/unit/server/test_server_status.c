/* tags: slow, timeout=120 */
#include "serve_fixture.h"

static serve_fixture fixture, *const f = &fixture;

static int64_t metric(const char *name)
{
    char line[100];
    int64_t n = -1;
    snprintf(line, sizeof line, "\n%s ", name);
    str all = serve_body(f);
    int64_t at = str_find(all, str_from(line), 0);
    if (at < 0) fail_msg("no %s", name);
    str rest = str_skip(all, (size_t)at + strlen(line));
    assert_true(str_to_int64(str_slice(rest, 0, (size_t)str_find(rest, STR("\n"), 0)), &n));
    return n;
}

TEST(counters_follow_what_is_done)
{
    serve_open(f, serve_options(), 2, 8, 512);
    assert_int_equal(serve_ask(f, "GET", "/status", NULL), 200);
    const json *a = serve_json(f);
    assert_int_equal(serve_int(a, "requests/finished"), 0);
    serve_expect_text(a, "model", "mini-dense");
    serve_expect_text(a, "backend", "cpu");
    assert_true(json_is(serve_at(a, "ready"), JSON_TRUE));
    assert_int_equal(serve_int(a, "scheduler/lanes"), 2);
    assert_int_equal(serve_int(a, "scheduler/context"), 512);
    assert_true(serve_int(a, "memory/weight_bytes") > 1 << 20);

    static const char body[] = "{'max_tokens':4,'n':2,'messages':[{'role':'user','content':'Hi'}]}";
    assert_int_equal(serve_chat(f, body), 200);
    int64_t n_prompt = serve_int(serve_json(f), "usage/prompt_tokens");
    CLIENT_WAIT_FOR(engine_stats(f->en).finished == 2);
    assert_int_equal(serve_ask(f, "GET", "/status", NULL), 200);
    a = serve_json(f);
    assert_int_equal(serve_int(a, "requests/finished"), 2);
    assert_int_equal(serve_int(a, "tokens/prompt"), 2 * n_prompt);
    assert_int_equal(serve_int(a, "tokens/completion"), 8);
    assert_true(serve_int(a, "http/connections") >= 1);
    assert_true(serve_int(a, "decode/accepted") <= serve_int(a, "decode/drafted"));

    assert_int_equal(serve_ask(f, "GET", "/metrics", NULL), 200);
    assert_true(str_find(buf_str(&f->in), STR("Content-Type: text/plain; version=0.0.4"), 0) > 0);
    assert_int_equal(metric("riptide_requests_finished_total"), 2);
    assert_int_equal(metric("riptide_tokens_completion_total"), 8);
    assert_int_equal(metric("riptide_scheduler_lanes"), 2);
    assert_int_equal(metric("riptide_ready"), 1);
    assert_int_equal(metric("riptide_http_requests_total"), 4);
    serve_close(f);
}

/* The text form: https://prometheus.io/docs/instrumenting/exposition_formats/ */
TEST(every_metric_has_its_help_and_type_once)
{
    serve_open(f, serve_options(), 1, 8, 512);
    assert_int_equal(serve_ask(f, "GET", "/metrics", NULL), 200);
    str rest = serve_body(f), before = STR("");
    int n = 0;
    assert_true(str_ends(rest, STR("\n")));
    while (rest.len > 0) {
        str lines[3];
        for (int i = 0; i < 3; i++) {
            int64_t end = str_find(rest, STR("\n"), 0);
            assert_true(end > 0);
            lines[i] = str_slice(rest, 0, (size_t)end);
            rest = str_skip(rest, (size_t)end + 1);
        }
        assert_true(str_starts(lines[0], STR("# HELP riptide_")));
        assert_true(str_starts(lines[1], STR("# TYPE riptide_")));
        str name = str_slice(lines[0], 7, (size_t)str_find(lines[0], STR(" "), 7));
        assert_true(str_starts(str_skip(lines[1], 7), name));
        assert_true(str_starts(lines[2], name));
        assert_true(
            str_ends(lines[1], str_ends(name, STR("_total")) ? STR(" counter") : STR(" gauge")));
        assert_false(str_equal(name, before));
        before = name;
        n++;
    }
    assert_true(n > 30);
    serve_close(f);
}

TEST(counters_need_the_key)
{
    server_options o = serve_options();
    o.access.key = STR("secret");
    serve_open(f, o, 1, 4, 256);
    assert_int_equal(serve_ask(f, "GET", "/status", NULL), 401);
    assert_int_equal(serve_ask(f, "GET", "/metrics", NULL), 401);
    serve_close(f);
}
