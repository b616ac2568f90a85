#include "server/completion_output_priv.h"

#include "chat_fixture.h"

static chat_fixture fixture, *const f = &fixture;
static const int32_t some[4] = {300, 301, 302, 303};

static void put_part(generation *g, answer *c, const outparse_event *part)
{
    completion_put_part(&g->out, g, c, part->text);
}
static const dialect completions = {.part = put_part};

static void begin(int n, bool streams)
{
    chat_load(f);
    f->g.dialect = &completions;
    f->g.request = (generation_request){.prompt = PROMPT_TEXT, .n = n, .streams = streams};
    f->g.answers = f->answers;
    err e = {0};
    for (int i = 0; i < n; i++) CHECK_OK(answer_open(&f->answers[i], &f->g, i, &e), &e);
}

static bool has(const char *piece)
{
    return str_find(buf_str(&f->g.out), str_from(piece), 0) >= 0;
}

TEST(marks_are_text_where_there_was_no_chat)
{
    static const char text[] = "<think>a</think><tool_call>\n<function=x>\n";
    begin(2, false);
    chat_say(f, 0, text, some, 2);
    int32_t ids[2] = {f->s.think_open, 300};
    chat_say(f, 1, " b ", ids, 2);
    chat_finish(f, 0, ENGINE_STOP);
    chat_finish(f, 1, ENGINE_LENGTH);
    completion_put_whole(&f->g.out, &f->g);
    const json *v = NULL;
    err e = {0};
    CHECK_OK(json_parse(&f->mem, buf_str(&f->g.out), "answer", 16, JSON_UNIQUE_KEYS, &v, &e), &e);
    assert_true(str_is(json_get(v, "object")->text, "text_completion"));
    const json *one = json_at(json_get(v, "choices"), 0), *two = json_at(json_get(v, "choices"), 1);
    assert_true(str_is(json_get(one, "text")->text, text));
    assert_true(str_is(json_get(one, "finish_reason")->text, "stop"));
    assert_true(str_is(json_get(two, "text")->text, " b "));
    assert_true(str_is(json_get(two, "finish_reason")->text, "length"));
    assert_true(has("\"completion_tokens\":4") && has("\"reasoning_tokens\":0"));
    chat_end(f);
}

TEST(a_stream_has_the_text_as_it_comes)
{
    begin(1, true);
    f->g.request.includes_usage = true;
    chat_say(f, 0, "a\n", some, 1);
    assert_true(has("\"choices\":[{\"index\":0,\"text\":\"a\\n\",\"logprobs\":null,"
                    "\"finish_reason\":null}]}\n\n"));
    chat_finish(f, 0, ENGINE_STOP);
    completion_put_finish(&f->g.out, &f->g, &f->answers[0]);
    assert_true(has("\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"}],"
                    "\"timings\":{"));
    completion_put_usage(&f->g.out, &f->g);
    assert_true(has("\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1,"));
    chat_end(f);
}
