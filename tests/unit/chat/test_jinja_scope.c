/* What a name means where. Every expected value is jinja2 3.1.2's. */
#include "unit/chat/render.h"

TEST(a_loop_sees_outer_values_and_keeps_its_own)
{
    CHECK_RENDER(
        "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}", "{}",
        "2,3,1");
    CHECK_RENDER("{% for i in [1] %}{% set y = i %}{% endfor %}{{ y is defined }}", "{}", "False");
    CHECK_RENDER("{% for x in [1] %}{{ x }}{% endfor %}{{ x }}", "{\"x\": 7}", "17");
    CHECK_RENDER("{% set x = [1, 2] %}{% for x in x %}{{ x }}{% endfor %}{{ x }}", "{}",
                 "12[1, 2]");
}

TEST(an_if_shares_its_scope)
{
    CHECK_RENDER("{% if 1 %}{% set n = 2 %}{% endif %}{{ n }}", "{\"n\": 1}", "2");
    CHECK_RENDER("{% if 0 %}{% set n = 2 %}{% endif %}{{ n }}", "{\"n\": 1}", "1");
    CHECK_RENDER("{% if 0 %}{% set n = 2 %}{% endif %}{{ n is defined }}", "{}", "False");
    CHECK_RENDER(
        "{% for i in [0, 1] %}{% if i %}{% set n = 2 %}{% endif %}{{ n }}{% endfor %}{{ n }}",
        "{\"n\": 1}", "121");
    CHECK_RENDER("{% if 0 %}{% set n = 2 %}{% else %}{% set n = 3 %}{% endif %}{{ n }}",
                 "{\"n\": 1}", "3");
}

TEST(a_namespace_reaches_out_of_loops)
{
    CHECK_RENDER("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}"
                 "{% endfor %}{{ ns.n }}{{ ns }}",
                 "{}", "3<Namespace {'n': 3}>");
    CHECK_REFUSED("{% set x = {} %}{% set x.a = 1 %}", ERR_FORMAT, 1, 24);
}

TEST(a_macro_reads_what_is_around_it_when_it_is_called)
{
    CHECK_RENDER("{% macro m() %}{{ x }}{% endmacro %}{% set x = 3 %}{{ m() }}", "{}", "3");
    CHECK_RENDER("{% macro m() %}{% set x = 1 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
                 "{\"x\": 2}", "12");
    CHECK_RENDER("{% macro m(a, b=a, c=2) %}{{ a }}{{ b }}{{ c }}{% endmacro %}"
                 "{{ m(1) }}|{{ m(1, c=3) }}|{{ m() }}",
                 "{}", "112|113|2");
    CHECK_RENDER("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, k=2) }}", "{}",
                 "(1,){'k': 2}");
    CHECK_RENDER(
        "{% macro f(n) %}{% if n %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{}",
        "321");
}

TEST(a_call_block_is_a_macro_of_its_own)
{
    CHECK_RENDER("{% macro m() %}<{{ caller(2) }}>{% endmacro %}"
                 "{% call(v) m() %}{{ v }}{{ n }}{% set n = 9 %}{% endcall %}{{ n }}",
                 "{\"n\": 1}", "<21>1");
    CHECK_RENDER("{% generation %}a{% set n = 2 %}{{ n }}{% endgeneration %}{{ n }}", "{\"n\": 1}",
                 "a21");
    CHECK_REFUSED("{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", ERR_FORMAT, 1, 39);
}

TEST(with_and_blocks_have_scopes)
{
    CHECK_RENDER(
        "{% with a = 1, b = n %}{{ a }}{{ b }}{% set n = 5 %}{{ n }}{% endwith %}{{ n }}{{ a }}",
        "{\"n\": 2}", "1252");
    CHECK_RENDER("{% set x %}{% set n = 3 %}{{ n }}{% endset %}{{ x }}{{ n }}", "{\"n\": 2}", "32");
    CHECK_RENDER("{% filter upper %}{% set n = 'c' %}ab{{ n }}{% endfilter %}{{ n }}", "{\"n\": 2}",
                 "ABC2");
}

TEST(recursive_loops_call_themselves)
{
    CHECK_RENDER(
        "{% for x in t recursive %}{{ loop.depth }}{{ x.n }}{% if x.c %}[{{ loop(x.c) }}]"
        "{% endif %}{% endfor %}",
        "{\"t\": [{\"n\": \"a\", \"c\": [{\"n\": \"b\"}, {\"n\": \"c\"}]}, {\"n\": \"d\"}]}",
        "1a[2b2c]1d");
    CHECK_REFUSED("{% for x in [1] %}{{ loop([]) }}{% endfor %}", ERR_FORMAT, 1, 26);
}

TEST(a_loop_left_by_continue_still_counts_as_empty)
{
    CHECK_RENDER("{% for i in [1] %}{% continue %}{% else %}E{% endfor %}", "{}", "E");
    CHECK_RENDER("{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% else %}E"
                 "{% endfor %}",
                 "{}", "1");
}

TEST(loop_tells_where_it_is)
{
    CHECK_RENDER(
        "{% for i in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}"
        "{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
        "{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle(1, 2) }}{{ loop.changed(1) }};"
        "{% endfor %}",
        "{}", "1032TrueFalse3b1True;2121FalseFalse3ac2False;3210FalseTrue3b1False;");
    CHECK_RENDER(
        "{% for i in [1, 2, 3] if i != 2 %}{{ i }}{{ loop.length }}{{ loop.last }}{% endfor %}",
        "{}", "12False32True");
}
