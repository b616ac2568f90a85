/* v.name, v[index], v[start:stop:step], item in v: Python's lookups as the sandbox lets them be. */
#include "chat/jinja_builtin_priv.h"
#include "chat/jinja_loop_priv.h"
#include "chat/jinja_unicode_priv.h"

/* Methods that the immutable sandbox hides. list.pop and list.clear belong to them since jinja2
 * 3.1.5; earlier versions forgot them. */
static bool is_forbidden(jvalue v, str name)
{
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const of_list[] = {"append", "clear",   "extend", "insert", "pop",
                                          "remove", "reverse", "sort",   NULL};
    const char *const *names = v.kind == JVALUE_DICT   ? of_dict
                               : v.kind == JVALUE_LIST ? of_list
                                                       : NULL;
    for (; names && *names; names++)
        if (str_is(name, *names)) return true;
    return false;
}

static status bind_method(jrt *r, jvalue v, const jbuiltin *b, jvalue *out)
{
    jmethod *m = arena_new(r->a, sizeof *m);
    if (!m) return jrt_fail_memory(r);
    *m = (jmethod){v, b};
    *out = (jvalue){.kind = JVALUE_METHOD, .method = m};
    return ERR_OK;
}

static status macro_attr(jrt *r, const jmacro *m, str name, jvalue *out, bool *found)
{
    const jmacro_def *def = m->def;
    *found = true;
    if (str_is(name, "name")) {
        *out = jvalue_none();
        return def->name < 0 ? ERR_OK : jrt_text(r, r->program->names.names[def->name], out);
    }
    if (str_is(name, "arguments")) {
        jlist *l = jlist_new(r->a, def->params.n);
        if (!l) return jrt_fail_memory(r);
        int i = 0;
        for (const jnode *p = def->params.first; p; p = p->next)
            TRY(jrt_text(r, r->program->names.names[p->name.name], &l->items[i++]));
        *out = (jvalue){.kind = JVALUE_TUPLE, .list = l};
        return ERR_OK;
    }
    if (str_is(name, "catch_kwargs")) {
        *out = jvalue_bool(def->kwargs >= 0);
    } else if (str_is(name, "catch_varargs")) {
        *out = jvalue_bool(def->varargs >= 0);
    } else if (str_is(name, "caller")) {
        *out = jvalue_bool(def->caller >= 0);
    } else {
        *found = false;
    }
    return ERR_OK;
}

static status cycler_next(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call, (void)r;
    jcycler *c = self.cycler;
    *out = c->items->items[c->pos];
    c->pos = (c->pos + 1) % c->items->n;
    return ERR_OK;
}

static status cycler_reset(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call, (void)r;
    self.cycler->pos = 0;
    *out = jvalue_none();
    return ERR_OK;
}

static status cycler_attr(jrt *r, jvalue v, str name, jvalue *out, bool *found)
{
    static const jbuiltin methods[] = {{"next", cycler_next, ""}, {"reset", cycler_reset, ""}, {0}};
    const jbuiltin *b = jbuiltin_in(methods, name);
    *found = true;
    if (b) return bind_method(r, v, b, out);
    if (str_is(name, "current"))
        *out = v.cycler->items->items[v.cycler->pos];
    else if (str_is(name, "pos"))
        *out = jvalue_int(v.cycler->pos);
    else if (str_is(name, "items"))
        *out = (jvalue){.kind = JVALUE_TUPLE, .list = v.cycler->items};
    else
        *found = false;
    return ERR_OK;
}

static bool plain_attr(jvalue v, str name, jvalue *out)
{
    switch (v.kind) {
    case JVALUE_TUPLE:
        if (!v.list->is_group) return false;
        if (str_is(name, "grouper"))
            *out = v.list->items[0];
        else if (str_is(name, "list"))
            *out = v.list->items[1];
        else
            return false;
        return true;
    case JVALUE_RANGE:
        if (str_is(name, "start"))
            *out = jvalue_int(v.range->start);
        else if (str_is(name, "stop"))
            *out = jvalue_int(v.range->stop);
        else if (str_is(name, "step"))
            *out = jvalue_int(v.range->step);
        else
            return false;
        return true;
    case JVALUE_BOOL:
    case JVALUE_INT:
    case JVALUE_FLOAT: {
        bool is_float = v.kind == JVALUE_FLOAT;
        if (str_is(name, "real") || (!is_float && str_is(name, "numerator")))
            *out = v.kind == JVALUE_BOOL ? jvalue_int(v.b) : v;
        else if (str_is(name, "imag"))
            *out = is_float ? jvalue_float(0) : jvalue_int(0);
        else if (!is_float && str_is(name, "denominator"))
            *out = jvalue_int(1);
        else
            return false;
        return true;
    }
    case JVALUE_JOINER:
        if (str_is(name, "sep"))
            *out = jvalue_text(v.joiner->sep);
        else if (str_is(name, "used"))
            *out = jvalue_bool(v.joiner->is_used);
        else
            return false;
        return true;
    default: return false;
    }
}

/* A Python attribute (not an item). */
static status own_attr(jrt *r, jvalue v, str name, jvalue *out, bool *found)
{
    *found = true;
    if (v.kind == JVALUE_UNDEFINED) return jrt_fail_undefined(r, v);
    const jbuiltin *method = jmethod_find(v, name);
    if (method) return bind_method(r, v, method, out);
    if (is_forbidden(v, name))
        return jrt_undefined(r, name, v.kind, "access to this method is unsafe", out);
    if (v.kind == JVALUE_NAMESPACE) {
        const jvalue *attr = jdict_get_str(v.dict, name);
        if (!attr) {
            *found = false;
        } else if (name.len && name.ptr[0] == '_') {
            return jrt_undefined(r, name, v.kind, "access to this attribute is unsafe", out);
        } else {
            *out = *attr;
        }
        return ERR_OK;
    }
    if (v.kind == JVALUE_LOOP) return jloop_attr(r, v.loop, name, out, found);
    if (v.kind == JVALUE_MACRO) return macro_attr(r, v.macro, name, out, found);
    if (v.kind == JVALUE_CYCLER) return cycler_attr(r, v, name, out, found);
    *found = plain_attr(v, name, out);
    return ERR_OK;
}

static bool get_at(const jlist *l, int64_t i, jvalue *out)
{
    if (i < 0) i += l->n;
    if (i < 0 || i >= l->n) return false;
    *out = l->items[i];
    return true;
}

static status char_at(jrt *r, const jtext *t, int64_t i, jvalue *out, bool *found)
{
    TRY(jrt_spend(r, (int64_t)(t->s.len / 16)));
    if (i < 0) i += junicode_count(t->s);
    size_t from = i < 0 ? t->s.len : junicode_offset(t->s, i);
    *found = from < t->s.len;
    if (!*found) return ERR_OK;
    uint32_t cp;
    const jtext *one = jtext_slice(r->a, t, from, from + (size_t)junicode_at(t->s, from, &cp));
    if (!one) return jrt_fail_memory(r);
    *out = jvalue_text(one);
    return ERR_OK;
}

/* v[index] without falling back to attributes. */
static status own_item(jrt *r, jvalue v, jvalue index, jvalue *out, bool *found)
{
    int64_t i;
    uint64_t hash;
    bool has_int = jvalue_to_int(index, &i);
    *found = false;
    switch (v.kind) {
    case JVALUE_UNDEFINED: return jrt_fail_undefined(r, v);
    case JVALUE_DICT: {
        const jvalue *item = jvalue_hash(index, &hash) ? jdict_get(v.dict, index) : NULL;
        *found = item != NULL;
        if (item) *out = *item;
        return ERR_OK;
    }
    case JVALUE_LIST:
    case JVALUE_TUPLE: *found = has_int && get_at(v.list, i, out); return ERR_OK;
    case JVALUE_STR: return has_int ? char_at(r, v.s, i, out, found) : ERR_OK;
    case JVALUE_RANGE:
        if (!has_int) return ERR_OK;
        if (i < 0) i += v.range->n;
        *found = i >= 0 && i < v.range->n;
        if (*found) *out = jvalue_int(v.range->start + i * v.range->step);
        return ERR_OK;
    default: return ERR_OK;
    }
}

status jattr_get(jrt *r, jvalue v, const jtext *name, jvalue *out)
{
    bool found;
    TRY(own_attr(r, v, name->s, out, &found));
    if (found) return ERR_OK;
    TRY(own_item(r, v, jvalue_text(name), out, &found));
    return found ? ERR_OK : jrt_undefined(r, name->s, v.kind, NULL, out);
}

status jitem_get(jrt *r, jvalue v, jvalue index, jvalue *out)
{
    bool found;
    TRY(own_item(r, v, index, out, &found));
    if (!found && index.kind == JVALUE_STR) TRY(own_attr(r, v, index.s->s, out, &found));
    if (found) return ERR_OK;
    if (index.kind == JVALUE_STR) return jrt_undefined(r, index.s->s, v.kind, NULL, out);
    return jrt_undefined(r, (str){"", 0}, v.kind, "no such element", out);
}

/* A slice's bounds as Python's slice.indices() gives them for a length n. */
static status read_bound(jrt *r, jvalue v, int64_t n, int64_t step, int64_t missing, int64_t *out)
{
    *out = missing;
    if (v.kind == JVALUE_MISSING || v.kind == JVALUE_NONE) return ERR_OK;
    int64_t i;
    if (v.kind == JVALUE_BIG)
        i = v.s->s.ptr[0] == '-' ? INT64_MIN / 2 : INT64_MAX / 2;
    else if (!jvalue_to_int(v, &i))
        return jrt_fail_type(r, "object is no slice index", v);
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    if (i < 0) i = i < -n ? low : i + n;
    *out = i < low ? low : i > high ? high : i;
    return ERR_OK;
}

static status slice_text(jrt *r, const jtext *t, int64_t from, int64_t n, int64_t step, jvalue *out)
{
    TRY(jrt_spend(r, (int64_t)(t->s.len / 16) + n));
    if (step == 1 || n <= 1) {
        size_t begin = junicode_offset(t->s, from);
        size_t len = junicode_offset(str_skip(t->s, begin), n);
        const jtext *part = jtext_slice(r->a, t, begin, begin + len);
        if (!part) return jrt_fail_memory(r);
        *out = jvalue_text(part);
        return ERR_OK;
    }
    /* Offsets of all characters, then pick. */
    int64_t count = junicode_count(t->s);
    size_t *offsets = arena_new_array(r->a, (size_t)count + 1, sizeof *offsets);
    if (!offsets) return jrt_fail_memory(r);
    size_t at = 0;
    uint32_t cp;
    for (int64_t i = 0; i < count; i++) {
        offsets[i] = at;
        at += (size_t)junicode_at(t->s, at, &cp);
    }
    offsets[count] = t->s.len;
    jbuilder b;
    jrt_builder(r, &b);
    for (int64_t k = 0; k < n; k++) {
        int64_t i = from + k * step;
        jbuilder_put_slice(&b, t, offsets[i], offsets[i + 1]);
    }
    TRY(jrt_built(r, &b, out));
    if (!t->is_safe) return ERR_OK;
    out->s = jtext_mark(r->a, out->s, true);
    return out->s ? ERR_OK : jrt_fail_memory(r);
}

static status slice_list(jrt *r, jvalue v, int64_t from, int64_t n, int64_t step, jvalue *out)
{
    TRY(jrt_spend(r, n));
    jlist *l = jlist_new(r->a, n);
    if (!l) return jrt_fail_memory(r);
    for (int64_t k = 0; k < n; k++) l->items[k] = v.list->items[from + k * step];
    l->is_input = v.list->is_input;
    *out = (jvalue){.kind = v.kind, .list = l};
    return ERR_OK;
}

status jslice_get(jrt *r, jvalue v, jvalue start, jvalue stop, jvalue step, jvalue *out)
{
    int64_t by = 1, from, to;
    if (v.kind != JVALUE_STR && v.kind != JVALUE_LIST && v.kind != JVALUE_TUPLE &&
        v.kind != JVALUE_RANGE)
        return jrt_fail_type(r, "object cannot be sliced", v);
    if (step.kind != JVALUE_MISSING && step.kind != JVALUE_NONE && !jvalue_to_int(step, &by))
        return jrt_fail_type(r, "object is no slice step", step);
    if (by == 0) return jrt_fail(r, ERR_FORMAT, "slice step cannot be zero");
    int64_t length = jvalue_length(v);
    if (by > length) by = length + 1;
    if (by < -length) by = -length - 1;
    TRY(read_bound(r, start, length, by, by < 0 ? length - 1 : 0, &from));
    TRY(read_bound(r, stop, length, by, by < 0 ? -1 : length, &to));
    int64_t n = by < 0 ? (from > to ? (from - to - 1) / -by + 1 : 0)
                       : (to > from ? (to - from - 1) / by + 1 : 0);
    if (v.kind == JVALUE_STR) return slice_text(r, v.s, n ? from : 0, n, by, out);
    if (v.kind != JVALUE_RANGE) return slice_list(r, v, from, n, by, out);
    jrange *range = arena_new(r->a, sizeof *range);
    if (!range) return jrt_fail_memory(r);
    *range = (jrange){v.range->start + from * v.range->step, v.range->start + to * v.range->step,
                      v.range->step * by, n};
    *out = (jvalue){.kind = JVALUE_RANGE, .range = range};
    return ERR_OK;
}

static status contains_item(jrt *r, jvalue container, jvalue item, bool *out)
{
    jiter *it = NULL;
    TRY(jiter_open(r, container, &it));
    for (*out = false; !*out;) {
        jvalue other;
        bool has_item = false;
        TRY(jiter_next(r, it, &other, &has_item));
        if (!has_item) break;
        TRY(jop_compare(r, JOP_EQ, item, other, out));
    }
    return ERR_OK;
}

status jattr_contains(jrt *r, jvalue container, jvalue item, bool *out)
{
    uint64_t hash;
    switch (container.kind) {
    case JVALUE_STR:
        if (item.kind != JVALUE_STR)
            return jrt_fail_type(r, "object cannot be searched for in a string", item);
        TRY(jrt_spend(r, (int64_t)(container.s->s.len / 16)));
        *out = str_find(container.s->s, item.s->s, 0) >= 0;
        return ERR_OK;
    case JVALUE_DICT:
        if (!jvalue_hash(item, &hash)) return jrt_fail_type(r, "object is unhashable", item);
        *out = jdict_get(container.dict, item) != NULL;
        return ERR_OK;
    case JVALUE_VIEW:
        if (container.view == JVIEW_KEYS) {
            container.kind = JVALUE_DICT;
            return jattr_contains(r, container, item, out);
        }
        return contains_item(r, container, item, out);
    case JVALUE_LIST:
    case JVALUE_TUPLE:
    case JVALUE_RANGE:
    case JVALUE_ITER:
    case JVALUE_UNDEFINED: return contains_item(r, container, item, out);
    default: return jrt_fail_type(r, "object is not a container", container);
    }
}
