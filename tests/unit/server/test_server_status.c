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

static str take_line(str *rest)
{
    int64_t end = str_find(*rest, STR("\n"), 0);
    assert_true(end > 0);
    str line = str_slice(*rest, 0, (size_t)end);
    *rest = str_skip(*rest, (size_t)end + 1);
    return line;
}

/* The samples of one metric: a value each, classes that grow up to the count. */
static int take_samples(str *rest, str name, bool is_histogram)
{
    int n = 0;
    int64_t before = 0, value;
    while (rest->len > 0 && rest->ptr[0] != '#') {
        str line = take_line(rest);
        assert_true(str_starts(line, name));
        int64_t space = (int64_t)line.len - 1;
        while (line.ptr[space] != ' ') space--;
        bool is_sum = str_find(line, STR("_sum "), 0) > 0;
        if (is_histogram && !is_sum) {
            assert_true(str_to_int64(str_skip(line, (size_t)space + 1), &value));
            assert_true(value >= before);
            before = value;
        }
        n++;
    }
    return n;
}

/* The text form: https://prometheus.io/docs/instrumenting/exposition_formats/ */
TEST(every_metric_has_its_help_and_type_once)
{
    serve_open(f, serve_options(), 1, 8, 512);
    assert_int_equal(serve_chat(f, "{'max_tokens':4,'messages':[{'role':'user','content':'Hi'}]}"),
                     200);
    CLIENT_WAIT_FOR(engine_stats(f->en).tally.first_token.n == 1);
    assert_int_equal(serve_ask(f, "GET", "/metrics", NULL), 200);
    str rest = serve_body(f);
    int n = 0, n_histograms = 0;
    assert_true(str_ends(rest, STR("\n")));
    while (rest.len > 0) {
        str help = take_line(&rest), type = take_line(&rest);
        assert_true(str_starts(help, STR("# HELP riptide_")));
        assert_true(str_starts(type, STR("# TYPE riptide_")));
        str name = str_slice(help, 7, (size_t)str_find(help, STR(" "), 7));
        assert_true(str_starts(str_skip(type, 7), name));
        bool is_histogram = str_ends(type, STR(" histogram"));
        if (!is_histogram)
            assert_true(
                str_ends(type, str_ends(name, STR("_total")) ? STR(" counter") : STR(" gauge")));
        assert_int_equal(take_samples(&rest, name, is_histogram),
                         is_histogram                                    ? HISTOGRAM_CLASSES + 2
                         : str_is(name, "riptide_cycle_proposals_total") ? ENGINE_WIDTHS
                                                                         : 1);
        n_histograms += is_histogram;
        n++;
    }
    assert_true(n > 30 && n_histograms == 5);
    assert_int_equal(metric("riptide_first_token_seconds_count"), 1);
    assert_int_equal(metric("riptide_first_token_seconds_bucket{le=\"+Inf\"}"), 1);
    assert_int_equal(serve_ask(f, "GET", "/status", NULL), 200);
    assert_int_equal(serve_int(serve_json(f), "latency_ms/first_token/n"), 1);
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
