/* tags: threads */
#include "serve_fixture.h"

static serve_fixture fixture, *const f = &fixture;

TEST(the_model_is_listed_under_each_of_its_names)
{
    str names[] = {STR("gpt-4o"), STR("own/name")};
    server_options o = serve_options();
    o.names = names;
    o.n_names = 2;
    serve_open(f, o, 1, 4, 512);
    assert_int_equal(serve_ask(f, "GET", "/v1/models", NULL), 200);
    const json *a = serve_json(f);
    serve_expect_text(a, "object", "list");
    assert_int_equal(json_get(a, "data")->n, 3);
    serve_expect_text(a, "data/0/id", "mini-dense");
    serve_expect_text(a, "data/0/object", "model");
    serve_expect_text(a, "data/0/owned_by", "riptide");
    assert_null(serve_at(a, "data/0/root"));
    assert_true(serve_int(a, "data/0/created") > 1700000000);
    assert_int_equal(serve_int(a, "data/0/max_model_len"), 512);
    assert_int_equal(serve_int(a, "data/0/context_length"), 512);
    serve_expect_text(a, "data/0/input_modalities/0", "text");
    if (!SERVE_IS_SLOW) serve_expect_text(a, "data/0/draft_model", "mini-dense-dflash2");
    assert_true(json_is(serve_at(a, "data/0/reasoning"), JSON_TRUE));
    assert_true(json_is(serve_at(a, "data/0/tools"), JSON_TRUE));
    serve_expect_text(a, "data/2/id", "own/name");
    serve_expect_text(a, "data/2/root", "mini-dense");

    assert_int_equal(serve_ask(f, "GET", "/v1/models/mini-dense", NULL), 200);
    serve_expect_text(serve_json(f), "id", "mini-dense");
    assert_int_equal(serve_ask(f, "GET", "/v1/models/own%2Fname?x=y", NULL), 200);
    serve_expect_text(serve_json(f), "id", "own/name");
    assert_int_equal(serve_ask(f, "GET", "/v1/models/own/name", NULL), 200);
    assert_int_equal(serve_ask(f, "HEAD", "/v1/models", NULL), 200);
    assert_int_equal(serve_ask(f, "GET", "/v1/models/other%ff%22", NULL), 404);
    a = serve_json(f);
    serve_expect_text(a, "error/code", "model_not_found");
    assert_true(str_find(serve_text(a, "error/message"), STR("other\xef\xbf\xbd\""), 0) > 0);
    assert_int_equal(serve_ask(f, "GET", "/v1/models/%zz", NULL), 404);
    assert_int_equal(serve_ask(f, "POST", "/v1/chat/completions",
                               "{\"model\":\"own/name\",\"max_tokens\":1,"
                               "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"),
                     200);
    serve_expect_text(serve_json(f), "model", "mini-dense");
    serve_close(f);
}
