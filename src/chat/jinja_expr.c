/* Expressions by recursive descent, with jinja2's precedences and its oddities: `**` is left
 * associative, a test's argument is a primary, `not` binds looser than comparisons. */
#include <stdlib.h>

#include "chat/jinja_builtin_priv.h"
#include "chat/jinja_parse_priv.h"

static jnode *parse_unary(jparser *p, bool with_filter);
static jnode *parse_or(jparser *p);

/* Count `child` into the height of `n`; NULL when it is too high. */
static jnode *raise(jparser *p, jnode *n, const jnode *child)
{
    if (!n || !child) return n;
    if (child->height + 1 > n->height) n->height = (uint16_t)(child->height + 1);
    if (n->height > JINJA_HEIGHT_MOST)
        return jparse_fail(p, ERR_LIMIT, n->pos, "an expression nests deeper than %d",
                           JINJA_HEIGHT_MOST);
    return n;
}

static bool push(jparser *p, jnode *owner, jnode_list *l, jnode *item)
{
    if (!item || !raise(p, owner, item)) return false;
    jnode_push(l, item);
    return true;
}

static jnode *new_pair(jparser *p, jnode_kind kind, jop op, int32_t pos, jnode *left, jnode *right)
{
    if (!left) return NULL;
    jnode *n = jparse_new(p, kind, pos);
    if (!n) return NULL;
    n->op = (uint8_t)op;
    n->pair.left = left;
    n->pair.right = right;
    return raise(p, raise(p, n, left), right);
}

static jnode *new_const(jparser *p, int32_t pos, jvalue v)
{
    jnode *n = jparse_new(p, JNODE_CONST, pos);
    if (n) n->constant = v;
    return n;
}

static jnode *parse_name(jparser *p)
{
    const jtoken *t = p->t;
    str word = jparse_word(p, t);
    jparse_next(p);
    if (str_is(word, "true") || str_is(word, "True"))
        return new_const(p, t->pos, jvalue_bool(true));
    if (str_is(word, "false") || str_is(word, "False"))
        return new_const(p, t->pos, jvalue_bool(false));
    if (str_is(word, "none") || str_is(word, "None")) return new_const(p, t->pos, jvalue_none());
    jnode *n = jparse_new(p, JNODE_NAME, t->pos);
    if (n) n->name.name = t->name;
    return n;
}

/* Neighbouring literals are one string. */
static jnode *parse_string(jparser *p)
{
    int32_t pos = p->t->pos;
    const jtext *text = p->t->text;
    jparse_next(p);
    if (p->t->type == JTOKEN_STRING) {
        jbuilder b;
        jbuilder_init(&b, p->a, JINJA_SOURCE_MOST * 4u);
        jbuilder_put_text(&b, text);
        for (; p->t->type == JTOKEN_STRING; jparse_next(p)) jbuilder_put_text(&b, p->t->text);
        text = jbuilder_text(&b);
        if (!text) return jparse_fail(p, ERR_NOMEM, pos, "no memory for a string");
    }
    return new_const(p, pos, jvalue_text(text));
}

static jnode *parse_number(jparser *p)
{
    const jtoken *t = p->t;
    jvalue v;
    jparse_next(p);
    if (t->type == JTOKEN_FLOAT)
        return new_const(p, t->pos, jvalue_float(jnumber_parse(t->text->s)));
    const char *why = jnumber_int_of_text(p->a, t->text->s, t->name, &v);
    if (why) return jparse_fail(p, ERR_LIMIT, t->pos, "%s", why);
    if (jvalue_is_missing(v)) return jparse_fail(p, ERR_NOMEM, t->pos, "no memory for a number");
    return new_const(p, t->pos, v);
}

static jnode *parse_list(jparser *p)
{
    jnode *n = jparse_new(p, JNODE_LIST, p->t->pos);
    jparse_next(p);
    while (n && p->t->type != JTOKEN_RBRACKET) {
        if (n->items.n && !jparse_expect(p, JTOKEN_COMMA)) return NULL;
        if (p->t->type == JTOKEN_RBRACKET) break;
        if (!push(p, n, &n->items, jparse_expression(p, true))) return NULL;
    }
    return jparse_expect(p, JTOKEN_RBRACKET) ? n : NULL;
}

static jnode *parse_dict(jparser *p)
{
    jnode *n = jparse_new(p, JNODE_DICT, p->t->pos);
    jparse_next(p);
    while (n && p->t->type != JTOKEN_RBRACE) {
        if (n->items.n && !jparse_expect(p, JTOKEN_COMMA)) return NULL;
        if (p->t->type == JTOKEN_RBRACE) break;
        if (!push(p, n, &n->items, jparse_expression(p, true))) return NULL;
        if (!jparse_expect(p, JTOKEN_COLON)) return NULL;
        if (!push(p, n, &n->items, jparse_expression(p, true))) return NULL;
    }
    return jparse_expect(p, JTOKEN_RBRACE) ? n : NULL;
}

static jnode *parse_parens(jparser *p)
{
    jparse_next(p);
    jnode *n = jparse_tuple(p, (jtuple_rules){.with_cond = true, .in_parens = true});
    return n && jparse_expect(p, JTOKEN_RPAREN) ? n : NULL;
}

jnode *jparse_primary(jparser *p)
{
    if (!jparse_enter(p)) return NULL;
    jnode *n;
    switch (p->t->type) {
    case JTOKEN_NAME: n = parse_name(p); break;
    case JTOKEN_STRING: n = parse_string(p); break;
    case JTOKEN_INT:
    case JTOKEN_FLOAT: n = parse_number(p); break;
    case JTOKEN_LPAREN: n = parse_parens(p); break;
    case JTOKEN_LBRACKET: n = parse_list(p); break;
    case JTOKEN_LBRACE: n = parse_dict(p); break;
    default: n = jparse_fail_expected(p, "an expression"); break;
    }
    p->depth--;
    return n;
}

static bool at_tuple_end(const jparser *p, const char *end_word)
{
    jtoken_type t = p->t->type;
    return t == JTOKEN_VAR_END || t == JTOKEN_BLOCK_END || t == JTOKEN_RPAREN ||
           (end_word && jparse_is_word(p, p->t, end_word));
}

jnode *jparse_tuple(jparser *p, jtuple_rules rules)
{
    int32_t pos = p->t->pos;
    jnode *tuple = NULL, *first = NULL;
    int n = 0;
    for (;; n++) {
        if (n && !jparse_expect(p, JTOKEN_COMMA)) return NULL;
        if (at_tuple_end(p, rules.end_word)) break;
        jnode *item = rules.simple ? jparse_primary(p) : jparse_expression(p, rules.with_cond);
        if (!item) return NULL;
        bool more = p->t->type == JTOKEN_COMMA;
        if (n == 0 && !more) return item;
        if (!tuple && !(tuple = jparse_new(p, JNODE_TUPLE, pos))) return NULL;
        if (n == 0) first = item;
        if (!push(p, tuple, &tuple->items, item)) return NULL;
        if (!more) break;
    }
    if (!first && !rules.in_parens) return jparse_fail_expected(p, "an expression");
    return tuple ? tuple : jparse_new(p, JNODE_TUPLE, pos);
}

static bool has_keyword(const jargs *args, int name)
{
    for (const jnode *k = args->named.first; k; k = k->next)
        if (k->keyword.name == name) return true;
    return false;
}

static bool parse_keyword(jparser *p, jnode *owner, jargs *args)
{
    const jtoken *name = p->t;
    if (has_keyword(args, name->name)) {
        jparse_fail(p, ERR_FORMAT, name->pos, "keyword argument repeated");
        return false;
    }
    jparse_next(p);
    jparse_next(p);
    jnode *k = jparse_new(p, JNODE_KEYWORD, name->pos), *value = jparse_expression(p, true);
    if (!k || !value || !raise(p, owner, value)) return false;
    k->keyword.name = name->name;
    k->keyword.value = value;
    jnode_push(&args->named, k);
    return true;
}

/* At the opening parenthesis. */
static bool parse_args(jparser *p, jnode *owner, jargs *args)
{
    int32_t pos = p->t->pos;
    bool needs_comma = false, ok;
    jparse_next(p);
    while (p->t->type != JTOKEN_RPAREN) {
        if (needs_comma) {
            if (!jparse_expect(p, JTOKEN_COMMA)) return false;
            if (p->t->type == JTOKEN_RPAREN) break;
        }
        bool is_keyword = p->t->type == JTOKEN_NAME && p->t[1].type == JTOKEN_ASSIGN;
        if (p->t->type == JTOKEN_MUL) {
            ok = !args->star && !args->star_star;
            jparse_next(p);
            if (ok && !raise(p, owner, args->star = jparse_expression(p, true))) return false;
            ok = ok && args->star;
        } else if (p->t->type == JTOKEN_POW) {
            ok = !args->star_star;
            jparse_next(p);
            if (ok && !raise(p, owner, args->star_star = jparse_expression(p, true))) return false;
            ok = ok && args->star_star;
        } else if (is_keyword) {
            ok = !args->star_star && parse_keyword(p, owner, args);
        } else {
            ok = !args->star && !args->star_star && !args->named.n &&
                 push(p, owner, &args->positional, jparse_expression(p, true));
        }
        if (!ok) {
            jparse_fail(p, ERR_FORMAT, pos, "invalid syntax for function call expression");
            return false;
        }
        needs_comma = true;
    }
    return jparse_expect(p, JTOKEN_RPAREN);
}

static jnode *parse_call(jparser *p, jnode *callee)
{
    jnode *n = jparse_new(p, JNODE_CALL, p->t->pos);
    if (!n) return NULL;
    n->call.callee = callee;
    if (!parse_args(p, n, &n->call.args)) return NULL;
    return raise(p, n, callee);
}

static jnode *parse_dot(jparser *p, jnode *object)
{
    int32_t pos = p->t->pos;
    jparse_next(p);
    const jtoken *t = p->t;
    if (t->type == JTOKEN_INT) {
        jnode *n = jparse_new(p, JNODE_ITEM, pos);
        if (!n) return NULL;
        n->item.object = object;
        n->item.index = parse_number(p);
        return n->item.index ? raise(p, n, object) : NULL;
    }
    if (t->type != JTOKEN_NAME) return jparse_fail_expected(p, "a name or number");
    jnode *n = jparse_new(p, JNODE_ATTR, pos);
    if (!n) return NULL;
    n->attr.object = object;
    n->attr.name = jtext_new(p->a, jparse_word(p, t), false);
    if (!n->attr.name) return jparse_fail(p, ERR_NOMEM, pos, "no memory for a name");
    jparse_next(p);
    return raise(p, n, object);
}

static bool at_slice_end(const jparser *p)
{
    return p->t->type == JTOKEN_RBRACKET || p->t->type == JTOKEN_COMMA;
}

/* The rest of `object[start:stop:step]`, at the first colon. */
static jnode *parse_slice(jparser *p, jnode *object, jnode *start, int32_t pos)
{
    jnode *n = jparse_new(p, JNODE_SLICE, pos);
    if (!n) return NULL;
    n->slice.object = object;
    n->slice.start = start;
    jparse_next(p);
    if (p->t->type != JTOKEN_COLON && !at_slice_end(p)) {
        n->slice.stop = jparse_expression(p, true);
        if (!n->slice.stop) return NULL;
    }
    if (jparse_skip(p, JTOKEN_COLON) && !at_slice_end(p)) {
        n->slice.step = jparse_expression(p, true);
        if (!n->slice.step) return NULL;
    }
    if (p->t->type == JTOKEN_COMMA)
        return jparse_fail(p, ERR_FORMAT, p->t->pos, "a slice cannot be part of a tuple");
    n = raise(p, raise(p, n, object), start);
    return raise(p, raise(p, n, n ? n->slice.stop : NULL), n ? n->slice.step : NULL);
}

static jnode *parse_brackets(jparser *p, jnode *object)
{
    int32_t pos = p->t->pos;
    jnode *n = NULL, *index = NULL, *tuple = NULL;
    jparse_next(p);
    while (p->t->type != JTOKEN_RBRACKET) {
        if (index && !jparse_expect(p, JTOKEN_COMMA)) return NULL;
        jnode *item = p->t->type == JTOKEN_COLON ? NULL : jparse_expression(p, true);
        if (p->failed) return NULL;
        if (p->t->type == JTOKEN_COLON) {
            if (index) return jparse_fail(p, ERR_FORMAT, pos, "a slice cannot be part of a tuple");
            n = parse_slice(p, object, item, pos);
            break;
        }
        if (index && !tuple) {
            if (!(tuple = jparse_new(p, JNODE_TUPLE, pos))) return NULL;
            if (!push(p, tuple, &tuple->items, index)) return NULL;
        }
        if (tuple && !push(p, tuple, &tuple->items, item)) return NULL;
        if (!index) index = item;
    }
    if (!jparse_expect(p, JTOKEN_RBRACKET)) return NULL;
    if (n) return n;
    if (!(n = jparse_new(p, JNODE_ITEM, pos))) return NULL;
    n->item.object = object;
    n->item.index = tuple ? tuple : index ? index : jparse_new(p, JNODE_TUPLE, pos);
    return raise(p, raise(p, n, object), n->item.index);
}

static jnode *parse_postfix(jparser *p, jnode *n)
{
    while (n) {
        if (p->t->type == JTOKEN_DOT)
            n = parse_dot(p, n);
        else if (p->t->type == JTOKEN_LBRACKET)
            n = parse_brackets(p, n);
        else if (p->t->type == JTOKEN_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* A filter's or test's name, which may have dots; -1 on error. */
static int parse_dotted_name(jparser *p)
{
    int name = p->t->name;
    if (!jparse_expect(p, JTOKEN_NAME)) return -1;
    while (jparse_skip(p, JTOKEN_DOT)) {
        str head = p->names->names[name];
        const jtoken *t = p->t;
        if (!jparse_expect(p, JTOKEN_NAME)) return -1;
        str tail = jparse_word(p, t);
        char *joined = arena_new(p->a, head.len + tail.len + 1);
        if (joined) {
            memcpy(joined, head.ptr, head.len);
            joined[head.len] = '.';
            memcpy(joined + head.len + 1, tail.ptr, tail.len);
            name = jnames_add(p->names, p->a, (str){joined, head.len + tail.len + 1});
        }
        if (!joined || name < 0) {
            jparse_fail(p, ERR_NOMEM, t->pos, "no memory for a name");
            return -1;
        }
    }
    return name;
}

jnode *jparse_filters(jparser *p, jnode *object, bool inline_first)
{
    while (inline_first || p->t->type == JTOKEN_PIPE) {
        if (!inline_first) jparse_next(p);
        inline_first = false;
        jnode *n = jparse_new(p, JNODE_FILTER, p->t->pos);
        int name = parse_dotted_name(p);
        if (!n || name < 0) return NULL;
        n->filter.name = name;
        n->filter.builtin = jfilter_find(p->names->names[name]);
        n->filter.object = object;
        if (p->t->type == JTOKEN_LPAREN && !parse_args(p, n, &n->filter.args)) return NULL;
        object = raise(p, n, object);
        if (!object) return NULL;
    }
    return object;
}

static bool starts_test_argument(const jparser *p)
{
    switch (p->t->type) {
    case JTOKEN_NAME:
        return !jparse_is_word(p, p->t, "else") && !jparse_is_word(p, p->t, "or") &&
               !jparse_is_word(p, p->t, "and");
    case JTOKEN_STRING:
    case JTOKEN_INT:
    case JTOKEN_FLOAT:
    case JTOKEN_LBRACKET:
    case JTOKEN_LBRACE: return true;
    default: return false;
    }
}

/* At `is`. */
static jnode *parse_test(jparser *p, jnode *object)
{
    int32_t pos = p->t->pos;
    jparse_next(p);
    bool is_negated = jparse_skip_word(p, "not");
    jnode *n = jparse_new(p, JNODE_TEST, pos);
    int name = parse_dotted_name(p);
    if (!n || name < 0) return NULL;
    n->filter.name = name;
    n->filter.builtin = jtest_find(p->names->names[name]);
    n->filter.object = object;
    if (p->t->type == JTOKEN_LPAREN) {
        if (!parse_args(p, n, &n->filter.args)) return NULL;
    } else if (starts_test_argument(p)) {
        if (jparse_is_word(p, p->t, "is"))
            return jparse_fail(p, ERR_FORMAT, p->t->pos, "you cannot chain multiple tests with is");
        jnode *arg = parse_postfix(p, jparse_primary(p));
        if (!push(p, n, &n->filter.args.positional, arg)) return NULL;
    }
    n = raise(p, n, object);
    return n && is_negated ? new_pair(p, JNODE_NOT, JOP_NOT, pos, n, NULL) : n;
}

static jnode *parse_filter_expr(jparser *p, jnode *n)
{
    while (n) {
        if (p->t->type == JTOKEN_PIPE)
            n = jparse_filters(p, n, false);
        else if (jparse_is_word(p, p->t, "is"))
            n = parse_test(p, n);
        else if (p->t->type == JTOKEN_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static jnode *parse_unary(jparser *p, bool with_filter)
{
    jnode *n;
    int32_t pos = p->t->pos;
    if (p->t->type == JTOKEN_SUB || p->t->type == JTOKEN_ADD) {
        jop op = p->t->type == JTOKEN_SUB ? JOP_NEG : JOP_POS;
        if (!jparse_enter(p)) return NULL;
        jparse_next(p);
        n = new_pair(p, JNODE_UNARY, op, pos, parse_unary(p, false), NULL);
        p->depth--;
    } else {
        n = jparse_primary(p);
    }
    n = parse_postfix(p, n);
    return with_filter ? parse_filter_expr(p, n) : n;
}

static jnode *parse_pow(jparser *p)
{
    int32_t pos = p->t->pos;
    jnode *left = parse_unary(p, true);
    while (left && jparse_skip(p, JTOKEN_POW)) {
        jnode *right = parse_unary(p, true);
        left = right ? new_pair(p, JNODE_BINARY, JOP_POW, pos, left, right) : NULL;
    }
    return left;
}

static jnode *parse_product(jparser *p)
{
    int32_t pos = p->t->pos;
    jnode *left = parse_pow(p);
    while (left) {
        jop op;
        switch (p->t->type) {
        case JTOKEN_MUL: op = JOP_MUL; break;
        case JTOKEN_DIV: op = JOP_DIV; break;
        case JTOKEN_FLOORDIV: op = JOP_FLOORDIV; break;
        case JTOKEN_MOD: op = JOP_MOD; break;
        default: return left;
        }
        jparse_next(p);
        jnode *right = parse_pow(p);
        left = right ? new_pair(p, JNODE_BINARY, op, pos, left, right) : NULL;
    }
    return left;
}

static jnode *parse_concat(jparser *p)
{
    int32_t pos = p->t->pos;
    jnode *first = parse_product(p);
    if (!first || p->t->type != JTOKEN_TILDE) return first;
    jnode *n = jparse_new(p, JNODE_CONCAT, pos);
    if (!n || !push(p, n, &n->items, first)) return NULL;
    while (jparse_skip(p, JTOKEN_TILDE))
        if (!push(p, n, &n->items, parse_product(p))) return NULL;
    return n;
}

static jnode *parse_sum(jparser *p)
{
    int32_t pos = p->t->pos;
    jnode *left = parse_concat(p);
    while (left && (p->t->type == JTOKEN_ADD || p->t->type == JTOKEN_SUB)) {
        jop op = p->t->type == JTOKEN_ADD ? JOP_ADD : JOP_SUB;
        jparse_next(p);
        jnode *right = parse_concat(p);
        left = right ? new_pair(p, JNODE_BINARY, op, pos, left, right) : NULL;
    }
    return left;
}

/* Step over a comparison operator; false when there is none. */
static bool skip_comparison(jparser *p, jop *op)
{
    switch (p->t->type) {
    case JTOKEN_EQ: *op = JOP_EQ; break;
    case JTOKEN_NE: *op = JOP_NE; break;
    case JTOKEN_LT: *op = JOP_LT; break;
    case JTOKEN_LE: *op = JOP_LE; break;
    case JTOKEN_GT: *op = JOP_GT; break;
    case JTOKEN_GE: *op = JOP_GE; break;
    default:
        if (jparse_skip_word(p, "in")) {
            *op = JOP_IN;
            return true;
        }
        if (!jparse_is_word(p, p->t, "not") || !jparse_is_word(p, p->t + 1, "in")) return false;
        jparse_next(p);
        *op = JOP_NOT_IN;
        break;
    }
    jparse_next(p);
    return true;
}

static jnode *parse_compare(jparser *p)
{
    int32_t pos = p->t->pos;
    jnode *first = parse_sum(p), *n = NULL;
    jop op;
    while (first && skip_comparison(p, &op)) {
        if (!n) {
            n = raise(p, jparse_new(p, JNODE_COMPARE, pos), first);
            if (!n) return NULL;
            n->compare.first = first;
        }
        int32_t at = p->t->pos;
        if (!push(p, n, &n->compare.rest, new_pair(p, JNODE_OPERAND, op, at, parse_sum(p), NULL)))
            return NULL;
    }
    return n ? n : first;
}

static jnode *parse_not(jparser *p)
{
    int32_t pos = p->t->pos;
    if (!jparse_is_word(p, p->t, "not")) return parse_compare(p);
    if (!jparse_enter(p)) return NULL;
    jparse_next(p);
    jnode *n = new_pair(p, JNODE_NOT, JOP_NOT, pos, parse_not(p), NULL);
    p->depth--;
    return n;
}

static jnode *parse_and(jparser *p)
{
    int32_t pos = p->t->pos;
    jnode *left = parse_not(p);
    while (left && jparse_skip_word(p, "and")) {
        jnode *right = parse_not(p);
        left = right ? new_pair(p, JNODE_AND, JOP_NOT, pos, left, right) : NULL;
    }
    return left;
}

static jnode *parse_or(jparser *p)
{
    int32_t pos = p->t->pos;
    jnode *left = parse_and(p);
    while (left && jparse_skip_word(p, "or")) {
        jnode *right = parse_and(p);
        left = right ? new_pair(p, JNODE_OR, JOP_NOT, pos, left, right) : NULL;
    }
    return left;
}

static jnode *parse_cond(jparser *p)
{
    int32_t pos = p->t->pos;
    jnode *n = parse_or(p);
    while (n && jparse_skip_word(p, "if")) {
        jnode *test = parse_or(p), *otherwise = NULL;
        if (!test) return NULL;
        if (jparse_skip_word(p, "else")) {
            if (!jparse_enter(p)) return NULL;
            otherwise = parse_cond(p);
            p->depth--;
            if (!otherwise) return NULL;
        }
        jnode *c = jparse_new(p, JNODE_COND, pos);
        if (!c) return NULL;
        c->cond.test = test;
        c->cond.then = n;
        c->cond.otherwise = otherwise;
        n = raise(p, raise(p, raise(p, c, test), n), otherwise);
    }
    return n;
}

jnode *jparse_expression(jparser *p, bool with_cond)
{
    return with_cond ? parse_cond(p) : parse_or(p);
}
