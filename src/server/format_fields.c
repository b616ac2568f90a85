/* The fields of each protocol that say what an answer must look like. */
#include "chat/outparse.h"
#include "server/answer_format_priv.h"
#include "server/fields_priv.h"

/* ---- the text ---- */

static status set_form(answer_format *f, answer_form form, const char *field, err *e)
{
    if (f->form != ANSWER_FREE)
        return err_set(e, ERR_INVALID, field, -1, "there is \"%s\" too: want one of them",
                       f->field);
    f->form = form;
    f->field = field;
    return ERR_OK;
}

/* {"type": …} with `schema` and `strict` in it, or in its member "json_schema". */
static status parse_format(const json *format, const char *field, bool is_strict, answer_format *f,
                           err *e)
{
    str type = STR("");
    const json *holder = format, *inner = NULL, *schema = NULL;
    if (!format) return ERR_OK;
    TRY(field_str(format, "type", &type, e));
    if (type.len == 0) return err_set(e, ERR_INVALID, field, -1, "has no \"type\"");
    if (str_is(type, "text")) return ERR_OK;
    bool is_object = str_is(type, "json_object");
    if (!is_object && !str_is(type, "json_schema"))
        return err_set(e, ERR_UNSUPPORTED, field, -1,
                       "want \"text\", \"json_object\" or \"json_schema\" as its type");
    TRY(field_object(format, "json_schema", &inner, e));
    if (inner) holder = inner;
    TRY(field_object(holder, "schema", &schema, e));
    TRY(field_bool(holder, "strict", &is_strict, e));
    if (!schema && is_object) return set_form(f, ANSWER_OBJECT, field, e);
    if (!schema) return err_set(e, ERR_INVALID, field, -1, "has no \"schema\"");
    f->schema = schema;
    f->is_strict = is_strict;
    return set_form(f, ANSWER_SCHEMA, field, e);
}

static status parse_texts(const json *body, answer_format *f, err *e)
{
    if (field_find(body, "grammar")) {
        TRY(field_str(body, "grammar", &f->text, e));
        TRY(set_form(f, ANSWER_GRAMMAR, "grammar", e));
    }
    if (!field_find(body, "regex")) return ERR_OK;
    TRY(field_str(body, "regex", &f->text, e));
    return set_form(f, ANSWER_REGEX, "regex", e);
}

status answer_format_chat(const json *body, answer_format *f, err *e)
{
    const json *format = NULL;
    TRY(field_object(body, "response_format", &format, e));
    TRY(parse_format(format, "response_format", false, f, e));
    return parse_texts(body, f, e);
}

status answer_format_responses(const json *body, answer_format *f, err *e)
{
    const json *text = NULL, *format = NULL;
    TRY(field_object(body, "text", &text, e));
    if (text) TRY(field_object(text, "format", &format, e));
    TRY(parse_format(format, "text.format", false, f, e));
    return parse_texts(body, f, e);
}

/* Here a schema is always meant strictly. */
status answer_format_messages(const json *body, answer_format *f, err *e)
{
    const json *config = NULL, *format = NULL;
    TRY(field_object(body, "output_config", &config, e));
    if (config) TRY(field_object(config, "format", &format, e));
    TRY(parse_format(format, "output_config.format", true, f, e));
    format = NULL;
    TRY(field_object(body, "output_format", &format, e));
    TRY(parse_format(format, "output_format", true, f, e));
    return parse_texts(body, f, e);
}

/* ---- the choice of tools ---- */

static status wrong_choice(str got, const char *want, err *e)
{
    return err_set(e, ERR_INVALID, "tool_choice", -1, "\"%.*s\": want %s",
                   (int)(got.len < 40 ? got.len : 40), got.ptr, want);
}

static status name_one(answer_format *f, const json *holder, err *e)
{
    TRY(field_str(holder, "name", &f->only, e));
    if (f->only.len == 0) return err_set(e, ERR_INVALID, "tool_choice", -1, "names no function");
    f->must_call = true;
    return ERR_OK;
}

/* A string: "auto", "none", "required". */
static status take_word(str word, answer_format *f, bool *uses, err *e)
{
    *uses = !str_is(word, "none");
    f->must_call = str_is(word, "required");
    if (!*uses || f->must_call || str_is(word, "auto")) return ERR_OK;
    return wrong_choice(word, "\"auto\", \"none\", \"required\" or a function", e);
}

static status parse_parallel(const json *body, answer_format *f, err *e)
{
    bool parallel = true;
    TRY(field_bool(body, "parallel_tool_calls", &parallel, e));
    f->has_one_call = !parallel;
    return ERR_OK;
}

status answer_format_choice_chat(const json *body, answer_format *f, bool *uses, err *e)
{
    const json *v = field_find(body, "tool_choice"), *function = NULL;
    str type = STR("");
    *uses = true;
    TRY(parse_parallel(body, f, e));
    if (!v) return ERR_OK;
    if (json_is(v, JSON_STRING)) return take_word(v->text, f, uses, e);
    if (!json_is(v, JSON_OBJECT))
        return err_set(e, ERR_INVALID, "tool_choice", -1, "is %s, want a string or an object",
                       field_kind(v));
    TRY(field_str(v, "type", &type, e));
    if (!str_is(type, "function"))
        return err_set(e, ERR_UNSUPPORTED, "tool_choice", -1,
                       "of the objects only {\"type\": \"function\"} is supported");
    TRY(field_object(v, "function", &function, e));
    f->has_one_call = true;
    return name_one(f, function ? function : v, e);
}

status answer_format_choice_messages(const json *body, answer_format *f, bool *uses, err *e)
{
    const json *v = NULL;
    str type = STR("auto");
    *uses = true;
    TRY(field_object(body, "tool_choice", &v, e));
    if (!v) return ERR_OK;
    TRY(field_str(v, "type", &type, e));
    TRY(field_bool(v, "disable_parallel_tool_use", &f->has_one_call, e));
    *uses = !str_is(type, "none");
    f->must_call = str_is(type, "any");
    if (str_is(type, "tool")) {
        f->has_one_call = true;
        return name_one(f, v, e);
    }
    if (!*uses || f->must_call || str_is(type, "auto")) return ERR_OK;
    return wrong_choice(type, "\"auto\", \"any\", \"tool\" or \"none\"", e);
}

status answer_format_choice_responses(const json *body, const responses_chat *table,
                                      answer_format *f, bool *uses, err *e)
{
    const json *v = field_find(body, "tool_choice");
    str type = STR("");
    *uses = true;
    TRY(parse_parallel(body, f, e));
    if (!v) return ERR_OK;
    if (json_is(v, JSON_STRING)) return take_word(v->text, f, uses, e);
    if (!json_is(v, JSON_OBJECT))
        return err_set(e, ERR_INVALID, "tool_choice", -1, "is %s, want a string or an object",
                       field_kind(v));
    TRY(field_str(v, "type", &type, e));
    if (!str_is(type, "function") && !str_is(type, "custom"))
        return err_set(
            e, ERR_UNSUPPORTED, "tool_choice", -1,
            "of the objects only those of type \"function\" and \"custom\" are supported");
    f->has_one_call = true;
    TRY(name_one(f, v, e));
    for (int i = 0; i < table->n_tools; i++) {
        const responses_tool *t = &table->tools[i];
        if (!str_equal(t->name, f->only) || t->is_custom != str_is(type, "custom")) continue;
        f->only = t->flat;
        break;
    }
    return ERR_OK;
}

/* ---- tools ---- */

static bool is_strict(const json *tool)
{
    return json_is(json_get(tool, "strict"), JSON_TRUE) ||
           json_is(json_get(outparse_tool_function(tool), "strict"), JSON_TRUE);
}

static str name_of(const json *tool)
{
    const json *name = json_get(outparse_tool_function(tool), "name");
    return json_is(name, JSON_STRING) ? name->text : (str){NULL, 0};
}

/* What the model calls a tool of the request. */
static str flat_name(const responses_chat *table, str space, str name)
{
    for (int i = 0; table && i < table->n_tools; i++)
        if (str_equal(table->tools[i].name, name) && str_equal(table->tools[i].space, space))
            return table->tools[i].flat;
    return name;
}

static void take_strict(const json *tool, const responses_chat *table, str space, str *list, int *n)
{
    str name = name_of(tool);
    if (is_strict(tool) && name.len) list[(*n)++] = flat_name(table, space, name);
}

status answer_format_tools(const json *body, const json *tools, const responses_chat *table,
                           arena *a, answer_format *f, err *e)
{
    const json *own = field_find(body, "tools");
    int n = 0, most = 0;
    bool is_there = f->only.len == 0;
    f->has_calls = tools && tools->n > 0;
    if (!f->has_calls && f->must_call)
        return err_set(e, ERR_INVALID, "tool_choice", -1,
                       "asks for a call, but there are no tools");
    if (!f->has_calls) return ERR_OK;
    for (const json *t = tools->first; t; t = t->next) is_there |= str_equal(name_of(t), f->only);
    if (!is_there)
        return err_set(e, ERR_INVALID, "tool_choice", -1, "there is no tool \"%.*s\"",
                       (int)(f->only.len < 64 ? f->only.len : 64), f->only.ptr);
    if (!json_is(own, JSON_ARRAY)) return ERR_OK;
    for (const json *t = own->first; t; t = t->next) {
        const json *members = json_get(t, "tools");
        most += json_is(members, JSON_ARRAY) ? members->n + 1 : 1;
    }
    str *list = arena_new_array(a, (size_t)most, sizeof *list);
    if (!list) return err_set(e, ERR_NOMEM, "tools", -1, "names");
    for (const json *t = own->first; t; t = t->next) {
        const json *members = json_get(t, "tools");
        take_strict(t, table, (str){"", 0}, list, &n);
        if (!table || !json_is(members, JSON_ARRAY)) continue;
        for (const json *m = members->first; m; m = m->next)
            take_strict(m, table, name_of(t), list, &n);
    }
    f->strict = list;
    f->n_strict = n;
    return ERR_OK;
}
