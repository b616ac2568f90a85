#include "chat/jinja_scope_priv.h"

/* What a scope knows of a name: its slot and how it gets its value on entry. */
typedef struct {
    jload load;
    bool is_stored;
} entry;

typedef struct func_scope func_scope;
typedef struct symbols symbols;

/* Slots of one function. Scopes at the same level share the slot of a name. */
typedef struct {
    int level, name;
} slot_key;
struct func_scope {
    func_scope *outer;
    slot_key *keys;
    int n, cap;
};

struct symbols {
    symbols *parent;
    func_scope *func;
    int level;
    entry *entries;
    int n, cap;
};

typedef struct {
    jprogram *p;
    arena scratch; /* symbols; dropped at the end */
    status failed;
} resolver;

enum { SCRATCH_MOST = 64 << 20 };

static bool fail(resolver *r, status code, int64_t pos, const char *what)
{
    if (!r->failed) r->failed = jsource_fail(&r->p->source, code, pos, "%s", what);
    return false;
}

static void *scratch_array(resolver *r, const void *old, int n, int cap, size_t size)
{
    void *p = arena_new_array(&r->scratch, (size_t)cap, size);
    if (!p) {
        fail(r, r->scratch.limit && r->scratch.n_bytes > SCRATCH_MOST / 2 ? ERR_LIMIT : ERR_NOMEM,
             0, "too many names to resolve");
        return NULL;
    }
    if (n) memcpy(p, old, (size_t)n * size);
    return p;
}

static symbols *new_symbols(resolver *r, symbols *parent, func_scope *func)
{
    symbols *s = scratch_array(r, NULL, 0, 1, sizeof *s);
    if (s) *s = (symbols){.parent = parent, .func = func, .level = parent ? parent->level + 1 : 0};
    return s;
}

static func_scope *new_func(resolver *r, func_scope *outer)
{
    func_scope *f = scratch_array(r, NULL, 0, 1, sizeof *f);
    if (f) *f = (func_scope){.outer = outer};
    return f;
}

static int find_slot(resolver *r, func_scope *f, int level, int name)
{
    for (int i = 0; i < f->n; i++)
        if (f->keys[i].level == level && f->keys[i].name == name) return i;
    if (f->n == f->cap) {
        int cap = f->cap ? f->cap * 2 : 16;
        slot_key *keys = scratch_array(r, f->keys, f->n, cap, sizeof *keys);
        if (!keys) return 0;
        f->keys = keys;
        f->cap = cap;
    }
    f->keys[f->n] = (slot_key){level, name};
    return f->n++;
}

static entry *find_own(symbols *s, int name)
{
    for (int i = 0; i < s->n; i++)
        if (s->entries[i].load.name == name) return &s->entries[i];
    return NULL;
}

/* The reference to `name` as seen from function `from`, looking outward from `s`. */
static bool find_ref(symbols *s, const func_scope *from, int name, jref *ref)
{
    for (; s; s = s->parent) {
        const entry *e = find_own(s, name);
        if (!e) continue;
        ref->hops = 0;
        ref->slot = e->load.slot;
        for (; from != s->func; from = from->outer) ref->hops++;
        return true;
    }
    return false;
}

static entry *define(resolver *r, symbols *s, int name, jload_action action, jref source)
{
    entry *e = find_own(s, name);
    if (!e) {
        if (s->n == s->cap) {
            int cap = s->cap ? s->cap * 2 : 8;
            entry *entries = scratch_array(r, s->entries, s->n, cap, sizeof *entries);
            if (!entries) return NULL;
            s->entries = entries;
            s->cap = cap;
        }
        e = &s->entries[s->n++];
        *e = (entry){.load = {.name = name, .slot = find_slot(r, s->func, s->level, name)}};
    }
    e->load.action = action;
    e->load.source = source;
    return e;
}

static void declare_param(resolver *r, symbols *s, int name)
{
    entry *e = define(r, s, name, JLOAD_PARAM, (jref){0, 0});
    if (e) e->is_stored = true;
}

static void store(resolver *r, symbols *s, int name)
{
    entry *e = find_own(s, name);
    jref outer = {0, 0};
    if (!e) {
        bool is_known = find_ref(s->parent, s->func, name, &outer);
        e = define(r, s, name, is_known ? JLOAD_ALIAS : JLOAD_UNDEFINED, outer);
    }
    if (e) e->is_stored = true;
}

static void load(resolver *r, symbols *s, int name)
{
    jref ref;
    if (!find_ref(s, s->func, name, &ref)) define(r, s, name, JLOAD_RESOLVE, (jref){0, 0});
}

/* ---- which names a scope uses ---- */

typedef struct {
    resolver *r;
    symbols *s;
} analysis;

static void note_name(void *ctx, const jnode *name, jname_use use)
{
    analysis *a = ctx;
    if (use == JNAME_LOAD)
        load(a->r, a->s, name->name.name);
    else if (use == JNAME_STORE)
        store(a->r, a->s, name->name.name);
    else
        declare_param(a->r, a->s, name->name.name);
}

static void analyze_list(resolver *r, symbols *s, const jnode *first);

static void analyze_names(resolver *r, symbols *s, const jnode *n, jname_use use)
{
    if (!n) return;
    analysis a = {r, s};
    jnode one = *n; /* without its siblings */
    one.next = NULL;
    jscope_walk(&one, use, note_name, &a);
}

static void analyze_target(resolver *r, symbols *s, const jnode *target, jname_use use)
{
    if (target->kind == JNODE_NSREF)
        load(r, s, target->name.name);
    else
        analyze_names(r, s, target, use);
}

static symbols *copy_symbols(resolver *r, const symbols *s)
{
    symbols *copy = new_symbols(r, s->parent, s->func);
    if (!copy) return NULL;
    *copy = *s;
    copy->entries = scratch_array(r, s->entries, s->n, s->cap ? s->cap : 1, sizeof *copy->entries);
    return copy->entries ? copy : NULL;
}

/* Take over what three branches found. A name that some but not all of them store, and that was not
 * stored before, keeps the value it has outside where it is not stored: it is loaded from there. */
static void merge_branches(resolver *r, symbols *s, symbols *const branches[3])
{
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < branches[b]->n; i++) {
            const jload *found = &branches[b]->entries[i].load;
            if (!define(r, s, found->name, found->action, found->source)) return;
        }
    for (int i = 0; i < s->n; i++) {
        entry *own = &s->entries[i];
        int n_stores = 0;
        for (int b = 0; b < 3; b++) {
            const entry *e = find_own(branches[b], own->load.name);
            n_stores += e && e->is_stored;
        }
        if (own->is_stored || n_stores == 0) continue;
        own->is_stored = true;
        if (n_stores == 3) continue;
        jref outer = {0, 0};
        bool is_known = find_ref(s->parent, s->func, own->load.name, &outer);
        own->load.action = is_known ? JLOAD_ALIAS : JLOAD_RESOLVE;
        own->load.source = outer;
    }
}

static void analyze_if(resolver *r, symbols *s, const jnode *n)
{
    analyze_names(r, s, n->branch.test, JNAME_LOAD);
    const jnode *const bodies[3] = {n->branch.body.first, n->branch.elifs.first,
                                    n->branch.otherwise.first};
    symbols *branches[3];
    for (int i = 0; i < 3; i++) {
        if (!(branches[i] = copy_symbols(r, s))) return;
        analyze_list(r, branches[i], bodies[i]);
    }
    if (!r->failed) merge_branches(r, s, branches);
}

static void analyze(resolver *r, symbols *s, const jnode *n)
{
    switch (n->kind) {
    case JNODE_IF: analyze_if(r, s, n); break;
    case JNODE_FOR: analyze_names(r, s, n->loop.iter, JNAME_LOAD); break;
    case JNODE_SET:
        analyze_names(r, s, n->set.value, JNAME_LOAD);
        analyze_target(r, s, n->set.target, JNAME_STORE);
        break;
    case JNODE_SET_BLOCK: analyze_target(r, s, n->block.target, JNAME_STORE); break;
    case JNODE_MACRO: store(r, s, n->macro.def->name); break;
    case JNODE_CALL_BLOCK: analyze_names(r, s, n->macro.call, JNAME_LOAD); break;
    case JNODE_FILTER_BLOCK: analyze_names(r, s, n->block.filter, JNAME_LOAD); break;
    case JNODE_WITH:
        for (const jnode *v = n->with.values.first; v; v = v->next)
            analyze_names(r, s, v, JNAME_LOAD);
        break;
    default: analyze_names(r, s, n, JNAME_LOAD); break;
    }
}

static void analyze_list(resolver *r, symbols *s, const jnode *first)
{
    for (; first && !r->failed; first = first->next) analyze(r, s, first);
}

/* ---- writing references into the tree ---- */

typedef struct {
    resolver *r;
    symbols *s;
    bool is_soft; /* directly in an `if`: an unknown filter there fails only when it is reached */
} scope;

static void resolve_list(scope sc, jnode *first);
static void resolve(scope sc, jnode *n);

static void resolve_name(scope sc, jnode *n)
{
    if (!find_ref(sc.s, sc.s->func, n->name.name, &n->name.ref))
        fail(sc.r, ERR_UNSUPPORTED, n->pos, "this name cannot be resolved here");
}

static void resolve_args(scope sc, jargs *args)
{
    resolve_list(sc, args->positional.first);
    resolve_list(sc, args->named.first);
    if (args->star) resolve(sc, args->star);
    if (args->star_star) resolve(sc, args->star_star);
}

static void resolve_filter(scope sc, jnode *n)
{
    if (n->filter.object) resolve(sc, n->filter.object);
    resolve_args(sc, &n->filter.args);
    if (n->filter.builtin || sc.is_soft || sc.r->failed) return;
    str name = sc.r->p->names.names[n->filter.name];
    sc.r->failed = jsource_fail(&sc.r->p->source, ERR_UNSUPPORTED, n->pos, "no %s named '%.*s'",
                                n->kind == JNODE_FILTER ? "filter" : "test",
                                (int)(name.len < 60 ? name.len : 60), name.ptr);
}

/* Keep what the scope loads, for the evaluator. */
static void keep_frame(resolver *r, const symbols *s, jframe *frame)
{
    frame->n = s->n;
    frame->loads = arena_new_array(&r->p->a, (size_t)s->n + 1, sizeof *frame->loads);
    if (!frame->loads) {
        frame->n = 0;
        fail(r, ERR_NOMEM, 0, "no memory for scopes");
        return;
    }
    for (int i = 0; i < s->n; i++) frame->loads[i] = s->entries[i].load;
}

typedef struct {
    const char *words[3];
    bool is_wanted[3], is_found[3];
    const jnames *names;
} undeclared;

static void note_undeclared(void *ctx, const jnode *name, jname_use use)
{
    undeclared *u = ctx;
    str word = u->names->names[name->name.name];
    for (int i = 0; i < 3; i++) {
        if (!u->words[i] || !u->is_wanted[i] || !str_is(word, u->words[i])) continue;
        if (use == JNAME_LOAD)
            u->is_found[i] = true;
        else
            u->is_wanted[i] = false;
    }
}

static int declare_special(resolver *r, symbols *s, const char *word)
{
    int name = jnames_add(&r->p->names, &r->p->a, str_from(word));
    if (name < 0) {
        fail(r, name == -2 ? ERR_LIMIT : ERR_NOMEM, 0, "no room for a name");
        return -1;
    }
    declare_param(r, s, name);
    entry *e = find_own(s, name);
    return e ? e->load.slot : -1;
}

static bool has_param(const resolver *r, const jmacro_def *def, const char *word, bool *has_default)
{
    int i = 0;
    for (const jnode *n = def->params.first; n; n = n->next, i++) {
        if (!str_is(r->p->names.names[n->name.name], word)) continue;
        *has_default = i >= def->params.n - def->defaults.n;
        return true;
    }
    return false;
}

static void declare_specials(resolver *r, symbols *s, jmacro_def *def, int64_t pos)
{
    undeclared u = {.words = {"caller", "kwargs", "varargs"},
                    .is_wanted = {true, true, true},
                    .names = &r->p->names};
    jscope_walk(def->body.first, JNAME_LOAD, note_undeclared, &u);
    bool has_default = false;
    def->caller = def->kwargs = def->varargs = -1;
    def->has_caller_param = has_param(r, def, "caller", &has_default);
    if (u.is_found[0] && def->has_caller_param && !has_default)
        fail(r, ERR_FORMAT, pos, "the argument 'caller' of a macro must have a default");
    if (u.is_found[0] && !def->has_caller_param) def->caller = declare_special(r, s, "caller");
    if (u.is_found[1] && !has_param(r, def, "kwargs", &has_default))
        def->kwargs = declare_special(r, s, "kwargs");
    if (u.is_found[2] && !has_param(r, def, "varargs", &has_default))
        def->varargs = declare_special(r, s, "varargs");
}

static void resolve_macro(scope sc, jnode *n)
{
    resolver *r = sc.r;
    jmacro_def *def = n->macro.def;
    func_scope *func = new_func(r, sc.s->func);
    symbols *s = func ? new_symbols(r, sc.s, func) : NULL;
    if (!s) return;
    for (const jnode *param = def->params.first; param; param = param->next)
        declare_param(r, s, param->name.name);
    for (const jnode *value = def->defaults.first; value; value = value->next)
        analyze_names(r, s, value, JNAME_LOAD);
    analyze_list(r, s, def->body.first);
    declare_specials(r, s, def, n->pos);
    if (r->failed) return;
    scope inner = {r, s, false};
    resolve_list(inner, def->params.first);
    resolve_list(inner, def->defaults.first);
    resolve_list(inner, def->body.first);
    keep_frame(r, s, &def->frame);
    def->func.n_slots = func->n;
    if (n->kind == JNODE_MACRO) {
        if (!find_ref(sc.s, sc.s->func, def->name, &n->macro.ref))
            fail(r, ERR_UNSUPPORTED, n->pos, "this name cannot be resolved here");
    } else if (n->macro.call) {
        resolve(sc, n->macro.call);
    }
}

static void forbid_loop_target(void *ctx, const jnode *name, jname_use use)
{
    resolver *r = ctx;
    if (use == JNAME_STORE && str_is(r->p->names.names[name->name.name], "loop"))
        fail(r, ERR_FORMAT, name->pos, "cannot assign to the special variable 'loop' in a loop");
}

static jnode *clone_target(resolver *r, const jnode *n)
{
    jnode *copy = arena_new(&r->p->a, sizeof *copy);
    if (!copy) {
        fail(r, ERR_NOMEM, n->pos, "no memory for a loop");
        return NULL;
    }
    *copy = *n;
    copy->next = NULL;
    if (n->kind != JNODE_TUPLE) return copy;
    copy->items = (jnode_list){0};
    for (const jnode *item = n->items.first; item; item = item->next) {
        jnode *child = clone_target(r, item);
        if (!child) return NULL;
        if (copy->items.last)
            copy->items.last->next = child;
        else
            copy->items.first = child;
        copy->items.last = child;
        copy->items.n++;
    }
    return copy;
}

/* The condition of `for … if` runs in a function of its own, with the target as its local. */
static void resolve_loop_test(scope sc, jnode *n)
{
    resolver *r = sc.r;
    func_scope *func = new_func(r, sc.s->func);
    symbols *s = func ? new_symbols(r, sc.s, func) : NULL;
    if (!s || !(n->loop.def->test_target = clone_target(r, n->loop.target))) return;
    analyze_names(r, s, n->loop.target, JNAME_PARAM);
    analyze_names(r, s, n->loop.test, JNAME_LOAD);
    scope inner = {r, s, false};
    resolve(inner, n->loop.def->test_target);
    resolve(inner, n->loop.test);
    keep_frame(r, s, &n->loop.def->test);
    n->loop.def->test_func.n_slots = func->n;
}

static void resolve_for(scope sc, jnode *n)
{
    resolver *r = sc.r;
    jloop_def *def = n->loop.def;
    undeclared u = {.words = {"loop"}, .is_wanted = {true}, .names = &r->p->names};
    jscope_walk(n->loop.body.first, JNAME_LOAD, note_undeclared, &u);
    jnode one = *n;
    one.next = NULL;
    jscope_walk(&one, JNAME_LOAD, forbid_loop_target, r);
    resolve(sc, n->loop.iter);
    if (r->failed) return;

    func_scope *func = n->loop.is_recursive ? new_func(r, sc.s->func) : sc.s->func;
    symbols *body = func ? new_symbols(r, sc.s, func) : NULL;
    symbols *otherwise = body ? new_symbols(r, sc.s, func) : NULL;
    if (!otherwise) return;
    def->loop_slot = -1;
    if (n->loop.is_recursive || u.is_found[0]) def->loop_slot = declare_special(r, body, "loop");
    analyze_names(r, body, n->loop.target, JNAME_PARAM);
    analyze_list(r, body, n->loop.body.first);
    analyze_list(r, otherwise, n->loop.otherwise.first);
    if (n->loop.test) resolve_loop_test(sc, n);
    if (r->failed) return;
    resolve((scope){r, body, false}, n->loop.target);
    resolve_list((scope){r, body, false}, n->loop.body.first);
    resolve_list((scope){r, otherwise, false}, n->loop.otherwise.first);
    keep_frame(r, body, &def->body);
    keep_frame(r, otherwise, &def->otherwise);
    if (n->loop.is_recursive) def->func.n_slots = func->n;
}

static void resolve_block(scope sc, jnode *n)
{
    symbols *s = new_symbols(sc.r, sc.s, sc.s->func);
    if (!s) return;
    analyze_list(sc.r, s, n->block.body.first);
    if (n->kind == JNODE_FILTER_BLOCK) analyze_names(sc.r, s, n->block.filter, JNAME_LOAD);
    if (sc.r->failed) return;
    scope inner = {sc.r, s, false};
    resolve_list(inner, n->block.body.first);
    if (n->block.filter) resolve(inner, n->block.filter);
    if (n->block.target) resolve(sc, n->block.target);
    keep_frame(sc.r, s, &n->block.frame);
}

static void resolve_with(scope sc, jnode *n)
{
    symbols *s = new_symbols(sc.r, sc.s, sc.s->func);
    if (!s) return;
    for (const jnode *t = n->with.targets.first; t; t = t->next)
        analyze_names(sc.r, s, t, JNAME_PARAM);
    analyze_list(sc.r, s, n->with.body.first);
    if (sc.r->failed) return;
    resolve_list((scope){sc.r, s, false}, n->with.targets.first);
    resolve_list(sc, n->with.values.first);
    resolve_list((scope){sc.r, s, false}, n->with.body.first);
    keep_frame(sc.r, s, &n->with.frame);
}

static void resolve_if(scope sc, jnode *n)
{
    sc.is_soft = true;
    resolve(sc, n->branch.test);
    resolve_list(sc, n->branch.body.first);
    resolve_list(sc, n->branch.elifs.first);
    resolve_list(sc, n->branch.otherwise.first);
}

static void resolve_statement(scope sc, jnode *n)
{
    switch (n->kind) {
    case JNODE_IF: resolve_if(sc, n); break;
    case JNODE_FOR: resolve_for(sc, n); break;
    case JNODE_SET:
        resolve(sc, n->set.value);
        resolve(sc, n->set.target);
        break;
    case JNODE_SET_BLOCK:
    case JNODE_FILTER_BLOCK: resolve_block(sc, n); break;
    case JNODE_MACRO:
    case JNODE_CALL_BLOCK: resolve_macro(sc, n); break;
    case JNODE_WITH: resolve_with(sc, n); break;
    default: break;
    }
}

static void resolve(scope sc, jnode *n)
{
    switch (n->kind) {
    case JNODE_NAME:
    case JNODE_NSREF: resolve_name(sc, n); break;
    case JNODE_TUPLE:
    case JNODE_LIST:
    case JNODE_DICT:
    case JNODE_CONCAT:
    case JNODE_PRINT: resolve_list(sc, n->items.first); break;
    case JNODE_UNARY:
    case JNODE_BINARY:
    case JNODE_AND:
    case JNODE_OR:
    case JNODE_NOT:
    case JNODE_OPERAND:
        resolve(sc, n->pair.left);
        if (n->pair.right) resolve(sc, n->pair.right);
        break;
    case JNODE_COMPARE:
        resolve(sc, n->compare.first);
        resolve_list(sc, n->compare.rest.first);
        break;
    case JNODE_COND:
        sc.is_soft = true;
        resolve(sc, n->cond.test);
        resolve(sc, n->cond.then);
        if (n->cond.otherwise) resolve(sc, n->cond.otherwise);
        break;
    case JNODE_ATTR: resolve(sc, n->attr.object); break;
    case JNODE_ITEM:
        resolve(sc, n->item.object);
        resolve(sc, n->item.index);
        break;
    case JNODE_SLICE:
        resolve(sc, n->slice.object);
        if (n->slice.start) resolve(sc, n->slice.start);
        if (n->slice.stop) resolve(sc, n->slice.stop);
        if (n->slice.step) resolve(sc, n->slice.step);
        break;
    case JNODE_CALL:
        resolve(sc, n->call.callee);
        resolve_args(sc, &n->call.args);
        break;
    case JNODE_FILTER:
    case JNODE_TEST: resolve_filter(sc, n); break;
    case JNODE_KEYWORD: resolve(sc, n->keyword.value); break;
    default: resolve_statement(sc, n); break;
    }
}

static void resolve_list(scope sc, jnode *first)
{
    for (; first && !sc.r->failed; first = first->next) resolve(sc, first);
}

status jscope_resolve(jprogram *p)
{
    resolver r = {.p = p};
    arena_init(&r.scratch, SCRATCH_MOST);
    func_scope *func = new_func(&r, NULL);
    symbols *root = func ? new_symbols(&r, NULL, func) : NULL;
    if (root) {
        analyze_list(&r, root, p->body.first);
        if (!r.failed) {
            resolve_list((scope){&r, root, false}, p->body.first);
            keep_frame(&r, root, &p->frame);
            p->root.n_slots = func->n;
        }
    }
    arena_fini(&r.scratch);
    return r.failed;
}
