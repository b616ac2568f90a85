#include "chat/outparse_priv.h"

#include <stdio.h>

enum { REF_MOST = 16, VALUE_DEPTH = 64 };

const json *outparse_tool_function(const json *tool)
{
    const json *function = json_get(tool, "function");
    return json_is(function, JSON_OBJECT) ? function : tool;
}

const json *outparse_find_tool(const json *tools, str name)
{
    for (const json *t = json_is(tools, JSON_ARRAY) ? tools->first : NULL; t; t = t->next) {
        const json *function = outparse_tool_function(t), *own = json_get(function, "name");
        if (json_is(own, JSON_STRING) && str_equal(own->text, name)) return function;
    }
    return NULL;
}

const json *schema_of_tool(const json *function)
{
    const json *schema = json_get(function, "parameters");
    if (!schema) schema = json_get(function, "input_schema");
    return json_is(schema, JSON_OBJECT) ? schema : NULL;
}

/* One part of a JSON pointer: up to the next slash, ~0 and ~1 undone. */
static const json *step_into(const json *v, str part)
{
    char name[200];
    size_t n = 0;
    for (size_t i = 0; i < part.len && n < sizeof name; i++) {
        char c = part.ptr[i];
        if (c == '~' && i + 1 < part.len) c = part.ptr[++i] == '1' ? '/' : '~';
        name[n++] = c;
    }
    int64_t index;
    if (json_is(v, JSON_ARRAY) && str_to_int64(part, &index) && index >= 0 && index < v->n)
        return json_at(v, (int)index);
    return json_get_str(v, (str){name, n});
}

static const json *find_ref(const json *root, str ref)
{
    if (!str_starts(ref, STR("#"))) return NULL;
    const json *v = root;
    for (size_t at = 1; v && at < ref.len;) {
        int64_t slash = str_find(ref, STR("/"), at + 1);
        size_t end = slash < 0 ? ref.len : (size_t)slash;
        v = step_into(v, str_slice(ref, at + 1, end));
        at = end;
    }
    return v;
}

/* Follow $ref; NULL when it leads nowhere or round in circles. */
static const json *resolve(const json *root, const json *schema)
{
    for (int i = 0; i < REF_MOST; i++) {
        const json *ref = json_get(schema, "$ref");
        if (!json_is(ref, JSON_STRING)) return schema;
        schema = find_ref(root, ref->text);
    }
    return NULL;
}

static unsigned type_bit(str name)
{
    static const char *const names[] = {"string", "integer", "number", "boolean",
                                        "object", "array",   "null"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (str_is(name, names[i])) return 1u << i;
    return 0;
}

static unsigned type_of(const json *v)
{
    switch (v->kind) {
    case JSON_NULL: return SCHEMA_NULL;
    case JSON_FALSE:
    case JSON_TRUE: return SCHEMA_BOOLEAN;
    case JSON_NUMBER: return SCHEMA_NUMBER | SCHEMA_INTEGER;
    case JSON_STRING: return SCHEMA_STRING;
    case JSON_ARRAY: return SCHEMA_ARRAY;
    default: return SCHEMA_OBJECT;
    }
}

static unsigned types_at(const json *root, const json *schema, int depth);

static unsigned union_types(const json *root, const json *list, int depth)
{
    unsigned types = 0;
    for (const json *v = list->first; v; v = v->next) types |= types_at(root, v, depth);
    return types;
}

static unsigned types_at(const json *root, const json *schema, int depth)
{
    schema = depth > 0 ? resolve(root, schema) : NULL;
    if (!json_is(schema, JSON_OBJECT)) return SCHEMA_ANY;
    unsigned types = SCHEMA_ANY;
    const json *type = json_get(schema, "type"), *v;
    if (json_is(type, JSON_STRING)) {
        types = type_bit(type->text);
    } else if (json_is(type, JSON_ARRAY)) {
        types = 0;
        for (v = type->first; v; v = v->next)
            if (v->kind == JSON_STRING) types |= type_bit(v->text);
    } else if (json_get(schema, "properties")) {
        types = SCHEMA_OBJECT;
    } else if (json_get(schema, "items")) {
        types = SCHEMA_ARRAY;
    }
    if (types & SCHEMA_NUMBER) types |= SCHEMA_INTEGER;
    if (json_is(v = json_get(schema, "anyOf"), JSON_ARRAY))
        types &= union_types(root, v, depth - 1);
    if (json_is(v = json_get(schema, "oneOf"), JSON_ARRAY))
        types &= union_types(root, v, depth - 1);
    if (json_is(v = json_get(schema, "allOf"), JSON_ARRAY))
        for (v = v->first; v; v = v->next) types &= types_at(root, v, depth - 1);
    if (json_is(v = json_get(schema, "enum"), JSON_ARRAY)) {
        unsigned of_values = 0;
        for (v = v->first; v; v = v->next) of_values |= type_of(v);
        types &= of_values;
    }
    if ((v = json_get(schema, "const"))) types &= type_of(v);
    return types ? types : SCHEMA_ANY;
}

unsigned schema_types(const json *root, const json *schema)
{
    return schema ? types_at(root, schema, REF_MOST) : SCHEMA_ANY;
}

/* Look for a keyword's member in a schema and in what it is composed of. */
static const json *find_in(const json *root, const json *schema, const char *keyword, str key,
                           int depth)
{
    static const char *const composed[] = {"allOf", "anyOf", "oneOf"};
    schema = depth > 0 ? resolve(root, schema) : NULL;
    const json *own = json_get(schema, keyword), *found;
    if (own && !key.ptr) return own;
    if (own && (found = json_get_str(own, key))) return found;
    for (int i = 0; i < 3; i++) {
        const json *list = json_get(schema, composed[i]);
        for (const json *v = json_is(list, JSON_ARRAY) ? list->first : NULL; v; v = v->next)
            if ((found = find_in(root, v, keyword, key, depth - 1))) return found;
    }
    return NULL;
}

const json *schema_property(const json *root, const json *schema, str key)
{
    const json *found = find_in(root, schema, "properties", key, REF_MOST);
    if (found) return found;
    const json *more = find_in(root, schema, "additionalProperties", (str){0}, REF_MOST);
    return json_is(more, JSON_OBJECT) ? more : NULL;
}

/* ---- values ---- */

typedef struct {
    arena a;
    buf *out;
    const json *root;
} writer;

static void put_tree(writer *w, const json *schema, const json *v, int depth);

/* Text as JSON, with Python's words too; NULL when it is none. */
static const json *read_json(writer *w, str text)
{
    const json *v = NULL;
    text = str_trim(text);
    if (str_is(text, "True")) text = STR("true");
    if (str_is(text, "False")) text = STR("false");
    if (str_is(text, "None")) text = STR("null");
    return json_parse(&w->a, text, "value", VALUE_DEPTH, 0, &v, NULL) == ERR_OK ? v : NULL;
}

static bool is_admitted(unsigned types, const json *v)
{
    int64_t i;
    if (v->kind != JSON_NUMBER) return (type_of(v) & types) != 0;
    if (types & SCHEMA_NUMBER) return true;
    if (!(types & SCHEMA_INTEGER)) return false;
    /* An integer may be too long for int64. */
    return json_to_int64(v, &i) ||
           (str_find(v->text, STR("."), 0) < 0 && str_find(v->text, STR("e"), 0) < 0 &&
            str_find(v->text, STR("E"), 0) < 0);
}

static void put_number(writer *w, unsigned types, const json *v)
{
    int64_t i;
    bool is_plain = str_find(v->text, STR("."), 0) < 0 && str_find(v->text, STR("e"), 0) < 0 &&
                    str_find(v->text, STR("E"), 0) < 0;
    if (!(types & SCHEMA_NUMBER) && !is_plain && json_to_int64(v, &i))
        buf_printf(w->out, "%lld", (long long)i);
    else
        buf_put_str(w->out, v->text);
}

static void put_container(writer *w, const json *schema, const json *v, int depth)
{
    bool is_object = v->kind == JSON_OBJECT;
    buf_put_byte(w->out, is_object ? '{' : '[');
    int i = 0;
    for (const json *item = v->first; item; item = item->next, i++) {
        const json *inner = NULL;
        if (i) buf_put_byte(w->out, ',');
        if (is_object) {
            json_put_string(w->out, item->key);
            buf_put_byte(w->out, ':');
            if (schema) inner = schema_property(w->root, schema, item->key);
        } else if (schema) {
            const json *prefix = find_in(w->root, schema, "prefixItems", (str){0}, REF_MOST);
            inner = json_at(prefix, i);
            if (!inner) inner = find_in(w->root, schema, "items", (str){0}, REF_MOST);
            if (!json_is(inner, JSON_OBJECT)) inner = NULL;
        }
        put_tree(w, inner, item, depth - 1);
    }
    buf_put_byte(w->out, is_object ? '}' : ']');
}

/* A tree, its leaves turned into the types that the schema wants where that is possible. */
static void put_tree(writer *w, const json *schema, const json *v, int depth)
{
    unsigned types = schema_types(w->root, schema);
    if (depth > 0 && v->kind == JSON_STRING && !(types & SCHEMA_STRING)) {
        const json *inner = read_json(w, v->text);
        if (inner && inner->kind != JSON_STRING && is_admitted(types, inner)) v = inner;
    }
    if (v->kind == JSON_STRING) {
        json_put_string(w->out, v->text);
    } else if (v->kind == JSON_NUMBER && types == SCHEMA_STRING) {
        json_put_string(w->out, v->text);
    } else if (v->kind == JSON_NUMBER) {
        put_number(w, types, v);
    } else if (depth > 0 && (v->kind == JSON_ARRAY || v->kind == JSON_OBJECT)) {
        put_container(w, schema, v, depth);
    } else {
        json_put_value(w->out, v, JSON_COMPACT);
    }
}

status schema_put_value(buf *out, const json *root, const json *schema, str text)
{
    unsigned types = schema_types(root, schema);
    writer w = {.out = out, .root = root};
    arena_init(&w.a, 0);
    const json *v = types == SCHEMA_ANY || types == SCHEMA_STRING ? NULL : read_json(&w, text);
    if (v && v->kind == JSON_STRING && !(types & SCHEMA_STRING)) {
        const json *inner = read_json(&w, v->text); /* a quoted number, say */
        v = inner && is_admitted(types, inner) ? inner : NULL;
    }
    if (v && v->kind != JSON_STRING && is_admitted(types, v))
        put_tree(&w, schema, v, VALUE_DEPTH);
    else
        json_put_string(out, text);
    arena_fini(&w.a);
    return out->failed ? ERR_NOMEM : ERR_OK;
}

/* Is the text so far a beginning of one of these words? */
static bool begins_word(str text, const char *word)
{
    return str_starts(str_from(word), str_trim(text));
}

bool schema_may_be_json(unsigned types, str text)
{
    str t = str_trim(text);
    if (t.len == 0) return true;
    char c = t.ptr[0];
    if (types & SCHEMA_NULL && (begins_word(t, "null") || begins_word(t, "None"))) return true;
    if (types & SCHEMA_BOOLEAN && (begins_word(t, "true") || begins_word(t, "false") ||
                                   begins_word(t, "True") || begins_word(t, "False")))
        return true;
    if ((types & SCHEMA_OBJECT && c == '{') || (types & SCHEMA_ARRAY && c == '[')) return true;
    if (!(types & (SCHEMA_NUMBER | SCHEMA_INTEGER))) return false;
    for (size_t i = 0; i < t.len; i++)
        if (!strchr("0123456789+-.eE", t.ptr[i]) || !t.ptr[i]) return false;
    return true;
}

bool schema_is_unfinished(str text)
{
    str t = str_trim(text);
    bool in_string = false;
    int64_t depth = 0;
    if (t.len == 0 || (t.ptr[0] != '{' && t.ptr[0] != '[')) return false;
    for (size_t i = 0; i < t.len; i++) {
        char c = t.ptr[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string)
            depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    }
    return in_string || depth > 0;
}
