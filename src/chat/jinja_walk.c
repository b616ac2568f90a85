#include "chat/jinja_scope_priv.h"

typedef struct {
    jname_fn *fn;
    void *ctx;
} walker;

static void walk(const walker *w, const jnode *n, jname_use use);

static void walk_list(const walker *w, const jnode_list *l, jname_use use)
{
    for (const jnode *n = l->first; n; n = n->next) walk(w, n, use);
}

static void walk_args(const walker *w, const jargs *args)
{
    walk_list(w, &args->positional, JNAME_LOAD);
    walk_list(w, &args->named, JNAME_LOAD);
    walk(w, args->star, JNAME_LOAD);
    walk(w, args->star_star, JNAME_LOAD);
}

static void walk_macro(const walker *w, const jmacro_def *def)
{
    walk_list(w, &def->params, JNAME_PARAM);
    walk_list(w, &def->defaults, JNAME_LOAD);
    walk_list(w, &def->body, JNAME_LOAD);
}

static void walk_statement(const walker *w, const jnode *n)
{
    switch (n->kind) {
    case JNODE_IF:
        walk(w, n->branch.test, JNAME_LOAD);
        walk_list(w, &n->branch.body, JNAME_LOAD);
        walk_list(w, &n->branch.elifs, JNAME_LOAD);
        walk_list(w, &n->branch.otherwise, JNAME_LOAD);
        break;
    case JNODE_FOR:
        walk(w, n->loop.target, JNAME_STORE);
        walk(w, n->loop.iter, JNAME_LOAD);
        walk_list(w, &n->loop.body, JNAME_LOAD);
        walk_list(w, &n->loop.otherwise, JNAME_LOAD);
        walk(w, n->loop.test, JNAME_LOAD);
        break;
    case JNODE_SET:
        walk(w, n->set.target, JNAME_STORE);
        walk(w, n->set.value, JNAME_LOAD);
        break;
    case JNODE_SET_BLOCK:
        walk(w, n->block.target, JNAME_STORE);
        walk(w, n->block.filter, JNAME_LOAD);
        walk_list(w, &n->block.body, JNAME_LOAD);
        break;
    case JNODE_FILTER_BLOCK:
        walk_list(w, &n->block.body, JNAME_LOAD);
        walk(w, n->block.filter, JNAME_LOAD);
        break;
    case JNODE_MACRO:
    case JNODE_CALL_BLOCK:
        if (n->kind == JNODE_CALL_BLOCK) walk(w, n->macro.call, JNAME_LOAD);
        walk_macro(w, n->macro.def);
        break;
    case JNODE_WITH:
        walk_list(w, &n->with.targets, JNAME_PARAM);
        walk_list(w, &n->with.values, JNAME_LOAD);
        walk_list(w, &n->with.body, JNAME_LOAD);
        break;
    default: break;
    }
}

static void walk(const walker *w, const jnode *n, jname_use use)
{
    if (!n) return;
    switch (n->kind) {
    case JNODE_NAME: w->fn(w->ctx, n, use); break;
    case JNODE_TUPLE:
    case JNODE_LIST:
    case JNODE_DICT:
    case JNODE_CONCAT:
    case JNODE_PRINT: walk_list(w, &n->items, use); break;
    case JNODE_UNARY:
    case JNODE_BINARY:
    case JNODE_AND:
    case JNODE_OR:
    case JNODE_NOT:
    case JNODE_OPERAND:
        walk(w, n->pair.left, use);
        walk(w, n->pair.right, use);
        break;
    case JNODE_COMPARE:
        walk(w, n->compare.first, use);
        walk_list(w, &n->compare.rest, use);
        break;
    case JNODE_COND:
        walk(w, n->cond.test, use);
        walk(w, n->cond.then, use);
        walk(w, n->cond.otherwise, use);
        break;
    case JNODE_ATTR: walk(w, n->attr.object, use); break;
    case JNODE_ITEM:
        walk(w, n->item.object, use);
        walk(w, n->item.index, use);
        break;
    case JNODE_SLICE:
        walk(w, n->slice.object, use);
        walk(w, n->slice.start, use);
        walk(w, n->slice.stop, use);
        walk(w, n->slice.step, use);
        break;
    case JNODE_CALL:
        walk(w, n->call.callee, use);
        walk_args(w, &n->call.args);
        break;
    case JNODE_FILTER:
    case JNODE_TEST:
        walk(w, n->filter.object, use);
        walk_args(w, &n->filter.args);
        break;
    case JNODE_KEYWORD: walk(w, n->keyword.value, use); break;
    default: walk_statement(w, n); break;
    }
}

void jscope_walk(const jnode *first, jname_use use, jname_fn *fn, void *ctx)
{
    walker w = {fn, ctx};
    for (; first; first = first->next) walk(&w, first, use);
}
