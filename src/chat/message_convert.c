/* One message: content, reasoning, tool calls. */
#include <stdio.h>

#include "chat/message_priv.h"
#include "chat/repair_priv.h"

static bool is_null(const json *v)
{
    return !v || v->kind == JSON_NULL;
}

/* ---- content ---- */

static bool is_text_part(const json *part)
{
    static const char *const names[] = {"text", "input_text", "output_text"};
    const json *type = json_get(part, "type");
    if (!json_is(json_get(part, "text"), JSON_STRING)) return false;
    if (is_null(type)) return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (json_is(type, JSON_STRING) && str_is(type->text, names[i])) return true;
    return false;
}

static bool is_visual_part(const json *part)
{
    static const char *const names[] = {"image", "image_url", "input_image", "video", "video_url"};
    const json *type = json_get(part, "type");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (json_is(type, JSON_STRING) && str_is(type->text, names[i])) return true;
    return false;
}

static status check_part(const message_reader *r, const json *part, int i)
{
    char tail[40];
    snprintf(tail, sizeof tail, "/content/%d", i);
    if (part->kind != JSON_OBJECT) return message_fail(r, ERR_FORMAT, tail, "must be an object");
    if (is_text_part(part) || is_visual_part(part)) return ERR_OK;
    const json *type = json_get(part, "type");
    if (!json_is(type, JSON_STRING))
        return message_fail(r, ERR_FORMAT, tail, "a content part needs a type");
    if (str_is(type->text, "text"))
        return message_fail(r, ERR_FORMAT, tail, "a text part needs a text");
    return message_fail(r, ERR_UNSUPPORTED, tail, "content of type '%.*s' is not supported",
                        (int)(type->text.len < 60 ? type->text.len : 60), type->text.ptr);
}

/* Without what templates must not see; text parts all get the one spelling of their type. */
static const json *clean_part(arena *a, const json *part)
{
    tree t = tree_new(a, JSON_OBJECT);
    if (is_text_part(part)) {
        tree_push_text(&t, STR("type"), STR("text"));
        tree_push(&t, STR("text"), json_get(part, "text"));
    } else {
        for (const json *v = part->first; v; v = v->next)
            if (!str_is(v->key, "cache_control")) tree_push(&t, v->key, v);
    }
    return t.root;
}

static status join_parts(const message_reader *r, const json *content, const json **out)
{
    size_t len = 0, at = 0;
    for (const json *part = content->first; part; part = part->next)
        len += json_get(part, "text")->text.len;
    char *joined = arena_new(r->a, len + 1);
    if (!joined) return message_fail_memory(r);
    for (const json *part = content->first; part; part = part->next) {
        str text = json_get(part, "text")->text;
        if (text.len) memcpy(joined + at, text.ptr, text.len);
        at += text.len;
    }
    *out = tree_text(r->a, (str){joined, len});
    return *out ? ERR_OK : message_fail_memory(r);
}

static status convert_parts(const message_reader *r, const json *content, const json **out)
{
    bool all_text = true;
    int i = 0;
    for (const json *part = content->first; part; part = part->next, i++) {
        TRY(check_part(r, part, i));
        all_text &= is_text_part(part);
    }
    if (all_text) return join_parts(r, content, out);
    tree t = tree_new(r->a, JSON_ARRAY);
    for (const json *part = content->first; part; part = part->next)
        tree_push(&t, (str){"", 0}, clean_part(r->a, part));
    *out = t.root;
    return t.root ? ERR_OK : message_fail_memory(r);
}

/* NULL for content that the template wants as null. */
static status convert_content(const message_reader *r, const json *m, bool has_calls,
                              const json **out)
{
    const json *content = json_get(m, "content");
    if (!is_null(content) && content->kind == JSON_ARRAY) {
        TRY(convert_parts(r, content, out));
    } else if (is_null(content) || content->kind == JSON_STRING) {
        *out = is_null(content) ? tree_text(r->a, (str){"", 0}) : content;
        if (!*out) return message_fail_memory(r);
    } else {
        return message_fail(r, ERR_FORMAT, "/content", "must be a string or an array of parts");
    }
    bool is_empty = json_is(*out, JSON_STRING) && (*out)->text.len == 0;
    if (has_calls && is_empty && r->caps->wants_null_content) *out = NULL;
    return ERR_OK;
}

/* ---- tool calls ---- */

static status to_text(const message_reader *r, const json *v, const json **out)
{
    buf b;
    buf_init(&b);
    json_put_value(&b, v, JSON_PYTHON);
    char *copy = b.failed ? NULL : arena_copy(r->a, b.ptr, b.len);
    *out = copy ? tree_text(r->a, (str){copy, b.len}) : NULL;
    buf_fini(&b);
    return *out ? ERR_OK : message_fail_memory(r);
}

static status convert_arguments(const message_reader *r, const json *given, const char *tail,
                                const json **out)
{
    const json *object = given;
    char where[200]; /* err_set cuts it */
    snprintf(where, sizeof where, "%s%s", r->path, tail);
    if (json_is(given, JSON_STRING)) {
        str text = str_trim(given->text);
        if (text.len)
            TRY(repair_parse(r->a, text, where, MESSAGE_DEPTH, &object, r->e));
        else
            object = NULL;
    }
    if (is_null(object)) object = tree_new(r->a, JSON_OBJECT).root;
    if (!object) return message_fail_memory(r);
    if (object->kind != JSON_OBJECT)
        return message_fail(r, ERR_FORMAT, tail, "arguments must be a JSON object");
    *out = object;
    if (!r->caps->wants_text_arguments) return ERR_OK;
    if (json_is(given, JSON_STRING) && given->text.len) {
        *out = given;
        return ERR_OK;
    }
    return to_text(r, object, out);
}

static status convert_call(const message_reader *r, const json *call, int i, const json **out)
{
    char tail[60];
    snprintf(tail, sizeof tail, "/tool_calls/%d", i);
    if (call->kind != JSON_OBJECT) return message_fail(r, ERR_FORMAT, tail, "must be an object");
    const json *function = json_get(call, "function"), *type = json_get(call, "type");
    if (json_is(type, JSON_STRING) && !str_is(type->text, "function"))
        return message_fail(r, ERR_UNSUPPORTED, tail,
                            "only calls of type 'function' are supported");
    bool is_flat = is_null(function);
    if (is_flat) function = call;
    if (function->kind != JSON_OBJECT || !json_is(json_get(function, "name"), JSON_STRING))
        return message_fail(r, ERR_FORMAT, tail, "a call needs a function with a name");
    snprintf(tail, sizeof tail, "/tool_calls/%d%s/arguments", i, is_flat ? "" : "/function");
    const json *arguments = NULL;
    TRY(convert_arguments(r, json_get(function, "arguments"), tail, &arguments));

    tree inner = tree_new(r->a, JSON_OBJECT), outer = tree_new(r->a, JSON_OBJECT);
    tree_push(&inner, STR("name"), json_get(function, "name"));
    tree_push(&inner, STR("arguments"), arguments);
    if (!is_null(json_get(call, "id"))) tree_push(&outer, STR("id"), json_get(call, "id"));
    tree_push_text(&outer, STR("type"), STR("function"));
    tree_push(&outer, STR("function"), inner.root);
    *out = outer.root;
    return outer.root ? ERR_OK : message_fail_memory(r);
}

/* NULL when the message has no calls. */
static status convert_calls(const message_reader *r, const json *m, const json **out)
{
    const json *calls = json_get(m, "tool_calls"), *old = json_get(m, "function_call");
    *out = NULL;
    tree t = tree_new(r->a, JSON_ARRAY);
    if (is_null(calls) && json_is(old, JSON_OBJECT)) {
        const json *call = NULL;
        TRY(convert_call(r, old, 0, &call));
        tree_push(&t, (str){"", 0}, call);
    } else if (!is_null(calls)) {
        if (calls->kind != JSON_ARRAY)
            return message_fail(r, ERR_FORMAT, "/tool_calls", "must be an array");
        if (calls->n == 0) return ERR_OK;
        int i = 0;
        for (const json *v = calls->first; v; v = v->next, i++) {
            const json *call = NULL;
            TRY(convert_call(r, v, i, &call));
            tree_push(&t, (str){"", 0}, call);
        }
    } else {
        return ERR_OK;
    }
    *out = t.root;
    return t.root ? ERR_OK : message_fail_memory(r);
}

/* ---- the message ---- */

static const json *find_reasoning(const json *m)
{
    const json *own = json_get(m, "reasoning_content"), *other = json_get(m, "reasoning");
    if (json_is(own, JSON_STRING)) return own;
    return json_is(other, JSON_STRING) ? other : NULL;
}

static bool is_handled(str key)
{
    static const char *const names[] = {"role",          "content",   "tool_calls",
                                        "function_call", "reasoning", "reasoning_content",
                                        "cache_control"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (str_is(key, names[i])) return true;
    return false;
}

/* Templates say no more than that they do not know a role, and not where it stands. */
static status check_role(const message_reader *r, const json *role)
{
    static const char *const known[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    if (!json_is(role, JSON_STRING))
        return message_fail(r, ERR_FORMAT, "/role", "a message needs a role");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (str_is(role->text, known[i])) return ERR_OK;
    return message_fail(r, ERR_INVALID, "/role",
                        "'%.*s' is no role; want system, developer, user, assistant or tool",
                        (int)(role->text.len < 40 ? role->text.len : 40), role->text.ptr);
}

status message_convert(message_reader *r, const json *m, const json **out)
{
    if (m->kind != JSON_OBJECT) return message_fail(r, ERR_FORMAT, "", "must be an object");
    const json *role = json_get(m, "role"), *content = NULL, *calls = NULL;
    TRY(check_role(r, role));
    TRY(convert_calls(r, m, &calls));
    TRY(convert_content(r, m, calls != NULL, &content));

    tree t = tree_new(r->a, JSON_OBJECT);
    tree_push_text(&t, STR("role"), str_is(role->text, "function") ? STR("tool") : role->text);
    if (content)
        tree_push(&t, STR("content"), content);
    else
        tree_push_null(&t, STR("content"));
    const json *reasoning = find_reasoning(m);
    if (reasoning) tree_push(&t, STR("reasoning_content"), reasoning);
    if (calls) tree_push(&t, STR("tool_calls"), calls);
    for (const json *v = m->first; v; v = v->next)
        if (!is_handled(v->key) && v->kind != JSON_NULL) tree_push(&t, v->key, v);
    *out = t.root;
    return t.root ? ERR_OK : message_fail_memory(r);
}
