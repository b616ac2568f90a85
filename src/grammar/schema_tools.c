/* Calls of tools: the tags of the Qwen form around values. */
#include <stdio.h>

#include "base/mem.h"
#include "grammar/regex_parse_priv.h"
#include "grammar/schema_priv.h"

#define OPEN_CALL "<tool_call>"
#define CLOSE_VALUE "\n</parameter>\n"
#define CLOSE_CALL "</function>\n</tool_call>"

enum { PARAMETERS_MOST = 1000, LEAD_SPACE = 8, NAME_MOST = 64 };

static uint32_t text_before(schema_compiler *c, const char *text, uint32_t next)
{
    return graph_bytes(c->g, str_from(text), next);
}

/* <parameter=KEY>\n, a value of the schema, and its end. */
static uint32_t parameter(schema_compiler *c, const json *schema, uint32_t next)
{
    schema_flat *f = mem_new(sizeof *f);
    uint32_t out = GRAPH_NEVER;
    if (!f) {
        graph_fail(c->g, ERR_NOMEM, "#", "a tool's parameter");
        return GRAPH_NEVER;
    }
    schema_flatten(c, schema, f);
    c->raw_end = CLOSE_VALUE;
    out = schema_flat_value(c, f, next);
    c->raw_end = NULL;
    mem_free(f);
    buf tag;
    buf_init(&tag);
    buf_put_c(&tag, "<parameter=");
    buf_put_str(&tag, schema->key);
    buf_put_c(&tag, ">\n");
    if (tag.failed) graph_fail(c->g, ERR_NOMEM, "#", "a tool's parameter");
    out = graph_bytes(c->g, buf_str(&tag), out);
    buf_fini(&tag);
    return out;
}

static bool is_required(const json *parameters, str name)
{
    const json *list = json_get(parameters, "required");
    for (const json *r = json_is(list, JSON_ARRAY) ? list->first : NULL; r; r = r->next)
        if (json_is(r, JSON_STRING) && str_equal(r->text, name)) return true;
    return false;
}

/* Keywords of the parameters as a whole: those that the chain of parameters keeps by itself, and
 * those that say nothing; the rest is refused. */
static void check_parameters(schema_compiler *c, const json *parameters)
{
    static const char *const refused[] = {"$ref",
                                          "allOf",
                                          "anyOf",
                                          "oneOf",
                                          "not",
                                          "if",
                                          "minProperties",
                                          "maxProperties",
                                          "patternProperties",
                                          "propertyNames",
                                          "dependentRequired",
                                          "dependentSchemas",
                                          "dependencies",
                                          "unevaluatedProperties",
                                          "enum",
                                          "const"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (json_get(parameters, refused[i]))
            schema_refuse(c, ERR_UNSUPPORTED, parameters, refused[i],
                          "not supported for the parameters as a whole");
}

static uint32_t strict_parameters(schema_compiler *c, const json *parameters, uint32_t next)
{
    const json *list[PARAMETERS_MOST], *properties = json_get(parameters, "properties");
    int n = 0;
    check_parameters(c, parameters);
    if (properties && properties->kind != JSON_OBJECT)
        schema_refuse(c, ERR_FORMAT, parameters, "properties", "must be an object");
    for (const json *p = properties ? properties->first : NULL; p; p = p->next) {
        bool is_odd = json_get_str(properties, p->key) != p; /* of two alike the last counts */
        for (size_t i = 0; i < p->key.len; i++) is_odd |= strchr("<>\n", p->key.ptr[i]) != NULL;
        if (n == PARAMETERS_MOST) {
            schema_refuse(c, ERR_UNSUPPORTED, parameters, "properties",
                          "more than 1,000 parameters");
            return next;
        }
        if (is_odd)
            schema_refuse(c, ERR_UNSUPPORTED, p, NULL, "a parameter's name that no tag can hold");
        else
            list[n++] = p;
    }
    const json *required = json_get(parameters, "required");
    for (const json *r = json_is(required, JSON_ARRAY) ? required->first : NULL; r; r = r->next)
        if (!json_is(r, JSON_STRING) || !properties || !json_get_str(properties, r->text))
            schema_refuse(c, ERR_UNSUPPORTED, parameters, "required", "a name without a schema");
    for (int i = n - 1; i >= 0; i--) {
        uint32_t own = parameter(c, list[i], next);
        next = is_required(parameters, list[i]->key) ? own : graph_either(c->g, own, next);
    }
    return next;
}

/* Any parameters. */
static uint32_t free_parameters(schema_compiler *c, uint32_t next)
{
    leaf_part part = {0};
    const leaf *l = NULL;
    err e = {0};
    int least = 0, most = EXPR_NO_MOST;
    status s = regex_parse(&c->a, STR("[^<>\\n]{1,64}"), "#", &part.e, &e);
    if (s == ERR_OK)
        s = leaf_build(&c->g->a, &c->g->work, &part, 1, LEAF_RAW, &least, &most, "#", &l, &e);
    if (s != ERR_OK || !l) {
        graph_fail(c->g, s, e.where, e.msg);
        return GRAPH_NEVER;
    }
    uint32_t value = schema_raw_text(c, NULL, CLOSE_VALUE, GRAPH_RETURN);
    uint32_t name = graph_leaf(c->g, graph_add_leaf(c->g, l), 0, EXPR_NO_MOST,
                               text_before(c, ">\n", value));
    return graph_repeat(c->g, text_before(c, "<parameter=", name), 0, EXPR_NO_MOST, next);
}

/* A call of one function behind OPEN_CALL. */
static uint32_t call(schema_compiler *c, const json *function, bool is_strict, uint32_t next)
{
    static const json nothing = {.kind = JSON_OBJECT};
    char prefix[NAME_MOST + 1];
    str name = json_get(function, "name")->text;
    const json *parameters = json_get(function, "parameters");
    uint32_t end = text_before(c, CLOSE_CALL, next);
    for (size_t i = 0; i < name.len; i++)
        if (strchr("<>\"\n", name.ptr[i])) {
            graph_fail(c->g, ERR_INVALID, "tools", "a function's name with <, >, \" or a line end");
            return GRAPH_NEVER;
        }
    if (!json_is(parameters, JSON_OBJECT)) parameters = &nothing;
    snprintf(prefix, sizeof prefix, "%.*s", STR_ARG(name));
    schema_doc_init(&c->doc, parameters);
    c->doc.cache = &c->cache;
    c->prefix = prefix;
    uint32_t body = is_strict ? strict_parameters(c, parameters, end) : free_parameters(c, end);
    c->prefix = "";
    body = text_before(c, ">\n", body);
    return text_before(c, "\n<function=", graph_bytes(c->g, name, body));
}

/* Some clients leave the outer object out. */
static const json *function_of(const json *tool)
{
    const json *function = json_get(tool, "function");
    return function ? function : tool;
}

static bool is_callable(const grammar_tools_wish *w, const json *tool)
{
    const json *function = function_of(tool), *name = json_get(function, "name");
    return json_is(function, JSON_OBJECT) && json_is(name, JSON_STRING) && name->text.len > 0 &&
           (w->only.len == 0 || str_equal(name->text, w->only));
}

static bool is_strict_call(const grammar_tools_wish *w, const json *function)
{
    str name = json_get(function, "name")->text;
    bool is_strict = w->all_strict || json_is(json_get(function, "strict"), JSON_TRUE);
    for (int i = 0; i < w->n_strict; i++) is_strict |= str_equal(w->strict[i], name);
    return is_strict;
}

/* One call of any function behind OPEN_CALL. */
static uint32_t any_call(schema_compiler *c, const grammar_tools_wish *w, uint32_t next)
{
    uint32_t out = GRAPH_NEVER;
    for (const json *t = w->tools->first; t && c->g->failed == ERR_OK; t = t->next) {
        if (!is_callable(w, t)) continue;
        const json *function = function_of(t);
        out = graph_either(c->g, out, call(c, function, is_strict_call(w, function), next));
    }
    return out;
}

static uint32_t all_calls(schema_compiler *c, const grammar_tools_wish *w)
{
    grammar *g = c->g;
    int least = w->least > 1 ? w->least - 1 : 0, most = w->most < 0 ? EXPR_NO_MOST : w->most - 1;
    int rule = graph_add_rule(g);
    graph_set_rule(g, rule, any_call(c, w, GRAPH_RETURN));
    if (w->most == 0) return w->has_text ? GRAPH_NEVER : GRAPH_END;
    uint32_t again = text_before(c, "\n" OPEN_CALL, graph_call(g, rule, GRAPH_RETURN));
    uint32_t rest = graph_repeat(g, again, least, most, GRAPH_END);
    uint32_t first = graph_call(g, rule, rest);
    if (!w->has_text) {
        uint32_t out = graph_space(g, LEAD_SPACE, text_before(c, OPEN_CALL, first));
        return w->least == 0 ? graph_either(g, out, GRAPH_END) : out;
    }
    return schema_raw_text(c, NULL, OPEN_CALL, first);
}

/* Text in which no call begins, to its end. */
static uint32_t text_alone(schema_compiler *c)
{
    const leaf *l = NULL;
    err e = {0};
    int least = 0, most = EXPR_NO_MOST;
    expr *opening = expr_text(&c->a, STR(OPEN_CALL));
    leaf_part part = {opening ? expr_search(&c->a, opening) : NULL, true};
    status s = ERR_NOMEM;
    if (part.e)
        s = leaf_build(&c->g->a, &c->g->work, &part, 1, LEAF_RAW, &least, &most, "#", &l, &e);
    if (s != ERR_OK || !l) {
        graph_fail(c->g, s, "#", "text before the calls");
        return GRAPH_NEVER;
    }
    return graph_leaf(c->g, graph_add_leaf(c->g, l), 0, EXPR_NO_MOST, GRAPH_END);
}

static uint32_t answer_value(schema_compiler *c, const json *schema)
{
    schema_set set = {&schema, 1};
    schema_doc_init(&c->doc, schema);
    c->doc.cache = &c->cache;
    return schema_value(c, &set, GRAPH_END);
}

status grammar_open_tools(grammar **out, const grammar_tools_wish *w,
                          const grammar_json_options *opt, grammar_notes *notes, err *e)
{
    schema_compiler c;
    uint32_t start = GRAPH_NEVER;
    if (!json_is(w->tools, JSON_ARRAY) || w->least < 0 || (w->most >= 0 && w->most < w->least))
        return err_set(e, ERR_INVALID, "tools", -1, "no array of tools, or no number of calls");
    status s = schema_compiler_open(&c, w->tools, opt, notes, e);
    if (s == ERR_OK) {
        start = all_calls(&c, w);
        if (w->has_text && w->least == 0) start = graph_either(c.g, text_alone(&c), start);
        if (w->answer) start = graph_either(c.g, answer_value(&c, w->answer), start);
    }
    return schema_compiler_close(&c, start, s, out, e);
}
