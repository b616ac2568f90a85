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

/* All chunks' members of this name, joined; of the whole answer its own. */
static void show_member(const json *logprobs, const char *name, buf *out)
{
    const json *list = json_get(logprobs, name);
    assert_true(json_is(list, JSON_ARRAY));
    for (const json *v = list->first; v; v = v->next) {
        json_put_value(out, v, JSON_COMPACT);
        buf_put_byte(out, ' ');
    }
}

static void show_logprobs(const json *v, buf *out)
{
    static const char *const names[] = {"tokens", "token_logprobs", "text_offset"};
    const json *logprobs = json_get(json_at(json_get(v, "choices"), 0), "logprobs");
    for (int i = 0; i < 3; i++) show_member(logprobs, names[i], &out[i]);
    buf_put_str(&out[3], json_get(json_at(json_get(v, "choices"), 0), "text")->text);
}

/* Text, and log probabilities of its tokens, of a stream or a whole answer: out[4]. */
static void answer_of(bool streams, int step, engine_finish reason, buf *out)
{
    err e = {0};
    begin(1, streams);
    f->g.request.wants_logprobs = true;
    f->g.request.logprobs = LOGPROBS_OF_TEXT;
    f->g.request.top_logprobs = 1;
    chat_say_tokens(f, 0, "An \xe2\x82\xac\xf0\x9f\xa6\x80 odd text.", step);
    chat_finish(f, 0, reason);
    if (streams)
        completion_put_finish(&f->g.out, &f->g, &f->answers[0]);
    else
        completion_put_whole(&f->g.out, &f->g);
    str all = buf_str(&f->g.out);
    for (size_t at = 0; at < all.len;) {
        const json *v = NULL;
        int64_t end = streams ? str_find(all, STR("\n\n"), at) : (int64_t)all.len;
        str one = str_slice(all, at + (streams ? strlen("data: ") : 0), (size_t)end);
        CHECK_OK(json_parse(&f->mem, one, "answer", 16, JSON_UNIQUE_KEYS, &v, &e), &e);
        show_logprobs(v, out);
        at = (size_t)end + 2;
    }
    chat_end(f);
}

TEST(each_token_is_told_with_its_text_and_place)
{
    buf whole[4] = {0}, pieces[4] = {0};
    f->n_said = 0;
    answer_of(false, 3, ENGINE_STOP, whole);
    for (int step = 1; step < 5; step++) {
        answer_of(true, step, ENGINE_STOP, pieces);
        for (int i = 0; i < 4; i++) {
            assert_true(str_equal(buf_str(&whole[i]), buf_str(&pieces[i])));
            buf_clear(&pieces[i]);
        }
    }
    /* A part of a character is no text; the next ones begin where the whole character does. */
    assert_true(str_starts(buf_str(&whole[0]), STR("\"An\" ")));
    assert_true(str_find(buf_str(&whole[0]), STR("\"bytes:\\\\x"), 0) > 0);
    assert_true(str_starts(buf_str(&whole[1]), STR("-1 -2 -3 ")));
    assert_true(str_starts(buf_str(&whole[2]), STR("0 2 ")));
    assert_true(str_is(buf_str(&whole[3]), "An \xe2\x82\xac\xf0\x9f\xa6\x80 odd text."));
    for (int i = 0; i < 4; i++) {
        buf_fini(&whole[i]);
        buf_fini(&pieces[i]);
    }
}

TEST(the_chosen_token_is_always_among_the_alternatives)
{
    begin(1, false);
    f->g.request.wants_logprobs = true;
    f->g.request.logprobs = LOGPROBS_OF_TEXT;
    f->g.request.top_logprobs = 1;
    chat_say_tokens(f, 0, "A", 1);
    chat_finish(f, 0, ENGINE_STOP);
    completion_put_whole(&f->g.out, &f->g);
    assert_true(has("\"tokens\":[\"A\"],\"token_logprobs\":[-1],\"top_logprobs\":[{"));
    assert_true(has("\"A\":-1}],\"text_offset\":[0]}"));
    chat_end(f);
}

/* The engine keeps text back that may begin a stop string; the tokens wait for it. */
TEST(tokens_behind_a_stop_string_are_not_told)
{
    err e = {0};
    engine_logprob p[3] = {{.logprob = -1}, {.logprob = -2}, {.logprob = -3}};
    token_ids ids = {0};
    begin(1, true);
    f->g.request.wants_logprobs = true;
    f->g.request.logprobs = LOGPROBS_OF_TEXT;
    CHECK_OK(tokenizer_encode(f->tokens, STR("a1b"), true, 0, &ids, &e), &e);
    assert_int_equal(ids.n, 3);
    engine_event ev = {
        .kind = ENGINE_TOKENS, .ids = ids.ptr, .n_ids = 3, .logprobs = p, .text = STR("a")};
    CHECK_OK(answer_take(&f->answers[0], &ev, &e), &e);
    assert_true(has("\"text\":\"a\",\"logprobs\":{\"tokens\":[\"a\"],\"token_logprobs\":[-1],"));
    chat_finish(f, 0, ENGINE_STOP_STRING);
    completion_put_finish(&f->g.out, &f->g, &f->answers[0]);
    assert_true(has("\"text\":\"\",\"logprobs\":{\"tokens\":[],"));
    chat_end(f);
    token_ids_fini(&ids);
}
