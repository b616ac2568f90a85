#include "unit/chat/render.h"

TEST(precedence_is_jinjas)
{
    CHECK_RENDER("{{ 1 + 2 * 3 ** 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}", "{}", "19 64 4");
    CHECK_RENDER("{{ not 1 == 2 }} {{ 1 or 0 and 0 }} {{ 1 ~ 2 * 3 }}", "{}", "True 1 16");
    CHECK_RENDER("{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 in [1] == [1] }}", "{}", "True False True");
    CHECK_RENDER("{{ 'a' if 0 else 'b' if 0 else 'c' }}", "{}", "c");
    CHECK_RENDER("{{ -1|abs }} {{ 2 - 1|abs }} {{ 1 is odd and 2 is even }}", "{}", "1 1 True");
}

TEST(a_test_takes_a_primary_as_its_argument)
{
    CHECK_RENDER("{{ 4 is divisibleby 2 and 1 }} {{ 4 is not divisibleby(3) }}", "{}", "1 True");
    CHECK_RENDER("{{ ('b' in 'abc') is string }}", "{}", "False");
    CHECK_RENDER("{{ 1 is in [1, 2] }} {{ x is defined or 1 }}", "{}", "True 1");
}

TEST(targets_may_be_tuples)
{
    CHECK_RENDER("{% set a, (b, c) = 1, [2, 3] %}{{ a }}{{ b }}{{ c }}", "{}", "123");
    CHECK_RENDER("{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "{}", "x1");
    CHECK_REFUSED("{% set a + b = 1 %}", ERR_FORMAT, 1, 10);
    CHECK_REFUSED("{% set none = 1 %}", ERR_FORMAT, 1, 8);
    CHECK_REFUSED("{% set 'a' = 1 %}", ERR_FORMAT, 1, 8);
}

TEST(unknown_tags_filters_and_tests_are_unsupported_with_their_place)
{
    CHECK_REFUSED("a\n{% frobnicate %}", ERR_UNSUPPORTED, 2, 4);
    CHECK_REFUSED("{% include 'x' %}", ERR_UNSUPPORTED, 1, 4);
    CHECK_REFUSED("\n {{ x | nofilter }}", ERR_UNSUPPORTED, 2, 9);
    CHECK_REFUSED("{{ x is notest }}", ERR_UNSUPPORTED, 1, 6);
    assert_true(render("{{ x | nofilter }}", "{}")->is_open);
    /* Inside an if they only fail when they are reached, as in jinja2. */
    CHECK_RENDER("{% if 0 %}{{ x | nofilter }}{% endif %}ok", "{}", "ok");
    CHECK_REFUSED("{% if 1 %}{{ x | nofilter }}{% endif %}", ERR_UNSUPPORTED, 1, 18);
}

TEST(syntax_errors_are_format_errors_with_their_place)
{
    CHECK_REFUSED("{{ }}", ERR_FORMAT, 1, 4);
    CHECK_REFUSED("{{ 1 + }}", ERR_FORMAT, 1, 8);
    CHECK_REFUSED("{{ a b }}", ERR_FORMAT, 1, 6);
    CHECK_REFUSED("{% if x %}\n{{ 1 }}", ERR_FORMAT, 2, 8);
    CHECK_REFUSED("{% endif %}", ERR_UNSUPPORTED, 1, 4);
    CHECK_REFUSED("{% for x %}", ERR_FORMAT, 1, 10);
    CHECK_REFUSED("{% for loop in [1] %}{% endfor %}", ERR_FORMAT, 1, 8);
    CHECK_REFUSED("{% macro m(a=1, b) %}{% endmacro %}", ERR_FORMAT, 1, 17);
    CHECK_REFUSED("{% macro m(a, a) %}{% endmacro %}", ERR_FORMAT, 1, 15);
    CHECK_REFUSED("{{ f(a=1, a=2) }}", ERR_FORMAT, 1, 11);
    CHECK_REFUSED("{{ f(a=1, 2) }}", ERR_FORMAT, 1, 5);
    CHECK_REFUSED("{% call 1 %}{% endcall %}", ERR_FORMAT, 1, 4);
    CHECK_REFUSED("{% break %}", ERR_FORMAT, 1, 4);
    CHECK_REFUSED("{% for x in [1] %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
                  ERR_FORMAT, 1, 37);
    CHECK_REFUSED("{{ 1 is odd is even }}", ERR_FORMAT, 1, 13);
}

static const rendered *repeated(const char *head, const char *part, int n, const char *tail)
{
    static buf b;
    buf_clear(&b);
    buf_put_c(&b, head);
    for (int i = 0; i < n; i++) buf_put_c(&b, part);
    buf_put_c(&b, tail);
    return render_limited(buf_str(&b), "{}", (render_limits){0});
}

TEST(nesting_has_a_limit_and_never_costs_the_stack)
{
    CHECK_STATUS(repeated("{{ ", "(", 20, "1))))))))))))))))))))}}")->s, ERR_OK);
    CHECK_STATUS(repeated("{{ ", "(", 100000, "1")->s, ERR_LIMIT);
    CHECK_STATUS(repeated("{{ ", "not ", 100000, "1 }}")->s, ERR_LIMIT);
    CHECK_STATUS(repeated("{{ ", "-", 100000, "1 }}")->s, ERR_LIMIT);
    CHECK_STATUS(repeated("{{ 1", " + 1", 200, " }}")->s, ERR_OK);
    CHECK_STATUS(repeated("{{ 1", " + 1", 100000, " }}")->s, ERR_LIMIT);
    CHECK_STATUS(repeated("{{ x", "|upper", 100000, " }}")->s, ERR_LIMIT);
    CHECK_STATUS(repeated("{{ x", ".y", 100000, " }}")->s, ERR_LIMIT);
    CHECK_STATUS(repeated("{{ 1", " if 1 else 1", 50000, " }}")->s, ERR_LIMIT);
    CHECK_STATUS(repeated("", "{% if 1 %}", 50000, "")->s, ERR_LIMIT);
    CHECK_STATUS(repeated("{% if 0 %}", "{% elif 0 %}", 20000, "{% endif %}")->s, ERR_OK);
    CHECK_STATUS(repeated("{{ 1", " ~ 1", 20000, " }}")->s, ERR_OK);
}

TEST(size_and_names_have_limits)
{
    CHECK_STATUS(repeated("", "0123456789abcdef", (1 << 16) + 1, "")->s, ERR_LIMIT);
    static buf b;
    buf_clear(&b);
    for (int i = 0; i < 5000; i++) buf_printf(&b, "{{ a%d }}", i);
    CHECK_STATUS(render_limited(buf_str(&b), "{}", (render_limits){0})->s, ERR_LIMIT);
    buf_fini(&b);
}

TEST(ill_formed_utf8_is_refused_at_its_byte)
{
    jprogram p;
    err e = {0};
    CHECK_STATUS(jprogram_open(&p, STR("ab\xff"), "test", &e), ERR_FORMAT);
    assert_int_equal(e.pos, 2);
}
