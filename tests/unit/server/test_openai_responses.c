/* tags: slow, timeout=120 */
#include <stdlib.h>
#include <unistd.h>

#include "serve_fixture.h"

static serve_fixture fixture, *const f = &fixture;

/* For legibility quotes are single ones. */
static int ask(const char *body)
{
    buf b;
    buf_init(&b);
    buf_put_c(&b, body);
    for (size_t i = 0; i < b.len; i++)
        if (b.ptr[i] == '\'') b.ptr[i] = '"';
    int code = serve_ask(f, "POST", "/v1/responses", buf_str(&b).ptr);
    buf_fini(&b);
    return code;
}

/* Streams and events are compared by the client's test. */
TEST(a_response_is_kept_until_it_is_deleted)
{
    char id[80], path[120], body[400];
    serve_open(f, serve_options(), 1, 8, 1024);
    assert_int_equal(ask("{'input':'What is 12 + 30?','temperature':0,'max_output_tokens':60}"),
                     200);
    const json *a = serve_json(f);
    serve_expect_text(a, "object", "response");
    int64_t n = serve_int(a, "usage/input_tokens");
    snprintf(id, sizeof id, "%.*s", STR_ARG(serve_text(a, "id")));
    snprintf(path, sizeof path, "/v1/responses/%s", id);
    assert_int_equal(serve_ask(f, "GET", path, NULL), 200);
    serve_expect_text(serve_json(f), "id", id);

    snprintf(body, sizeof body,
             "{'input':'And 1 more?','previous_response_id':'%s','max_output_tokens':2}", id);
    assert_int_equal(ask(body), 200);
    a = serve_json(f);
    assert_true(serve_int(a, "usage/input_tokens") > n + 5);
    serve_expect_text(a, "status", "incomplete");
    serve_expect_text(a, "previous_response_id", id);

    assert_int_equal(serve_ask(f, "DELETE", path, NULL), 200);
    assert_true(json_is(serve_at(serve_json(f), "deleted"), JSON_TRUE));
    assert_int_equal(serve_ask(f, "DELETE", path, NULL), 404);
    assert_int_equal(serve_ask(f, "GET", path, NULL), 404);
    assert_int_equal(ask(body), 404);
    a = serve_json(f);
    serve_expect_text(a, "error/code", "previous_response_not_found");
    serve_expect_text(a, "error/param", "previous_response_id");
    serve_close(f);
}

/* The conversation that a response was made from, earlier turns of it too, newest first. */
TEST(what_a_response_was_made_from_is_listed)
{
    char path[160], body[300];
    serve_open(f, serve_options(), 1, 8, 1024);
    assert_int_equal(ask("{'input':'What is 12 + 30?','temperature':0,'max_output_tokens':2}"),
                     200);
    str id = serve_text(serve_json(f), "id");
    snprintf(body, sizeof body,
             "{'previous_response_id':'%.*s','max_output_tokens':1,"
             "'input':[{'role':'user','content':'More.'}]}",
             STR_ARG(id));
    snprintf(path, sizeof path, "/v1/responses/%.*s/input_items", STR_ARG(id));
    assert_int_equal(serve_ask(f, "GET", path, NULL), 200);
    const json *a = serve_json(f);
    serve_expect_text(a, "object", "list");
    assert_int_equal(serve_at(a, "data")->n, 1);
    serve_expect_text(json_at(serve_at(a, "data"), 0), "role", "user");
    assert_int_equal(ask(body), 200);
    snprintf(path, sizeof path, "/v1/responses/%.*s/input_items?limit=2",
             STR_ARG(serve_text(serve_json(f), "id")));
    assert_int_equal(serve_ask(f, "GET", path, NULL), 200);
    a = serve_json(f);
    assert_int_equal(serve_at(a, "data")->n, 2);
    assert_true(json_is(serve_at(a, "has_more"), JSON_TRUE));
    serve_expect_text(json_at(serve_at(a, "data"), 0), "role", "user");
    assert_true(
        str_equal(serve_text(json_at(serve_at(a, "data"), 1), "id"), serve_text(a, "last_id")));
    assert_int_equal(serve_ask(f, "GET", "/v1/responses/resp_no/input_items", NULL), 404);
    assert_int_equal(serve_ask(f, "GET", "/v1/responses/resp_no/input_items?limit=x", NULL), 400);
    serve_expect_text(serve_json(f), "error/param", "limit");
    serve_close(f);
}

TEST(a_file_of_responses_outlives_the_server)
{
    char folder[] = "/tmp/riptide-responses-XXXXXX", file[60], path[120], body[200];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/store.db", folder);
    server_options o = serve_options();
    o.response_store = file;
    serve_open(f, o, 1, 8, 512);
    assert_int_equal(ask("{'input':'What is 12 + 30?','max_output_tokens':2}"), 200);
    const json *a = serve_json(f);
    int64_t n = serve_int(a, "usage/input_tokens");
    snprintf(path, sizeof path, "/v1/responses/%.*s", STR_ARG(serve_text(a, "id")));
    snprintf(body, sizeof body,
             "{'input':'More.','max_output_tokens':1,'previous_response_id':'%s'}",
             path + strlen("/v1/responses/"));
    serve_close(f);
    serve_open(f, o, 1, 8, 512);
    assert_int_equal(serve_ask(f, "GET", path, NULL), 200);
    assert_int_equal(ask(body), 200);
    assert_true(serve_int(serve_json(f), "usage/input_tokens") > n + 3);
    serve_close(f);
    unlink(file);
    assert_int_equal(rmdir(folder), 0);
}

TEST(what_is_not_to_be_stored_is_not)
{
    char path[120];
    serve_open(f, serve_options(), 1, 8, 512);
    assert_int_equal(ask("{'input':'','store':false,'max_output_tokens':1}"), 200);
    snprintf(path, sizeof path, "/v1/responses/%.*s", STR_ARG(serve_text(serve_json(f), "id")));
    assert_int_equal(serve_ask(f, "GET", path, NULL), 404);
    serve_close(f);
}

TEST(errors_are_a_400_that_names_the_field)
{
    static const char *const bad[][2] = {
        {"{}", "/input"},
        {"{'input':[{'type':'x'}]}", "/input/0"},
        {"{'input':'a','background':true}", "background"},
        {"{'input':'a','previous_response_id':1}", "previous_response_id"}};
    serve_open(f, serve_options(), 1, 8, 512);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ask(bad[i][0]), 400);
        serve_expect_text(serve_json(f), "error/param", bad[i][1]);
    }
    assert_int_equal(ask("[]"), 400);
    assert_int_equal(ask("{'model':'x','input':'a'}"), 404);
    serve_close(f);
}
