/* str() and repr() of values. Brackets, quotes and numbers of what came with the input count as
 * input. */
#include <stdio.h>

#include "chat/jinja_builtin_priv.h"
#include "chat/jinja_loop_priv.h"
#include "chat/jinja_unicode_priv.h"

static void put(jbuilder *b, const char *s, bool is_input)
{
    jbuilder_put(b, str_from(s), is_input);
}

static void put_int(jbuilder *b, int64_t i, bool is_input)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)i);
    put(b, text, is_input);
}

/* One character inside quotes. */
static void put_repr_char(jbuilder *b, str bytes, uint32_t cp, char quote, bool is_input)
{
    char text[16];
    if (cp == (uint32_t)quote || cp == '\\') {
        jbuilder_put_byte(b, '\\', is_input);
        jbuilder_put_byte(b, (char)cp, is_input);
    } else if (cp == '\n' || cp == '\r' || cp == '\t') {
        put(b, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t", is_input);
    } else if (junicode_is_printable(cp)) {
        jbuilder_put(b, bytes, is_input);
    } else {
        snprintf(text, sizeof text,
                 cp < 0x100     ? "\\x%02x"
                 : cp < 0x10000 ? "\\u%04x"
                                : "\\U%08x",
                 cp);
        put(b, text, is_input);
    }
}

static void put_repr_text(jbuilder *b, const jtext *t)
{
    bool has_single = str_find(t->s, STR("'"), 0) >= 0,
         has_double = str_find(t->s, STR("\""), 0) >= 0;
    bool is_input = t->s.len ? jtext_is_input_at(t, 0) : t->is_input;
    char quote = has_single && !has_double ? '"' : '\'';
    if (t->is_safe) put(b, "Markup(", is_input);
    jbuilder_put_byte(b, quote, is_input);
    jtext_walk w = {0};
    str piece;
    bool piece_input;
    while (jtext_next(t, &w, &piece, &piece_input)) {
        uint32_t cp;
        for (size_t at = 0; at < piece.len;) {
            size_t n = (size_t)junicode_at(piece, at, &cp);
            put_repr_char(b, str_slice(piece, at, at + n), cp, quote, piece_input);
            at += n;
        }
    }
    jbuilder_put_byte(b, quote, is_input);
    if (t->is_safe) put(b, ")", is_input);
}

static status put_items(jrt *r, jbuilder *b, const jvalue *items, int64_t n, bool is_input)
{
    for (int64_t i = 0; i < n; i++) {
        if (i) put(b, ", ", is_input);
        TRY(jprint_repr(r, b, items[i]));
    }
    return ERR_OK;
}

static status put_dict(jrt *r, jbuilder *b, const jdict *d)
{
    jbuilder_put_byte(b, '{', d->is_input);
    for (int64_t i = 0; i < d->n; i++) {
        if (i) put(b, ", ", d->is_input);
        TRY(jprint_repr(r, b, d->keys[i]));
        put(b, ": ", d->is_input);
        TRY(jprint_repr(r, b, d->values[i]));
    }
    jbuilder_put_byte(b, '}', d->is_input);
    return ERR_OK;
}

static status put_view(jrt *r, jbuilder *b, jvalue v)
{
    const jdict *d = v.dict;
    bool in = d->is_input;
    put(b,
        v.view == JVIEW_ITEMS  ? "dict_items(["
        : v.view == JVIEW_KEYS ? "dict_keys(["
                               : "dict_values([",
        in);
    if (v.view == JVIEW_ITEMS) {
        for (int64_t i = 0; i < d->n; i++) {
            put(b, i ? ", (" : "(", in);
            TRY(jprint_repr(r, b, d->keys[i]));
            put(b, ", ", in);
            TRY(jprint_repr(r, b, d->values[i]));
            put(b, ")", in);
        }
    } else {
        TRY(put_items(r, b, v.view == JVIEW_KEYS ? d->keys : d->values, d->n, in));
    }
    put(b, "])", in);
    return ERR_OK;
}

static status put_object(jrt *r, jbuilder *b, jvalue v)
{
    int64_t length = 0;
    switch (v.kind) {
    case JVALUE_RANGE:
        put(b, "range(", false);
        put_int(b, v.range->start, false);
        put(b, ", ", false);
        put_int(b, v.range->stop, false);
        if (v.range->step != 1) {
            put(b, ", ", false);
            put_int(b, v.range->step, false);
        }
        put(b, ")", false);
        break;
    case JVALUE_NAMESPACE:
        put(b, "<Namespace ", false);
        TRY(put_dict(r, b, v.dict));
        put(b, ">", false);
        break;
    case JVALUE_MACRO: {
        int name = v.macro->def->name;
        if (name < 0) {
            put(b, "<Macro anonymous>", false);
            break;
        }
        put(b, "<Macro '", false);
        jbuilder_put(b, r->program->names.names[name], false);
        put(b, "'>", false);
        break;
    }
    case JVALUE_LOOP:
        TRY(jloop_length(r, v.loop, &length));
        put(b, "<LoopContext ", false);
        put_int(b, v.loop->index0 + 1, false);
        put(b, "/", false);
        put_int(b, length, false);
        put(b, ">", false);
        break;
    default:
        put(b, "<", false);
        put(b, jvalue_type_name(v), false);
        if (v.kind == JVALUE_BUILTIN || v.kind == JVALUE_METHOD) {
            put(b, " ", false);
            put(b, v.kind == JVALUE_METHOD ? v.method->builtin->name : v.builtin->name, false);
        }
        put(b, ">", false);
        break;
    }
    return ERR_OK;
}

static status put_repr(jrt *r, jbuilder *b, jvalue v)
{
    char text[40];
    switch (v.kind) {
    case JVALUE_MISSING:
    case JVALUE_UNDEFINED: put(b, "Undefined", false); break;
    case JVALUE_NONE: put(b, "None", v.is_input); break;
    case JVALUE_BOOL: put(b, v.b ? "True" : "False", v.is_input); break;
    case JVALUE_INT: put_int(b, v.i, v.is_input); break;
    case JVALUE_BIG: jbuilder_put_text(b, v.s); break;
    case JVALUE_FLOAT:
        jnumber_format(v.f, text);
        put(b, text, v.is_input);
        break;
    case JVALUE_STR: put_repr_text(b, v.s); break;
    case JVALUE_LIST:
        jbuilder_put_byte(b, '[', v.list->is_input);
        TRY(put_items(r, b, v.list->items, v.list->n, v.list->is_input));
        jbuilder_put_byte(b, ']', v.list->is_input);
        break;
    case JVALUE_TUPLE:
        jbuilder_put_byte(b, '(', false);
        TRY(put_items(r, b, v.list->items, v.list->n, false));
        put(b, v.list->n == 1 ? ",)" : ")", false);
        break;
    case JVALUE_DICT: return put_dict(r, b, v.dict);
    case JVALUE_VIEW: return put_view(r, b, v);
    default: return put_object(r, b, v);
    }
    return ERR_OK;
}

status jprint_repr(jrt *r, jbuilder *b, jvalue v)
{
    TRY(jrt_spend(r, 1));
    TRY(jrt_enter(r));
    status s = put_repr(r, b, v);
    jrt_leave(r);
    return s;
}

status jprint_str(jrt *r, jbuilder *b, jvalue v)
{
    if (v.kind == JVALUE_UNDEFINED) return ERR_OK;
    if (v.kind != JVALUE_STR) return jprint_repr(r, b, v);
    jbuilder_put_text(b, v.s);
    return ERR_OK;
}

status jprint_text(jrt *r, jvalue v, const jtext **out)
{
    if (v.kind == JVALUE_STR) {
        *out = v.s;
        return ERR_OK;
    }
    jbuilder b;
    jvalue made;
    jrt_builder(r, &b);
    TRY(jprint_str(r, &b, v));
    TRY(jrt_built(r, &b, &made));
    *out = made.s;
    return ERR_OK;
}
