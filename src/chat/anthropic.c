#include "chat/anthropic.h"

#include <stdio.h>

#include "base/hash.h"
#include "chat/message_priv.h"

static const char mark_whole[] = "riptide.whole.", mark_hash[] = "riptide.hash.";

/* --- signatures --------------------------------------------------------------------------------
 */

void anthropic_put_signature(buf *out, str thinking, bool is_whole)
{
    static const char digits[] = "0123456789abcdef";
    if (!is_whole) {
        buf_printf(out, "%s%016llx", mark_hash,
                   (unsigned long long)hash_bytes(thinking.ptr, thinking.len, 0));
        return;
    }
    buf_put_c(out, mark_whole);
    for (size_t i = 0; i < thinking.len; i++) {
        buf_put_byte(out, digits[(unsigned char)thinking.ptr[i] >> 4]);
        buf_put_byte(out, digits[(unsigned char)thinking.ptr[i] & 15]);
    }
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The text in a signature; empty when it is none of ours. ptr NULL without memory. */
static str open_signature(arena *a, str s)
{
    str none = {"", 0};
    if (!str_starts(s, str_from(mark_whole))) return none;
    s = str_skip(s, sizeof mark_whole - 1);
    char *text = arena_new(a, s.len / 2 + 1);
    if (!text) return (str){NULL, 0};
    for (size_t i = 0; i + 1 < s.len; i += 2) {
        int high = digit_of(s.ptr[i]), low = digit_of(s.ptr[i + 1]);
        if (high < 0 || low < 0) return none;
        text[i / 2] = (char)(high << 4 | low);
    }
    return (str){text, s.len / 2};
}

/* --- text --------------------------------------------------------------------------------------
 */

static str text_of(const json *object, const char *key)
{
    const json *v = json_get(object, key);
    return json_is(v, JSON_STRING) ? v->text : (str){"", 0};
}

/* Text as it grows; ptr NULL once memory ran out. */
static void add_text(const message_reader *r, str *all, bool is_first, const char *glue, str text)
{
    if (!all->ptr) return;
    *all = is_first ? text : tree_join(r->a, *all, glue, text);
}

static str drop_billing(str s)
{
    if (!str_starts(s, STR("x-anthropic-billing-header:"))) return s;
    int64_t line = str_find(s, STR("\n"), 0);
    s = line < 0 ? (str){"", 0} : str_skip(s, (size_t)line);
    while (s.len && s.ptr[0] == '\n') s = str_skip(s, 1);
    return s;
}

static status fail_block(const message_reader *r, str type, const char *tail)
{
    if (str_is(type, "image"))
        return message_fail(r, ERR_UNSUPPORTED, tail, "images are not supported here, only text");
    return message_fail(r, ERR_UNSUPPORTED, tail, "content of type '%.*s' is not supported",
                        (int)(type.len < 60 ? type.len : 60), type.ptr);
}

/* The text of a block that has some, or *is_text false. */
static status read_text(const message_reader *r, const json *block, const char *tail, str *out,
                        bool *is_text)
{
    str type = text_of(block, "type");
    *is_text = true;
    if (str_is(type, "text")) {
        if (!json_is(json_get(block, "text"), JSON_STRING))
            return message_fail(r, ERR_FORMAT, tail, "a text block needs a text");
        *out = text_of(block, "text");
    } else if (str_is(type, "tool_reference")) {
        *out = text_of(block, "tool_name");
    } else if (str_is(type, "document") &&
               str_is(text_of(json_get(block, "source"), "type"), "text")) {
        *out = text_of(json_get(block, "source"), "data");
    } else {
        *is_text = false;
    }
    return ERR_OK;
}

static status check_block(const message_reader *r, const json *block, const char *tail)
{
    if (block->kind != JSON_OBJECT) return message_fail(r, ERR_FORMAT, tail, "must be an object");
    if (json_is(json_get(block, "type"), JSON_STRING)) return ERR_OK;
    return message_fail(r, ERR_FORMAT, tail, "a content block needs a type");
}

/* Content that may only hold text: a string, blocks or nothing. Blocks without text do not count.
 */
static status join_text(const message_reader *r, const json *content, const char *tail,
                        bool is_system, str *out)
{
    *out = (str){"", 0};
    if (!content || content->kind == JSON_NULL) return ERR_OK;
    if (content->kind == JSON_STRING) {
        *out = is_system ? drop_billing(content->text) : content->text;
        return ERR_OK;
    }
    if (content->kind != JSON_ARRAY)
        return message_fail(r, ERR_FORMAT, tail, "must be a string or an array of blocks");
    int i = 0;
    bool is_first = true;
    for (const json *block = content->first; block; block = block->next, i++) {
        char where[80];
        str text;
        bool is_text;
        snprintf(where, sizeof where, "%s/%d", tail, i);
        TRY(check_block(r, block, where));
        TRY(read_text(r, block, where, &text, &is_text));
        if (!is_text) return fail_block(r, text_of(block, "type"), where);
        if (is_system) text = drop_billing(text);
        if (text.len == 0) continue;
        add_text(r, out, is_first, "\n", text);
        is_first = false;
    }
    return out->ptr ? ERR_OK : message_fail_memory(r);
}

/* --- messages ----------------------------------------------------------------------------------
 */

static void push_message(const message_reader *r, tree *out, str role, str content)
{
    tree m = tree_new(r->a, JSON_OBJECT);
    tree_push_text(&m, STR("role"), role);
    tree_push_text(&m, STR("content"), content);
    tree_push(out, (str){"", 0}, m.root);
}

static status push_result(const message_reader *r, const json *block, const char *tail, tree *out)
{
    char where[80];
    str content;
    snprintf(where, sizeof where, "%s/content", tail);
    const json *id = json_get(block, "tool_use_id");
    if (!json_is(id, JSON_STRING))
        return message_fail(r, ERR_FORMAT, tail, "a tool_result needs a tool_use_id");
    TRY(join_text(r, json_get(block, "content"), where, false, &content));
    tree m = tree_new(r->a, JSON_OBJECT);
    tree_push_text(&m, STR("role"), STR("tool"));
    tree_push(&m, STR("tool_call_id"), id);
    tree_push_text(&m, STR("content"), content);
    tree_push(out, (str){"", 0}, m.root);
    return ERR_OK;
}

/* Results of tools and text, in their order. */
static status convert_user(const message_reader *r, const json *content, tree *out)
{
    str pending = {"", 0};
    bool has_text = false;
    int i = 0;
    for (const json *block = content->first; block; block = block->next, i++) {
        char tail[40];
        str text = {"", 0};
        bool is_text;
        snprintf(tail, sizeof tail, "/content/%d", i);
        TRY(check_block(r, block, tail));
        TRY(read_text(r, block, tail, &text, &is_text));
        if (is_text) {
            add_text(r, &pending, !has_text, "\n", text);
            has_text = true;
            continue;
        }
        if (!str_is(text_of(block, "type"), "tool_result"))
            return fail_block(r, text_of(block, "type"), tail);
        if (has_text) push_message(r, out, STR("user"), pending);
        pending = (str){"", 0};
        has_text = false;
        TRY(push_result(r, block, tail, out));
    }
    if (!pending.ptr) return message_fail_memory(r);
    if (has_text || i == 0) push_message(r, out, STR("user"), pending);
    return ERR_OK;
}

static status push_call(const message_reader *r, const json *block, const char *tail, tree *calls)
{
    const json *id = json_get(block, "id"), *name = json_get(block, "name"),
               *input = json_get(block, "input");
    if (!json_is(id, JSON_STRING) || !json_is(name, JSON_STRING))
        return message_fail(r, ERR_FORMAT, tail, "a tool_use needs an id and a name");
    if (input && input->kind != JSON_NULL && input->kind != JSON_OBJECT)
        return message_fail(r, ERR_FORMAT, tail, "the input of a tool_use must be an object");
    tree function = tree_new(r->a, JSON_OBJECT), call = tree_new(r->a, JSON_OBJECT);
    tree_push(&function, STR("name"), name);
    if (input) tree_push(&function, STR("arguments"), input);
    tree_push(&call, STR("id"), id);
    tree_push_text(&call, STR("type"), STR("function"));
    tree_push(&call, STR("function"), function.root);
    tree_push(calls, (str){"", 0}, call.root);
    return ERR_OK;
}

static status convert_assistant(const message_reader *r, const json *content, tree *out)
{
    str text = {"", 0}, reasoning = {"", 0};
    int i = 0;
    tree calls = tree_new(r->a, JSON_ARRAY), m = tree_new(r->a, JSON_OBJECT);
    for (const json *block = content->first; block; block = block->next, i++) {
        char tail[40];
        str piece = {"", 0};
        bool is_text;
        snprintf(tail, sizeof tail, "/content/%d", i);
        TRY(check_block(r, block, tail));
        TRY(read_text(r, block, tail, &piece, &is_text));
        str type = text_of(block, "type");
        if (is_text) {
            add_text(r, &text, text.len == 0, "", piece);
        } else if (str_is(type, "thinking")) {
            piece = text_of(block, "thinking");
            if (piece.len == 0) piece = open_signature(r->a, text_of(block, "signature"));
            if (!piece.ptr) return message_fail_memory(r);
            add_text(r, &reasoning, reasoning.len == 0, "\n", piece);
        } else if (str_is(type, "tool_use")) {
            TRY(push_call(r, block, tail, &calls));
        } else if (!str_is(type, "redacted_thinking")) {
            return fail_block(r, type, tail);
        }
    }
    if (!text.ptr || !reasoning.ptr || !calls.root) return message_fail_memory(r);
    tree_push_text(&m, STR("role"), STR("assistant"));
    tree_push_text(&m, STR("content"), text);
    if (reasoning.len) tree_push_text(&m, STR("reasoning_content"), reasoning);
    if (calls.root->n) tree_push(&m, STR("tool_calls"), calls.root);
    tree_push(out, (str){"", 0}, m.root);
    return ERR_OK;
}

static status convert_one(const message_reader *r, const json *m, tree *out)
{
    if (m->kind != JSON_OBJECT) return message_fail(r, ERR_FORMAT, "", "must be an object");
    str role = text_of(m, "role");
    const json *content = json_get(m, "content");
    if (!str_is(role, "user") && !str_is(role, "assistant") && !str_is(role, "system"))
        return message_fail(r, ERR_FORMAT, "/role", "want \"user\", \"assistant\" or \"system\"");
    if (json_is(content, JSON_STRING)) {
        push_message(r, out, role, content->text);
        return ERR_OK;
    }
    if (!json_is(content, JSON_ARRAY))
        return message_fail(r, ERR_FORMAT, "/content", "must be a string or an array of blocks");
    if (str_is(role, "user")) return convert_user(r, content, out);
    if (str_is(role, "assistant")) return convert_assistant(r, content, out);
    str text;
    TRY(join_text(r, content, "/content", false, &text));
    push_message(r, out, role, text);
    return ERR_OK;
}

static status convert_messages(message_reader *r, const json *request, const json **out)
{
    const json *list = json_get(request, "messages");
    tree t = tree_new(r->a, JSON_ARRAY);
    str system;
    snprintf(r->path, sizeof r->path, "/system");
    TRY(join_text(r, json_get(request, "system"), "", true, &system));
    if (system.len) push_message(r, &t, STR("system"), system);
    snprintf(r->path, sizeof r->path, "/messages");
    if (!json_is(list, JSON_ARRAY))
        return message_fail(r, ERR_FORMAT, "", "must be an array of messages");
    if (list->n == 0) return message_fail(r, ERR_FORMAT, "", "must not be empty");
    int i = 0;
    for (const json *m = list->first; m; m = m->next, i++) {
        snprintf(r->path, sizeof r->path, "/messages/%d", i);
        TRY(convert_one(r, m, &t));
    }
    *out = t.root;
    return t.root ? ERR_OK : message_fail_memory(r);
}

/* --- tools and thinking ------------------------------------------------------------------------
 */

static status convert_tool(const message_reader *r, const json *tool, tree *out)
{
    if (tool->kind != JSON_OBJECT) return message_fail(r, ERR_FORMAT, "", "must be an object");
    const json *type = json_get(tool, "type"), *name = json_get(tool, "name"),
               *about = json_get(tool, "description"), *schema = json_get(tool, "input_schema");
    if (json_is(type, JSON_STRING) && !str_is(type->text, "custom")) return ERR_OK;
    if (!json_is(name, JSON_STRING))
        return message_fail(r, ERR_FORMAT, "/name", "a tool needs a name");
    if (!json_is(schema, JSON_OBJECT))
        return message_fail(r, ERR_FORMAT, "/input_schema", "a tool needs a schema");
    tree function = tree_new(r->a, JSON_OBJECT), t = tree_new(r->a, JSON_OBJECT);
    tree_push(&function, STR("name"), name);
    if (json_is(about, JSON_STRING)) tree_push(&function, STR("description"), about);
    tree_push(&function, STR("parameters"), schema);
    tree_push_text(&t, STR("type"), STR("function"));
    tree_push(&t, STR("function"), function.root);
    tree_push(out, (str){"", 0}, t.root);
    return ERR_OK;
}

static status convert_tools(message_reader *r, const json *tools, const json **out)
{
    *out = NULL;
    snprintf(r->path, sizeof r->path, "/tools");
    if (!tools || tools->kind == JSON_NULL) return ERR_OK;
    if (tools->kind != JSON_ARRAY) return message_fail(r, ERR_FORMAT, "", "must be an array");
    tree t = tree_new(r->a, JSON_ARRAY);
    int i = 0;
    for (const json *tool = tools->first; tool; tool = tool->next, i++) {
        snprintf(r->path, sizeof r->path, "/tools/%d", i);
        TRY(convert_tool(r, tool, &t));
    }
    *out = t.root;
    return t.root ? ERR_OK : message_fail_memory(r);
}

static status convert_thinking(message_reader *r, const json *request, tree *chat)
{
    const json *thinking = json_get(request, "thinking"),
               *own = json_get(request, "enable_thinking"),
               *output = json_get(request, "output_config"); /* its effort */
    str type = text_of(thinking, "type");
    bool is_on = str_is(type, "enabled") || str_is(type, "adaptive");
    snprintf(r->path, sizeof r->path, "/thinking");
    if (thinking && thinking->kind != JSON_NULL && !is_on && !str_is(type, "disabled"))
        return message_fail(r, ERR_INVALID, "/type",
                            "want \"enabled\", \"adaptive\" or \"disabled\"");
    if (own)
        tree_push(chat, STR("enable_thinking"), own);
    else
        tree_push_bool(chat, STR("enable_thinking"), is_on);
    if (is_on && json_is(output, JSON_OBJECT)) tree_push(chat, STR("output_config"), output);
    return ERR_OK;
}

status anthropic_to_chat(arena *a, const json *request, const json **chat, err *e)
{
    static const char *const same[] = {"chat_template_kwargs", "preserve_thinking"};
    message_reader r = {.a = a, .e = e};
    const json *messages, *tools;
    TRY(convert_messages(&r, request, &messages));
    TRY(convert_tools(&r, json_get(request, "tools"), &tools));
    tree t = tree_new(a, JSON_OBJECT);
    tree_push(&t, STR("messages"), messages);
    if (tools) tree_push(&t, STR("tools"), tools);
    TRY(convert_thinking(&r, request, &t));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (json_get(request, same[i]))
            tree_push(&t, str_from(same[i]), json_get(request, same[i]));
    *chat = t.root;
    return t.root ? ERR_OK : message_fail_memory(&r);
}
