#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "chat/jinja_parse_priv.h"
#include "chat/jinja_scope_priv.h"
#include "chat/jinja_unicode_priv.h"

void jsource_line(str text, int64_t pos, int *line, int *column)
{
    size_t at = (size_t)pos < text.len ? (size_t)pos : text.len, start = 0;
    *line = 1;
    for (size_t i = 0; i < at; i++) {
        if (text.ptr[i] != '\n') continue;
        start = i + 1;
        ++*line;
    }
    *column = (int)junicode_count(str_slice(text, start, at)) + 1;
}

status jsource_fail(const jsource *src, status code, int64_t pos, const char *fmt, ...)
{
    char text[200];
    int line, column;
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    jsource_line(src->text, pos, &line, &column);
    return err_set(src->e, code, src->name, (long)pos, "line %d column %d: %s", line, column, text);
}

static bool grow_names(jnames *t, arena *a)
{
    int cap = t->cap ? t->cap * 2 : 64;
    str *names = arena_new_array(a, (size_t)cap, sizeof *names);
    int *index = arena_new_array(a, (size_t)cap * 2, sizeof *index);
    if (!names || !index) return false;
    for (int i = 0; i < t->n; i++) {
        names[i] = t->names[i];
        uint64_t at = hash_str(names[i], 0) & (uint64_t)(cap * 2 - 1);
        while (index[at]) at = (at + 1) & (uint64_t)(cap * 2 - 1);
        index[at] = i + 1;
    }
    t->names = names;
    t->cap = cap;
    t->index = index;
    t->index_cap = cap * 2;
    return true;
}

int jnames_add(jnames *t, arena *a, str name)
{
    if (t->n == t->cap && !grow_names(t, a)) return -1;
    uint64_t mask = (uint64_t)t->index_cap - 1, at = hash_str(name, 0) & mask;
    for (; t->index[at]; at = (at + 1) & mask)
        if (str_equal(t->names[t->index[at] - 1], name)) return t->index[at] - 1;
    if (t->n == JINJA_NAMES_MOST) return -2;
    t->names[t->n] = name;
    t->index[at] = ++t->n;
    return t->n - 1;
}

/* Copy with \n as the only line end and without one at the very end, as jinja2 reads it. */
static bool normalise(arena *a, str text, str *out)
{
    char *copy = arena_new(a, text.len + 1);
    if (!copy) return false;
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '\r') {
            if (i + 1 < text.len && text.ptr[i + 1] == '\n') i++;
            c = '\n';
        }
        copy[n++] = c;
    }
    if (n > 0 && copy[n - 1] == '\n') n--;
    *out = (str){copy, n};
    return true;
}

static status compile(jprogram *p, str text)
{
    const char *name = p->source.name;
    if (text.len > JINJA_SOURCE_MOST)
        return err_set(p->source.e, ERR_LIMIT, name, -1, "a template of %zu bytes, at most %d",
                       text.len, JINJA_SOURCE_MOST);
    int64_t bad = utf8_check(text);
    if (bad >= 0) return err_set(p->source.e, ERR_FORMAT, name, (long)bad, "ill-formed UTF-8");
    if (!normalise(&p->a, text, &p->source.text))
        return err_set(p->source.e, ERR_NOMEM, name, -1, "no memory for the template");
    const jtoken *tokens = NULL;
    TRY(jlex_tokens(&p->a, &p->source, &p->names, &tokens));
    jparser parser = {.src = &p->source, .t = tokens, .names = &p->names, .a = &p->a};
    TRY(jparse_template(&parser, &p->body));
    return jscope_resolve(p);
}

status jprogram_open(jprogram *p, str text, const char *name, err *e)
{
    *p = (jprogram){.source = {.name = name, .e = e}};
    arena_init(&p->a, 0);
    status s = compile(p, text);
    p->source.e = NULL;
    if (s) jprogram_close(p);
    return s;
}

void jprogram_close(jprogram *p)
{
    if (!p) return;
    arena_fini(&p->a);
    *p = (jprogram){0};
}
