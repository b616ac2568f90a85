#include "chat/jinja_rt_priv.h"

#include <stdarg.h>
#include <stdio.h>

status jrt_fail(jrt *r, status code, const char *fmt, ...)
{
    char text[200];
    int line, column;
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    const jsource *src = &r->program->source;
    jsource_line(src->text, r->pos, &line, &column);
    return err_set(r->e, code, src->name, r->pos, "line %d column %d: %s", line, column, text);
}

status jrt_fail_memory(jrt *r)
{
    if (r->a->limit && r->a->n_bytes > r->a->limit / 2)
        return jrt_fail(r, ERR_LIMIT, "the template needs more memory than it may have");
    return jrt_fail(r, ERR_NOMEM, "no memory to render");
}

status jrt_fail_undefined(jrt *r, jvalue v)
{
    const jundefined *u = v.undefined;
    if (!u) return jrt_fail(r, ERR_FORMAT, "an undefined value is used");
    if (u->hint) return jrt_fail(r, ERR_FORMAT, "%s", u->hint);
    int n = (int)(u->name.len < 80 ? u->name.len : 80);
    if (u->owner == JVALUE_MISSING)
        return jrt_fail(r, ERR_FORMAT, "'%.*s' is undefined", n, u->name.ptr);
    jvalue owner = {.kind = (uint8_t)u->owner};
    return jrt_fail(r, ERR_FORMAT, "'%s' object has no attribute '%.*s'", jvalue_type_name(owner),
                    n, u->name.ptr);
}

status jrt_fail_type(jrt *r, const char *what, jvalue v)
{
    if (v.kind == JVALUE_UNDEFINED) return jrt_fail_undefined(r, v);
    return jrt_fail(r, ERR_FORMAT, "'%s' %s", jvalue_type_name(v), what);
}

status jrt_spend(jrt *r, int64_t units)
{
    r->budget -= units;
    if (r->budget >= 0) return ERR_OK;
    r->budget = -1;
    return jrt_fail(r, ERR_LIMIT, "the template does more work than it may");
}

status jrt_enter(jrt *r)
{
    if (r->depth == JRT_DEPTH_MOST)
        return jrt_fail(r, ERR_LIMIT, "evaluation nests deeper than %d", JRT_DEPTH_MOST);
    r->depth++;
    return ERR_OK;
}

void jrt_builder(jrt *r, jbuilder *b)
{
    jbuilder_init(b, r->a, r->text_most);
}

status jrt_built(jrt *r, jbuilder *b, jvalue *out)
{
    const jtext *t = jbuilder_text(b);
    if (!t && b->is_over) return jrt_fail(r, ERR_LIMIT, "a text longer than %zu bytes", b->limit);
    if (!t) return jrt_fail_memory(r);
    *out = jvalue_text(t);
    return jrt_spend(r, (int64_t)(t->s.len / 16));
}

status jrt_c_text(jrt *r, const char *s, jvalue *out)
{
    const jtext *t = jtext_new(r->a, str_from(s), false);
    if (!t) return jrt_fail_memory(r);
    *out = jvalue_text(t);
    return ERR_OK;
}

status jrt_text(jrt *r, str s, jvalue *out)
{
    jbuilder b;
    jrt_builder(r, &b);
    jbuilder_put(&b, s, false);
    return jrt_built(r, &b, out);
}

status jrt_undefined(jrt *r, str name, jkind owner, const char *hint, jvalue *out)
{
    jundefined *u = arena_new(r->a, sizeof *u);
    if (!u) return jrt_fail_memory(r);
    *u = (jundefined){name, hint, owner};
    *out = jvalue_undefined(u);
    return ERR_OK;
}
