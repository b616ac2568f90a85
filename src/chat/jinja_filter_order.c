/* Filters that compare items: sort, unique, groupby, min, max, dictsort. */
#include "chat/jinja_filter_priv.h"

typedef struct {
    jvalue *items, *keys, *spare_items, *spare_keys;
    bool is_reverse;
} sorter;

static status is_less(jrt *r, jvalue a, jvalue b, bool *out)
{
    return jop_compare(r, JOP_LT, a, b, out);
}

/* Merge sort of [from, to): n log n comparisons that may fail, equal items keep their order (also
 * when the order is reversed). */
static status merge_sort(jrt *r, const sorter *s, int64_t from, int64_t to)
{
    if (to - from < 2) return ERR_OK;
    int64_t mid = from + (to - from) / 2, i = from, k = mid;
    TRY(merge_sort(r, s, from, mid));
    TRY(merge_sort(r, s, mid, to));
    for (int64_t at = from; at < to; at++) {
        bool takes_right = i == mid;
        TRY(jrt_spend(r, 1));
        if (i < mid && k < to) {
            if (s->is_reverse)
                TRY(is_less(r, s->keys[i], s->keys[k], &takes_right));
            else
                TRY(is_less(r, s->keys[k], s->keys[i], &takes_right));
        }
        int64_t take = takes_right ? k++ : i++;
        s->spare_items[at] = s->items[take];
        s->spare_keys[at] = s->keys[take];
    }
    memcpy(s->items + from, s->spare_items + from, (size_t)(to - from) * sizeof(jvalue));
    memcpy(s->keys + from, s->spare_keys + from, (size_t)(to - from) * sizeof(jvalue));
    return ERR_OK;
}

status jsort_by_keys(jrt *r, jvalue *items, jvalue *keys, int64_t n, bool is_reverse)
{
    sorter s = {items, keys, arena_new_array(r->a, (size_t)n + 1, sizeof(jvalue)),
                arena_new_array(r->a, (size_t)n + 1, sizeof(jvalue)), is_reverse};
    if (!s.spare_items || !s.spare_keys) return jrt_fail_memory(r);
    return merge_sort(r, &s, 0, n);
}

/* The sort key for an attribute "a,b.c": a list with one value per comma. */
static status multi_key(jrt *r, jvalue path, bool is_case_sensitive, jvalue item, jvalue *out)
{
    jgrow g = {0};
    jlist *l = NULL;
    for (size_t from = 0;;) {
        jvalue part = path, v, folded;
        size_t to = 0;
        if (path.kind == JVALUE_STR) {
            int64_t comma = str_find(path.s->s, STR(","), from);
            to = comma < 0 ? path.s->s.len : (size_t)comma;
            TRY(jslice_text(r, path.s, from, to, &part));
        }
        TRY(jpath_get(r, part, (jvalue){0}, item, &v));
        TRY(jfilter_fold(r, is_case_sensitive, v, &folded));
        TRY(jgrow_push(r, &g, folded));
        if (path.kind != JVALUE_STR || to == path.s->s.len) break;
        from = to + 1;
    }
    TRY(jgrow_list(r, &g, &l));
    *out = jvalue_list(l);
    return ERR_OK;
}

static status single_key(jrt *r, jvalue path, jvalue fallback, bool is_case_sensitive, jvalue item,
                         jvalue *out)
{
    jvalue v;
    TRY(jpath_get(r, path, fallback, item, &v));
    return jfilter_fold(r, is_case_sensitive, v, out);
}

static status new_keys(jrt *r, int64_t n, jvalue **out)
{
    *out = arena_new_array(r->a, (size_t)n + 1, sizeof **out);
    return *out ? ERR_OK : jrt_fail_memory(r);
}

static status f_sort(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    bool is_reverse = false, is_case_sensitive = false;
    jlist *l = NULL;
    jvalue *keys = NULL;
    TRY(jarg_bool(r, a[0], &is_reverse));
    TRY(jarg_bool(r, a[1], &is_case_sensitive));
    TRY(jiter_collect(r, self, &l));
    TRY(new_keys(r, l->n, &keys));
    for (int64_t i = 0; i < l->n; i++)
        TRY(multi_key(r, a[2], is_case_sensitive, l->items[i], &keys[i]));
    TRY(jsort_by_keys(r, l->items, keys, l->n, is_reverse));
    *out = jvalue_list(l);
    return ERR_OK;
}

static status f_dictsort(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    bool is_case_sensitive = false, is_reverse = false;
    const jtext *by = NULL;
    jvalue *keys = NULL;
    TRY(jarg_bool(r, a[0], &is_case_sensitive));
    TRY(jarg_text(r, a[1], "by", &by));
    TRY(jarg_bool(r, a[2], &is_reverse));
    bool by_value = by && str_is(by->s, "value");
    if (by && !by_value && !str_is(by->s, "key"))
        return jrt_fail(r, ERR_FORMAT, "You can only sort by either \"key\" or \"value\"");
    if (self.kind != JVALUE_DICT) return jrt_fail_type(r, "object has no items", self);
    const jdict *d = self.dict;
    jlist *l = jlist_new(r->a, d->n);
    if (!l) return jrt_fail_memory(r);
    TRY(new_keys(r, d->n, &keys));
    for (int64_t i = 0; i < d->n; i++) {
        TRY(jiter_pair(r, d->keys[i], d->values[i], &l->items[i]));
        TRY(jfilter_fold(r, is_case_sensitive, by_value ? d->values[i] : d->keys[i], &keys[i]));
    }
    TRY(jsort_by_keys(r, l->items, keys, l->n, is_reverse));
    *out = jvalue_list(l);
    return ERR_OK;
}

typedef struct {
    bool is_case_sensitive;
    jvalue path;
    jdict *seen;
} unique_state;

static status next_unique(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    unique_state *u = it->state;
    if (!it->inner) TRY(jiter_open(r, it->source, &it->inner));
    for (;;) {
        jvalue key;
        uint64_t hash;
        TRY(jiter_next(r, it->inner, item, has_item));
        if (!*has_item) return ERR_OK;
        TRY(single_key(r, u->path, (jvalue){0}, u->is_case_sensitive, *item, &key));
        if (!jvalue_hash(key, &hash)) return jrt_fail_type(r, "object is unhashable", key);
        if (jdict_get(u->seen, key)) continue;
        return jdict_set(r->a, u->seen, key, jvalue_none()) ? ERR_OK : jrt_fail_memory(r);
    }
}

static status f_unique(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    unique_state *u = arena_new(r->a, sizeof *u);
    if (!u || !(u->seen = jdict_new(r->a, 8))) return jrt_fail_memory(r);
    TRY(jarg_bool(r, a[0], &u->is_case_sensitive));
    u->path = a[1];
    return jiter_new(r, next_unique, self, u, out);
}

static status extreme(jrt *r, jvalue self, const jvalue *a, bool wants_max, jvalue *out)
{
    bool is_case_sensitive = false, has_item = false;
    jiter *it = NULL;
    jvalue best_key;
    TRY(jarg_bool(r, a[0], &is_case_sensitive));
    TRY(jiter_open(r, self, &it));
    TRY(jiter_next(r, it, out, &has_item));
    if (!has_item)
        return jrt_undefined(r, (str){"", 0}, self.kind, "No aggregated item, sequence was empty.",
                             out);
    TRY(single_key(r, a[1], (jvalue){0}, is_case_sensitive, *out, &best_key));
    for (;;) {
        jvalue item, key;
        bool is_better;
        TRY(jiter_next(r, it, &item, &has_item));
        if (!has_item) return ERR_OK;
        TRY(single_key(r, a[1], (jvalue){0}, is_case_sensitive, item, &key));
        TRY(jop_compare(r, wants_max ? JOP_GT : JOP_LT, key, best_key, &is_better));
        if (!is_better) continue;
        best_key = key;
        *out = item;
    }
}

static status f_min(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return extreme(r, self, a, false, out);
}

static status f_max(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return extreme(r, self, a, true, out);
}

static status make_group(jrt *r, jvalue key, const jvalue *items, int64_t n, jvalue *out)
{
    jlist *group = jlist_new(r->a, 2), *list = jlist_new(r->a, n);
    if (!group || !list) return jrt_fail_memory(r);
    memcpy(list->items, items, (size_t)n * sizeof *items);
    group->items[0] = key;
    group->items[1] = jvalue_list(list);
    group->is_group = true;
    *out = (jvalue){.kind = JVALUE_TUPLE, .list = group};
    return ERR_OK;
}

static status f_groupby(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    bool is_case_sensitive = false;
    jlist *l = NULL, *groups = NULL;
    jvalue *keys = NULL;
    jgrow g = {0};
    TRY(jarg_bool(r, a[2], &is_case_sensitive));
    TRY(jiter_collect(r, self, &l));
    TRY(new_keys(r, l->n, &keys));
    for (int64_t i = 0; i < l->n; i++)
        TRY(single_key(r, a[0], a[1], is_case_sensitive, l->items[i], &keys[i]));
    TRY(jsort_by_keys(r, l->items, keys, l->n, false));
    for (int64_t from = 0, to; from < l->n; from = to) {
        jvalue key, group;
        bool is_same = true;
        for (to = from + 1; to < l->n; to++) {
            TRY(jop_compare(r, JOP_EQ, keys[from], keys[to], &is_same));
            if (!is_same) break;
        }
        TRY(jpath_get(r, a[0], a[1], l->items[from], &key));
        TRY(make_group(r, key, l->items + from, to - from, &group));
        TRY(jgrow_push(r, &g, group));
    }
    TRY(jgrow_list(r, &g, &groups));
    *out = jvalue_list(groups);
    return ERR_OK;
}

const jbuiltin jfilters_order[] = {
    {"dictsort", f_dictsort, "case_sensitive= by= reverse="},
    {"groupby", f_groupby, "attribute default= case_sensitive="},
    {"max", f_max, "case_sensitive= attribute="},
    {"min", f_min, "case_sensitive= attribute="},
    {"sort", f_sort, "reverse= case_sensitive= attribute="},
    {"unique", f_unique, "case_sensitive= attribute="},
    {0},
};
