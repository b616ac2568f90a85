#include "server/prefill_priv.h"

#include "server/fields_priv.h"

static status refuse(const char *why, err *e)
{
    return err_set(e, ERR_UNSUPPORTED, "messages", -1, "the last message is the assistant's: %s",
                   why);
}

static status check(const generation_request *r, const chat_context *x, const json *last, str text,
                    err *e)
{
    str thought = STR("");
    TRY(field_str(last, "reasoning_content", &thought, e));
    if (field_find(last, "tool_calls")) return refuse("a call cannot be gone on with", e);
    if (thought.len > 0) return refuse("reasoning cannot be gone on with", e);
    if (text.len == 0) return ERR_OK;
    if (x->caps->starts_thinking && !r->chat.is_thinking_off)
        return refuse("the answer would begin with reasoning; turn thinking off", e);
    if (answer_format_has_grammar(&r->format))
        return refuse("an answer of a given form begins on its own", e);
    if (str_find(text, STR("<think"), 0) >= 0 || str_find(text, STR("<tool_call"), 0) >= 0 ||
        str_find(text, STR("<function="), 0) >= 0)
        return refuse("its text has marks of reasoning or of a call", e);
    if (str_trim(text).ptr + str_trim(text).len != text.ptr + text.len)
        return err_set(e, ERR_INVALID, "messages", -1,
                       "the last message is the assistant's and must not end with white space");
    return ERR_OK;
}

/* Siblings hang together, so those that stay are copied. */
static const json *without_last(arena *a, const json *list)
{
    int n = list->n - 1;
    json *copy = arena_new_array(a, (size_t)n + 1, sizeof *copy);
    if (!copy) return NULL;
    copy[n] = *list;
    copy[n].n = n;
    copy[n].first = n > 0 ? copy : NULL;
    const json *from = list->first;
    for (int i = 0; i < n; i++, from = from->next) {
        copy[i] = *from;
        copy[i].next = i + 1 < n ? &copy[i + 1] : NULL;
    }
    return &copy[n];
}

status prefill_take(generation_request *r, const chat_context *x, arena *a, err *e)
{
    const json *last = NULL, *list = r->chat.messages;
    str role = STR(""), text = STR("");
    for (const json *m = list->first; m; m = m->next) last = m;
    if (last) json_to_str(json_get(last, "role"), &role);
    if (!str_is(role, "assistant")) return ERR_OK;
    if (list->n == 1)
        return err_set(e, ERR_INVALID, "messages", -1,
                       "the assistant's message has none before it that it would answer");
    json_to_str(json_get(last, "content"), &text);
    TRY(check(r, x, last, text, e));
    const json *rest = without_last(a, list);
    if (!rest) return err_set(e, ERR_NOMEM, "messages", -1, "copy");
    r->chat.messages = rest;
    r->prefill = text;
    return ERR_OK;
}
