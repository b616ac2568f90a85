#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "chat/message.h"
#include "support/test.h"

static arena a;
static err e;

/* A template that can do everything. */
static const template_caps able = {.has_system = true,
                                   .has_later_system = true,
                                   .has_developer = true,
                                   .has_tools = true,
                                   .has_reasoning = true,
                                   .efforts = 63};

static status parse(const char *request, const template_caps *caps, message_set *out)
{
    const json *v = NULL;
    arena_fini(&a);
    e = (err){0};
    CHECK_OK(json_parse(&a, str_from(request), "request", 128, 0, &v, &e), &e);
    return message_parse(&a, v, caps, out, &e);
}

/* One member of the result as JSON text. */
static const char *show(const json *v)
{
    static char text[4000];
    buf b;
    buf_init(&b);
    if (v) json_put_value(&b, v, JSON_COMPACT);
    snprintf(text, sizeof text, "%s", b.ptr ? b.ptr : "(null)");
    buf_fini(&b);
    return text;
}

#define CHECK_MESSAGES(caps, given, want)                           \
    do {                                                            \
        message_set m_ = {0};                                       \
        CHECK_OK(parse("{\"messages\":" given "}", caps, &m_), &e); \
        assert_string_equal(show(m_.messages), want);               \
    } while (0)

#define CHECK_KWARGS(caps, members, want)                                                          \
    do {                                                                                           \
        message_set m_ = {0};                                                                      \
        CHECK_OK(parse("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]," members "}", caps, \
                       &m_),                                                                       \
                 &e);                                                                              \
        assert_string_equal(show(m_.kwargs), want);                                                \
        assert_int_equal(m_.is_thinking_off, strstr(want, "\"enable_thinking\":false") != NULL);   \
    } while (0)

#define CHECK_BAD(request, want_status, want_where)            \
    do {                                                       \
        message_set m_ = {0};                                  \
        CHECK_STATUS(parse(request, &able, &m_), want_status); \
        assert_string_equal(e.where, want_where);              \
        assert_null(m_.messages);                              \
    } while (0)

#define USER "{\"role\":\"user\",\"content\":\"u\"}"

TEST(plain_messages_go_through)
{
    CHECK_MESSAGES(&able, "[{\"role\":\"system\",\"content\":\" s \"}," USER "]",
                   "[{\"role\":\"system\",\"content\":\" s \"}," USER "]");
    CHECK_MESSAGES(&able, "[{\"content\":\"c\",\"role\":\"user\",\"name\":\"n\",\"x\":null}]",
                   "[{\"role\":\"user\",\"content\":\"c\",\"name\":\"n\"}]");
    message_set m = {0};
    CHECK_OK(parse("[" USER "]", &able, &m), &e);
    assert_string_equal(show(m.messages), "[" USER "]");
    assert_null(m.tools);
    assert_string_equal(show(m.kwargs), "{}");
}

TEST(text_parts_become_one_string_and_others_stay_parts)
{
    CHECK_MESSAGES(
        &able,
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"input_text\",\"text\":\"b\",\"cache_control\":{}},{\"text\":\"c\"}]}]",
        "[{\"role\":\"user\",\"content\":\"abc\"}]");
    CHECK_MESSAGES(&able, "[{\"role\":\"user\",\"content\":[]}]",
                   "[{\"role\":\"user\",\"content\":\"\"}]");
    CHECK_MESSAGES(&able,
                   "[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},"
                   "{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"},\"cache_control\":1}]}]",
                   "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                   "{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]}]");
    CHECK_BAD("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
              "{\"type\":\"audio\"}]}]}",
              ERR_UNSUPPORTED, "/messages/0/content/1");
    CHECK_BAD("[{\"role\":\"user\",\"content\":[5]}]", ERR_FORMAT, "/messages/0/content/0");
    CHECK_BAD("[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", ERR_FORMAT,
              "/messages/0/content/0");
    CHECK_BAD("[{\"role\":\"user\",\"content\":7}]", ERR_FORMAT, "/messages/0/content");
}

#define ASSISTANT(content, arguments)                                                    \
    "{\"role\":\"assistant\"" content                                                    \
    ",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\"," \
    "\"arguments\":" arguments "}}]}"

TEST(null_missing_and_empty_content_are_the_same)
{
    static const char want[] = "[" USER "," ASSISTANT(",\"content\":\"\"", "{}") "]";
    CHECK_MESSAGES(&able, "[" USER "," ASSISTANT(",\"content\":null", "{}") "]", want);
    CHECK_MESSAGES(&able, "[" USER "," ASSISTANT("", "{}") "]", want);
    CHECK_MESSAGES(&able, "[" USER "," ASSISTANT(",\"content\":\"\"", "{}") "]", want);
    CHECK_MESSAGES(&able, "[" USER "," ASSISTANT(",\"content\":[]", "{}") "]", want);
    template_caps null_wanted = able;
    null_wanted.wants_null_content = true;
    CHECK_MESSAGES(&null_wanted, "[" USER "," ASSISTANT("", "{}") "]",
                   "[" USER "," ASSISTANT(",\"content\":null", "{}") "]");
}

TEST(arguments_become_an_object_with_order_and_number_text)
{
    CHECK_MESSAGES(&able,
                   "[" ASSISTANT("", "\"{\\\"b\\\": 1.0, \\\"a\\\": [1e5, \\\"x\\\"]}\"") "]",
                   "[" ASSISTANT(",\"content\":\"\"", "{\"b\":1.0,\"a\":[1e5,\"x\"]}") "]");
    CHECK_MESSAGES(&able, "[" ASSISTANT("", "{\"b\":1.0,\"a\":[1e5,\"x\"]}") "]",
                   "[" ASSISTANT(",\"content\":\"\"", "{\"b\":1.0,\"a\":[1e5,\"x\"]}") "]");
    CHECK_MESSAGES(&able, "[" ASSISTANT("", "\" \"") "]",
                   "[" ASSISTANT(",\"content\":\"\"", "{}") "]");
    CHECK_MESSAGES(&able, "[" ASSISTANT("", "null") "]",
                   "[" ASSISTANT(",\"content\":\"\"", "{}") "]");
    template_caps text_wanted = able;
    text_wanted.wants_text_arguments = true;
    CHECK_MESSAGES(&text_wanted, "[" ASSISTANT("", "\"{\\\"a\\\":1}\"") "]",
                   "[" ASSISTANT(",\"content\":\"\"", "\"{\\\"a\\\":1}\"") "]");
    CHECK_MESSAGES(&text_wanted, "[" ASSISTANT("", "{\"a\":[1,2]}") "]",
                   "[" ASSISTANT(",\"content\":\"\"", "\"{\\\"a\\\": [1, 2]}\"") "]");
}

TEST(unfinished_arguments_are_read_as_far_as_they_go)
{
    CHECK_MESSAGES(&able, "[" ASSISTANT("", "\"{\\\"a\\\": 1, \\\"b\\\": \\\"par\"") "]",
                   "[" ASSISTANT(",\"content\":\"\"", "{\"a\":1,\"b\":\"par\"}") "]");
}

TEST(bad_arguments_name_their_place)
{
#define WHERE "/messages/1/tool_calls/0/function/arguments"
    CHECK_BAD("[" USER "," ASSISTANT("", "\"{\\\"a\\\" 1}\"") "]", ERR_FORMAT, WHERE);
    CHECK_BAD("[" USER "," ASSISTANT("", "\"[1]\"") "]", ERR_FORMAT, WHERE);
    CHECK_BAD("[" USER "," ASSISTANT("", "\"nonsense\"") "]", ERR_FORMAT, WHERE);
    CHECK_BAD("[" USER "," ASSISTANT("", "5") "]", ERR_FORMAT, WHERE);
}

TEST(calls_come_in_several_shapes)
{
    static const char want[] =
        "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":{}}}]}]";
    CHECK_MESSAGES(&able, "[{\"role\":\"assistant\",\"tool_calls\":[{\"name\":\"f\"}]}]", want);
    CHECK_MESSAGES(
        &able, "[{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\",\"arguments\":\"{}\"}}]",
        want);
    CHECK_MESSAGES(&able, "[{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[]}]",
                   "[{\"role\":\"assistant\",\"content\":\"x\"}]");
    CHECK_MESSAGES(&able, "[{\"role\":\"function\",\"name\":\"f\",\"content\":\"1\"}]",
                   "[{\"role\":\"tool\",\"content\":\"1\",\"name\":\"f\"}]");
    CHECK_BAD("[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"custom\"}]}]", ERR_UNSUPPORTED,
              "/messages/0/tool_calls/0");
    CHECK_BAD("[{\"role\":\"assistant\",\"tool_calls\":[{}]}]", ERR_FORMAT,
              "/messages/0/tool_calls/0");
    CHECK_BAD("[{\"role\":\"assistant\",\"tool_calls\":5}]", ERR_FORMAT, "/messages/0/tool_calls");
}

TEST(reasoning_has_two_names)
{
    CHECK_MESSAGES(&able, "[{\"role\":\"assistant\",\"content\":\"x\",\"reasoning\":\"r\"}]",
                   "[{\"role\":\"assistant\",\"content\":\"x\",\"reasoning_content\":\"r\"}]");
    CHECK_MESSAGES(&able,
                   "[{\"role\":\"assistant\",\"content\":\"x\",\"reasoning\":\"r\","
                   "\"reasoning_content\":\"own\"}]",
                   "[{\"role\":\"assistant\",\"content\":\"x\",\"reasoning_content\":\"own\"}]");
}

#define SYSTEM(t) "{\"role\":\"system\",\"content\":\"" t "\"}"
#define DEVELOPER(t) "{\"role\":\"developer\",\"content\":\"" t "\"}"

TEST(leading_system_messages_become_one)
{
    CHECK_MESSAGES(&able, "[" SYSTEM("a") "," DEVELOPER("b") "," SYSTEM("") "," USER "]",
                   "[" SYSTEM("a\\n\\nb") "," USER "]");
    CHECK_MESSAGES(&able, "[" DEVELOPER("a") "," DEVELOPER("b") "," USER "]",
                   "[" DEVELOPER("a\\n\\nb") "," USER "]");
    template_caps no_developer = able;
    no_developer.has_developer = false;
    CHECK_MESSAGES(&no_developer, "[" DEVELOPER("a") "," USER "," DEVELOPER("c") "]",
                   "[" SYSTEM("a") "," USER "," SYSTEM("c") "]");
    template_caps no_system = able;
    no_system.has_system = no_system.has_later_system = false;
    CHECK_MESSAGES(&no_system, "[" SYSTEM("a") "," USER "]",
                   "[{\"role\":\"user\",\"content\":\"a\\n\\nu\"}]");
}

TEST(later_system_messages_stay_where_they_are)
{
    CHECK_MESSAGES(&able, "[" USER "," SYSTEM("s") "," USER "]",
                   "[" USER "," SYSTEM("s") "," USER "]");
    template_caps strict = able;
    strict.has_later_system = false;
#define REMINDER "<system-reminder>\\ns\\n</system-reminder>"
    CHECK_MESSAGES(&strict, "[" USER "," SYSTEM("s") "," USER "]",
                   "[" USER ",{\"role\":\"user\",\"content\":\"" REMINDER "\"}," USER "]");
    strict.merges_users = true;
    CHECK_MESSAGES(&strict, "[" USER "," SYSTEM("s") "," USER "]",
                   "[{\"role\":\"user\",\"content\":\"u\\n\\n" REMINDER "\\n\\nu\"}]");
}

TEST(tools_keep_everything_but_cache_marks)
{
    message_set m = {0};
    CHECK_OK(parse("{\"messages\":[" USER
                   "],\"tools\":[{\"type\":\"function\",\"cache_control\":{},"
                   "\"function\":{\"name\":\"f\",\"z\":1.0,\"a\":1e5}},{\"name\":\"g\"}]}",
                   &able, &m),
             &e);
    assert_string_equal(
        show(m.tools), "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"z\":1.0,\"a\":1e5}},"
                       "{\"name\":\"g\"}]");
    CHECK_OK(parse("{\"messages\":[" USER "],\"tools\":[]}", &able, &m), &e);
    assert_null(m.tools);
    CHECK_BAD("{\"messages\":[" USER "],\"tools\":{}}", ERR_FORMAT, "/tools");
    CHECK_BAD("{\"messages\":[" USER "],\"tools\":[{\"name\":\"f\"},7]}", ERR_FORMAT, "/tools/1");
    CHECK_BAD("{\"messages\":[" USER "],\"tools\":[{\"function\":{}}]}", ERR_FORMAT,
              "/tools/0/function/name");
}

TEST(variables_outrank_members_and_nulls_do_not_count)
{
    CHECK_KWARGS(&able,
                 "\"chat_template_kwargs\":{\"enable_thinking\":false,\"x\":null,\"y\":1},"
                 "\"enable_thinking\":true",
                 "{\"enable_thinking\":false,\"y\":1}");
    CHECK_KWARGS(&able, "\"enable_thinking\":false,\"preserve_thinking\":true",
                 "{\"enable_thinking\":false,\"preserve_thinking\":true}");
    CHECK_KWARGS(&able, "\"enable_thinking\":null,\"reasoning_effort\":null", "{}");
    CHECK_KWARGS(&able, "\"reasoning_effort\":\"none\"", "{\"enable_thinking\":false}");
    CHECK_KWARGS(&able, "\"reasoning_effort\":\"none\",\"enable_thinking\":true",
                 "{\"enable_thinking\":true}");
    CHECK_KWARGS(&able, "\"reasoning\":{\"effort\":\"low\"}", "{\"reasoning_effort\":\"low\"}");
    CHECK_KWARGS(&able, "\"output_config\":{\"effort\":\"low\"}", "{\"reasoning_effort\":\"low\"}");
    CHECK_KWARGS(
        &able,
        "\"chat_template_kwargs\":{\"reasoning_effort\":\"low\"},\"reasoning_effort\":\"max\"",
        "{\"reasoning_effort\":\"low\"}");
    CHECK_BAD("{\"messages\":[" USER "],\"chat_template_kwargs\":{\"messages\":[]}}", ERR_INVALID,
              "/chat_template_kwargs");
    CHECK_BAD("{\"messages\":[" USER "],\"chat_template_kwargs\":[]}", ERR_FORMAT,
              "/chat_template_kwargs");
    CHECK_BAD("{\"messages\":[" USER "],\"enable_thinking\":\"no\"}", ERR_FORMAT,
              "/enable_thinking");
    CHECK_BAD("{\"messages\":[" USER "],\"reasoning_effort\":3}", ERR_FORMAT, "/reasoning_effort");
}

TEST(efforts_take_the_nearest_name_the_template_knows)
{
    template_caps three = able;
    three.efforts = TEMPLATE_EFFORT_XHIGH | TEMPLATE_EFFORT_MEDIUM | TEMPLATE_EFFORT_LOW;
    CHECK_KWARGS(&three, "\"reasoning_effort\":\"high\"", "{\"reasoning_effort\":\"xhigh\"}");
    CHECK_KWARGS(&three, "\"reasoning_effort\":\"max\"", "{\"reasoning_effort\":\"xhigh\"}");
    CHECK_KWARGS(&three, "\"reasoning_effort\":\"minimal\"", "{\"reasoning_effort\":\"low\"}");
    CHECK_KWARGS(&three, "\"reasoning_effort\":\"medium\"", "{\"reasoning_effort\":\"medium\"}");
    CHECK_KWARGS(&able, "\"chat_template_kwargs\":{\"reasoning_effort\":\"anything\"}",
                 "{\"reasoning_effort\":\"anything\"}");
    CHECK_BAD("{\"messages\":[" USER "],\"reasoning_effort\":\"anything\"}", ERR_INVALID,
              "/reasoning_effort");
    CHECK_BAD("{\"messages\":[" USER "],\"reasoning\":{\"effort\":\"\"}}", ERR_INVALID,
              "/reasoning/effort");
    message_set m = {0};
    CHECK_STATUS(parse("{\"messages\":[" USER "],\"reasoning_effort\":\"huge\"}", &three, &m),
                 ERR_INVALID);
    assert_string_equal(e.where, "/reasoning_effort");
    assert_non_null(strstr(e.msg, "low, medium, xhigh"));
}

TEST(requests_that_say_nothing_are_refused)
{
    CHECK_BAD("{}", ERR_FORMAT, "/messages");
    CHECK_BAD("[]", ERR_FORMAT, "");
    CHECK_BAD("{\"messages\":{}}", ERR_FORMAT, "/messages");
    CHECK_BAD("5", ERR_FORMAT, "");
    CHECK_BAD("[5]", ERR_FORMAT, "/messages/0");
    CHECK_BAD("[{\"content\":\"x\"}]", ERR_FORMAT, "/messages/0/role");
    CHECK_BAD("[" USER ",{\"role\":\"robot\",\"content\":\"x\"}]", ERR_INVALID, "/messages/1/role");
    assert_string_equal(e.msg,
                        "'robot' is no role; want system, developer, user, assistant or tool");
    CHECK_BAD("[{\"role\":\"\",\"content\":\"x\"}]", ERR_INVALID, "/messages/0/role");
    CHECK_BAD("[{\"role\":[],\"content\":\"x\"}]", ERR_FORMAT, "/messages/0/role");
}

TEST(thinking_can_be_set_afterwards)
{
    message_set m = {0};
    CHECK_OK(parse("{\"messages\":[" USER "],\"enable_thinking\":true}", &able, &m), &e);
    CHECK_OK(message_set_thinking(&a, &m, false, &e), &e);
    assert_string_equal(show(m.kwargs), "{\"enable_thinking\":false}");
    assert_true(m.is_thinking_off);
}

TEST(a_file_holds_messages_or_a_request)
{
    char path[] = "/tmp/riptide-messages-XXXXXX";
    int fd = mkstemp(path);
    message_set m = {0};
    assert_true(fd >= 0);
    static const char text[] = "[" USER "]";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    arena_fini(&a);
    CHECK_OK(message_read(&a, path, &able, &m, &e), &e);
    assert_string_equal(show(m.messages), text);
    unlink(path);
    CHECK_STATUS(message_read(&a, path, &able, &m, &e), ERR_IO);
}

TEST(every_allocation_may_fail)
{
#define PARTS "{\"role\":\"user\",\"content\":[{\"text\":\"x\"},{\"type\":\"image\"}]}"
#define CUT_CALL ASSISTANT("", "\"{\\\"a\\\":[1\"")
#define REST "\"tools\":[{\"name\":\"f\",\"cache_control\":1}],\"reasoning_effort\":\"low\""
    static const char request[] = "{\"messages\":[" SYSTEM("a") "," DEVELOPER(
        "b") "," PARTS "," CUT_CALL "," SYSTEM("s") "]," REST "}";
    template_caps strict = able;
    strict.has_later_system = strict.has_developer = false;
    strict.wants_text_arguments = true;
    const json *v = NULL;
    arena source;
    arena_init(&source, 0);
    CHECK_OK(json_parse(&source, STR(request), "request", 64, 0, &v, &e), &e);
    for (int n = 1;; n++) {
        arena small;
        message_set m = {0};
        int64_t live = mem_count().n_live;
        arena_init(&small, 0);
        mem_fail_at(n);
        status s = message_parse(&small, v, &strict, &m, &e);
        mem_fail_at(0);
        arena_fini(&small);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        assert_null(m.messages);
    }
    arena_fini(&source);
}
