#include "grammar/expr_priv.h"

#include <stdlib.h>

#include "base/utf8.h"

expr *expr_new(arena *a, expr_kind kind)
{
    expr *e = arena_new(a, sizeof *e);
    if (e) e->kind = kind;
    return e;
}

expr *expr_list(arena *a, expr_kind kind, expr *const *items, int n)
{
    for (int i = 0; i < n; i++)
        if (!items[i]) return NULL;
    if (n == 1) return items[0];
    expr *e = expr_new(a, n == 0 && kind == EXPR_CAT ? EXPR_EMPTY : kind);
    if (!e || n == 0) return e;
    e->items = arena_new_array(a, (size_t)n, sizeof *e->items);
    if (!e->items) return NULL;
    memcpy(e->items, items, (size_t)n * sizeof *items);
    e->n = n;
    return e;
}

expr *expr_pair(arena *a, expr_kind kind, expr *left, expr *right)
{
    expr *items[2] = {left, right};
    return expr_list(a, kind, items, 2);
}

expr *expr_repeat(arena *a, expr *body, int least, int most)
{
    expr *e = expr_new(a, EXPR_REPEAT);
    if (!e || !body) return NULL;
    e->items = arena_new_array(a, 1, sizeof *e->items);
    if (!e->items) return NULL;
    e->items[0] = body;
    e->n = 1;
    e->least = least;
    e->most = most;
    return e;
}

void expr_set_add(expr_set *s, uint32_t lo, uint32_t hi)
{
    if (s->failed || lo > hi) return;
    if (s->n == s->cap) {
        int cap = s->cap ? s->cap * 2 : 4;
        expr_range *more = arena_new_array(s->a, (size_t)cap, sizeof *more);
        if (!more) {
            s->failed = true;
            return;
        }
        if (s->n) memcpy(more, s->ranges, (size_t)s->n * sizeof *more);
        s->ranges = more;
        s->cap = cap;
    }
    s->ranges[s->n++] = (expr_range){lo, hi};
}

static int by_lo(const void *p, const void *q)
{
    const expr_range *x = p, *y = q;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static void normalise(expr_set *s)
{
    int n = 0;
    if (s->n == 0) return;
    qsort(s->ranges, (size_t)s->n, sizeof *s->ranges, by_lo);
    for (int i = 1; i < s->n; i++) {
        expr_range *last = &s->ranges[n], r = s->ranges[i];
        if (r.lo <= last->hi + 1) {
            if (r.hi > last->hi) last->hi = r.hi;
        } else {
            s->ranges[++n] = r;
        }
    }
    s->n = n + 1;
}

void expr_set_negate(expr_set *s)
{
    expr_set other = {.a = s->a};
    uint32_t from = 0;
    normalise(s);
    for (int i = 0; i < s->n; i++) {
        if (s->ranges[i].lo > from) expr_set_add(&other, from, s->ranges[i].lo - 1);
        from = s->ranges[i].hi + 1;
    }
    expr_set_add(&other, from, EXPR_LAST_CP);
    other.failed |= s->failed;
    *s = other;
}

expr *expr_from_set(expr_set *s)
{
    normalise(s);
    expr *e = s->failed ? NULL : expr_new(s->a, EXPR_SET);
    if (e) {
        e->ranges = s->ranges;
        e->n = s->n;
    }
    return e;
}

expr *expr_code_point(arena *a, uint32_t cp)
{
    expr_set s = {.a = a};
    expr_set_add(&s, cp, cp);
    return expr_from_set(&s);
}

expr *expr_any(arena *a)
{
    expr_set s = {.a = a};
    expr_set_add(&s, 0, EXPR_LAST_CP);
    return expr_from_set(&s);
}

expr *expr_text(arena *a, str text)
{
    int n = 0;
    expr **items = arena_new_array(a, text.len + 1, sizeof *items);
    if (!items) return NULL;
    for (size_t at = 0; at < text.len;) {
        uint32_t cp;
        int len = utf8_decode(text, at, &cp);
        if (len == 0) return NULL;
        items[n++] = expr_code_point(a, cp);
        at += (size_t)len;
    }
    return expr_list(a, EXPR_CAT, items, n);
}

expr *expr_search(arena *a, expr *body)
{
    expr *items[3] = {expr_repeat(a, expr_any(a), 0, EXPR_NO_MOST), body,
                      expr_repeat(a, expr_any(a), 0, EXPR_NO_MOST)};
    return expr_list(a, EXPR_CAT, items, 3);
}

bool expr_fixed_text(const expr *e, char *out, int cap, int *len)
{
    switch (e->kind) {
    case EXPR_EMPTY: return true;
    case EXPR_SET:
        if (e->n != 1 || e->ranges[0].lo != e->ranges[0].hi || *len + 4 > cap) return false;
        if (e->ranges[0].lo >= 0xd800 && e->ranges[0].lo < 0xe000) return false;
        *len += utf8_encode(e->ranges[0].lo, out + *len);
        return true;
    case EXPR_CAT:
        for (int i = 0; i < e->n; i++)
            if (!expr_fixed_text(e->items[i], out, cap, len)) return false;
        return true;
    case EXPR_REPEAT:
        if (e->least != e->most) return false;
        for (int i = 0; i < e->least; i++)
            if (!expr_fixed_text(e->items[0], out, cap, len)) return false;
        return true;
    case EXPR_ALT:
    case EXPR_START:
    case EXPR_END:
    case EXPR_RULE: return false;
    }
    return false;
}

bool expr_has_rule(const expr *e)
{
    if (e->kind == EXPR_RULE) return true;
    if (e->kind == EXPR_SET) return false;
    for (int i = 0; i < e->n; i++)
        if (expr_has_rule(e->items[i])) return true;
    return false;
}
