#include "base/file.h"
#include "chat/template.h"
#include "support/test.h"

static template_caps probe(const char *source)
{
    template *t = NULL;
    err e = {0};
    CHECK_OK(template_open(&t, str_from(source), "test", &e), &e);
    template_caps caps = *template_get_caps(t);
    template_close(t);
    return caps;
}

#define EACH(body) "{% for m in messages %}" body "{% endfor %}"

TEST(system_messages_are_found_where_they_are_rendered)
{
    template_caps c = probe(EACH("{{ m.role }}:{{ m.content }}"));
    assert_true(c.has_system && c.has_later_system && !c.has_developer && !c.merges_users);
    c = probe(
        EACH("{% if m.role == 'system' and not loop.first %}{{ raise_exception('x') }}{% endif %}"
             "{{ m.content }}"));
    assert_true(c.has_system && !c.has_later_system);
    c = probe(EACH("{% if m.role == 'system' %}{{ m.content }}{% endif %}")
                  EACH("{% if m.role != 'system' %}{{ m.content }}{% endif %}"));
    assert_true(c.has_system && !c.has_later_system); /* not at its place */
    c = probe(
        EACH("{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ m.content }}"));
    assert_true(!c.has_system);
}

TEST(a_role_that_is_only_echoed_is_not_known)
{
    assert_false(probe(EACH("<{{ m.role }}>{{ m.content }}")).has_developer);
    assert_true(probe(EACH("{% if m.role in ['system', 'developer'] %}<sys>{% else %}<{{ m.role }}>"
                           "{% endif %}{{ m.content }}"))
                    .has_developer);
    assert_false(probe(EACH("{% if m.role == 'user' %}{{ m.content }}{% endif %}")).has_developer);
}

TEST(calls_are_tried_in_every_shape)
{
    template_caps c = probe(EACH("{% for t in m.tool_calls or [] %}{{ t.function.name }}"
                                 "{{ t.function.arguments | tojson }}{% endfor %}"));
    assert_true(!c.wants_text_arguments && !c.wants_null_content);
    c = probe(EACH("{% for t in m.tool_calls or [] %}{{ t.function.name + t.function.arguments }}"
                   "{% endfor %}"));
    assert_true(c.wants_text_arguments && !c.wants_null_content);
    c = probe(EACH("{% for t in m.tool_calls or [] %}{{ t.function.name ~ t.function.arguments }}"
                   "{% endfor %}"));
    assert_true(c.wants_text_arguments);
    c = probe(EACH("{% if m.content is none %}{% for t in m.tool_calls or [] %}"
                   "{{ t.function.name + t.function.arguments }}{% endfor %}{% endif %}"));
    assert_true(c.wants_text_arguments && c.wants_null_content);
}

TEST(efforts_thinking_tools_and_turns_are_tried)
{
    template_caps c = probe(
        "{% if reasoning_effort is defined and reasoning_effort not in ['low', 'xhigh'] %}"
        "{{ raise_exception('bad') }}{% endif %}<think>\n");
    assert_int_equal(c.efforts, TEMPLATE_EFFORT_LOW | TEMPLATE_EFFORT_XHIGH);
    assert_true(c.starts_thinking && !c.has_tools && !c.has_reasoning);
    c = probe(
        EACH("{% if loop.previtem and loop.previtem.role == m.role %}{{ raise_exception('turn') }}"
             "{% endif %}{{ m.content }}{{ m.reasoning_content }}") "{{ tools | tojson }}");
    assert_true(c.merges_users && c.has_tools && c.has_reasoning && !c.starts_thinking);
    assert_int_equal(c.efforts, 63);
}

static template_caps probe_file(const char *path)
{
    arena a;
    err e = {0};
    str source;
    template *t = NULL;
    arena_init(&a, 0);
    CHECK_OK(file_read(&a, path, 1 << 20, &source, &e), &e);
    CHECK_OK(template_open(&t, source, path, &e), &e);
    template_caps c = *template_get_caps(t);
    template_close(t);
    arena_fini(&a);
    return c;
}

TEST(the_bundled_template_can_do_everything)
{
    template_caps c = probe_file("models/mini-dense/chat_template.jinja");
    assert_true(c.has_system && c.has_later_system && c.has_developer && c.has_tools);
    assert_true(c.has_reasoning && c.starts_thinking);
    assert_true(!c.wants_text_arguments && !c.wants_null_content && !c.merges_users);
}

TEST(real_templates_are_understood)
{
    char path[4300];
    if (!test_shared()) TEST_SKIP("no shared data");
    snprintf(path, sizeof path, "%s/data/templates/qwen3.8.jinja", test_shared());
    if (!file_exists(path)) TEST_SKIP("no qwen3.8.jinja");
    template_caps c = probe_file(path);
    assert_true(c.has_system && !c.has_later_system && !c.has_developer && c.has_tools);
    assert_true(c.has_reasoning && c.starts_thinking && !c.merges_users);
    assert_int_equal(c.efforts,
                     TEMPLATE_EFFORT_LOW | TEMPLATE_EFFORT_MEDIUM | TEMPLATE_EFFORT_XHIGH);
    snprintf(path, sizeof path, "%s/data/templates/openai-gpt-oss-120b.jinja", test_shared());
    c = probe_file(path);
    assert_true(c.has_developer && c.efforts == 63);
}
