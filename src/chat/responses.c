#include "chat/responses.h"

#include <stdio.h>

#include "chat/message_priv.h"

/* Behind all calls and reasoning that belong to one turn, the turn itself. */
typedef struct {
    message_reader r;
    tree out; /* messages */
    str text, reasoning;
    tree calls;
    bool is_open, has_text;
    responses_tool *tools;
    tree functions;
    int n_tools, n_ignored;
} converter;

static const str none = {"", 0};

static str text_of(const json *object, const char *key)
{
    const json *v = json_get(object, key);
    return json_is(v, JSON_STRING) ? v->text : none;
}

static str flat_name(converter *k, str space, str name)
{
    if (space.len == 0) return name;
    return tree_join(k->r.a, space, str_ends(space, STR("__")) ? "" : "__", name);
}

/* --- text --------------------------------------------------------------------------------------
 */

static status fail_part(converter *k, str type, const char *tail)
{
    if (str_find(type, STR("image"), 0) >= 0)
        return message_fail(&k->r, ERR_UNSUPPORTED, tail,
                            "images are not supported here, only text");
    return message_fail(&k->r, ERR_UNSUPPORTED, tail, "content of type '%.*s' is not supported",
                        (int)(type.len < 60 ? type.len : 60), type.ptr);
}

/* A string, or an array of parts that have text. */
static status read_text(converter *k, const json *content, const char *tail, str *out)
{
    static const char *const kinds[] = {"input_text",   "output_text",    "text",
                                        "summary_text", "reasoning_text", "refusal"};
    *out = none;
    if (!content || content->kind == JSON_NULL) return ERR_OK;
    if (json_to_str(content, out)) return ERR_OK;
    if (content->kind != JSON_ARRAY)
        return message_fail(&k->r, ERR_FORMAT, tail, "must be a string or an array of parts");
    int i = 0;
    for (const json *part = content->first; part; part = part->next, i++) {
        char where[60];
        bool is_text = false;
        str type = text_of(part, "type");
        snprintf(where, sizeof where, "%s/%d", tail, i);
        for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) is_text |= str_is(type, kinds[n]);
        if (!is_text) return fail_part(k, type, where);
        str text = text_of(part, str_is(type, "refusal") ? "refusal" : "text");
        *out = i == 0 ? text : tree_join(k->r.a, *out, "", text);
        if (!out->ptr) return message_fail_memory(&k->r);
    }
    return ERR_OK;
}

/* --- turns of the assistant --------------------------------------------------------------------
 */

static void open_turn(converter *k)
{
    if (k->is_open) return;
    k->text = k->reasoning = none;
    k->calls = tree_new(k->r.a, JSON_ARRAY);
    k->is_open = true;
    k->has_text = false;
}

static void close_turn(converter *k)
{
    if (!k->is_open) return;
    tree m = tree_new(k->r.a, JSON_OBJECT);
    tree_push_text(&m, STR("role"), STR("assistant"));
    tree_push_text(&m, STR("content"), k->text);
    if (k->reasoning.len) tree_push_text(&m, STR("reasoning_content"), k->reasoning);
    if (!k->calls.root || k->calls.root->n > 0) tree_push(&m, STR("tool_calls"), k->calls.root);
    tree_push(&k->out, none, m.root);
    k->is_open = false;
}

static bool has_calls(const converter *k)
{
    return k->is_open && k->calls.root && k->calls.root->n > 0;
}

static status take_reasoning(converter *k, const json *item)
{
    str text;
    if (has_calls(k) || (k->is_open && k->has_text)) close_turn(k);
    open_turn(k);
    TRY(read_text(k, json_get(item, "content"), "/content", &text));
    if (text.len == 0) TRY(read_text(k, json_get(item, "summary"), "/summary", &text));
    k->reasoning = k->reasoning.len ? tree_join(k->r.a, k->reasoning, "\n", text) : text;
    return k->reasoning.ptr ? ERR_OK : message_fail_memory(&k->r);
}

static status take_call(converter *k, const json *item, bool is_custom)
{
    const json *id = json_get(item, "call_id"), *name = json_get(item, "name"),
               *given = json_get(item, is_custom ? "input" : "arguments");
    if (!json_is(id, JSON_STRING) || !json_is(name, JSON_STRING))
        return message_fail(&k->r, ERR_FORMAT, "", "a call needs a call_id and a name");
    if (given && given->kind != JSON_STRING)
        return message_fail(&k->r, ERR_FORMAT, is_custom ? "/input" : "/arguments",
                            "must be a string");
    open_turn(k);
    str flat = flat_name(k, text_of(item, "namespace"), name->text);
    if (!flat.ptr) return message_fail_memory(&k->r);
    tree function = tree_new(k->r.a, JSON_OBJECT), call = tree_new(k->r.a, JSON_OBJECT);
    tree_push_text(&function, STR("name"), flat);
    if (is_custom) {
        tree input = tree_new(k->r.a, JSON_OBJECT);
        tree_push_text(&input, STR("input"), given ? given->text : none);
        tree_push(&function, STR("arguments"), input.root);
    } else if (given) {
        tree_push(&function, STR("arguments"), given);
    }
    tree_push(&call, STR("id"), id);
    tree_push_text(&call, STR("type"), STR("function"));
    tree_push(&call, STR("function"), function.root);
    tree_push(&k->calls, none, call.root);
    return ERR_OK;
}

/* --- items -------------------------------------------------------------------------------------
 */

static status take_output(converter *k, const json *item)
{
    const json *id = json_get(item, "call_id");
    str text;
    if (!json_is(id, JSON_STRING))
        return message_fail(&k->r, ERR_FORMAT, "", "an output needs a call_id");
    TRY(read_text(k, json_get(item, "output"), "/output", &text));
    close_turn(k);
    tree m = tree_new(k->r.a, JSON_OBJECT);
    tree_push_text(&m, STR("role"), STR("tool"));
    tree_push(&m, STR("tool_call_id"), id);
    tree_push_text(&m, STR("content"), text);
    tree_push(&k->out, none, m.root);
    return ERR_OK;
}

static status take_message(converter *k, const json *item)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    str role = text_of(item, "role"), text;
    bool is_known = false;
    for (int i = 0; i < 4; i++) is_known |= str_is(role, roles[i]);
    if (!is_known)
        return message_fail(&k->r, ERR_FORMAT, "/role",
                            "want \"user\", \"assistant\", \"system\" or \"developer\"");
    TRY(read_text(k, json_get(item, "content"), "/content", &text));
    if (str_is(role, "assistant")) {
        if (has_calls(k) || (k->is_open && k->has_text)) close_turn(k);
        open_turn(k);
        k->text = text;
        k->has_text = true;
        return ERR_OK;
    }
    close_turn(k);
    tree m = tree_new(k->r.a, JSON_OBJECT);
    tree_push_text(&m, STR("role"), role);
    tree_push_text(&m, STR("content"), text);
    tree_push(&k->out, none, m.root);
    return ERR_OK;
}

static status take_item(converter *k, const json *item)
{
    if (item->kind != JSON_OBJECT) return message_fail(&k->r, ERR_FORMAT, "", "must be an object");
    str type = text_of(item, "type");
    if (type.len == 0 || str_is(type, "message")) return take_message(k, item);
    if (str_is(type, "reasoning")) return take_reasoning(k, item);
    if (str_is(type, "function_call")) return take_call(k, item, false);
    if (str_is(type, "custom_tool_call")) return take_call(k, item, true);
    if (str_is(type, "function_call_output") || str_is(type, "custom_tool_call_output"))
        return take_output(k, item);
    return message_fail(&k->r, ERR_UNSUPPORTED, "", "an item of type '%.*s' is not supported",
                        (int)(type.len < 60 ? type.len : 60), type.ptr);
}

/* The input as an array of items behind those before it. */
static status collect_items(converter *k, const json *input, const json *before, const json **out)
{
    tree t = tree_new(k->r.a, JSON_ARRAY);
    for (const json *v = before ? before->first : NULL; v; v = v->next) tree_push(&t, none, v);
    snprintf(k->r.path, sizeof k->r.path, "/input");
    if (json_is(input, JSON_STRING)) {
        tree m = tree_new(k->r.a, JSON_OBJECT);
        tree_push_text(&m, STR("type"), STR("message"));
        tree_push_text(&m, STR("role"), STR("user"));
        tree_push(&m, STR("content"), input);
        tree_push(&t, none, m.root);
    } else if (json_is(input, JSON_ARRAY)) {
        for (const json *v = input->first; v; v = v->next) tree_push(&t, none, v);
    } else {
        return message_fail(&k->r, ERR_FORMAT, "", "must be a string or an array of items");
    }
    *out = t.root;
    return t.root ? ERR_OK : message_fail_memory(&k->r);
}

static status convert_items(converter *k, const json *request, const json *items)
{
    str instructions;
    snprintf(k->r.path, sizeof k->r.path, "/instructions");
    TRY(read_text(k, json_get(request, "instructions"), "", &instructions));
    k->out = tree_new(k->r.a, JSON_ARRAY);
    if (instructions.len) {
        tree m = tree_new(k->r.a, JSON_OBJECT);
        tree_push_text(&m, STR("role"), STR("system"));
        tree_push_text(&m, STR("content"), instructions);
        tree_push(&k->out, none, m.root);
    }
    int i = 0;
    for (const json *item = items->first; item; item = item->next, i++) {
        snprintf(k->r.path, sizeof k->r.path, "/input/%d", i);
        TRY(take_item(k, item));
    }
    close_turn(k);
    if (i == 0) { /* as clients ask to see whether anybody answers */
        tree m = tree_new(k->r.a, JSON_OBJECT);
        tree_push_text(&m, STR("role"), STR("user"));
        tree_push_text(&m, STR("content"), none);
        tree_push(&k->out, none, m.root);
    }
    return k->out.root ? ERR_OK : message_fail_memory(&k->r);
}

/* --- tools -------------------------------------------------------------------------------------
 */

static void push_custom(converter *k, const json *tool, tree *function)
{
    const json *format = json_get(tool, "format");
    str about = text_of(tool, "description"), definition = text_of(format, "definition");
    if (definition.len) {
        about = tree_join(k->r.a, about, "\n\nThe input follows this grammar:\n", definition);
        if (!about.ptr) function->root = NULL;
    }
    tree input = tree_new(k->r.a, JSON_OBJECT), properties = tree_new(k->r.a, JSON_OBJECT),
         required = tree_new(k->r.a, JSON_ARRAY), schema = tree_new(k->r.a, JSON_OBJECT);
    tree_push_text(&input, STR("type"), STR("string"));
    tree_push(&properties, STR("input"), input.root);
    tree_push_text(&required, none, STR("input"));
    tree_push_text(&schema, STR("type"), STR("object"));
    tree_push(&schema, STR("properties"), properties.root);
    tree_push(&schema, STR("required"), required.root);
    if (about.len) tree_push_text(function, STR("description"), about);
    tree_push(function, STR("parameters"), schema.root);
}

static status take_tool(converter *k, const json *tool, str space)
{
    if (tool->kind != JSON_OBJECT) return message_fail(&k->r, ERR_FORMAT, "", "must be an object");
    str type = text_of(tool, "type"), name = text_of(tool, "name");
    bool is_custom = str_is(type, "custom");
    if (!is_custom && !str_is(type, "function")) {
        k->n_ignored++;
        return ERR_OK;
    }
    if (name.len == 0) return message_fail(&k->r, ERR_FORMAT, "/name", "a tool needs a name");
    str flat = flat_name(k, space, name);
    if (!flat.ptr) return message_fail_memory(&k->r);
    k->tools[k->n_tools++] = (responses_tool){flat, space, name, is_custom};
    const json *about = json_get(tool, "description"), *schema = json_get(tool, "parameters");
    tree function = tree_new(k->r.a, JSON_OBJECT), t = tree_new(k->r.a, JSON_OBJECT);
    tree_push_text(&function, STR("name"), flat);
    if (is_custom) {
        push_custom(k, tool, &function);
    } else {
        if (json_is(about, JSON_STRING)) tree_push(&function, STR("description"), about);
        if (json_is(schema, JSON_OBJECT)) tree_push(&function, STR("parameters"), schema);
    }
    tree_push_text(&t, STR("type"), STR("function"));
    tree_push(&t, STR("function"), function.root);
    tree_push(&k->functions, none, t.root);
    return ERR_OK;
}

static const json *members_of(const json *tool)
{
    const json *list = json_get(tool, "tools");
    return str_is(text_of(tool, "type"), "namespace") && json_is(list, JSON_ARRAY) ? list : NULL;
}

static status convert_tools(converter *k, const json *tools)
{
    size_t n = 1;
    int i = 0;
    snprintf(k->r.path, sizeof k->r.path, "/tools");
    if (!tools || tools->kind == JSON_NULL) return ERR_OK;
    if (tools->kind != JSON_ARRAY) return message_fail(&k->r, ERR_FORMAT, "", "must be an array");
    for (const json *tool = tools->first; tool; tool = tool->next)
        n += members_of(tool) ? (size_t)members_of(tool)->n : 1;
    k->tools = arena_new_array(k->r.a, n, sizeof *k->tools);
    k->functions = tree_new(k->r.a, JSON_ARRAY);
    if (!k->tools) return message_fail_memory(&k->r);
    for (const json *tool = tools->first; tool; tool = tool->next, i++) {
        const json *list = members_of(tool);
        int m = 0;
        snprintf(k->r.path, sizeof k->r.path, "/tools/%d", i);
        if (!list) TRY(take_tool(k, tool, none));
        for (const json *v = list ? list->first : NULL; v; v = v->next, m++) {
            snprintf(k->r.path, sizeof k->r.path, "/tools/%d/tools/%d", i, m);
            TRY(take_tool(k, v, text_of(tool, "name")));
        }
    }
    return k->functions.root ? ERR_OK : message_fail_memory(&k->r);
}

status responses_to_chat(arena *a, const json *request, const json *before, responses_chat *out,
                         err *e)
{
    static const char *const same[] = {"reasoning", "chat_template_kwargs", "enable_thinking",
                                       "preserve_thinking"};
    converter k = {.r = {.a = a, .e = e}};
    const json *items = NULL;
    TRY(collect_items(&k, json_get(request, "input"), before, &items));
    TRY(convert_items(&k, request, items));
    TRY(convert_tools(&k, json_get(request, "tools")));
    tree t = tree_new(a, JSON_OBJECT);
    tree_push(&t, STR("messages"), k.out.root);
    if (k.n_tools > 0) tree_push(&t, STR("tools"), k.functions.root);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (json_get(request, same[i]))
            tree_push(&t, str_from(same[i]), json_get(request, same[i]));
    if (!t.root) return message_fail_memory(&k.r);
    *out = (responses_chat){.chat = t.root,
                            .items = items,
                            .tools = k.tools,
                            .n_tools = k.n_tools,
                            .n_ignored = k.n_ignored};
    return ERR_OK;
}
