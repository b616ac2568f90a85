#include "server/generation_priv.h"

#include "chat_fixture.h"

static chat_fixture fixture, *const f = &fixture;
static err last;

#define TOOLS                                                                                   \
    "[{'type':'function','function':{'name':'look','parameters':{'type':'object','properties':" \
    "{'n':{'type':'integer'}},'required':['n']}}},{'name':'wait','parameters':{'required':['x']}}]"

static void begin(const char *schema, bool is_strict)
{
    static const str names[] = {{"look", 4}, {"wait", 4}};
    chat_begin(f, 1, true, TOOLS, false);
    f->g.schema = schema ? chat_parse(&f->mem, schema) : NULL;
    f->g.is_checked = true;
    f->g.request.format.strict = names;
    f->g.request.format.n_strict = is_strict ? 2 : 0;
}

/* Whether an answer of this text is valid. */
static bool is_valid(const char *schema, bool is_strict, const char *text, engine_finish reason)
{
    bool valid = false;
    begin(schema, is_strict);
    engine_event ev = {.kind = ENGINE_TOKENS, .text = str_from(text)};
    CHECK_OK(answer_take(&f->answers[0], &ev, &last), &last);
    ev = (engine_event){.kind = ENGINE_FINISH, .reason = reason, .stop_string = -1};
    CHECK_OK(answer_take(&f->answers[0], &ev, &last), &last);
    CHECK_OK(answer_check(&f->answers[0], &valid, &last), &last);
    chat_end(f);
    return valid;
}

#define LOOK(n) \
    "<tool_call>\n<function=look>\n<parameter=n>\n" n "\n</parameter>\n</function>\n</tool_call>"
#define WAIT "<tool_call>\n<function=wait>\n</function>\n</tool_call>"

TEST(a_finished_text_is_judged_by_its_schema)
{
    assert_true(is_valid("{'type':'array'}", false, "[1]", ENGINE_STOP));
    assert_false(is_valid("{'type':'array'}", false, "{}", ENGINE_STOP));
    assert_false(is_valid("{'type':'array'}", false, "[1", ENGINE_STOP));
    assert_false(is_valid("{'type':'array'}", false, "", ENGINE_STOP));
    /* one that was cut promises nothing */
    assert_true(is_valid("{'type':'array'}", false, "[1", ENGINE_LENGTH));
    assert_true(is_valid(NULL, false, "text", ENGINE_STOP));
}

TEST(strict_calls_are_judged_by_their_parameters)
{
    assert_true(is_valid(NULL, true, LOOK("5"), ENGINE_STOP));
    assert_false(is_valid(NULL, true, LOOK("five"), ENGINE_STOP));
    assert_true(is_valid(NULL, false, LOOK("five"), ENGINE_STOP));
    assert_false(is_valid(NULL, true, LOOK("5") "\n" WAIT, ENGINE_STOP));
    assert_true(is_valid("{'type':'array'}", true, LOOK("5"), ENGINE_STOP));
}
