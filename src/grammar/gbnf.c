#include "grammar/gbnf_priv.h"

#include "grammar/graph_priv.h"
#include "grammar/regex_parse_priv.h"

/* Largest body, in parts of its tree, that is put in the place of a name. */
enum { INLINE_MOST = 2000, DEPTH_MOST = 200 };

typedef enum { RULE_NEW, RULE_OPEN, RULE_DONE } rule_mark;

typedef struct {
    gbnf_rules *r;
    uint8_t *mark; /* [n] rule_mark */
    int *size;     /* [n] parts of the body when it can be put in, else -1 */
} inliner;

static void visit_rule(inliner *in, int rule, int depth);

/* Replace names in *e; the number of its parts, or -1 when it keeps a name or is too large. */
static int visit(inliner *in, expr **e, int depth)
{
    expr *t = *e;
    if (t->kind == EXPR_RULE) {
        visit_rule(in, t->id, depth + 1);
        if (in->size[t->id] >= 0) *e = in->r->rules[t->id].body;
        return in->size[t->id];
    }
    if (t->kind == EXPR_SET) return 1;
    int size = 1;
    for (int i = 0; i < t->n; i++) {
        int part = visit(in, &t->items[i], depth);
        if (part < 0 || size < 0)
            size = -1;
        else
            size += part;
    }
    if (size > 0 && t->kind == EXPR_REPEAT) {
        int times = t->most > t->least ? t->most : t->least;
        if (times > 0) size = times > INLINE_MOST ? -1 : size * times;
    }
    return size > INLINE_MOST ? -1 : size;
}

static void visit_rule(inliner *in, int rule, int depth)
{
    if (in->mark[rule] != RULE_NEW || depth > DEPTH_MOST) return; /* open: it is recursive */
    in->mark[rule] = RULE_OPEN;
    in->size[rule] = -1;
    in->size[rule] = visit(in, &in->r->rules[rule].body, depth);
    in->mark[rule] = RULE_DONE;
}

bool gbnf_inline(arena *a, gbnf_rules *r)
{
    inliner in = {.r = r};
    in.mark = arena_new_array(a, (size_t)r->n, 1);
    in.size = arena_new_array(a, (size_t)r->n, sizeof *in.size);
    if (!in.mark || !in.size) return false;
    for (int i = 0; i < r->n; i++) in.size[i] = -1;
    for (int i = 0; i < r->n; i++) visit_rule(&in, i, 0);
    return true;
}

static void mark_called(const expr *e, uint8_t *is_called)
{
    if (e->kind == EXPR_RULE) is_called[e->id] = 1;
    if (e->kind == EXPR_SET) return;
    for (int i = 0; i < e->n; i++) mark_called(e->items[i], is_called);
}

static status build(grammar *g, arena *a, str text, err *e)
{
    gbnf_rules r = {0};
    TRY(gbnf_parse(a, text, &r, e));
    if (!gbnf_inline(a, &r)) return err_set(e, ERR_NOMEM, "grammar", -1, "a grammar's rules");
    for (int i = 0; i < r.n; i++) graph_add_rule(g);
    uint8_t *is_called = arena_new_array(a, (size_t)r.n, 1);
    if (!is_called) return err_set(e, ERR_NOMEM, "grammar", -1, "a grammar's rules");
    is_called[r.start] = 1;
    for (int i = 0; i < r.n; i++) mark_called(r.rules[i].body, is_called);
    for (int i = 0; i < r.n; i++)
        if (is_called[i]) graph_set_rule(g, i, graph_expr(g, r.rules[i].body, GRAPH_RETURN));
    return graph_finish(g, graph_call(g, r.start, GRAPH_END), "grammar", e);
}

status grammar_open_gbnf(grammar **out, str text, err *e)
{
    arena a;
    grammar *g = NULL;
    arena_init(&a, 0);
    status s = graph_open(&g, e);
    if (s == ERR_OK) s = build(g, &a, text, e);
    arena_fini(&a);
    if (s == ERR_OK)
        *out = g;
    else
        grammar_close(g);
    return s;
}

static status build_regex(grammar *g, arena *a, str pattern, err *e)
{
    leaf_part part = {0};
    const leaf *l = NULL;
    int least = 0, most = EXPR_NO_MOST;
    TRY(regex_parse(a, pattern, "regex", &part.e, e));
    TRY(leaf_build(&g->a, &g->work, &part, 1, LEAF_RAW, &least, &most, "regex", &l, e));
    if (!l) return err_set(e, ERR_INVALID, "regex", -1, "no text can satisfy this");
    uint32_t start = graph_leaf(g, graph_add_leaf(g, l), 0, EXPR_NO_MOST, GRAPH_END);
    return graph_finish(g, start, "regex", e);
}

status grammar_open_regex(grammar **out, str pattern, err *e)
{
    arena a;
    grammar *g = NULL;
    arena_init(&a, 0);
    status s = graph_open(&g, e);
    if (s == ERR_OK) s = build_regex(g, &a, pattern, e);
    arena_fini(&a);
    if (s == ERR_OK)
        *out = g;
    else
        grammar_close(g);
    return s;
}
