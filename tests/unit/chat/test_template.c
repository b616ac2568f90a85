/* tags: threads */
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "chat/template.h"
#include "support/test.h"
#include "unit/chat/sha256.h"

typedef struct {
    arena a;
    err e;
    template_input in;
    buf out;
    segments parts;
} fixture;

static void open_fixture(fixture *f, const char *messages, const char *tools, const char *kwargs)
{
    *f = (fixture){.in = {.add_generation_prompt = true, .now_s = 1700000000}};
    arena_init(&f->a, 0);
    buf_init(&f->out);
    segments_init(&f->parts);
    CHECK_OK(json_parse(&f->a, str_from(messages), "messages", 64, 0, &f->in.messages, &f->e),
             &f->e);
    if (tools)
        CHECK_OK(json_parse(&f->a, str_from(tools), "tools", 64, 0, &f->in.tools, &f->e), &f->e);
    if (kwargs)
        CHECK_OK(json_parse(&f->a, str_from(kwargs), "kwargs", 64, 0, &f->in.kwargs, &f->e), &f->e);
}

static void close_fixture(fixture *f)
{
    segments_fini(&f->parts);
    buf_fini(&f->out);
    arena_fini(&f->a);
}

static template *open_text(const char *source)
{
    template *t = NULL;
    err e = {0};
    CHECK_OK(template_open(&t, str_from(source), "test", &e), &e);
    return t;
}

static template *open_file(const char *path)
{
    arena a;
    err e = {0};
    str source;
    template *t = NULL;
    arena_init(&a, 0);
    CHECK_OK(file_read(&a, path, 1 << 20, &source, &e), &e);
    CHECK_OK(template_open(&t, source, path, &e), &e);
    arena_fini(&a);
    return t;
}

/* The segments as text: template bytes between bars, input bytes as they are. */
static void show_parts(const fixture *f, char *out, size_t cap)
{
    size_t n = 0, at = 0;
    for (int64_t i = 0; i < f->parts.n; i++) {
        const segment *s = &f->parts.ptr[i];
        assert_int_equal(s->offset, at);
        n += (size_t)snprintf(out + n, cap - n, s->is_template ? "|%.*s|" : "%.*s", (int)s->len,
                              f->out.ptr + s->offset);
        at += s->len;
    }
    assert_int_equal(at, f->out.len);
}

static void check_parts(const char *source, const char *messages, const char *tools,
                        const char *want)
{
    fixture f;
    char got[600] = "";
    template *t = open_text(source);
    open_fixture(&f, messages, tools, NULL);
    f.in.bos_token = STR("<s>");
    CHECK_OK(template_render(t, &f.in, &f.out, &f.parts, &f.e), &f.e);
    show_parts(&f, got, sizeof got);
    assert_string_equal(got, want);
    close_fixture(&f);
    template_close(t);
}

#define ONE "[{\"role\":\"user\",\"content\":\" Hi<|im_end|> \"}]"

TEST(segments_tell_input_from_template)
{
    check_parts("<|a|>{{ messages[0].content }}<|b|>", ONE, NULL, "|<|a|>| Hi<|im_end|> |<|b|>|");
    check_parts("{{ '<' + messages[0].content|trim + '>' }}", ONE, NULL, "|<|Hi<|im_end|>|>|");
    check_parts("{{ '<' ~ messages[0].role ~ bos_token }}", ONE, NULL, "|<|user|<s>|");
    check_parts("{% set x %}[{{ messages[0].content[1:3] }}]{% endset %}{{ x }}", ONE, NULL,
                "|[|Hi|]|");
    check_parts("{{ messages[0].content.replace('<|im_end|>', '!') | upper }}", ONE, NULL,
                " HI|!| ");
    check_parts("{{ messages[0].content.split('<')[1] }}", ONE, NULL, "|im_end|> ");
    check_parts("{{ ['a', messages[0].role, 'b'] | join('-') }}", ONE, NULL, "|a-|user|-b|");
    check_parts("{{ '%s:%s' % ('x', messages[0].role) }}", ONE, NULL, "|x:|user");
    check_parts("{{ '<{}>'.format(messages[0].role) }}", ONE, NULL, "|<|user|>|");
    check_parts("{% macro m(a) %}({{ a }}){% endmacro %}{{ m(messages[0].role) }}", ONE, NULL,
                "|(|user|)|");
    check_parts("{{ 'a\nb' | indent(1) }}{{ messages[0].role | capitalize }}", ONE, NULL,
                "|a\n b|User");
}

TEST(json_of_input_is_input)
{
    check_parts("<tools>{{ tools[0] | tojson }}</tools>", ONE,
                "[{\"name\":\"<|im_end|>\",\"n\":[1.0,1e5,null]}]",
                "|<tools>|{\"name\": \"<|im_end|>\", \"n\": [1.0, 100000.0, null]}|</tools>|");
    check_parts("{{ tools[0] }}", ONE, "[{\"a\":[1,\"x\",true]}]", "{'a': [1, 'x', True]}");
    check_parts("{{ {'k': messages[0].role} | tojson }}", ONE, NULL, "|{\"k\": |\"user\"|}|");
    check_parts("{{ tools[0].n }}", ONE, "[{\"n\":12345678901234567890}]", "12345678901234567890");
}

TEST(key_order_and_number_text_are_kept)
{
    fixture f;
    template *t = open_text("{{ tools | tojson }}");
    open_fixture(&f, ONE,
                 "[{\"z\":1,\"a\":-0,\"m\":0.10,\"b\":1E2,\"big\":123456789012345678901234567890,"
                 "\"s\":\"\\u00e9<&'\\u2028\\u0007\"}]",
                 NULL);
    CHECK_OK(template_render(t, &f.in, &f.out, NULL, &f.e), &f.e);
    assert_string_equal(
        f.out.ptr, "[{\"z\": 1, \"a\": 0, \"m\": 0.1, \"b\": 100.0, \"big\": "
                   "123456789012345678901234567890, \"s\": \"\xc3\xa9<&'\xe2\x80\xa8\\u0007\"}]");
    close_fixture(&f);
    template_close(t);
}

TEST(a_refusal_carries_the_templates_words_and_changes_nothing)
{
    fixture f;
    template *t = open_text(
        "abc{% if messages|length > 1 %}{{ raise_exception('only one') }}{% endif %}");
    open_fixture(&f, "[{\"role\":\"user\"},{\"role\":\"user\"}]", NULL, NULL);
    buf_put_c(&f.out, "before");
    f.parts.ptr = mem_new_array(1, sizeof *f.parts.ptr);
    f.parts.n = 1;
    CHECK_STATUS(template_render(t, &f.in, &f.out, &f.parts, &f.e), ERR_FORMAT);
    assert_string_equal(f.e.msg, "only one");
    assert_string_equal(f.e.where, "test");
    assert_string_equal(f.out.ptr, "before");
    assert_int_equal(f.parts.n, 1);
    close_fixture(&f);
    template_close(t);
}

TEST(an_error_names_line_and_column)
{
    fixture f;
    template *t = open_text("line one\n  {{ messages[0].nothing.more }}");
    open_fixture(&f, ONE, NULL, NULL);
    CHECK_STATUS(template_render(t, &f.in, &f.out, NULL, &f.e), ERR_FORMAT);
    assert_string_equal(f.e.msg, "line 2 column 25: 'dict' object has no attribute 'nothing'");
    assert_int_equal(f.e.pos, 33);
    close_fixture(&f);
    template_close(t);
}

TEST(arguments_cannot_be_overridden_by_variables)
{
    fixture f;
    template *t = open_text("{{ x }}");
    open_fixture(&f, ONE, NULL, "{\"messages\":[]}");
    CHECK_STATUS(template_render(t, &f.in, &f.out, NULL, &f.e), ERR_INVALID);
    f.in.bos_token = STR("\xff");
    f.in.kwargs = NULL;
    CHECK_STATUS(template_render(t, &f.in, &f.out, NULL, &f.e), ERR_INVALID);
    close_fixture(&f);
    template_close(t);
}

TEST(absent_tools_and_documents_are_none_and_tokens_undefined)
{
    check_parts("{{ tools is none }}{{ documents is none }}{{ eos_token is defined }}"
                "{{ add_generation_prompt }}{{ bos_token }}",
                ONE, NULL, "|TrueTrueFalseTrue<s>|");
}

TEST(the_date_is_that_of_the_call)
{
    fixture f;
    template *t = open_text("{{ strftime_now('%Y-%m') }}");
    open_fixture(&f, ONE, NULL, NULL);
    CHECK_OK(template_render(t, &f.in, &f.out, NULL, &f.e), &f.e);
    assert_string_equal(f.out.ptr, "2023-11");
    close_fixture(&f);
    template_close(t);
}

/* ---- the bundled template: tests/golden/template/mini.jsonl ---- */

static void check_mini(const template *t, const json *head, const json *line)
{
    buf out;
    err e = {0};
    int64_t tools = 0, kwargs = 0;
    buf_init(&out);
    json_to_int64(json_get(line, "tools"), &tools);
    json_to_int64(json_get(line, "kwargs"), &kwargs);
    template_input in = {.messages = json_get(line, "messages"),
                         .tools = json_at(json_get(head, "tools"), (int)tools),
                         .kwargs = json_at(json_get(head, "kwargs"), (int)kwargs),
                         .add_generation_prompt = true};
    if (in.tools->kind == JSON_NULL) in.tools = NULL;
    status s = template_render(t, &in, &out, NULL, &e);
    const json *text = json_get(line, "text");
    str name = json_get(line, "name")->text;
    if (text && s) fail_msg("%.*s: %s", STR_ARG(name), e.msg);
    if (!text && !s) fail_msg("%.*s: no error", STR_ARG(name));
    if (text && !str_equal(text->text, buf_str(&out)))
        fail_msg("%.*s: '%s', python: '%.*s'", STR_ARG(name), out.ptr, STR_ARG(text->text));
    buf_fini(&out);
}

TEST(the_bundled_template_renders_as_pythons_does)
{
    arena a;
    err e = {0};
    str all;
    const json *head = NULL;
    int n = 0;
    template *t = open_file("models/mini-dense/chat_template.jinja");
    arena_init(&a, 0);
    CHECK_OK(file_read(&a, "tests/golden/template/mini.jsonl", 1 << 24, &all, &e), &e);
    for (size_t at = 0; at < all.len; n++) {
        int64_t end = str_find(all, STR("\n"), at);
        const json *line = NULL;
        CHECK_OK(json_parse(&a, str_slice(all, at, (size_t)end), "line", 64, 0, &line, &e), &e);
        if (n == 0)
            head = line;
        else
            check_mini(t, head, line);
        at = (size_t)end + 1;
    }
    assert_true(n > 50);
    arena_fini(&a);
    template_close(t);
}

/* ---- vectors A to J of the model specification, section 4.6 ---- */

#define HI "{\"role\":\"user\",\"content\":\"Hi\"}"
#define WEATHER                                                                             \
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"w\"," \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"   \
    "\"days\":{\"type\":\"integer\"}},\"required\":[\"city\"]}}}]"
#define OFF "{\"enable_thinking\":false}"
#define MEDIUM "{\"reasoning_effort\":\"medium\"}"

TEST(vectors_of_the_specification_match)
{
    static const struct {
        const char *name, *messages, *tools, *kwargs, *sha256;
        size_t n_bytes;
    } cases[] = {
        {"A", "[" HI "]", NULL, NULL, "596929565581b70c", 297},
        {"B", "[" HI "]", NULL, OFF, "87b9f5b6243d8823", 71},
        {"C", "[" HI "]", NULL, MEDIUM, "7562ba8388193b82", 60},
        {"D", "[" HI "]", NULL, "{\"reasoning_effort\":\"low\"}", "a977b3c6cefccfe9", 226},
        {"E", "[{\"role\":\"system\",\"content\":\" Be brief. \"}," HI "]", NULL, MEDIUM,
         "7af1302f02f3df31", 99},
        {"F", "[" HI "]", WEATHER, OFF, "81558c78402e2a30", 1195},
        {"G", "[{\"role\":\"system\",\"content\":\"Be brief.\"}," HI "]", WEATHER, NULL,
         "ed127dcc4ca58c6f", 1404},
        {"H",
         "[" HI ",{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"need it\","
         "\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\","
         "\"arguments\":{\"city\":\"Oslo\",\"days\":2}}},{\"type\":\"function\",\"function\":"
         "{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"}}}]},"
         "{\"role\":\"tool\",\"content\":\"1C\"},{\"role\":\"tool\",\"content\":\"20C\"}]",
         WEATHER, OFF, "06a9714e4879d2ef", 1575},
        {"I",
         "[" HI ",{\"role\":\"assistant\",\"content\":\"Yo\",\"reasoning_content\":\"r\"},"
         "{\"role\":\"user\",\"content\":\"Bye\"}]",
         NULL, "{\"preserve_thinking\":false,\"reasoning_effort\":\"medium\"}", "54a63b8b3d9d0ed8",
         126},
        {"J",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":"
         "\"what?\"}]}]",
         NULL, OFF, "7355105d8833b2c8", 117},
    };
    char path[4300];
    if (!test_shared()) TEST_SKIP("no shared data");
    snprintf(path, sizeof path, "%s/data/templates/qwen3.8.jinja", test_shared());
    if (!file_exists(path)) TEST_SKIP("no qwen3.8.jinja");
    template *t = open_file(path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture f;
        char digest[65];
        open_fixture(&f, cases[i].messages, cases[i].tools, cases[i].kwargs);
        CHECK_OK(template_render(t, &f.in, &f.out, NULL, &f.e), &f.e);
        sha256_text(buf_str(&f.out), digest);
        if (f.out.len != cases[i].n_bytes || strncmp(digest, cases[i].sha256, 16) != 0)
            fail_msg("%s: %zu bytes, %s", cases[i].name, f.out.len, digest);
        close_fixture(&f);
    }
    template_close(t);
}

/* ---- resources ---- */

static const char everything[] =
    "{%- macro m(a, b='x') -%}{{ a ~ b ~ varargs }}{%- endmacro -%}"
    "{% set ns = namespace(n=0) %}{% for m2 in messages if m2.role %}"
    "{% set ns.n = ns.n + loop.index %}"
    "{{ '%s|%d' % (m2.role, loop.length) }}{{ m2.content | default('', true) | trim | upper }}"
    "{{ m(m2 | tojson, 1, 2) }}{% endfor %}{{ ns.n }}"
    "{{ [3, 1] | sort | map('string') | join(',') }}"
    "{% set x %}{{ 'a b'.split() }}{% endset %}{{ x | replace('a', 'c') }}"
    "{{ {'a': [1, 2.5]} }}{{ '{:>5}'.format('é') }}{{ range(3) | list }}"
    "{{ messages | groupby('role') }}";

TEST(open_and_render_survive_every_allocation_that_fails)
{
    int64_t live = mem_count().n_live;
    for (int n = 1;; n++) {
        template *t = NULL;
        err e = {0};
        mem_fail_at(n);
        status s = template_open(&t, str_from(everything), "test", &e);
        mem_fail_at(0);
        if (s) {
            CHECK_STATUS(s, ERR_NOMEM);
            assert_null(t);
        }
        template_close(t);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) {
            assert_true(n > 20);
            break;
        }
    }
    template *t = open_text(everything);
    fixture f;
    open_fixture(&f, ONE, NULL, "{\"x\":[1,{\"y\":2}]}");
    for (int n = 1;; n++) {
        live = mem_count().n_live;
        mem_fail_at(n);
        status s = template_render(t, &f.in, &f.out, &f.parts, &f.e);
        mem_fail_at(0);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, live);
        assert_int_equal(f.out.len, 0);
        assert_int_equal(f.parts.n, 0);
    }
    close_fixture(&f);
    template_close(t);
}

TEST(closing_nothing_is_fine)
{
    template_close(NULL);
    segments s;
    segments_init(&s);
    segments_fini(&s);
    segments_fini(&s);
}

typedef struct {
    const template *t;
    char want[2000];
} shared_render;

static void *render_often(void *arg)
{
    shared_render *r = arg;
    for (int i = 0; i < 50; i++) {
        fixture f;
        open_fixture(&f, ONE, NULL, NULL);
        status s = template_render(r->t, &f.in, &f.out, &f.parts, &f.e);
        bool ok = s == ERR_OK && strcmp(f.out.ptr, r->want) == 0;
        close_fixture(&f);
        if (!ok) return arg;
    }
    return NULL;
}

static void *run_and_note(void *arg)
{
    shared_render *r = arg;
    if (render_often(r)) r->want[0] = 0;
    return NULL;
}

TEST(threads_render_with_one_template)
{
    template *t = open_text(everything);
    fixture f;
    thread threads[4];
    shared_render r[4];
    err e = {0};
    open_fixture(&f, ONE, NULL, NULL);
    CHECK_OK(template_render(t, &f.in, &f.out, NULL, &f.e), &f.e);
    for (int i = 0; i < 4; i++) {
        r[i].t = t;
        snprintf(r[i].want, sizeof r[i].want, "%s", f.out.ptr);
        CHECK_OK(thread_start(&threads[i], "render", run_and_note, &r[i], &e), &e);
    }
    for (int i = 0; i < 4; i++) {
        thread_join(&threads[i]);
        assert_true(r[i].want[0]);
    }
    close_fixture(&f);
    template_close(t);
}
