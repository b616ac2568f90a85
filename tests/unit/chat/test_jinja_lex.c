#include "chat/jinja_lex_priv.h"
#include "support/guard.h"
#include "unit/chat/render.h"

/* Types of all tokens as a string, a letter each. */
static const char *token_types(const char *source)
{
    static char out[200];
    static const char letters[] = "$d{}<>nsif+-/|*%^~[](){}=!GgLl=.:|,;";
    arena a;
    err e = {0};
    jsource src = {str_from(source), "test", &e};
    jnames names = {0};
    const jtoken *t = NULL;
    size_t n = 0;
    arena_init(&a, 0);
    if (jlex_tokens(&a, &src, &names, &t)) snprintf(out, sizeof out, "%s", e.msg);
    for (; t && n < sizeof out - 1; t++) {
        out[n++] = letters[t->type];
        if (t->type == JTOKEN_EOF) break;
    }
    if (t) out[n] = 0;
    arena_fini(&a);
    return out;
}

TEST(text_tags_and_comments_become_tokens)
{
    assert_string_equal(token_types(""), "$");
    assert_string_equal(token_types("abc"), "d$");
    assert_string_equal(token_types("a{{ b }}c"), "d{n}d$");
    assert_string_equal(token_types("{% if x %}{# c #}"), "<nn>$");
    assert_string_equal(token_types("{{ 1 1.5 'x' a.b }}"), "{ifsn.n}$");
    assert_string_equal(token_types("{{ {'a': [1]} }}"), "{{s:[i]}}$");
}

TEST(numbers_are_cut_where_python_cuts_them)
{
    assert_string_equal(token_types("{{ 1e5 }}"), "{f}$");
    assert_string_equal(token_types("{{ 1.e5 }}"), "{i.n}$");
    assert_string_equal(token_types("{{ 1_0.5_0 }}"), "{f}$");
    assert_string_equal(token_types("{{ 1__0 }}"), "{in}$");
    assert_string_equal(token_types("{{ 0x1F 0b1 0o7 0x }}"), "{iiiin}$");
    assert_string_equal(token_types("{{ x.0.1 }}"), "{n.i.i}$");
    assert_string_equal(token_types("{{ 01 }}"), "{ii}$");
}

TEST(white_space_around_tags_follows_trim_and_lstrip)
{
    CHECK_RENDER("a\n  {% if 1 %}\nb\n  {% endif %}\nc", "{}", "a\nb\nc");
    CHECK_RENDER("a\n  {%+ if 1 %}b{% endif +%}\nc", "{}", "a\n  b\nc");
    CHECK_RENDER(" \n a {%- if 1 -%} \n b {% endif %}", "{}", " \n ab ");
    CHECK_RENDER("a {{- 1 -}} \n b", "{}", "a1b");
    CHECK_RENDER("  {{ 1 }}\n", "{}", "  1");
    CHECK_RENDER("x  {#- c -#}  y{# d #}\nz", "{}", "xyz");
    CHECK_RENDER("x {% raw -%} {{ y }} {%- endraw %}\nz", "{}", "x {{ y }}z");
    CHECK_RENDER("a\xc2\xa0{%- if 1 %}b{% endif %}", "{}", "ab");
}

TEST(line_ends_are_one_newline_and_the_last_goes)
{
    CHECK_RENDER("a\r\nb\rc\n", "{}", "a\nb\nc");
    CHECK_RENDER("a\n\n", "{}", "a\n");
    CHECK_RENDER("{{ 'a\r\nb' }}", "{}", "a\nb");
}

TEST(a_closing_delimiter_counts_outside_brackets_only)
{
    CHECK_RENDER("{{ {'a': {'b': 1}} }}", "{}", "{'a': {'b': 1}}");
    CHECK_RENDER("{{ '}}' }}", "{}", "}}");
    CHECK_REFUSED("{{ (1 }}", ERR_FORMAT, 1, 7);
    CHECK_REFUSED("{{ 1) }}", ERR_FORMAT, 1, 5);
}

TEST(errors_name_the_place)
{
    CHECK_REFUSED("a\nb {{ \xc3\xa9 ! }}", ERR_FORMAT, 2, 8);
    CHECK_REFUSED("x {# y", ERR_FORMAT, 1, 3);
    CHECK_REFUSED("\n{% raw %}{{ x }}", ERR_FORMAT, 2, 1);
    CHECK_REFUSED("{{ 'abc }}", ERR_FORMAT, 1, 4);
    CHECK_REFUSED("{{ '\\x4' }}", ERR_FORMAT, 1, 4);
    CHECK_REFUSED("{{ '\\N{DASH}' }}", ERR_FORMAT, 1, 4);
    CHECK_REFUSED("{{ '\\ud800' }}", ERR_FORMAT, 1, 4);
}

TEST(no_prefix_reads_past_its_end)
{
    const char *text = "a {%- if x.y[0:1] is not none -%} {{ 'q\\u00e9' ~ 1.5e3|f(a=1) }}{# c #}"
                       "{% raw %} {% endraw %}{% endif %}";
    for (size_t n = 0; n <= strlen(text); n++) {
        char *copy = guard_copy(text, n);
        jprogram p;
        err e = {0};
        status s = jprogram_open(&p, (str){copy, n}, "test", &e);
        if (s == ERR_OK) jprogram_close(&p);
        guard_free(copy, n);
        assert_true(s == ERR_OK || (e.pos >= 0 && e.pos <= (long)n));
    }
}
