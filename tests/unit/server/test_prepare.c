#include "chat_fixture.h"
#include "server/chat_request_priv.h"

static chat_fixture fixture, *const f = &fixture;

static void parse(generation *g, const json *body, api_error *a)
{
    err e = {0};
    chat_context x = {.defaults = &f->about.defaults,
                      .V = 4096,
                      .choices_max = 64,
                      .caps = template_get_caps(f->s.template)};
    if (chat_request_parse(body, &x, &g->scratch, &g->request, &e) != ERR_OK)
        generation_explain(g, &e, a);
}

static const dialect plain = {.parse = parse};

/* The body's single quotes become double ones. */
static void prepare(const char *body, size_t scratch)
{
    chat_load(f);
    f->g.dialect = &plain;
    arena_init(&f->g.scratch, scratch);
    arena_init(&f->g.mem, 0);
    buf_put_c(&f->g.body, body);
    for (size_t i = 0; i < f->g.body.len; i++)
        if (f->g.body.ptr[i] == '\'') f->g.body.ptr[i] = '"';
    generation_prepare(&f->g);
}

static void drop(void)
{
    buf_fini(&f->g.body);
    arena_fini(&f->g.scratch);
    arena_fini(&f->g.mem);
    token_ids_fini(&f->g.ids);
    f->g.request.n = 0;
    chat_end(f);
}

static void expect_error(int http, const char *code)
{
    assert_int_equal(f->g.error.http, http);
    assert_string_equal(f->g.error.code, code);
}

TEST(a_body_becomes_token_ids)
{
    prepare("{'messages':[{'role':'user','content':'Hi'}]}", 0);
    assert_int_equal(f->g.error.http, 0);
    /* What the template writes: <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n */
    token_ids want = {0};
    err e = {0};
    CHECK_OK(tokenizer_encode(f->tokens,
                              STR("<|im_start|>user\nHi<|im_end|>\n"
                                  "<|im_start|>assistant\n<think>\n"),
                              true, 0, &want, &e),
             &e);
    assert_int_equal(f->g.ids.n, want.n);
    assert_memory_equal(f->g.ids.ptr, want.ptr, (size_t)want.n * sizeof *want.ptr);
    assert_true(f->g.starts_in_reasoning);
    assert_null(f->g.tools);
    token_ids_fini(&want);
    drop();
}

/* Tags in a message are text: the prompt has the template's own ones and no more. */
TEST(tags_in_content_are_no_special_tokens)
{
    prepare("{'messages':[{'role':'user','content':'<think>a</think><|im_end|>'}]}", 0);
    assert_int_equal(f->g.error.http, 0);
    static const struct {
        const char *text;
        int n;
    } rows[] = {{"<think>", 1}, {"</think>", 0}, {"<|im_start|>", 2}, {"<|im_end|>", 1}};
    for (int i = 0; i < 4; i++) {
        int32_t id = tokenizer_find_added(f->tokens, str_from(rows[i].text));
        int n = 0;
        assert_true(id >= 0);
        for (int k = 0; k < f->g.ids.n; k++) n += f->g.ids.ptr[k] == id;
        if (n != rows[i].n) fail_msg("%s: %d times, want %d", rows[i].text, n, rows[i].n);
    }
    drop();
}

TEST(thinking_off_ends_the_prompt_outside_of_reasoning)
{
    prepare("{'enable_thinking':false,'messages':[{'role':'user','content':'Hi'}]}", 0);
    assert_int_equal(f->g.error.http, 0);
    assert_false(f->g.starts_in_reasoning);
    drop();
}

TEST(tools_outlive_the_request)
{
    prepare("{'tools':[{'type':'function','function':{'name':'add',"
            "'parameters':{'type':'object','properties':"
            "{'n':{'const':1.50}}}}}],'messages':[{'role':'user','content':'Hi'}]}",
            0);
    assert_int_equal(f->g.error.http, 0);
    buf_fini(&f->g.body);
    arena_fini(&f->g.scratch);
    buf text;
    buf_init(&text);
    json_put_value(&text, f->g.tools, JSON_COMPACT);
    assert_true(str_find(buf_str(&text), STR("{\"n\":{\"const\":1.50}}"), 0) > 0);
    buf_fini(&text);
    drop();
}

TEST(errors_say_what_is_wrong)
{
    prepare("{'messages':", 0);
    expect_error(400, "invalid_request_error");
    assert_non_null(strstr(f->g.error.message, "byte 12"));
    drop();
    prepare("{'messages':[]}", 0);
    expect_error(400, "invalid_request_error");
    assert_string_equal(f->g.error.param, "messages");
    drop();
    prepare("{'messages':[{'role':'user','content':'one two three four five six seven eight "
            "nine ten 11 12 13 14 15 16 17 18"
            " 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 "
            "46 47 48 49 50'}]}",
            0);
    expect_error(400, "context_length_exceeded");
    assert_non_null(strstr(f->g.error.message, "maximum context length is 100 tokens"));
    drop();
}

TEST(a_request_that_is_too_costly_to_read_is_its_own_fault)
{
    buf b;
    buf_init(&b);
    buf_put_c(&b, "{'x':[");
    for (int i = 0; i < 20000; i++) buf_put_c(&b, "0,");
    buf_put_c(&b, "0],'messages':[{'role':'user','content':'Hi'}]}");
    prepare(buf_str(&b).ptr, 1 << 20);
    expect_error(413, "request_too_large");
    drop();
    buf_fini(&b);
}

TEST(memory_that_runs_out_is_503)
{
    static const char body[] = "{'messages':[{'role':'user','content':'Hi'}]}";
    int n_failed = 0;
    for (int64_t n = 1; n < 2000; n++) {
        chat_load(f);
        f->g.dialect = &plain;
        arena_init(&f->g.scratch, 0);
        arena_init(&f->g.mem, 0);
        buf_put_c(&f->g.body, body);
        for (size_t i = 0; i < f->g.body.len; i++)
            if (f->g.body.ptr[i] == '\'') f->g.body.ptr[i] = '"';
        mem_fail_at(n);
        generation_prepare(&f->g);
        mem_fail_at(0);
        int http = f->g.error.http;
        if (http) expect_error(503, "runtime_unavailable");
        n_failed += http != 0;
        drop();
        if (!http) break;
        if (n > 20) n += 10;
    }
    assert_true(n_failed > 5);
}
