#include "chat/message_priv.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/file.h"

enum { FILE_MOST = 256 << 20 };

status message_fail(const message_reader *r, status code, const char *tail, const char *fmt, ...)
{
    char where[160], text[220];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    snprintf(where, sizeof where, "%s%s", r->path, tail);
    return err_set(r->e, code, where, -1, "%s", text);
}

status message_fail_memory(const message_reader *r)
{
    return message_fail(r, ERR_NOMEM, "", "no memory for the messages");
}

str message_text(const json *m)
{
    const json *content = json_get(m, "content");
    return json_is(content, JSON_STRING) ? content->text : (str){"", 0};
}

str message_role(const json *m)
{
    const json *role = json_get(m, "role");
    return json_is(role, JSON_STRING) ? role->text : (str){"", 0};
}

const json *message_replace(arena *a, const json *m, str role, str content)
{
    tree t = tree_new(a, JSON_OBJECT);
    tree_push_text(&t, STR("role"), role);
    tree_push_text(&t, STR("content"), content);
    for (const json *v = m->first; v; v = v->next)
        if (!str_is(v->key, "role") && !str_is(v->key, "content")) tree_push(&t, v->key, v);
    return t.root;
}

static bool is_system(const json *m)
{
    str role = message_role(m);
    return str_is(role, "system") || str_is(role, "developer");
}

/* The converted messages, as a list that still changes. */
typedef struct {
    const json **items;
    int n;
} message_list;

static status convert_all(message_reader *r, const json *messages, message_list *list)
{
    list->items = arena_new_array(r->a, (size_t)messages->n + 1, sizeof *list->items);
    if (!list->items) return message_fail_memory(r);
    for (const json *m = messages->first; m; m = m->next) {
        snprintf(r->path, sizeof r->path, "/messages/%d", list->n);
        TRY(message_convert(r, m, &list->items[list->n]));
        list->n++;
    }
    return ERR_OK;
}

/* Make the leading system and developer messages one; content that is not text ends the run. */
static status merge_leading(message_reader *r, message_list *list)
{
    int n = 0;
    bool all_developer = true;
    str text = {"", 0};
    while (n < list->n && is_system(list->items[n]) &&
           json_is(json_get(list->items[n], "content"), JSON_STRING)) {
        str next = message_text(list->items[n]);
        all_developer &= str_is(message_role(list->items[n]), "developer");
        if (text.len && next.len)
            text = tree_join(r->a, text, "\n\n", next);
        else if (next.len)
            text = next;
        if (!text.ptr) return message_fail_memory(r);
        n++;
    }
    if (n == 0) return ERR_OK;
    bool keeps_role = all_developer && r->caps->has_developer;
    const json *merged = message_replace(r->a, list->items[0],
                                         keeps_role ? STR("developer") : STR("system"), text);
    if (!merged) return message_fail_memory(r);
    list->items[0] = merged;
    for (int i = n; i < list->n; i++) list->items[i - n + 1] = list->items[i];
    list->n -= n - 1;
    return ERR_OK;
}

/* Without a place for system text, it goes before the first user message. */
static status move_system_text(message_reader *r, message_list *list)
{
    if (r->caps->has_system || list->n < 2 || !is_system(list->items[0])) return ERR_OK;
    const json *user = list->items[1];
    if (!str_is(message_role(user), "user") || !json_is(json_get(user, "content"), JSON_STRING))
        return ERR_OK;
    str text = tree_join(r->a, message_text(list->items[0]), "\n\n", message_text(user));
    const json *joined = text.ptr ? message_replace(r->a, user, STR("user"), text) : NULL;
    if (!joined) return message_fail_memory(r);
    list->items[1] = joined;
    list->items++;
    list->n--;
    return ERR_OK;
}

static status convert_later_system(message_reader *r, message_list *list)
{
    for (int i = 1; i < list->n; i++) {
        const json *m = list->items[i];
        if (!is_system(m)) continue;
        bool is_developer = str_is(message_role(m), "developer");
        if (r->caps->has_later_system && (!is_developer || r->caps->has_developer)) continue;
        str text = message_text(m), role = STR("system");
        if (!r->caps->has_later_system) {
            role = STR("user");
            text = tree_join(r->a, STR("<system-reminder>\n"), "", text);
            if (text.ptr) text = tree_join(r->a, text, "\n</system-reminder>", (str){"", 0});
        }
        list->items[i] = text.ptr ? message_replace(r->a, m, role, text) : NULL;
        if (!list->items[i]) return message_fail_memory(r);
    }
    return ERR_OK;
}

/* For templates that insist on alternating turns. */
static status merge_users(message_reader *r, message_list *list)
{
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        const json *m = list->items[i], *before = n ? list->items[n - 1] : NULL;
        bool both = before && str_is(message_role(before), "user") &&
                    str_is(message_role(m), "user") &&
                    json_is(json_get(before, "content"), JSON_STRING) &&
                    json_is(json_get(m, "content"), JSON_STRING);
        if (!r->caps->merges_users || !both) {
            list->items[n++] = m;
            continue;
        }
        str text = tree_join(r->a, message_text(before), "\n\n", message_text(m));
        list->items[n - 1] = text.ptr ? message_replace(r->a, before, STR("user"), text) : NULL;
        if (!list->items[n - 1]) return message_fail_memory(r);
    }
    list->n = n;
    return ERR_OK;
}

static status convert_messages(message_reader *r, const json *messages, const json **out)
{
    message_list list = {0};
    TRY(convert_all(r, messages, &list));
    snprintf(r->path, sizeof r->path, "/messages");
    TRY(merge_leading(r, &list));
    TRY(convert_later_system(r, &list));
    TRY(move_system_text(r, &list));
    TRY(merge_users(r, &list));
    tree t = tree_new(r->a, JSON_ARRAY);
    for (int i = 0; i < list.n; i++) tree_push(&t, (str){"", 0}, list.items[i]);
    *out = t.root;
    return t.root ? ERR_OK : message_fail_memory(r);
}

static const json *drop_member(arena *a, const json *object, const char *key)
{
    tree t = tree_new(a, JSON_OBJECT);
    for (const json *v = object->first; v; v = v->next)
        if (!str_is(v->key, key)) tree_push(&t, v->key, v);
    return t.root;
}

static status convert_tools(message_reader *r, const json *tools, const json **out)
{
    *out = NULL;
    snprintf(r->path, sizeof r->path, "/tools");
    if (!tools || tools->kind == JSON_NULL) return ERR_OK;
    if (tools->kind != JSON_ARRAY) return message_fail(r, ERR_FORMAT, "", "must be an array");
    if (tools->n == 0) return ERR_OK;
    tree t = tree_new(r->a, JSON_ARRAY);
    int i = 0;
    for (const json *tool = tools->first; tool; tool = tool->next, i++) {
        snprintf(r->path, sizeof r->path, "/tools/%d", i);
        if (tool->kind != JSON_OBJECT) return message_fail(r, ERR_FORMAT, "", "must be an object");
        const json *function = json_get(tool, "function");
        if (function && function->kind != JSON_OBJECT)
            return message_fail(r, ERR_FORMAT, "/function", "must be an object");
        if (!json_is(json_get(function ? function : tool, "name"), JSON_STRING))
            return message_fail(r, ERR_FORMAT, function ? "/function/name" : "/name",
                                "a tool needs a name");
        const json *clean = json_get(tool, "cache_control")
                                ? drop_member(r->a, tool, "cache_control")
                                : tool;
        tree_push(&t, (str){"", 0}, clean);
    }
    *out = t.root;
    return t.root ? ERR_OK : message_fail_memory(r);
}

status message_parse(arena *a, const json *request, const template_caps *caps, message_set *out,
                     err *e)
{
    message_reader r = {.a = a, .caps = caps, .e = e};
    message_set m = {0};
    const json *messages = request;
    if (json_is(request, JSON_OBJECT)) messages = json_get(request, "messages");
    snprintf(r.path, sizeof r.path, "%s", messages == request ? "" : "/messages");
    if (!messages) return message_fail(&r, ERR_FORMAT, "", "is missing");
    if (messages->kind != JSON_ARRAY)
        return message_fail(&r, ERR_FORMAT, "", "must be an array of messages");
    if (messages->n == 0) return message_fail(&r, ERR_FORMAT, "", "must not be empty");
    const json *object = messages == request ? NULL : request;
    TRY(convert_messages(&r, messages, &m.messages));
    TRY(convert_tools(&r, json_get(object, "tools"), &m.tools));
    TRY(message_kwargs(&r, object, &m.kwargs, &m.is_thinking_off));
    *out = m;
    return ERR_OK;
}

status message_read(arena *a, const char *path, const template_caps *caps, message_set *out, err *e)
{
    str text;
    const json *request = NULL;
    TRY(file_read(a, path, FILE_MOST, &text, e));
    TRY(json_parse(a, text, path, MESSAGE_DEPTH, 0, &request, e));
    return message_parse(a, request, caps, out, e);
}

status message_set_thinking(arena *a, message_set *m, bool is_on, err *e)
{
    tree t = tree_new(a, JSON_OBJECT);
    for (const json *v = m->kwargs ? m->kwargs->first : NULL; v; v = v->next)
        if (!str_is(v->key, "enable_thinking")) tree_push(&t, v->key, v);
    tree_push_bool(&t, STR("enable_thinking"), is_on);
    if (!t.root) return err_set(e, ERR_NOMEM, "messages", -1, "no memory for a variable");
    m->kwargs = t.root;
    m->is_thinking_off = !is_on;
    return ERR_OK;
}
