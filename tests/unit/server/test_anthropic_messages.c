/* tags: slow, timeout=240 */
#include "serve_fixture.h"

#define HI "'messages':[{'role':'user','content':'Hi'}]"
#define TOOLS                                                                            \
    "'tools':[{'name':'add','description':'Add two numbers','input_schema':{'type':"     \
    "'object','properties':{'a':{'type':'integer'},'b':{'type':'integer'}},'required':[" \
    "'a','b']}}]"

static serve_fixture fixture, *const f = &fixture;

static void open_server(void)
{
    serve_open(f, serve_options(), 2, 32, 1024);
}

/* For legibility quotes are single ones. */
static int ask(const char *path, const char *body)
{
    buf b;
    buf_init(&b);
    buf_put_c(&b, body);
    for (size_t i = 0; i < b.len; i++)
        if (b.ptr[i] == '\'') b.ptr[i] = '"';
    int code = serve_ask(f, "POST", path, buf_str(&b).ptr);
    buf_fini(&b);
    return code;
}

static const json *message(const char *body)
{
    if (ask("/v1/messages?beta=true", body) != 200)
        fail_msg("%s: %.*s", body, STR_ARG(buf_str(&f->in)));
    return serve_json(f);
}

static int64_t count(const char *body)
{
    if (ask("/v1/messages/count_tokens?beta=true", body) != 200)
        fail_msg("%s: %.*s", body, STR_ARG(buf_str(&f->in)));
    return serve_int(serve_json(f), "input_tokens");
}

TEST(a_message_has_the_prompt_that_chat_would_have)
{
    open_server();
    const json *a = message("{'max_tokens':2,'system':'Be brief.'," TOOLS "," HI "}");
    serve_expect_text(a, "type", "message");
    serve_expect_text(a, "stop_reason", "max_tokens");
    int64_t n = serve_int(a, "usage/input_tokens");
    assert_int_equal(serve_int(a, "usage/output_tokens"), 2);
    assert_int_equal(count("{'system':'Be brief.'," TOOLS "," HI "}"), n);
    assert_int_equal(
        serve_chat(f, "{'max_tokens':1,'enable_thinking':false,'messages':[{'role':'system',"
                      "'content':'Be brief.'},{'role':'user','content':'Hi'}],'tools':[{'type':"
                      "'function','function':{'name':'add','description':'Add two numbers',"
                      "'parameters':{'type':'object','properties':{'a':{'type':'integer'},'b':"
                      "{'type':'integer'}},'required':['a','b']}}}]}"),
        200);
    assert_int_equal(serve_int(serve_json(f), "usage/prompt_tokens"), n);
    /* Asked again, most of it is read from the cache. */
    a = message("{'max_tokens':2,'system':'Be brief.'," TOOLS "," HI "}");
    int64_t n_cached = serve_int(a, "usage/cache_read_input_tokens");
    assert_true(n > 64 && n_cached >= 64);
    assert_int_equal(serve_int(a, "usage/input_tokens") + n_cached, n);
    serve_close(f);
}

/* Of the stream's events only what differs from a whole answer; the client's test has the rest. */
TEST(a_stream_ends_with_what_the_whole_message_says)
{
    static const char body[] = "'temperature':0,'max_tokens':24,'thinking':{'type':'adaptive'},"
                               "'messages':[{'role':'user','content':'What is 12 + 30?'}]}";
    char text[400], want[400];
    open_server();
    snprintf(text, sizeof text, "{%s", body);
    const json *a = message(text);
    snprintf(want, sizeof want, "\"stop_reason\":\"%.*s\"", STR_ARG(serve_text(a, "stop_reason")));
    int64_t n_out = serve_int(a, "usage/output_tokens");
    snprintf(text, sizeof text, "{'stream':true,%s", body);
    assert_int_equal(ask("/v1/messages", text), 200);
    buf joined;
    buf_init(&joined);
    serve_unchunk(serve_body(f), &joined);
    str all = buf_str(&joined);
    assert_true(str_starts(all, STR("event: message_start\ndata: {\"type\":\"message_start\"")));
    assert_true(str_ends(all, STR("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")));
    int64_t at = str_find(all, STR("event: message_delta\n"), 0);
    assert_true(at > 0 && str_find(all, str_from(want), (size_t)at) > 0);
    snprintf(want, sizeof want, "\"output_tokens\":%d,", (int)n_out);
    assert_true(str_find(all, str_from(want), (size_t)at) > 0);
    buf_fini(&joined);
    serve_close(f);
}

TEST(an_answer_goes_on_from_the_assistants_words)
{
    static const char head[] = "{'temperature':0,'max_tokens':24,'messages':[{'role':'user',"
                               "'content':'What is 12 + 30?'}";
    char text[400], whole[200];
    open_server();
    snprintf(text, sizeof text, "%s]}", head);
    const json *a = message(text);
    str said = serve_text(a, "content/0/text");
    snprintf(whole, sizeof whole, "%.*s", STR_ARG(said));
    int64_t n_in = serve_int(a, "usage/input_tokens"), n_out = serve_int(a, "usage/output_tokens");
    char *space = strchr(whole, ' ');
    assert_non_null(space);
    snprintf(text, sizeof text, "%s,{'role':'assistant','content':'%.*s'}]}", head,
             (int)(space - whole), whole);
    a = message(text);
    serve_expect_text(a, "content/0/text", space); /* with the space */
    int64_t more = serve_int(a, "usage/input_tokens") - n_in;
    assert_true(more >= 1);
    assert_int_equal(serve_int(a, "usage/output_tokens"), n_out - more);
    assert_int_equal(count(text), n_in + more);
    serve_close(f);
}

TEST(silence_is_broken_by_pings)
{
    server_options o = serve_options();
    o.keep_alive_ms = 0; /* at every tick */
    serve_open(f, o, 1, 4, 2048);
    buf q;
    buf_init(&q);
    buf_put_c(&q, "{'stream':true,'max_tokens':1,'messages':[{'role':'user','content':'");
    for (int i = 0; i < (SERVE_IS_SLOW ? 100 : 1500); i++) buf_put_c(&q, "lantern ");
    buf_put_c(&q, "'}]}");
    assert_int_equal(ask("/v1/messages", buf_str(&q).ptr), 200);
    int n = 0;
    for (int64_t at = 0; (at = str_find(buf_str(&f->in), STR("event: ping\n"), (size_t)at)) >= 0;
         at++)
        n++;
    assert_true(n >= 1); /* one always comes behind the start, more where the prompt takes long */
    buf_fini(&q);
    serve_close(f);
}

TEST(errors_have_the_protocols_shape)
{
    server_options o = serve_options();
    o.access.key = STR("secret");
    serve_open(f, o, 1, 4, 512);
    assert_int_equal(ask("/v1/messages", "{'max_tokens':1," HI "}"), 401);
    const json *a = serve_json(f);
    serve_expect_text(a, "type", "error");
    serve_expect_text(a, "error/type", "authentication_error");
    assert_int_equal(serve_ask(f, "GET", "/v1/messages/none", NULL), 401);
    serve_expect_text(serve_json(f), "type", "error");
    assert_int_equal(serve_ask(f, "GET", "/v1/messages_", NULL), 401);
    assert_null(serve_at(serve_json(f), "type"));
    serve_close(f);

    open_server();
    assert_int_equal(ask("/v1/messages", "{'max_tokens':"), 400);
    serve_expect_text(serve_json(f), "error/type", "invalid_request_error");
    assert_int_equal(ask("/v1/messages", "{'model':'x'," HI "}"), 404);
    serve_expect_text(serve_json(f), "error/type", "not_found_error");
    assert_int_equal(serve_ask(f, "GET", "/v1/messages", NULL), 405);
    serve_expect_text(serve_json(f), "error/type", "invalid_request_error");
    buf q;
    buf_init(&q);
    buf_put_c(&q, "{'max_tokens':1,'messages':[{'role':'user','content':'");
    for (int i = 0; i < 1500; i++) buf_put_c(&q, "lantern ");
    buf_put_c(&q, "'}]}");
    assert_int_equal(ask("/v1/messages", buf_str(&q).ptr), 400);
    str sentence = serve_text(serve_json(f), "error/message");
    assert_true(str_starts(sentence, STR("prompt is too long: 15")));
    assert_true(str_ends(sentence, STR(" tokens > 1024 maximum")));
    assert_true(count(buf_str(&q).ptr) >= 1500); /* counting has no such limit */
    buf_fini(&q);
    serve_close(f);
}

TEST(a_warm_up_answers_with_nothing)
{
    open_server();
    const json *a = message("{'max_tokens':0," HI "}");
    assert_int_equal(serve_at(a, "content")->n, 0);
    assert_int_equal(serve_int(a, "usage/output_tokens"), 0);
    serve_close(f);
}
