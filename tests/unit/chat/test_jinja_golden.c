/* The language against python3-jinja2: tests/golden/template/language.jsonl. */
#include "base/file.h"
#include "unit/chat/render.h"

typedef struct {
    int n, n_errors;
} tally;

static void check_line(const json *line, const char *variables, tally *t)
{
    str source = json_get(line, "template")->text;
    const json *text = json_get(line, "text");
    const rendered *r = render_limited(source, variables, (render_limits){0});
    t->n++;
    if (!text) {
        t->n_errors++;
        if (!r->s)
            fail_msg("%.*s: '%s', python: %.*s", STR_ARG(source), r->text,
                     STR_ARG(json_get(line, "error")->text));
    } else if (r->s) {
        fail_msg("%.*s: %s", STR_ARG(source), r->e.msg);
    } else if (!str_is(text->text, r->text)) {
        fail_msg("%.*s: '%s', python: '%.*s'", STR_ARG(source), r->text, STR_ARG(text->text));
    }
}

TEST(the_language_is_pythons)
{
    arena a;
    err e = {0};
    str all;
    tally t = {0};
    buf variables;
    buf_init(&variables);
    arena_init(&a, 0);
    CHECK_OK(file_read(&a, "tests/golden/template/language.jsonl", 1 << 24, &all, &e), &e);
    for (size_t at = 0; at < all.len;) {
        int64_t end = str_find(all, STR("\n"), at);
        const json *line = NULL;
        CHECK_OK(json_parse(&a, str_slice(all, at, (size_t)end), "line", 64, 0, &line, &e), &e);
        if (at == 0)
            json_put_value(&variables, json_get(line, "variables"), JSON_PYTHON);
        else
            check_line(line, variables.ptr, &t);
        at = (size_t)end + 1;
    }
    print_message("%d templates, %d of them errors\n", t.n, t.n_errors);
    assert_true(t.n > 300 && t.n_errors > 30 && t.n_errors < t.n / 2);
    arena_fini(&a);
    buf_fini(&variables);
}
