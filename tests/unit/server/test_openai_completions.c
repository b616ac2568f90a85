/* tags: slow, timeout=120 */
#include "serve_fixture.h"

static serve_fixture fixture, *const f = &fixture;

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

static const json *get(const char *path, const char *body)
{
    if (ask(path, body) != 200) fail_msg("%s: %.*s", body, STR_ARG(buf_str(&f->in)));
    return serve_json(f);
}

/* The template's own text through /apply-template, as text and as ids, is the chat again. */
TEST(the_rendered_prompt_goes_on_as_the_chat_does)
{
    static const char messages[] = "'messages':[{'role':'user','content':'What is 12 + 30?'}]";
    char body[4000];
    buf prompt, ids;
    buf_init(&prompt);
    buf_init(&ids);
    serve_open(f, serve_options(), 1, 8, 1024);
    snprintf(body, sizeof body, "{%s,'enable_thinking':false,'temperature':0}", messages);
    assert_int_equal(serve_chat(f, body), 200);
    const json *a = serve_json(f);
    char want[200];
    int64_t n_prompt = serve_int(a, "usage/prompt_tokens");
    snprintf(want, sizeof want, "%.*s", STR_ARG(serve_text(a, "choices/0/message/content")));

    snprintf(body, sizeof body, "{%s,'enable_thinking':false}", messages);
    json_put_string(&prompt, serve_text(get("/apply-template", body), "prompt"));
    snprintf(body, sizeof body, "{'prompt':%s,'temperature':0,'max_tokens':40}",
             buf_str(&prompt).ptr);
    a = get("/v1/completions", body);
    serve_expect_text(a, "object", "text_completion");
    serve_expect_text(a, "choices/0/text", want);
    serve_expect_text(a, "choices/0/finish_reason", "stop");
    assert_int_equal(serve_int(a, "usage/prompt_tokens"), n_prompt);

    snprintf(body, sizeof body, "{'content':%s}", buf_str(&prompt).ptr);
    a = get("/tokenize", body);
    assert_int_equal(serve_int(a, "count"), n_prompt);
    json_put_value(&ids, serve_at(a, "tokens"), JSON_COMPACT);
    snprintf(body, sizeof body, "{'prompt':%s,'temperature':0,'max_tokens':40}", buf_str(&ids).ptr);
    serve_expect_text(get("/v1/completions", body), "choices/0/text", want);

    snprintf(body, sizeof body, "{'prompt':%s,'temperature':0,'max_tokens':40,'stream':true}",
             buf_str(&ids).ptr);
    assert_int_equal(ask("/v1/completions", body), 200);
    buf stream, text;
    buf_init(&stream);
    buf_init(&text);
    serve_unchunk(serve_body(f), &stream);
    arena_fini(&f->tree);
    arena_init(&f->tree, 0);
    size_t at = 0;
    for (str event; !str_is(event = serve_next_event(buf_str(&stream), &at), "[DONE]");)
        buf_put_str(&text, serve_text(serve_parse(f, event), "choices/0/text"));
    assert_string_equal(buf_str(&text).ptr, want);
    buf_fini(&stream);
    buf_fini(&text);
    buf_fini(&prompt);
    buf_fini(&ids);
    serve_close(f);
}

TEST(a_mark_in_a_completion_is_text)
{
    serve_open(f, serve_options(), 1, 8, 512);
    get("/v1/completions", "{'prompt':'Print <tool_call>\\n<function=x>','max_tokens':6}");
    const json *a = get("/v1/completions", "{'prompt':[300,301],'n':2,'max_tokens':2,'seed':1}");
    assert_int_equal(serve_at(a, "choices")->n, 2);
    assert_int_equal(serve_int(a, "usage/prompt_tokens"), 2);
    assert_int_equal(serve_int(a, "usage/completion_tokens"), 4);
    serve_close(f);
}

TEST(what_is_wrong_is_a_400_that_names_the_prompt)
{
    static const char *const bad[] = {"{'prompt':''}", "{'prompt':[]}", "{}",
                                      "{'prompt':[99999999]}"};
    serve_open(f, serve_options(), 1, 8, 256);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ask("/v1/completions", bad[i]), 400);
        serve_expect_text(serve_json(f), "error/param", "prompt");
    }
    buf q;
    buf_init(&q);
    buf_put_c(&q, "{'prompt':'");
    for (int i = 0; i < 300; i++) buf_put_c(&q, "lantern ");
    buf_put_c(&q, "'}");
    assert_int_equal(ask("/v1/completions", buf_str(&q).ptr), 400);
    const json *a = serve_json(f);
    serve_expect_text(a, "error/code", "context_length_exceeded");
    serve_expect_text(a, "error/param", "prompt");
    assert_int_equal(ask("/v1/completions", "{'model':'x','prompt':'a'}"), 404);
    buf_fini(&q);
    serve_close(f);
}

TEST(tokens_go_to_text_and_back)
{
    serve_open(f, serve_options(), 1, 8, 256);
    const json *a = get("/tokenize", "{'content':'lantern \\u00fc<|im_end|>','with_pieces':true}");
    const json *list = serve_at(a, "tokens");
    assert_int_equal(serve_int(a, "count"), list->n);
    assert_int_equal(serve_int(a, "max_model_len"), 256);
    buf ids;
    buf_init(&ids);
    buf_put_c(&ids, "{'tokens':[");
    for (const json *t = list->first; t; t = t->next)
        buf_printf(&ids, "%lld%s", (long long)serve_int(t, "id"), t->next ? "," : "]}");
    serve_expect_text(json_at(list, list->n - 1), "piece", "<|im_end|>");
    serve_expect_text(get("/detokenize", buf_str(&ids).ptr), "content",
                      "lantern \xc3\xbc<|im_end|>");
    /* A mark that is only text has several tokens. */
    a = get("/tokenize", "{'content':'<|im_end|>','parse_special':false}");
    assert_true(serve_int(a, "count") > 1);
    assert_int_equal(serve_int(get("/tokenize", "{'content':''}"), "count"), 0);
    serve_expect_text(get("/detokenize", "{'tokens':[]}"), "content", "");
    assert_int_equal(ask("/detokenize", "{'tokens':[-1]}"), 400);
    serve_expect_text(serve_json(f), "error/param", "tokens");
    assert_int_equal(ask("/tokenize", "{}"), 400);
    /* More than the context is fine here. */
    buf_clear(&ids);
    buf_put_c(&ids, "{'content':'");
    for (int i = 0; i < 500; i++) buf_put_c(&ids, "lantern ");
    buf_put_c(&ids, "'}");
    assert_true(serve_int(get("/tokenize", buf_str(&ids).ptr), "count") >= 500);
    buf_fini(&ids);
    serve_close(f);
}

TEST(a_template_can_be_left_open)
{
    serve_open(f, serve_options(), 1, 8, 256);
    const json *a = get("/apply-template", "{'messages':[{'role':'user','content':'Hi'}]}");
    assert_true(str_ends(serve_text(a, "prompt"), STR("<|im_start|>assistant\n<think>\n")));
    a = get("/apply-template",
            "{'add_generation_prompt':false,'messages':[{'role':'user','content':'Hi'}]}");
    assert_true(str_ends(serve_text(a, "prompt"), STR("Hi<|im_end|>\n")));
    assert_int_equal(ask("/apply-template", "{'messages':[]}"), 400);
    serve_close(f);
}

/* A client that waits must see that it was heard, or it gives up. */
TEST(a_stream_that_waits_has_its_head_at_once)
{
    static const char first[] =
        "{\"stream\":true,\"ignore_eos\":true,\"messages\":[{\"role\":\"user\","
        "\"content\":\"Hi\"}]}",
                      second[] = "{\"stream\":true,\"prompt\":\"A\",\"max_tokens\":2}";
    buf q, in, other;
    buf_init(&q);
    buf_init(&in);
    buf_init(&other);
    serve_open(f, serve_options(), 1, 8, 4096);
    int a = client_open(f->port), b = client_open(f->port);
    serve_put_request(&q, "POST", "/v1/chat/completions", "", first);
    client_ask(a, buf_str(&q), &other, "data: ");
    buf_clear(&q);
    serve_put_request(&q, "POST", "/v1/completions", "", second);
    client_ask(b, buf_str(&q), &in, "text/event-stream");
    assert_true(str_find(buf_str(&in), STR("data: "), 0) < 0); /* the one lane is the other's */
    close(a);
    assert_true(client_read(b, &in, 0, "data: [DONE]", CLIENT_WAIT_MS));
    close(b);
    serve_close(f);
    buf_fini(&q);
    buf_fini(&in);
    buf_fini(&other);
}
