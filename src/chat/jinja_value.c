#include "chat/jinja_value_priv.h"

#include <math.h>

#include "base/hash.h"
#include "chat/jinja_number_priv.h"
#include "chat/jinja_unicode_priv.h"

/* Dicts up to this length are searched from front to back. */
enum { INDEX_FROM = 12 };

const char *jvalue_type_name(jvalue v)
{
    static const char *const names[] = {
        [JVALUE_MISSING] = "missing",
        [JVALUE_UNDEFINED] = "Undefined",
        [JVALUE_NONE] = "NoneType",
        [JVALUE_BOOL] = "bool",
        [JVALUE_INT] = "int",
        [JVALUE_BIG] = "int",
        [JVALUE_FLOAT] = "float",
        [JVALUE_STR] = "str",
        [JVALUE_LIST] = "list",
        [JVALUE_TUPLE] = "tuple",
        [JVALUE_DICT] = "dict",
        [JVALUE_VIEW] = "dict view",
        [JVALUE_RANGE] = "range",
        [JVALUE_ITER] = "generator",
        [JVALUE_NAMESPACE] = "Namespace",
        [JVALUE_BUILTIN] = "function",
        [JVALUE_METHOD] = "method",
        [JVALUE_MACRO] = "Macro",
        [JVALUE_LOOP] = "LoopContext",
        [JVALUE_CYCLER] = "Cycler",
        [JVALUE_JOINER] = "Joiner",
    };
    return names[v.kind];
}

bool jvalue_to_double(jvalue v, double *out)
{
    int64_t i;
    if (v.kind == JVALUE_FLOAT)
        *out = v.f;
    else if (jvalue_to_int(v, &i))
        *out = (double)i;
    else if (v.kind == JVALUE_BIG)
        *out = jnumber_parse(v.s->s);
    else
        return false;
    return true;
}

bool jvalue_is_true(jvalue v)
{
    switch (v.kind) {
    case JVALUE_MISSING:
    case JVALUE_UNDEFINED:
    case JVALUE_NONE: return false;
    case JVALUE_BOOL: return v.b;
    case JVALUE_INT: return v.i != 0;
    case JVALUE_FLOAT: return v.f != 0;
    case JVALUE_STR:
    case JVALUE_LIST:
    case JVALUE_TUPLE:
    case JVALUE_DICT:
    case JVALUE_VIEW:
    case JVALUE_RANGE: return jvalue_length(v) != 0;
    default: return true;
    }
}

int64_t jvalue_length(jvalue v)
{
    switch (v.kind) {
    case JVALUE_UNDEFINED: return 0;
    case JVALUE_STR: return junicode_count(v.s->s);
    case JVALUE_LIST:
    case JVALUE_TUPLE: return v.list->n;
    case JVALUE_DICT:
    case JVALUE_VIEW: return v.dict->n;
    case JVALUE_RANGE: return v.range->n;
    default: return -1;
    }
}

/* Shared lists can make a small tree that is exponentially long to walk: comparing and hashing give
 * up after this many steps. */
enum { STEPS_MOST = 1 << 20 };

typedef struct {
    int depth;
    int64_t steps;
} walk;

static bool walk_in(walk *w)
{
    if (w->depth <= 0 || w->steps <= 0) return false;
    w->depth--;
    w->steps--;
    return true;
}

static bool equal(walk *w, jvalue a, jvalue b);

static bool lists_equal(walk *w, const jlist *a, const jlist *b)
{
    if (a == b) return true;
    if (a->n != b->n) return false;
    for (int64_t i = 0; i < a->n; i++)
        if (!equal(w, a->items[i], b->items[i])) return false;
    return true;
}

static bool dicts_equal(walk *w, const jdict *a, const jdict *b)
{
    if (a == b) return true;
    if (a->n != b->n) return false;
    for (int64_t i = 0; i < a->n; i++) {
        const jvalue *other = jdict_get(b, a->keys[i]);
        if (!other || !equal(w, a->values[i], *other)) return false;
    }
    return true;
}

static bool ranges_equal(const jrange *a, const jrange *b)
{
    if (a->n != b->n) return false;
    if (a->n == 0) return true;
    return a->start == b->start && (a->n == 1 || a->step == b->step);
}

static bool numbers_equal(jvalue a, jvalue b)
{
    if (a.kind == JVALUE_BIG && b.kind == JVALUE_BIG) return str_equal(a.s->s, b.s->s);
    int64_t i, j;
    if (jvalue_to_int(a, &i) && jvalue_to_int(b, &j)) return i == j;
    int order;
    return jnumber_compare(a, b, &order) && order == 0;
}

static bool equal(walk *w, jvalue a, jvalue b)
{
    if (jvalue_is_number(a) && jvalue_is_number(b)) return numbers_equal(a, b);
    if (a.kind != b.kind) return false;
    if (a.kind == JVALUE_STR) return str_equal(a.s->s, b.s->s);
    if (!walk_in(w)) return false;
    bool is_equal;
    switch (a.kind) {
    case JVALUE_LIST:
    case JVALUE_TUPLE: is_equal = lists_equal(w, a.list, b.list); break;
    case JVALUE_DICT: is_equal = dicts_equal(w, a.dict, b.dict); break;
    case JVALUE_VIEW: is_equal = a.dict == b.dict && a.view == b.view; break;
    case JVALUE_RANGE: is_equal = ranges_equal(a.range, b.range); break;
    case JVALUE_MISSING:
    case JVALUE_UNDEFINED:
    case JVALUE_NONE: is_equal = true; break;
    default: is_equal = a.macro == b.macro; break; /* identity: all other members are pointers */
    }
    w->depth++;
    return is_equal;
}

bool jvalue_equal(jvalue a, jvalue b)
{
    walk w = {JVALUE_DEPTH, STEPS_MOST};
    return equal(&w, a, b);
}

static bool compare(walk *w, jvalue a, jvalue b, int *order)
{
    if (jvalue_is_number(a) && jvalue_is_number(b)) return jnumber_compare(a, b, order);
    if (a.kind != b.kind) return false;
    if (a.kind == JVALUE_STR) {
        int c = str_compare(a.s->s, b.s->s);
        *order = c < 0 ? -1 : c > 0;
        return true;
    }
    if ((a.kind != JVALUE_LIST && a.kind != JVALUE_TUPLE) || !walk_in(w)) return false;
    for (int64_t i = 0; i < a.list->n && i < b.list->n; i++)
        if (!equal(w, a.list->items[i], b.list->items[i]))
            return compare(w, a.list->items[i], b.list->items[i], order);
    *order = a.list->n < b.list->n ? -1 : a.list->n > b.list->n;
    return true;
}

bool jvalue_compare(jvalue a, jvalue b, int *order)
{
    walk w = {JVALUE_DEPTH, STEPS_MOST};
    return compare(&w, a, b, order);
}

/* Equal numbers hash alike whatever their kind. */
static uint64_t hash_number(jvalue v)
{
    if (v.kind == JVALUE_BIG) return hash_str(v.s->s, 2);
    double d = 0;
    jvalue_to_double(v, &d);
    if (d == 0) d = 0; /* -0.0 */
    int64_t i;
    if (jvalue_to_int(v, &i) && (double)i != d) d = (double)i;
    return hash_bytes(&d, sizeof d, 1);
}

static bool hash(walk *w, jvalue v, uint64_t *out)
{
    uint64_t h = v.kind;
    switch (v.kind) {
    case JVALUE_BOOL:
    case JVALUE_INT:
    case JVALUE_BIG:
    case JVALUE_FLOAT: h = hash_number(v); break;
    case JVALUE_STR: h = hash_str(v.s->s, 0); break;
    case JVALUE_LIST:
    case JVALUE_DICT:
    case JVALUE_VIEW: return false;
    case JVALUE_TUPLE:
        if (!walk_in(w)) return false;
        for (int64_t i = 0; i < v.list->n; i++) {
            uint64_t item;
            if (!hash(w, v.list->items[i], &item)) return false;
            h = hash_bytes(&item, sizeof item, h);
        }
        w->depth++;
        break;
    case JVALUE_RANGE: h = hash_bytes(&v.range->n, sizeof v.range->n, h); break;
    case JVALUE_UNDEFINED:
    case JVALUE_NONE: break;
    default: h = hash_bytes(&v.macro, sizeof v.macro, h); break;
    }
    *out = h;
    return true;
}

bool jvalue_hash(jvalue v, uint64_t *out)
{
    walk w = {JVALUE_DEPTH, STEPS_MOST};
    return hash(&w, v, out);
}

jlist *jlist_new(arena *a, int64_t n)
{
    jlist *l = arena_new(a, sizeof *l);
    if (!l) return NULL;
    l->items = n ? arena_new_array(a, (size_t)n, sizeof *l->items) : NULL;
    if (n && !l->items) return NULL;
    l->n = n;
    return l;
}

jdict *jdict_new(arena *a, int64_t cap)
{
    jdict *d = arena_new(a, sizeof *d);
    if (!d) return NULL;
    d->cap = cap > 4 ? cap : 4;
    d->keys = arena_new_array(a, (size_t)d->cap, sizeof *d->keys);
    d->values = arena_new_array(a, (size_t)d->cap, sizeof *d->values);
    return d->keys && d->values ? d : NULL;
}

static uint64_t hash_key(jvalue key)
{
    uint64_t h = 0;
    jvalue_hash(key, &h);
    return h;
}

/* The entry with that key, or -1 and where in the index it belongs. */
static int64_t find_entry(const jdict *d, jvalue key, int64_t *at)
{
    if (!d->index) {
        for (int64_t i = 0; i < d->n; i++)
            if (jvalue_equal(d->keys[i], key)) return i;
        return -1;
    }
    int64_t mask = d->index_cap - 1, i = (int64_t)(hash_key(key) & (uint64_t)mask);
    for (; d->index[i]; i = (i + 1) & mask)
        if (jvalue_equal(d->keys[d->index[i] - 1], key)) return d->index[i] - 1;
    *at = i;
    return -1;
}

static bool rebuild_index(arena *a, jdict *d)
{
    int64_t cap = 64;
    while (cap < d->cap * 2) cap *= 2;
    int32_t *index = arena_new_array(a, (size_t)cap, sizeof *index);
    if (!index) return false;
    for (int64_t e = 0; e < d->n; e++) {
        int64_t i = (int64_t)(hash_key(d->keys[e]) & (uint64_t)(cap - 1));
        while (index[i]) i = (i + 1) & (cap - 1);
        index[i] = (int32_t)(e + 1);
    }
    d->index = index;
    d->index_cap = cap;
    return true;
}

static bool grow_dict(arena *a, jdict *d)
{
    int64_t cap = d->cap * 2;
    if (cap > INT32_MAX / 2) return false;
    jvalue *keys = arena_new_array(a, (size_t)cap, sizeof *keys);
    jvalue *values = arena_new_array(a, (size_t)cap, sizeof *values);
    if (!keys || !values) return false;
    memcpy(keys, d->keys, (size_t)d->n * sizeof *keys);
    memcpy(values, d->values, (size_t)d->n * sizeof *values);
    d->keys = keys;
    d->values = values;
    d->cap = cap;
    if (d->index) return rebuild_index(a, d);
    return true;
}

bool jdict_set(arena *a, jdict *d, jvalue key, jvalue value)
{
    int64_t at = 0, e = find_entry(d, key, &at);
    if (e >= 0) {
        d->values[e] = value;
        return true;
    }
    if (d->n == d->cap) {
        if (!grow_dict(a, d)) return false;
        find_entry(d, key, &at);
    }
    d->keys[d->n] = key;
    d->values[d->n] = value;
    d->n++;
    if (d->index)
        d->index[at] = (int32_t)d->n;
    else if (d->n > INDEX_FROM)
        return rebuild_index(a, d);
    return true;
}

const jvalue *jdict_get(const jdict *d, jvalue key)
{
    int64_t at, e = find_entry(d, key, &at);
    return e >= 0 ? &d->values[e] : NULL;
}

const jvalue *jdict_get_str(const jdict *d, str key)
{
    jtext t = {.s = key};
    return jdict_get(d, jvalue_text(&t));
}

static status from_array(arena *a, const json *v, int depth, jvalue *out)
{
    jlist *l = jlist_new(a, v->n);
    if (!l) return ERR_NOMEM;
    l->is_input = true;
    int64_t i = 0;
    for (const json *item = v->first; item; item = item->next)
        TRY(jvalue_from_json(a, item, depth - 1, &l->items[i++]));
    *out = jvalue_list(l);
    return ERR_OK;
}

static status from_object(arena *a, const json *v, int depth, jvalue *out)
{
    jdict *d = jdict_new(a, v->n);
    if (!d) return ERR_NOMEM;
    d->is_input = true;
    for (const json *member = v->first; member; member = member->next) {
        const jtext *key = jtext_new(a, member->key, true);
        jvalue item;
        if (!key) return ERR_NOMEM;
        TRY(jvalue_from_json(a, member, depth - 1, &item));
        if (!jdict_set(a, d, jvalue_text(key), item)) return ERR_NOMEM;
    }
    *out = (jvalue){.kind = JVALUE_DICT, .dict = d};
    return ERR_OK;
}

status jvalue_from_json(arena *a, const json *v, int depth, jvalue *out)
{
    if (depth <= 0) return ERR_LIMIT;
    switch (v->kind) {
    case JSON_NULL: *out = jvalue_none(); break;
    case JSON_FALSE:
    case JSON_TRUE: *out = jvalue_bool(v->kind == JSON_TRUE); break;
    case JSON_NUMBER: return jnumber_from_text(a, v->text, true, out) ? ERR_OK : ERR_NOMEM;
    case JSON_STRING: {
        const jtext *t = jtext_new(a, v->text, true);
        if (!t) return ERR_NOMEM;
        *out = jvalue_text(t);
        break;
    }
    case JSON_ARRAY: return from_array(a, v, depth, out);
    case JSON_OBJECT: return from_object(a, v, depth, out);
    }
    out->is_input = true;
    return ERR_OK;
}
