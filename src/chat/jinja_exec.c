/* Statements. */
#include "chat/jinja_call_priv.h"
#include "chat/jinja_iter_priv.h"

status jexec_new_activation(jrt *r, jactivation *outer, const jfunc *f, jactivation **out)
{
    jactivation *act = arena_new(r->a, sizeof *act);
    jvalue *slots = arena_new_array(r->a, (size_t)f->n_slots + 1, sizeof *slots);
    if (!act || !slots) return jrt_fail_memory(r);
    *act = (jactivation){outer, slots};
    *out = act;
    return ERR_OK;
}

/* A variable of the rendering, else a global function; MISSING when there is neither. */
static jvalue resolve(jrt *r, int name)
{
    str text = r->program->names.names[name];
    const jvalue *v = jdict_get_str(r->vars, text);
    if (v) return *v;
    const jbuiltin *b = jglobal_find(text);
    return b ? (jvalue){.kind = JVALUE_BUILTIN, .builtin = b} : (jvalue){0};
}

status jexec_enter_frame(jrt *r, const jscope *s, const jframe *f)
{
    for (int i = 0; i < f->n; i++) {
        const jload *l = &f->loads[i];
        jvalue *slot = &s->act->slots[l->slot];
        switch (l->action) {
        case JLOAD_PARAM: break;
        case JLOAD_RESOLVE: *slot = resolve(r, l->name); break;
        case JLOAD_ALIAS: *slot = *jactivation_slot(s->act, l->source); break;
        case JLOAD_UNDEFINED: *slot = (jvalue){0}; break;
        }
    }
    return jrt_spend(r, f->n);
}

void jexec_leave_frame(const jscope *s, const jframe *f)
{
    for (int i = 0; i < f->n; i++) s->act->slots[f->loads[i].slot] = (jvalue){0};
}

static status assign_tuple(jrt *r, const jscope *s, const jnode *target, jvalue v)
{
    jiter *it = NULL;
    bool has_item = false;
    jvalue item;
    TRY(jiter_open(r, v, &it));
    for (const jnode *t = target->items.first; t; t = t->next) {
        TRY(jiter_next(r, it, &item, &has_item));
        if (!has_item)
            return jrt_fail(r, ERR_FORMAT, "not enough values to unpack (expected %d)",
                            target->items.n);
        TRY(jexec_assign(r, s, t, item));
    }
    TRY(jiter_next(r, it, &item, &has_item));
    if (has_item)
        return jrt_fail(r, ERR_FORMAT, "too many values to unpack (expected %d)", target->items.n);
    return ERR_OK;
}

status jexec_assign(jrt *r, const jscope *s, const jnode *target, jvalue v)
{
    if (target->kind == JNODE_TUPLE) return assign_tuple(r, s, target, v);
    jvalue *slot = jactivation_slot(s->act, target->name.ref);
    if (target->kind == JNODE_NAME) {
        *slot = v;
        return ERR_OK;
    }
    r->pos = target->pos;
    if (slot->kind != JVALUE_NAMESPACE)
        return jrt_fail(r, ERR_FORMAT, "cannot assign attribute on non-namespace object");
    if (!jdict_set(r->a, slot->dict, jvalue_text(target->name.attr), v)) return jrt_fail_memory(r);
    return ERR_OK;
}

static status exec_print(jrt *r, const jscope *s, const jnode *n)
{
    for (const jnode *item = n->items.first; item; item = item->next) {
        jvalue v;
        TRY(jeval(r, s, item, &v));
        TRY(jprint_str(r, s->out, v));
        if (v.kind == JVALUE_STR) TRY(jrt_spend(r, (int64_t)(v.s->s.len / 16)));
    }
    return ERR_OK;
}

static status exec_if(jrt *r, const jscope *s, const jnode *n, jflow *flow)
{
    jvalue test;
    TRY(jeval(r, s, n->branch.test, &test));
    if (jvalue_is_true(test)) return jexec(r, s, n->branch.body.first, flow);
    for (const jnode *e = n->branch.elifs.first; e; e = e->next) {
        TRY(jeval(r, s, e->branch.test, &test));
        if (jvalue_is_true(test)) return jexec(r, s, e->branch.body.first, flow);
    }
    return jexec(r, s, n->branch.otherwise.first, flow);
}

/* What a filter or call block prints must be a text already: jinja2 joins it without str(). */
static status print_block(jrt *r, const jscope *s, const jnode *n, jvalue v)
{
    r->pos = n->pos;
    if (v.kind != JVALUE_STR)
        return jrt_fail(r, ERR_FORMAT, "the block gives '%s' where text is expected",
                        jvalue_type_name(v));
    jbuilder_put_text(s->out, v.s);
    return ERR_OK;
}

/* The text of a set block or filter block, with its filters applied. A jump out of the block drops
 * the text. */
static status exec_block(jrt *r, const jscope *s, const jnode *n, jflow *flow)
{
    jbuilder b;
    jvalue text;
    jrt_builder(r, &b);
    jscope inner = {s->act, &b, NULL};
    TRY(jexec_enter_frame(r, s, &n->block.frame));
    TRY(jexec(r, &inner, n->block.body.first, flow));
    if (*flow != JFLOW_NEXT) return ERR_OK;
    TRY(jrt_built(r, &b, &text));
    if (n->block.filter) {
        jvalue filtered;
        inner.block = &text;
        TRY(jeval(r, &inner, n->block.filter, &filtered));
        text = filtered;
    }
    if (n->kind == JNODE_SET_BLOCK)
        TRY(jexec_assign(r, s, n->block.target, text));
    else
        TRY(print_block(r, s, n, text));
    jexec_leave_frame(s, &n->block.frame);
    return ERR_OK;
}

static status exec_with(jrt *r, const jscope *s, const jnode *n, jflow *flow)
{
    const jnode *value = n->with.values.first;
    TRY(jexec_enter_frame(r, s, &n->with.frame));
    for (const jnode *t = n->with.targets.first; t; t = t->next, value = value->next) {
        jvalue v;
        TRY(jeval(r, s, value, &v));
        TRY(jexec_assign(r, s, t, v));
    }
    TRY(jexec(r, s, n->with.body.first, flow));
    if (*flow == JFLOW_NEXT) jexec_leave_frame(s, &n->with.frame);
    return ERR_OK;
}

static status make_macro(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jmacro *m = arena_new(r->a, sizeof *m);
    if (!m) return jrt_fail_memory(r);
    *m = (jmacro){n->macro.def, s->act};
    *out = (jvalue){.kind = JVALUE_MACRO, .macro = m};
    return ERR_OK;
}

static status exec_call_block(jrt *r, const jscope *s, const jnode *n)
{
    jvalue caller, text;
    TRY(make_macro(r, s, n, &caller));
    if (n->macro.call)
        TRY(jeval_call(r, s, n->macro.call, &caller, &text));
    else
        TRY(jcall_macro(r, caller.macro, &(jcall){0}, &text));
    return print_block(r, s, n, text);
}

static status exec_one(jrt *r, const jscope *s, const jnode *n, jflow *flow)
{
    jvalue v;
    switch (n->kind) {
    case JNODE_DATA:
        jbuilder_put_text(s->out, n->data);
        return jrt_spend(r, (int64_t)(n->data->s.len / 16));
    case JNODE_PRINT: return exec_print(r, s, n);
    case JNODE_IF: return exec_if(r, s, n, flow);
    case JNODE_FOR: return jloop_exec(r, s, n, flow);
    case JNODE_SET: TRY(jeval(r, s, n->set.value, &v)); return jexec_assign(r, s, n->set.target, v);
    case JNODE_SET_BLOCK:
    case JNODE_FILTER_BLOCK: return exec_block(r, s, n, flow);
    case JNODE_MACRO: return make_macro(r, s, n, jactivation_slot(s->act, n->macro.ref));
    case JNODE_CALL_BLOCK: return exec_call_block(r, s, n);
    case JNODE_WITH: return exec_with(r, s, n, flow);
    case JNODE_BREAK: *flow = JFLOW_BREAK; return ERR_OK;
    default: *flow = JFLOW_CONTINUE; return ERR_OK;
    }
}

status jexec(jrt *r, const jscope *s, const jnode *first, jflow *flow)
{
    TRY(jrt_enter(r));
    for (const jnode *n = first; n && *flow == JFLOW_NEXT; n = n->next) {
        r->pos = n->pos;
        TRY(jrt_spend(r, 1));
        TRY(exec_one(r, s, n, flow));
        if (s->out->failed) {
            jvalue ignored;
            return jrt_built(r, s->out, &ignored);
        }
    }
    jrt_leave(r);
    return ERR_OK;
}

status jexec_program(jrt *r, jbuilder *b)
{
    jactivation *act = NULL;
    jflow flow = JFLOW_NEXT;
    TRY(jexec_new_activation(r, NULL, &r->program->root, &act));
    jscope s = {act, b, NULL};
    TRY(jexec_enter_frame(r, &s, &r->program->frame));
    return jexec(r, &s, r->program->body.first, &flow);
}
