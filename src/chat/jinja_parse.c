#include "chat/jinja_parse_priv.h"

#include <stdarg.h>
#include <stdio.h>

static bool parse_statements(jparser *p, jnode_list *body, const char *const *ends);

void *jparse_fail(jparser *p, status code, int64_t pos, const char *fmt, ...)
{
    if (p->failed) return NULL;
    char text[200];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    p->failed = jsource_fail(p->src, code, pos, "%s", text);
    return NULL;
}

str jparse_word(const jparser *p, const jtoken *t)
{
    return t->type == JTOKEN_NAME ? p->names->names[t->name] : (str){"", 0};
}

void *jparse_fail_expected(jparser *p, const char *what)
{
    if (p->t->type == JTOKEN_EOF)
        return jparse_fail(p, ERR_FORMAT, p->t->pos, "unexpected end of template, expected %s",
                           what);
    str word = jparse_word(p, p->t);
    if (word.len)
        return jparse_fail(p, ERR_FORMAT, p->t->pos, "expected %s, got '%.*s'", what,
                           (int)(word.len < 60 ? word.len : 60), word.ptr);
    return jparse_fail(p, ERR_FORMAT, p->t->pos, "expected %s, got %s", what,
                       jtoken_describe(p->t->type));
}

jnode *jparse_new(jparser *p, jnode_kind kind, int32_t pos)
{
    jnode *n = p->failed ? NULL : arena_new(p->a, sizeof *n);
    if (!n) return jparse_fail(p, ERR_NOMEM, pos, "no memory for the tree");
    n->kind = (uint8_t)kind;
    n->pos = pos;
    n->height = 1;
    return n;
}

void jnode_push(jnode_list *l, jnode *n)
{
    if (l->last)
        l->last->next = n;
    else
        l->first = n;
    l->last = n;
    l->n++;
}

bool jparse_enter(jparser *p)
{
    if (p->depth == JINJA_NEST_MOST)
        return jparse_fail(p, ERR_LIMIT, p->t->pos, "nested deeper than %d", JINJA_NEST_MOST);
    p->depth++;
    return true;
}

void jparse_next(jparser *p)
{
    if (p->t->type != JTOKEN_EOF) p->t++;
}

bool jparse_skip(jparser *p, jtoken_type type)
{
    if (p->t->type != type) return false;
    jparse_next(p);
    return true;
}

bool jparse_is_word(const jparser *p, const jtoken *t, const char *word)
{
    return t->type == JTOKEN_NAME && str_is(jparse_word(p, t), word);
}

bool jparse_skip_word(jparser *p, const char *word)
{
    if (!jparse_is_word(p, p->t, word)) return false;
    jparse_next(p);
    return true;
}

bool jparse_expect(jparser *p, jtoken_type type)
{
    if (p->failed) return false;
    if (jparse_skip(p, type)) return true;
    jparse_fail_expected(p, jtoken_describe(type));
    return false;
}

bool jparse_expect_word(jparser *p, const char *word)
{
    if (p->failed) return false;
    if (jparse_skip_word(p, word)) return true;
    char what[80];
    snprintf(what, sizeof what, "'%s'", word);
    jparse_fail_expected(p, what);
    return false;
}

/* Check that `n` can be assigned to. */
static bool check_target(jparser *p, const jnode *n)
{
    if (n->kind == JNODE_NAME || n->kind == JNODE_NSREF) return true;
    if (n->kind != JNODE_TUPLE) {
        jparse_fail(p, ERR_FORMAT, n->pos, "cannot assign to this expression");
        return false;
    }
    for (const jnode *item = n->items.first; item; item = item->next)
        if (!check_target(p, item)) return false;
    return true;
}

static jnode *parse_target(jparser *p, const char *end_word)
{
    jnode *n = jparse_tuple(p, (jtuple_rules){.simple = true, .end_word = end_word});
    return n && check_target(p, n) ? n : NULL;
}

static jnode *parse_name_target(jparser *p)
{
    const jtoken *t = p->t;
    if (!jparse_expect(p, JTOKEN_NAME)) return NULL;
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (jparse_is_word(p, t, constants[i]))
            return jparse_fail(p, ERR_FORMAT, t->pos, "cannot assign to '%s'", constants[i]);
    jnode *n = jparse_new(p, JNODE_NAME, t->pos);
    if (n) n->name.name = t->name;
    return n;
}

/* A target of `set`: also an attribute of a namespace. */
static jnode *parse_set_target(jparser *p)
{
    const jtoken *t = p->t;
    if (t->type == JTOKEN_EOF || t[1].type != JTOKEN_DOT) return parse_target(p, NULL);
    if (!jparse_expect(p, JTOKEN_NAME)) return NULL;
    jparse_next(p);
    const jtoken *attr = p->t;
    if (!jparse_expect(p, JTOKEN_NAME)) return NULL;
    jnode *n = jparse_new(p, JNODE_NSREF, t->pos);
    if (!n) return NULL;
    n->name.name = t->name;
    n->name.attr = jtext_new(p->a, jparse_word(p, attr), false);
    return n->name.attr ? n : jparse_fail(p, ERR_NOMEM, t->pos, "no memory for a name");
}

static jnode *parse_set(jparser *p, int32_t pos)
{
    static const char *const ends[] = {"endset", NULL};
    jnode *target = parse_set_target(p);
    if (!target) return NULL;
    if (jparse_skip(p, JTOKEN_ASSIGN)) {
        jnode *n = jparse_new(p, JNODE_SET, pos);
        jnode *value = jparse_tuple(p, (jtuple_rules){.with_cond = true});
        if (!n || !value) return NULL;
        n->set.target = target;
        n->set.value = value;
        return n;
    }
    jnode *n = jparse_new(p, JNODE_SET_BLOCK, pos);
    if (!n) return NULL;
    n->block.target = target;
    n->block.filter = jparse_filters(p, NULL, false);
    if (!parse_statements(p, &n->block.body, ends)) return NULL;
    jparse_next(p);
    return n;
}

static jnode *parse_for(jparser *p, int32_t pos)
{
    static const char *const ends[] = {"endfor", "else", NULL}, *const last[] = {"endfor", NULL};
    jnode *n = jparse_new(p, JNODE_FOR, pos);
    if (!n) return NULL;
    if (!(n->loop.target = parse_target(p, "in")) || !jparse_expect_word(p, "in")) return NULL;
    n->loop.iter = jparse_tuple(p, (jtuple_rules){.end_word = "recursive"});
    if (!n->loop.iter) return NULL;
    if (jparse_skip_word(p, "if") && !(n->loop.test = jparse_expression(p, true))) return NULL;
    n->loop.is_recursive = jparse_skip_word(p, "recursive");
    n->loop.def = arena_new(p->a, sizeof *n->loop.def);
    if (!n->loop.def) return jparse_fail(p, ERR_NOMEM, pos, "no memory for a loop");

    int outer = p->loop_depth;
    p->loop_depth = n->loop.is_recursive ? 1 : outer + 1;
    bool ok = parse_statements(p, &n->loop.body, ends);
    p->loop_depth = n->loop.is_recursive ? 0 : outer;
    if (ok && jparse_skip_word(p, "else")) ok = parse_statements(p, &n->loop.otherwise, last);
    p->loop_depth = outer;
    if (!ok) return NULL;
    jparse_next(p);
    return n;
}

static jnode *parse_if(jparser *p, int32_t pos)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    jnode *root = NULL, *n;
    for (;;) {
        if (!(n = jparse_new(p, JNODE_IF, pos))) return NULL;
        if (!(n->branch.test = jparse_tuple(p, (jtuple_rules){0}))) return NULL;
        if (!parse_statements(p, &n->branch.body, ends)) return NULL;
        if (root)
            jnode_push(&root->branch.elifs, n);
        else
            root = n;
        pos = p->t->pos;
        if (!jparse_skip_word(p, "elif")) break;
    }
    if (jparse_skip_word(p, "else") && !parse_statements(p, &root->branch.otherwise, last))
        return NULL;
    jparse_next(p);
    return root;
}

static jnode *parse_with(jparser *p, int32_t pos)
{
    static const char *const ends[] = {"endwith", NULL};
    jnode *n = jparse_new(p, JNODE_WITH, pos);
    while (n && p->t->type != JTOKEN_BLOCK_END) {
        if (n->with.targets.n && !jparse_expect(p, JTOKEN_COMMA)) return NULL;
        jnode *target = parse_target(p, NULL);
        if (!target || !jparse_expect(p, JTOKEN_ASSIGN)) return NULL;
        jnode *value = jparse_expression(p, true);
        if (!value) return NULL;
        jnode_push(&n->with.targets, target);
        jnode_push(&n->with.values, value);
    }
    if (!n || !parse_statements(p, &n->with.body, ends)) return NULL;
    jparse_next(p);
    return n;
}

static bool parse_signature(jparser *p, jmacro_def *def)
{
    if (!jparse_expect(p, JTOKEN_LPAREN)) return false;
    while (p->t->type != JTOKEN_RPAREN) {
        if (def->params.n && !jparse_expect(p, JTOKEN_COMMA)) return false;
        jnode *param = parse_name_target(p);
        if (!param) return false;
        for (const jnode *other = def->params.first; other; other = other->next)
            if (other->name.name == param->name.name)
                return jparse_fail(p, ERR_FORMAT, param->pos, "duplicate argument");
        if (jparse_skip(p, JTOKEN_ASSIGN)) {
            jnode *value = jparse_expression(p, true);
            if (!value) return false;
            jnode_push(&def->defaults, value);
        } else if (def->defaults.n) {
            return jparse_fail(p, ERR_FORMAT, param->pos,
                               "non-default argument follows default argument");
        }
        jnode_push(&def->params, param);
    }
    return jparse_expect(p, JTOKEN_RPAREN);
}

/* A body that becomes a function: loops around it do not count inside. */
static bool parse_function_body(jparser *p, jnode_list *body, const char *end)
{
    const char *const ends[] = {end, NULL};
    int outer = p->loop_depth;
    p->loop_depth = 0;
    bool ok = parse_statements(p, body, ends);
    p->loop_depth = outer;
    if (ok) jparse_next(p);
    return ok;
}

static jmacro_def *new_macro_def(jparser *p, int32_t pos)
{
    jmacro_def *def = arena_new(p->a, sizeof *def);
    if (!def) return jparse_fail(p, ERR_NOMEM, pos, "no memory for a macro");
    def->name = -1;
    return def;
}

static jnode *parse_macro(jparser *p, int32_t pos)
{
    jnode *n = jparse_new(p, JNODE_MACRO, pos), *name = parse_name_target(p);
    if (!n || !name) return NULL;
    jmacro_def *def = n->macro.def = new_macro_def(p, pos);
    if (!def) return NULL;
    def->name = name->name.name;
    return parse_signature(p, def) && parse_function_body(p, &def->body, "endmacro") ? n : NULL;
}

static jnode *parse_call_block(jparser *p, int32_t pos)
{
    jnode *n = jparse_new(p, JNODE_CALL_BLOCK, pos);
    jmacro_def *def = n ? n->macro.def = new_macro_def(p, pos) : NULL;
    if (!def) return NULL;
    if (p->t->type == JTOKEN_LPAREN && !parse_signature(p, def)) return NULL;
    n->macro.call = jparse_expression(p, true);
    if (!n->macro.call) return NULL;
    if (n->macro.call->kind != JNODE_CALL) return jparse_fail(p, ERR_FORMAT, pos, "expected call");
    return parse_function_body(p, &def->body, "endcall") ? n : NULL;
}

/* Hugging Face's mark around what an assistant generated: a call block that calls its body. */
static jnode *parse_generation(jparser *p, int32_t pos)
{
    jnode *n = jparse_new(p, JNODE_CALL_BLOCK, pos);
    jmacro_def *def = n ? n->macro.def = new_macro_def(p, pos) : NULL;
    return def && parse_function_body(p, &def->body, "endgeneration") ? n : NULL;
}

static jnode *parse_filter_block(jparser *p, int32_t pos)
{
    static const char *const ends[] = {"endfilter", NULL};
    jnode *n = jparse_new(p, JNODE_FILTER_BLOCK, pos);
    if (!n || !(n->block.filter = jparse_filters(p, NULL, true))) return NULL;
    if (!parse_statements(p, &n->block.body, ends)) return NULL;
    jparse_next(p);
    return n;
}

static jnode *parse_print(jparser *p, int32_t pos)
{
    jnode *n = jparse_new(p, JNODE_PRINT, pos);
    while (n && p->t->type != JTOKEN_BLOCK_END) {
        if (n->items.n && !jparse_expect(p, JTOKEN_COMMA)) return NULL;
        jnode *value = jparse_expression(p, true);
        if (!value) return NULL;
        jnode_push(&n->items, value);
    }
    return n;
}

static jnode *parse_jump(jparser *p, int32_t pos, jnode_kind kind)
{
    if (p->loop_depth == 0)
        return jparse_fail(p, ERR_FORMAT, pos, "'%s' outside loop",
                           kind == JNODE_BREAK ? "break" : "continue");
    return jparse_new(p, kind, pos);
}

static jnode *fail_tag(jparser *p, int32_t pos, str word)
{
    static const char *const known[] = {"include", "import", "from",
                                        "extends", "block",  "autoescape"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (str_is(word, known[i]))
            return jparse_fail(p, ERR_UNSUPPORTED, pos, "tag '%s' is not supported", known[i]);
    return jparse_fail(p, ERR_UNSUPPORTED, pos, "encountered unknown tag '%.*s'",
                       (int)(word.len < 60 ? word.len : 60), word.ptr);
}

static jnode *parse_statement(jparser *p)
{
    static const struct {
        const char *word;
        jnode *(*parse)(jparser *p, int32_t pos);
    } tags[] = {
        {"set", parse_set},
        {"for", parse_for},
        {"if", parse_if},
        {"with", parse_with},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"print", parse_print},
        {"generation", parse_generation},
    };
    const jtoken *t = p->t;
    if (t->type != JTOKEN_NAME) return jparse_fail_expected(p, "a tag name");
    jparse_next(p);
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (jparse_is_word(p, t, tags[i].word)) return tags[i].parse(p, t->pos);
    if (jparse_is_word(p, t, "break")) return parse_jump(p, t->pos, JNODE_BREAK);
    if (jparse_is_word(p, t, "continue")) return parse_jump(p, t->pos, JNODE_CONTINUE);
    return fail_tag(p, t->pos, jparse_word(p, t));
}

static bool at_end_word(const jparser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (jparse_is_word(p, p->t, *ends)) return true;
    return false;
}

/* Text and tags up to a tag that is one of `ends` (NULL: to the end of the template), which stays
 * the current token. */
static bool parse_body(jparser *p, jnode_list *body, const char *const *ends)
{
    for (;;) {
        const jtoken *t = p->t;
        jnode *n = NULL;
        jparse_next(p);
        if (t->type == JTOKEN_EOF) {
            if (ends)
                jparse_fail(p, ERR_FORMAT, t->pos,
                            "unexpected end of template, "
                            "looking for '%s'",
                            ends[0]);
            return !ends;
        }
        if (t->type == JTOKEN_DATA) {
            if (!(n = jparse_new(p, JNODE_DATA, t->pos))) return false;
            n->data = t->text;
        } else if (t->type == JTOKEN_VAR_BEGIN) {
            n = jparse_new(p, JNODE_PRINT, t->pos);
            jnode *value = jparse_tuple(p, (jtuple_rules){.with_cond = true});
            if (!n || !value || !jparse_expect(p, JTOKEN_VAR_END)) return false;
            jnode_push(&n->items, value);
        } else {
            if (at_end_word(p, ends)) return true;
            n = parse_statement(p);
            if (!n || !jparse_expect(p, JTOKEN_BLOCK_END)) return false;
        }
        jnode_push(body, n);
    }
}

static bool parse_statements(jparser *p, jnode_list *body, const char *const *ends)
{
    if (p->failed) return false;
    jparse_skip(p, JTOKEN_COLON);
    if (!jparse_expect(p, JTOKEN_BLOCK_END) || !jparse_enter(p)) return false;
    bool ok = parse_body(p, body, ends);
    p->depth--;
    return ok;
}

status jparse_template(jparser *p, jnode_list *body)
{
    parse_body(p, body, NULL);
    return p->failed;
}
