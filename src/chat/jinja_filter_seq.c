/* Filters on sequences that keep or regroup their items. */
#include "chat/jinja_filter_priv.h"

static status f_list(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    jlist *l = NULL;
    TRY(jiter_collect(r, self, &l));
    *out = jvalue_list(l);
    return ERR_OK;
}

static status f_first(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    jiter *it = NULL;
    bool has_item = false;
    TRY(jiter_open(r, self, &it));
    TRY(jiter_next(r, it, out, &has_item));
    if (has_item) return ERR_OK;
    return jrt_undefined(r, (str){"", 0}, self.kind, "No first item, sequence was empty.", out);
}

static bool can_reverse(jvalue v)
{
    return v.kind == JVALUE_STR || v.kind == JVALUE_LIST || v.kind == JVALUE_TUPLE ||
           v.kind == JVALUE_DICT || v.kind == JVALUE_VIEW || v.kind == JVALUE_RANGE ||
           v.kind == JVALUE_UNDEFINED;
}

static status f_last(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    jlist *l = NULL;
    if (!can_reverse(self)) return jrt_fail_type(r, "object is not reversible", self);
    TRY(jiter_collect(r, self, &l));
    if (l->n == 0)
        return jrt_undefined(r, (str){"", 0}, self.kind, "No last item, sequence was empty.", out);
    *out = l->items[l->n - 1];
    return self.kind == JVALUE_STR ? jfilter_mark(r, out, self.s->is_safe) : ERR_OK;
}

static status next_reversed(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    (void)r;
    const jlist *l = it->source.list;
    *has_item = it->at < l->n;
    if (*has_item) *item = l->items[l->n - 1 - it->at++];
    return ERR_OK;
}

static status f_reverse(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    jlist *l = NULL;
    if (self.kind == JVALUE_STR)
        return jslice_get(r, self, (jvalue){0}, (jvalue){0}, jvalue_int(-1), out);
    TRY(jiter_collect(r, self, &l));
    if (can_reverse(self)) return jiter_new(r, next_reversed, jvalue_list(l), NULL, out);
    for (int64_t i = 0, k = l->n - 1; i < k; i++, k--) {
        jvalue v = l->items[i];
        l->items[i] = l->items[k];
        l->items[k] = v;
    }
    *out = jvalue_list(l);
    return ERR_OK;
}

static status next_pair(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    if (it->source.kind == JVALUE_UNDEFINED) {
        *has_item = false;
        return ERR_OK;
    }
    if (it->source.kind != JVALUE_DICT)
        return jrt_fail(r, ERR_FORMAT, "Can only get item pairs from a mapping.");
    const jdict *d = it->source.dict;
    *has_item = it->at < d->n;
    if (!*has_item) return ERR_OK;
    int64_t i = it->at++;
    return jiter_pair(r, d->keys[i], d->values[i], item);
}

static status f_items(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return jiter_new(r, next_pair, self, NULL, out);
}

static status f_join(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    static const jtext empty = {.s = {"", 0}};
    const jtext *sep = &empty;
    jiter *it = NULL;
    jbuilder b;
    if (!jvalue_is_missing(a[0])) TRY(jprint_text(r, a[0], &sep));
    TRY(jiter_open(r, self, &it));
    jrt_builder(r, &b);
    for (bool is_first = true;; is_first = false) {
        jvalue item, part;
        bool has_item = false;
        TRY(jiter_next(r, it, &item, &has_item));
        if (!has_item) break;
        TRY(jpath_get(r, a[1], (jvalue){0}, item, &part));
        if (!is_first) jbuilder_put_text(&b, sep);
        TRY(jprint_str(r, &b, part));
        if (b.failed) break;
    }
    return jrt_built(r, &b, out);
}

typedef struct {
    int64_t size;
    jvalue fill;
    jvalue ahead; /* an item that opens the next batch */
    bool is_started;
} batch_state;

static status close_batch(jrt *r, const jgrow *g, jvalue *item)
{
    jlist *l = NULL;
    TRY(jgrow_list(r, g, &l));
    *item = jvalue_list(l);
    return ERR_OK;
}

static status next_batch(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    batch_state *b = it->state;
    jgrow g = {0};
    jvalue next;
    if (!b->is_started) {
        TRY(jiter_open(r, it->source, &it->inner));
        b->is_started = true;
    }
    if (!jvalue_is_missing(b->ahead)) TRY(jgrow_push(r, &g, b->ahead));
    b->ahead = (jvalue){0};
    for (;;) {
        bool has_next = false;
        TRY(jiter_next(r, it->inner, &next, &has_next));
        if (!has_next) break;
        if (g.n == b->size) {
            b->ahead = next;
            *has_item = true;
            return close_batch(r, &g, item);
        }
        TRY(jgrow_push(r, &g, next));
    }
    *has_item = g.n > 0;
    if (g.n && b->fill.kind != JVALUE_NONE && !jvalue_is_missing(b->fill))
        while (g.n < b->size) {
            TRY(jrt_spend(r, 1));
            TRY(jgrow_push(r, &g, b->fill));
        }
    return close_batch(r, &g, item);
}

static status f_batch(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    batch_state *b = arena_new(r->a, sizeof *b);
    if (!b) return jrt_fail_memory(r);
    TRY(jarg_int(r, a[0], "linecount", &b->size));
    b->fill = a[1];
    return jiter_new(r, next_batch, self, b, out);
}

typedef struct {
    int64_t n;
    jvalue fill;
    jlist *items;
} slice_state;

static status next_slice(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    slice_state *s = it->state;
    if (!s->items) {
        TRY(jiter_collect(r, it->source, &s->items));
        if (s->n == 0) return jrt_fail(r, ERR_FORMAT, "integer division or modulo by zero");
    }
    *has_item = it->at < s->n;
    if (!*has_item) return ERR_OK;
    int64_t i = it->at++, each = s->items->n / s->n, extra = s->items->n % s->n;
    int64_t from = i * each + (i < extra ? i : extra), n = each + (i < extra);
    bool is_filled = s->fill.kind != JVALUE_NONE && !jvalue_is_missing(s->fill) && i >= extra;
    TRY(jrt_spend(r, n));
    jlist *l = jlist_new(r->a, n + is_filled);
    if (!l) return jrt_fail_memory(r);
    for (int64_t k = 0; k < n; k++) l->items[k] = s->items->items[from + k];
    if (is_filled) l->items[n] = s->fill;
    *item = jvalue_list(l);
    return ERR_OK;
}

static status f_slice(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    slice_state *s = arena_new(r->a, sizeof *s);
    if (!s) return jrt_fail_memory(r);
    TRY(jarg_int(r, a[0], "slices", &s->n));
    s->fill = a[1];
    return jiter_new(r, next_slice, self, s, out);
}

static status f_sum(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    jiter *it = NULL;
    jvalue total = jvalue_is_missing(a[1]) ? jvalue_int(0) : a[1];
    if (total.kind == JVALUE_STR)
        return jrt_fail(r, ERR_FORMAT, "sum() can't sum strings [use ''.join(seq) instead]");
    TRY(jiter_open(r, self, &it));
    for (;;) {
        jvalue item, part, next;
        bool has_item = false;
        TRY(jiter_next(r, it, &item, &has_item));
        if (!has_item) break;
        TRY(jpath_get(r, a[0], (jvalue){0}, item, &part));
        TRY(jop_binary(r, JOP_ADD, total, part, &next));
        total = next;
    }
    *out = total;
    return ERR_OK;
}

const jbuiltin jfilters_seq[] = {
    {"batch", f_batch, "linecount fill_with="},
    {"first", f_first, ""},
    {"items", f_items, ""},
    {"join", f_join, "d= attribute="},
    {"last", f_last, ""},
    {"list", f_list, ""},
    {"reverse", f_reverse, ""},
    {"slice", f_slice, "slices fill_with="},
    {"sum", f_sum, "attribute= start="},
    {0},
};
