#include "server/prefill_priv.h"

#include "chat_fixture.h"
#include "server/messages_request_priv.h"

static chat_fixture fixture, *const f = &fixture;
static err last;

static status read_body(const char *text, generation_request *r)
{
    policy defaults = policy_neutral();
    chat_context x = {.defaults = &defaults,
                      .V = 4096,
                      .choices_max = 64,
                      .caps = template_get_caps(f->s.template)};
    last = (err){0};
    return messages_request_parse(chat_parse(&f->mem, text), &x, true, &f->mem, r, &last);
}

/* The request of the answer to "Hi" that goes on from `message`; `more` are further members. */
static status read_request(const char *more, const char *message, generation_request *r)
{
    char text[1000];
    snprintf(text, sizeof text,
             "{'max_tokens':1,%s'messages':[{'role':'user','content':'Hi'},{'role':'assistant',"
             "'content':%s}]}",
             more, message);
    return read_body(text, r);
}

TEST(the_last_message_of_the_assistant_begins_the_answer)
{
    generation_request r;
    chat_load(f);
    CHECK_OK(read_request("", "'The answer is'", &r), &last);
    assert_true(str_is(r.prefill, "The answer is"));
    assert_int_equal(r.chat.messages->n, 1);
    assert_true(json_at(r.chat.messages, 0) && !json_at(r.chat.messages, 0)->next);
    CHECK_OK(read_request("'system':'Be brief.',",
                          "[{'type':'text','text':' {'},"
                          "{'type':'text','text':'[a'}]",
                          &r),
             &last);
    assert_true(str_is(r.prefill, " {[a"));
    assert_int_equal(r.chat.messages->n, 2);
    CHECK_OK(read_request("", "''", &r), &last);
    assert_int_equal(r.prefill.len, 0);
    assert_int_equal(r.chat.messages->n, 1);
    chat_end(f);
}

TEST(what_cannot_be_gone_on_with_is_refused)
{
    static const struct {
        const char *more, *message;
        status code;
    } bad[] = {
        {"'thinking':{'type':'adaptive'},", "'The'", ERR_UNSUPPORTED},
        {"", "'The '", ERR_INVALID},
        {"", "'The\\n'", ERR_INVALID},
        {"", "'<think>The'", ERR_UNSUPPORTED},
        {"", "'<tool_call>'", ERR_UNSUPPORTED},
        {"", "[{'type':'tool_use','id':'a','name':'b','input':{}}]", ERR_UNSUPPORTED},
        {"", "[{'type':'thinking','thinking':'Hm','signature':''},{'type':'text','text':'a'}]",
         ERR_UNSUPPORTED},
        {"'output_format':{'type':'json_schema','schema':{'type':'object'}},", "'{'",
         ERR_UNSUPPORTED},
    };
    chat_load(f);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        generation_request r = {.n = 77};
        status s = read_request(bad[i].more, bad[i].message, &r);
        if (s != bad[i].code || strcmp(last.where, "messages") != 0)
            fail_msg("%s: %s at \"%s\"", bad[i].message, status_name(s), last.where);
        assert_int_equal(r.n, 77);
    }
    generation_request r = {.n = 77};
    CHECK_STATUS(
        read_body("{'max_tokens':1,'messages':[{'role':'assistant','content':'The'}]}", &r),
        ERR_INVALID);
    assert_string_equal(last.where, "messages");
    assert_int_equal(r.n, 77);
    chat_end(f);
}

/* What a client sees of `said` when the answer begins with `prefill`. */
static void expect(const char *prefill, const char *said, const char *want, int n_calls)
{
    err e = {0};
    answer *c = &f->answers[0];
    chat_begin(f, 1, false, "[{'type':'function','function':{'name':'add'}}]", false);
    answer_close(c);
    f->g.request.prefill = str_from(prefill);
    CHECK_OK(answer_open(c, &f->g, 0, &e), &e);
    chat_say(f, 0, said, NULL, 0);
    chat_finish(f, 0, ENGINE_STOP);
    if (!str_is(buf_str(&c->content), want) || c->n_calls != n_calls)
        fail_msg("%s|%s: \"%.*s\", %d calls", prefill, said, STR_ARG(buf_str(&c->content)),
                 c->n_calls);
    chat_end(f);
}

TEST(only_what_comes_behind_it_is_the_answer)
{
    expect("The answer is", " 42.", " 42.", 0);
    expect("{\"a", "\": 1}", "\": 1}", 0);
    expect(" \n{", "\n}", "\n}", 0);
    expect("a <", " b", " b", 0); /* the sign might have begun a mark */
    expect("a <tool", "box>", "box>", 0);
    expect("Let me.", "\n<tool_call>\n<function=add>\n</function>\n</tool_call>", "", 1);
    expect("Yes <tool", "_call>\n<function=add>\n</function>\n</tool_call>\n\nDone", "\n\nDone", 1);
}
