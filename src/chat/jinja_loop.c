#include "chat/jinja_loop_priv.h"

/* ---- the loop variable ---- */

static status advance(jrt *r, jloop *l, jvalue *item, bool *has_item)
{
    *has_item = !jvalue_is_missing(l->after);
    *item = l->after;
    l->after = (jvalue){0};
    if (!*has_item) TRY(jiter_next(r, l->iter, item, has_item));
    if (!*has_item) return ERR_OK;
    l->index0++;
    l->before = l->current;
    l->current = *item;
    return ERR_OK;
}

static status peek(jrt *r, jloop *l, bool *has_item)
{
    *has_item = !jvalue_is_missing(l->after);
    if (*has_item) return ERR_OK;
    jvalue item;
    TRY(jiter_next(r, l->iter, &item, has_item));
    if (*has_item) l->after = item;
    return ERR_OK;
}

status jloop_length(jrt *r, jloop *l, int64_t *out)
{
    if (l->length < 0) {
        jlist *rest = NULL;
        jvalue source = {.kind = JVALUE_ITER, .iter = l->iter};
        TRY(jiter_collect(r, source, &rest));
        TRY(jiter_open(r, jvalue_list(rest), &l->iter));
        l->length = rest->n + l->index0 + 1 + !jvalue_is_missing(l->after);
    }
    *out = l->length;
    return ERR_OK;
}

static status loop_cycle(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a;
    if (call->n_named) return jrt_fail(r, ERR_FORMAT, "cycle() takes no keyword arguments");
    if (!call->n) return jrt_fail(r, ERR_FORMAT, "no items for cycling given");
    *out = call->positional[self.loop->index0 % call->n];
    return ERR_OK;
}

static status loop_changed(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a;
    if (call->n_named) return jrt_fail(r, ERR_FORMAT, "changed() takes no keyword arguments");
    jlist *args = jlist_new(r->a, call->n);
    if (!args) return jrt_fail_memory(r);
    for (int i = 0; i < call->n; i++) args->items[i] = call->positional[i];
    jvalue now = {.kind = JVALUE_TUPLE, .list = args};
    bool is_same;
    TRY(jop_compare(r, JOP_EQ, self.loop->last_changed, now, &is_same));
    if (!is_same) self.loop->last_changed = now;
    *out = jvalue_bool(!is_same);
    return ERR_OK;
}

static status counter(jrt *r, jloop *l, str name, jvalue *out, bool *found)
{
    int64_t length = 0;
    *found = true;
    if (str_is(name, "index")) {
        *out = jvalue_int(l->index0 + 1);
    } else if (str_is(name, "index0")) {
        *out = jvalue_int(l->index0);
    } else if (str_is(name, "depth")) {
        *out = jvalue_int(l->depth0 + 1);
    } else if (str_is(name, "depth0")) {
        *out = jvalue_int(l->depth0);
    } else if (str_is(name, "first")) {
        *out = jvalue_bool(l->index0 == 0);
    } else if (str_is(name, "length")) {
        TRY(jloop_length(r, l, &length));
        *out = jvalue_int(length);
    } else if (str_is(name, "revindex")) {
        TRY(jloop_length(r, l, &length));
        *out = jvalue_int(length - l->index0);
    } else if (str_is(name, "revindex0")) {
        TRY(jloop_length(r, l, &length));
        *out = jvalue_int(length - l->index0 - 1);
    } else {
        *found = false;
    }
    return ERR_OK;
}

status jloop_attr(jrt *r, jloop *l, str name, jvalue *out, bool *found)
{
    static const jbuiltin methods[] = {
        {"cycle", loop_cycle, NULL}, {"changed", loop_changed, NULL}, {0}};
    bool has_item = false;
    TRY(counter(r, l, name, out, found));
    if (*found) return ERR_OK;
    *found = true;
    if (str_is(name, "last")) {
        TRY(peek(r, l, &has_item));
        *out = jvalue_bool(!has_item);
        return ERR_OK;
    }
    if (str_is(name, "previtem")) {
        if (l->index0 == 0)
            return jrt_undefined(r, name, JVALUE_LOOP, "there is no previous item", out);
        *out = l->before;
        return ERR_OK;
    }
    if (str_is(name, "nextitem")) {
        TRY(peek(r, l, &has_item));
        if (!has_item) return jrt_undefined(r, name, JVALUE_LOOP, "there is no next item", out);
        *out = l->after;
        return ERR_OK;
    }
    const jbuiltin *b = jbuiltin_in(methods, name);
    *found = b != NULL;
    if (!b) return ERR_OK;
    jmethod *m = arena_new(r->a, sizeof *m);
    if (!m) return jrt_fail_memory(r);
    *m = (jmethod){{.kind = JVALUE_LOOP, .loop = l}, b};
    *out = (jvalue){.kind = JVALUE_METHOD, .method = m};
    return ERR_OK;
}

/* ---- `for … if test` ---- */

typedef struct {
    const jnode *node;
    jactivation *outer;
    jactivation *act; /* of the test, NULL before the first item */
} filter_state;

static status next_filtered(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    filter_state *f = it->state;
    const jloop_def *def = f->node->loop.def;
    if (!f->act) {
        TRY(jexec_new_activation(r, f->outer, &def->test_func, &f->act));
        TRY(jexec_enter_frame(r, &(jscope){f->act, NULL, NULL}, &def->test));
    }
    jscope s = {f->act, NULL, NULL};
    for (;;) {
        jvalue test;
        TRY(jiter_next(r, it->inner, item, has_item));
        if (!*has_item) return ERR_OK;
        TRY(jexec_assign(r, &s, def->test_target, *item));
        TRY(jeval(r, &s, f->node->loop.test, &test));
        if (jvalue_is_true(test)) return jeval(r, &s, def->test_target, item);
    }
}

static status open_source(jrt *r, const jnode *n, jactivation *outer, jvalue items, jiter **out)
{
    jiter *inner = NULL;
    TRY(jiter_open(r, items, &inner));
    if (!n->loop.test) {
        *out = inner;
        return ERR_OK;
    }
    filter_state *f = arena_new(r->a, sizeof *f);
    jvalue filtered;
    if (!f) return jrt_fail_memory(r);
    *f = (filter_state){.node = n, .outer = outer};
    TRY(jiter_new(r, next_filtered, items, f, &filtered));
    filtered.iter->inner = inner;
    *out = filtered.iter;
    return ERR_OK;
}

/* ---- running ---- */

/* Run the loop over `items` with its slots in s->act. `outer` is where the loop was written. */
static status run(jrt *r, const jscope *s, const jnode *n, jactivation *outer, jvalue items,
                  int64_t depth0, jflow *flow)
{
    const jloop_def *def = n->loop.def;
    jiter *it = NULL;
    jloop *l = NULL;
    bool is_empty = true;
    TRY(open_source(r, n, outer, items, &it));
    if (def->loop_slot >= 0) {
        if (!(l = arena_new(r->a, sizeof *l))) return jrt_fail_memory(r);
        *l = (jloop){.iter = it,
                     .index0 = -1,
                     .depth0 = depth0,
                     .outer = outer,
                     .length = n->loop.test ? -1 : jvalue_length(items),
                     .node = n->loop.is_recursive ? n : NULL};
    }
    for (;;) {
        jvalue item;
        bool has_item = false;
        jflow inner = JFLOW_NEXT;
        if (l)
            TRY(advance(r, l, &item, &has_item));
        else
            TRY(jiter_next(r, it, &item, &has_item));
        if (!has_item) break;
        TRY(jexec_assign(r, s, n->loop.target, item));
        if (l) s->act->slots[def->loop_slot] = (jvalue){.kind = JVALUE_LOOP, .loop = l};
        TRY(jexec_enter_frame(r, s, &def->body));
        TRY(jexec(r, s, n->loop.body.first, &inner));
        if (inner == JFLOW_BREAK) break;
        /* As in the generated Python, an iteration left by `continue` does not count. */
        if (inner == JFLOW_NEXT) is_empty = false;
    }
    jexec_leave_frame(s, &def->body);
    if (!is_empty || !n->loop.otherwise.n) return ERR_OK;
    TRY(jexec_enter_frame(r, s, &def->otherwise));
    TRY(jexec(r, s, n->loop.otherwise.first, flow));
    if (*flow == JFLOW_NEXT) jexec_leave_frame(s, &def->otherwise);
    return ERR_OK;
}

static status run_recursive(jrt *r, const jnode *n, jactivation *outer, jvalue items,
                            int64_t depth0, jbuilder *b)
{
    jactivation *act = NULL;
    jflow flow = JFLOW_NEXT;
    TRY(jexec_new_activation(r, outer, &n->loop.def->func, &act));
    return run(r, &(jscope){act, b, NULL}, n, outer, items, depth0, &flow);
}

status jloop_exec(jrt *r, const jscope *s, const jnode *n, jflow *flow)
{
    jvalue items;
    TRY(jeval(r, s, n->loop.iter, &items));
    r->pos = n->pos;
    if (n->loop.is_recursive) return run_recursive(r, n, s->act, items, 0, s->out);
    return run(r, s, n, s->act, items, 0, flow);
}

status jloop_call(jrt *r, jloop *l, const jcall *call, jvalue *out)
{
    if (!l->node)
        return jrt_fail(r, ERR_FORMAT, "the loop must be marked 'recursive' to be called");
    if (call->n != 1 || call->n_named)
        return jrt_fail(r, ERR_FORMAT, "a loop is called with one iterable");
    jbuilder b;
    jrt_builder(r, &b);
    TRY(run_recursive(r, l->node, l->outer, call->positional[0], l->depth0 + 1, &b));
    return jrt_built(r, &b, out);
}
