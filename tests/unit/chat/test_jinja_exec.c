/* Limits of a rendering: work, text, memory, depth. */
#include "unit/chat/render.h"

static status limited(const char *source, render_limits l)
{
    return render_limited(str_from(source), "{\"l\":[1,2,3],\"s\":\"abc\"}", l)->s;
}

TEST(work_is_bounded)
{
    static const char loops[] =
        "{% for i in range(1000) %}{% for j in range(1000) %}{{ i }}{% endfor %}"
        "{% endfor %}";
    CHECK_STATUS(limited("{% for i in range(100) %}{{ i }}{% endfor %}", (render_limits){0}),
                 ERR_OK);
    CHECK_STATUS(limited(loops, (render_limits){.budget = 100000}), ERR_LIMIT);
    CHECK_STATUS(limited("{{ range(100000) | list | length }}", (render_limits){.budget = 1000}),
                 ERR_LIMIT);
    CHECK_STATUS(limited("{{ range(100001) }}", (render_limits){0}), ERR_FORMAT);
    CHECK_STATUS(limited("{{ [1] * 10000000 }}", (render_limits){.budget = 100000}), ERR_LIMIT);
    CHECK_STATUS(
        limited("{{ range(50000) | sort | list | length }}", (render_limits){.budget = 100000}),
        ERR_LIMIT);
}

TEST(text_is_bounded)
{
    CHECK_STATUS(limited("{{ 'a' * 1000 }}", (render_limits){.text_most = 1000}), ERR_OK);
    CHECK_STATUS(limited("{{ 'a' * 1001 }}", (render_limits){.text_most = 1000}), ERR_LIMIT);
    CHECK_STATUS(limited("{{ 'a' * 9223372036854775807 }}", (render_limits){0}), ERR_LIMIT);
    CHECK_STATUS(
        limited("{% for i in range(300) %}abcd{% endfor %}", (render_limits){.text_most = 1000}),
        ERR_LIMIT);
    CHECK_STATUS(limited("{{ s.center(100000) }}", (render_limits){.text_most = 1000}), ERR_LIMIT);
    CHECK_STATUS(
        limited("{{ '%1000d' % 1 }}{{ '{:1000}'.format(1) }}", (render_limits){.text_most = 1500}),
        ERR_LIMIT);
    CHECK_STATUS(limited("{{ '%99999999d' % 1 }}", (render_limits){0}), ERR_LIMIT);
}

TEST(memory_is_bounded)
{
    static const char doubling[] = "{% set ns = namespace(s='ab') %}{% for i in range(30) %}"
                                   "{% set ns.s = ns.s ~ ns.s %}{% endfor %}";
    CHECK_STATUS(limited(doubling, (render_limits){.text_most = 1 << 30, .memory_most = 1 << 20}),
                 ERR_LIMIT);
}

TEST(depth_is_bounded)
{
    static const char forever[] = "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}";
    static const char loop[] = "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}";
    static const char maps[] = "{% set ns = namespace(m=l) %}{% for i in range(2000) %}"
                               "{% set ns.m = ns.m | map('abs') %}{% endfor %}{{ ns.m | first }}";
    static const char nested[] = "{% set ns = namespace(m=[]) %}{% for i in range(2000) %}"
                                 "{% set ns.m = [ns.m] %}{% endfor %}{{ ns.m }}";
    static const char circle[] = "{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}";
    CHECK_STATUS(limited(forever, (render_limits){0}), ERR_LIMIT);
    CHECK_STATUS(limited(loop, (render_limits){0}), ERR_LIMIT);
    CHECK_STATUS(limited(maps, (render_limits){0}), ERR_LIMIT);
    CHECK_STATUS(limited(nested, (render_limits){0}), ERR_LIMIT);
    CHECK_STATUS(limited(circle, (render_limits){0}), ERR_LIMIT);
    CHECK_RENDER(
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}x{% endmacro %}{{ m(50) | length }}",
        "{}", "51");
}

TEST(the_sandbox_refuses_what_changes_its_input)
{
    CHECK_REFUSED("{{ [].append(1) }}", ERR_FORMAT, 1, 13);
    CHECK_REFUSED("{{ {}.update({}) }}", ERR_FORMAT, 1, 13);
    CHECK_REFUSED("{{ [1].pop() }}", ERR_FORMAT, 1, 11);
    CHECK_RENDER("{{ ''.__class__ }}{{ [].__len__ is defined }}", "{}", "False");
}

TEST(undefined_values_print_nothing_and_fail_when_used)
{
    CHECK_RENDER("[{{ x }}{{ d.x }}]{{ x == y }}{{ x is defined }}{{ x | default(1) }}",
                 "{\"d\": {}}", "[]TrueFalse1");
    CHECK_REFUSED("{{ x.y }}", ERR_FORMAT, 1, 5);
    CHECK_REFUSED("{{ x + 1 }}", ERR_FORMAT, 1, 4);
    CHECK_REFUSED("{{ x() }}", ERR_FORMAT, 1, 5);
    assert_string_equal(render("{{ x.y }}", "{}")->e.msg, "line 1 column 5: 'x' is undefined");
    assert_string_equal(render("{{ d.q.r }}", "{\"d\": {}}")->e.msg,
                        "line 1 column 7: 'dict' object has no attribute 'q'");
}
