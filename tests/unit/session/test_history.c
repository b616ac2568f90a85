#include "session/history.h"

#include "base/file.h"
#include "base/mem.h"
#include "support/test.h"

typedef struct {
    arena mem;
    template *tpl;
    tokenizer *tokens;
    turn_memory *turns;
    const json *tools;
} fixture;

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"edit\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"path\":{\"type\":\"string\"},\"lines\":{\"type\":\"array\"},"
    "\"line\":{\"type\":\"number\"}}}}}]";

static str read_model_file(fixture *f, const char *name)
{
    char path[4400];
    str text;
    err e = {0};
    snprintf(path, sizeof path, "%s/models/mini-dense/%s", test_root(), name);
    CHECK_OK(file_read(&f->mem, path, 1 << 26, &text, &e), &e);
    return text;
}

static const json *parse(fixture *f, const char *text)
{
    const json *v;
    err e = {0};
    CHECK_OK(json_parse(&f->mem, str_from(text), "test", 64, 0, &v, &e), &e);
    return v;
}

static void open_fixture(fixture *f, const char *source)
{
    err e = {0};
    *f = (fixture){0};
    arena_init(&f->mem, 0);
    str text = source ? str_from(source) : read_model_file(f, "chat_template.jinja");
    CHECK_OK(template_open(&f->tpl, text, "template", &e), &e);
    text = read_model_file(f, "tokenizer.json");
    CHECK_OK(tokenizer_open(&f->tokens, text, "tokenizer", &e), &e);
    CHECK_OK(turn_memory_open(&f->turns, 1 << 20, &e), &e);
    f->tools = parse(f, tools_text);
}

static void close_fixture(fixture *f)
{
    template_close(f->tpl);
    tokenizer_close(f->tokens);
    turn_memory_close(f->turns);
    arena_fini(&f->mem);
}

static status encode(const fixture *f, const json *messages, bool looks, token_ids *ids,
                     history_made *made, err *e)
{
    buf text;
    history_request r = {
        .tpl = f->tpl,
        .tokens = f->tokens,
        .turns = looks ? f->turns : NULL,
        .input = {.messages = messages, .tools = f->tools, .add_generation_prompt = true}};
    buf_init(&text);
    status s = history_encode(&r, &text, ids, made, e);
    buf_fini(&text);
    return s;
}

static token_ids ids_of(fixture *f, const char *messages, bool looks, history_made *made)
{
    token_ids ids = {0};
    err e = {0};
    CHECK_OK(encode(f, parse(f, messages), looks, &ids, made, &e), &e);
    return ids;
}

/* Pieces tokenised apart: other ids than the tokenizer gives for the whole. */
static void generate(const fixture *f, const char *const *pieces, token_ids *ids)
{
    err e = {0};
    for (; *pieces; pieces++)
        CHECK_OK(tokenizer_encode(f->tokens, str_from(*pieces), true, 0, ids, &e), &e);
}

#define Q "[{\"role\":\"user\",\"content\":\"Fix it\"}"
#define CALL(id, arguments)                                                                     \
    "\"tool_calls\":[{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"edit\"," \
    "\"arguments\":" arguments "}}]"
#define A(rest) ",{\"role\":\"assistant\",\"content\":\"On it.\"," rest "}"
#define T ",{\"role\":\"tool\",\"content\":\"done\"}]"
#define GIVEN "{\"path\":\"a.c\",\"lines\":[1,{\"x\":2,\"y\":\"z\"}],\"line\":3}"

static const char *const answer[] = {"I sho",
                                     "uld ed",
                                     "it\n",
                                     "</think>",
                                     "\n\n",
                                     "On i",
                                     "t.\n\n",
                                     "<tool_call>",
                                     "\n<function=ed",
                                     "it>\n<parameter=path>\na.c\n</parameter>\n",
                                     "<parameter=lines>\n[1,{\"x\":2,",
                                     "\"y\":\"z\"}]\n</parameter>\n",
                                     "<parameter=line>\n3\n</parameter>\n",
                                     "</function>\n",
                                     "</tool_call>",
                                     "<|im_end|>",
                                     NULL};

/* The first question was answered with `answer`, whose call has the id call_1. */
static token_ids remember(fixture *f, token_ids *prompt)
{
    history_made made;
    token_ids ids = {0};
    str calls[] = {STR("call_1")};
    *prompt = ids_of(f, Q "]", true, &made);
    assert_true(made.prompt.n_bytes > 0);
    generate(f, answer, &ids);
    turn t = {.n_messages = 1, .n_ids = ids.n, .n_calls = 1, ids.ptr, calls};
    turn_memory_put(f->turns, &made.prompt, &t);
    return ids;
}

/* Whether the messages' prompt is the first one, the answer as it was, and more. */
static void expect(fixture *f, const char *messages, bool is_turn, bool is_filled)
{
    history_made made;
    token_ids prompt, generated = remember(f, &prompt), got = ids_of(f, messages, true, &made);
    assert_int_equal(made.n_turns, is_turn);
    assert_int_equal(made.n_filled_turns, is_filled);
    if (is_turn) {
        int n = prompt.n + generated.n;
        assert_true(got.n > n);
        assert_memory_equal(got.ptr, prompt.ptr, (size_t)prompt.n * 4);
        assert_memory_equal(got.ptr + prompt.n, generated.ptr, (size_t)generated.n * 4);
        /* What comes behind it is what would come behind it anyway. */
        token_ids plain = ids_of(f, messages, false, &made);
        int n_rest = got.n - n;
        assert_memory_equal(got.ptr + n, plain.ptr + plain.n - n_rest, (size_t)n_rest * 4);
        token_ids_fini(&plain);
    } else {
        token_ids plain = ids_of(f, messages, false, &made);
        assert_int_equal(got.n, plain.n);
        assert_memory_equal(got.ptr, plain.ptr, (size_t)got.n * 4);
        token_ids_fini(&plain);
    }
    token_ids_fini(&prompt);
    token_ids_fini(&generated);
    token_ids_fini(&got);
}

TEST(a_turn_sent_back_stands_as_it_was_generated)
{
    fixture f;
    open_fixture(&f, NULL);
    expect(&f, Q A("\"reasoning_content\":\"I should edit\"," CALL("call_1", GIVEN)) T, true,
           false);
    close_fixture(&f);
}

TEST(a_turn_without_its_reasoning_gets_it_back_where_the_template_would_write_it)
{
    fixture f;
    open_fixture(&f, NULL);
    expect(&f, Q A(CALL("call_1", GIVEN)) T, true, true);
    /* Behind another question the template drops all reasoning before it. */
    expect(&f,
           Q A(CALL("call_1", GIVEN)) ",{\"role\":\"tool\",\"content\":\"done\"},"
                                      "{\"role\":\"user\",\"content\":\"More\"}]",
           false, false);
    close_fixture(&f);
}

TEST(a_template_that_writes_empty_reasoning_for_old_turns_keeps_doing_so)
{
    static const char source[] =
        "{%- for m in messages -%}<|im_start|>{{ m.role }}\n"
        "{%- if m.role == 'assistant' -%}<think>\n\n</think>\n\n{%- endif -%}{{ m.content }}"
        "{%- for c in m.tool_calls or [] -%}<tool_call>\n<function={{ c.function.name }}>\n"
        "{%- for k, v in c.function.arguments | items -%}<parameter={{ k }}>\n"
        "{{ v if v is string else v | tojson }}\n</parameter>\n{%- endfor -%}"
        "</function>\n</tool_call>{%- endfor -%}<|im_end|>\n{%- endfor -%}"
        "<|im_start|>assistant\n<think>\n";
    fixture f;
    open_fixture(&f, source);
    expect(&f, Q A(CALL("call_1", GIVEN)) T, false, false);
    close_fixture(&f);
}

TEST(arguments_may_come_back_in_another_order_and_spelling)
{
    fixture f;
    open_fixture(&f, NULL);
    expect(&f,
           Q A(CALL("call_1", "{\"line\":3.0, \"lines\":[1, {\"y\":\"z\", \"x\":2}],"
                              "\"path\":\"a.c\"}")) T,
           true, true);
    close_fixture(&f);
}

TEST(another_answer_is_not_taken_for_the_one_that_was_generated)
{
    static const char *const others[] = {
        Q A(CALL("call_2", GIVEN)) T,
        Q A(CALL("call_1", "{\"path\":\"b.c\",\"lines\":[1,{\"x\":2,\"y\":\"z\"}],\"line\":3}")) T,
        Q A(CALL("call_1", "{\"path\":\"a.c\",\"lines\":[1,{\"x\":2,\"y\":\"z\"}]}")) T,
        Q A(CALL("call_1", "{\"path\":\"a.c\",\"lines\":[1,{\"x\":2,\"y\":\"z\"},4],\"line\":3}"))
            T,
        Q A(CALL("call_1", "{\"path\":\"a.c\",\"lines\":[1,{\"x\":2,\"y\":\"z\"}],\"line\":4}")) T,
        Q A("\"reasoning_content\":\"I should not\"," CALL("call_1", GIVEN)) T,
        Q ",{\"role\":\"assistant\",\"content\":\"Off it.\"," CALL("call_1", GIVEN) "}" T,
        Q ",{\"role\":\"assistant\",\"content\":\"On it.\"}" T,
        "[{\"role\":\"user\",\"content\":\"Fix that\"}" A(CALL("call_1", GIVEN)) T,
        /* The marks of a call, but in a text that somebody wrote. */
        Q ",{\"role\":\"assistant\",\"content\":\"On it.\\n\\n<tool_call>\\n<function=edit>\\n"
          "<parameter=path>\\na.c\\n</parameter>\\n<parameter=lines>\\n[1,{\\\"x\\\":2,"
          "\\\"y\\\":\\\"z\\\"}]\\n</parameter>\\n<parameter=line>\\n3\\n</parameter>\\n"
          "</function>\\n</tool_call>\"}" T,
    };
    fixture f;
    open_fixture(&f, NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) expect(&f, others[i], false, false);
    close_fixture(&f);
}

/* Both turns of a tool loop, the second one generated behind the first one as it was. */
TEST(turns_follow_one_another)
{
    static const char *const next[] = {"So\n", "</think>", "\n\n", "Do", "ne.", "<|im_end|>", NULL};
    fixture f;
    history_made made;
    token_ids prompt, second = {0}, both, third;
    open_fixture(&f, NULL);
    token_ids first = remember(&f, &prompt);
    both = ids_of(&f, Q A(CALL("call_1", GIVEN)) T, true, &made);
    generate(&f, next, &second);
    turn t = {.n_messages = 3, .n_ids = second.n, .ids = second.ptr};
    turn_memory_put(f.turns, &made.prompt, &t);
    third = ids_of(&f,
                   Q A(CALL("call_1", GIVEN)) ",{\"role\":\"tool\",\"content\":\"done\"},"
                                              "{\"role\":\"assistant\",\"content\":\"Done.\"},"
                                              "{\"role\":\"tool\",\"content\":\"go on\"}]",
                   true, &made);
    assert_int_equal(made.n_turns, 2);
    assert_int_equal(made.n_filled_turns, 2);
    assert_int_equal(made.n_turn_tokens, first.n + second.n);
    assert_memory_equal(third.ptr, both.ptr, (size_t)both.n * 4);
    assert_memory_equal(third.ptr + both.n, second.ptr, (size_t)second.n * 4);
    token_ids *const all[] = {&prompt, &first, &second, &both, &third};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) token_ids_fini(all[i]);
    close_fixture(&f);
}

TEST(without_memory_a_prompt_is_refused_and_nothing_is_lost)
{
    fixture f;
    history_made made = {.n_turns = 0};
    err e = {0};
    int n_refused = 0;
    open_fixture(&f, NULL);
    token_ids prompt, first = remember(&f, &prompt), ids = {0};
    const json *messages = parse(&f, Q A(CALL("call_1", GIVEN)) T);
    for (int64_t at = 1; made.n_turns == 0; at++) {
        int64_t n_live = mem_count().n_live;
        mem_fail_at(at);
        status s = encode(&f, messages, true, &ids, &made, &e);
        mem_fail_at(0);
        if (s == ERR_OK) continue;
        CHECK_STATUS(s, ERR_NOMEM);
        assert_int_equal(ids.n, 0);
        assert_true(mem_count().n_live <= n_live + 2); /* the tokenizer's and the ids' room stays */
        n_refused++;
    }
    assert_true(n_refused > 10);
    token_ids_fini(&prompt);
    token_ids_fini(&first);
    token_ids_fini(&ids);
    close_fixture(&f);
}
