/* json.dumps: what the tojson filter prints. */
#include <math.h>
#include <stdio.h>

#include "chat/jinja_rt_priv.h"
#include "chat/jinja_unicode_priv.h"

typedef struct {
    jrt *r;
    jbuilder *b;
    const jjson_style *style;
    int level;
} dumper;

static void put(dumper *d, const char *s, bool is_input)
{
    jbuilder_put(d->b, str_from(s), is_input);
}

static void put_char(dumper *d, str bytes, uint32_t cp, bool is_input)
{
    static const char plain[] = "\"\\\n\r\t\f\b", names[] = "\"\\nrtfb";
    const char *at = cp && cp < 0x80 ? strchr(plain, (int)cp) : NULL;
    char text[16];
    if (at) {
        jbuilder_put_byte(d->b, '\\', is_input);
        jbuilder_put_byte(d->b, names[at - plain], is_input);
    } else if (cp < 0x20 || (cp >= 0x7f && cp < 0x10000 && d->style->ensure_ascii && cp != 0x7f)) {
        snprintf(text, sizeof text, "\\u%04x", cp);
        put(d, text, is_input);
    } else if (cp >= 0x10000 && d->style->ensure_ascii) {
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                 0xdc00 + ((cp - 0x10000) & 0x3ff));
        put(d, text, is_input);
    } else {
        jbuilder_put(d->b, bytes, is_input);
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\' && c < 0x80;
}

static void put_string(dumper *d, const jtext *t)
{
    bool is_input = t->s.len ? jtext_is_input_at(t, 0) : t->is_input;
    jbuilder_put_byte(d->b, '"', is_input);
    jtext_walk w = {0};
    str piece;
    bool piece_input;
    while (jtext_next(t, &w, &piece, &piece_input)) {
        for (size_t at = 0; at < piece.len;) {
            size_t end = at;
            while (end < piece.len && is_plain((unsigned char)piece.ptr[end])) end++;
            jbuilder_put(d->b, str_slice(piece, at, end), piece_input);
            if (end == piece.len) break;
            uint32_t cp;
            at = end + (size_t)junicode_at(piece, end, &cp);
            put_char(d, str_slice(piece, end, at), cp, piece_input);
        }
    }
    jbuilder_put_byte(d->b, '"', is_input);
}

static void put_float(dumper *d, double f, bool is_input)
{
    char text[40];
    if (isnan(f)) {
        put(d, "NaN", is_input);
    } else if (isinf(f)) {
        put(d, f < 0 ? "-Infinity" : "Infinity", is_input);
    } else {
        jnumber_format(f, text);
        put(d, text, is_input);
    }
}

static void put_line(dumper *d, bool is_input)
{
    if (!d->style->indent) return;
    jbuilder_put_byte(d->b, '\n', is_input);
    for (int i = 0; i < d->level; i++) jbuilder_put_text(d->b, d->style->indent);
}

/* Between two items, or before the first. */
static void put_item_sep(dumper *d, bool is_first, bool is_input)
{
    if (is_first)
        d->level++;
    else if (d->style->item_sep)
        jbuilder_put_text(d->b, d->style->item_sep);
    else
        put(d, d->style->indent ? "," : ", ", is_input);
    put_line(d, is_input);
}

static status put_value(dumper *d, jvalue v);

static status put_list(dumper *d, const jlist *l)
{
    jbuilder_put_byte(d->b, '[', l->is_input);
    for (int64_t i = 0; i < l->n; i++) {
        put_item_sep(d, i == 0, l->is_input);
        TRY(put_value(d, l->items[i]));
    }
    if (l->n) {
        d->level--;
        put_line(d, l->is_input);
    }
    jbuilder_put_byte(d->b, ']', l->is_input);
    return ERR_OK;
}

static status put_key(dumper *d, jvalue key, bool is_input)
{
    if (key.kind == JVALUE_STR) {
        put_string(d, key.s);
    } else if (jvalue_is_number(key) || key.kind == JVALUE_NONE) {
        put(d, "\"", is_input);
        TRY(put_value(d, key));
        put(d, "\"", is_input);
    } else {
        return jrt_fail(d->r, ERR_FORMAT, "keys must be str, int, float, bool or None, not %s",
                        jvalue_type_name(key));
    }
    if (d->style->key_sep)
        jbuilder_put_text(d->b, d->style->key_sep);
    else
        put(d, ": ", is_input);
    return ERR_OK;
}

/* Indices of the entries by ascending key, by insertion (keys are few). */
static status sort_keys(dumper *d, const jdict *dict, int64_t *order)
{
    for (int64_t i = 0; i < dict->n; i++) {
        int64_t at = i;
        for (; at > 0; at--) {
            int sign = 0;
            if (!jvalue_compare(dict->keys[i], dict->keys[order[at - 1]], &sign))
                return jrt_fail(d->r, ERR_FORMAT, "keys of different types cannot be sorted");
            if (sign >= 0) break;
            order[at] = order[at - 1];
        }
        TRY(jrt_spend(d->r, i - at + 1));
        order[at] = i;
    }
    return ERR_OK;
}

static status put_dict(dumper *d, const jdict *dict)
{
    int64_t *order = NULL;
    if (d->style->sort_keys && dict->n) {
        order = arena_new_array(d->r->a, (size_t)dict->n, sizeof *order);
        if (!order) return jrt_fail_memory(d->r);
        TRY(sort_keys(d, dict, order));
    }
    jbuilder_put_byte(d->b, '{', dict->is_input);
    for (int64_t i = 0; i < dict->n; i++) {
        int64_t e = order ? order[i] : i;
        put_item_sep(d, i == 0, dict->is_input);
        TRY(put_key(d, dict->keys[e], dict->is_input));
        TRY(put_value(d, dict->values[e]));
    }
    if (dict->n) {
        d->level--;
        put_line(d, dict->is_input);
    }
    jbuilder_put_byte(d->b, '}', dict->is_input);
    return ERR_OK;
}

static status put_any(dumper *d, jvalue v)
{
    char text[24];
    switch (v.kind) {
    case JVALUE_NONE: put(d, "null", v.is_input); return ERR_OK;
    case JVALUE_BOOL: put(d, v.b ? "true" : "false", v.is_input); return ERR_OK;
    case JVALUE_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.i);
        put(d, text, v.is_input);
        return ERR_OK;
    case JVALUE_BIG: jbuilder_put_text(d->b, v.s); return ERR_OK;
    case JVALUE_FLOAT: put_float(d, v.f, v.is_input); return ERR_OK;
    case JVALUE_STR: put_string(d, v.s); return ERR_OK;
    case JVALUE_LIST:
    case JVALUE_TUPLE: return put_list(d, v.list);
    case JVALUE_DICT: return put_dict(d, v.dict);
    default:
        return jrt_fail(d->r, ERR_FORMAT, "Object of type %s is not JSON serializable",
                        jvalue_type_name(v));
    }
}

static status put_value(dumper *d, jvalue v)
{
    TRY(jrt_spend(d->r, 1));
    TRY(jrt_enter(d->r));
    status s = put_any(d, v);
    jrt_leave(d->r);
    return s;
}

status jjson_put(jrt *r, jbuilder *b, jvalue v, const jjson_style *style)
{
    dumper d = {r, b, style, 0};
    return put_value(&d, v);
}
