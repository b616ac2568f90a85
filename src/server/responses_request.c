#include "server/responses_request_priv.h"

#include "server/fields_priv.h"
#include "server/sampling_fields_priv.h"

/* --- what is not there is refused by name ------------------------------------------------------
 */

static status refuse_member(const json *body, const char *name, const char *why, err *e)
{
    if (!field_find(body, name)) return ERR_OK;
    return err_set(e, ERR_UNSUPPORTED, name, -1, "%s", why);
}

static status check_unsupported(const json *body, err *e)
{
    bool background = false;
    str truncation = STR("disabled");
    TRY(field_bool(body, "background", &background, e));
    TRY(field_str(body, "truncation", &truncation, e));
    if (background)
        return err_set(e, ERR_UNSUPPORTED, "background", -1, "answers are made while you wait");
    if (!str_is(truncation, "disabled"))
        return err_set(e, ERR_UNSUPPORTED, "truncation", -1, "a prompt is never cut");
    TRY(refuse_member(body, "conversation", "use \"previous_response_id\"", e));
    return refuse_member(body, "prompt", "there are no stored prompts", e);
}

/* Whether `include` of the body holds the word. */
static bool includes(const json *body, const char *word)
{
    const json *include = field_find(body, "include");
    for (const json *v = json_is(include, JSON_ARRAY) ? include->first : NULL; v; v = v->next)
        if (json_is(v, JSON_STRING) && str_is(v->text, word)) return true;
    return false;
}

static status parse_logprobs(const json *body, generation_request *r, err *e)
{
    int64_t top = 0;
    TRY(field_int(body, "top_logprobs", 0, ENGINE_TOP_MAX, &top, e));
    r->wants_logprobs = top > 0 || includes(body, "message.output_text.logprobs");
    r->logprobs = LOGPROBS_OF_CONTENT;
    r->top_logprobs = (int)top;
    return ERR_OK;
}

/* --- the echo ----------------------------------------------------------------------------------
 */

/* A value as JSON text; "null" for none. */
static status keep_text(arena *keep, const json *v, str *out, err *e)
{
    buf text;
    *out = STR("null");
    if (!v) return ERR_OK;
    buf_init(&text);
    json_put_value(&text, v, JSON_COMPACT);
    char *copy = text.failed ? NULL : arena_copy(keep, text.ptr, text.len);
    *out = (str){copy, text.len};
    buf_fini(&text);
    return copy ? ERR_OK : err_set(e, ERR_NOMEM, "response", -1, "copy of the request");
}

static status keep_str(arena *keep, str s, str *out, err *e)
{
    char *copy = arena_copy(keep, s.ptr, s.len);
    *out = (str){copy, s.len};
    return copy ? ERR_OK : err_set(e, ERR_NOMEM, "response", -1, "copy of the request");
}

static status keep_tools(arena *keep, const responses_chat *chat, responses_echo *echo, err *e)
{
    responses_tool *tools = arena_new_array(keep, (size_t)chat->n_tools + 1, sizeof *tools);
    if (!tools) return err_set(e, ERR_NOMEM, "tools", -1, "%d tools", chat->n_tools);
    for (int i = 0; i < chat->n_tools; i++) {
        tools[i].is_custom = chat->tools[i].is_custom;
        TRY(keep_str(keep, chat->tools[i].flat, &tools[i].flat, e));
        TRY(keep_str(keep, chat->tools[i].space, &tools[i].space, e));
        TRY(keep_str(keep, chat->tools[i].name, &tools[i].name, e));
    }
    echo->tools = tools;
    echo->n_tools = chat->n_tools;
    echo->n_ignored = chat->n_ignored;
    return ERR_OK;
}

/* The tools as text; a function says also what it left out. */
static status keep_tools_text(arena *keep, const json *tools, str *out, err *e)
{
    buf text;
    json_writer w;
    *out = STR("null");
    if (!tools) return ERR_OK;
    buf_init(&text);
    json_writer_init(&w, &text);
    json_open_array(&w);
    for (const json *tool = tools->first; tool; tool = tool->next) {
        str type = STR("");
        buf one;
        buf_init(&one);
        json_put_value(&one, tool, JSON_COMPACT);
        json_to_str(json_get(tool, "type"), &type);
        if (str_is(type, "function") && one.len > 2) {
            one.len--; /* the bracket at its end */
            if (!json_get(tool, "strict")) buf_put_c(&one, ",\"strict\":false");
            if (!json_get(tool, "parameters")) buf_put_c(&one, ",\"parameters\":null");
            buf_put_byte(&one, '}');
        }
        json_raw(&w, buf_str(&one));
        if (one.failed) text.failed = true;
        buf_fini(&one);
    }
    json_close_array(&w);
    char *copy = text.failed ? NULL : arena_copy(keep, text.ptr, text.len);
    *out = (str){copy, text.len};
    buf_fini(&text);
    return copy ? ERR_OK : err_set(e, ERR_NOMEM, "tools", -1, "copy of the request");
}

static status keep_echo(const json *body, const responses_chat *chat, arena *keep,
                        responses_echo *echo, err *e)
{
    str id = STR("");
    const json *include = NULL;
    echo->is_stored = echo->has_parallel_calls = true;
    TRY(field_bool(body, "store", &echo->is_stored, e));
    TRY(field_bool(body, "parallel_tool_calls", &echo->has_parallel_calls, e));
    TRY(field_str(body, "previous_response_id", &id, e));
    TRY(field_array(body, "include", &include, e));
    echo->wants_encrypted = includes(body, "reasoning.encrypted_content");
    TRY(keep_str(keep, id, &echo->previous_id, e));
    TRY(keep_tools(keep, chat, echo, e));
    TRY(keep_text(keep, chat->items, &echo->items, e));
    TRY(keep_text(keep, field_find(body, "instructions"), &echo->instructions, e));
    TRY(keep_tools_text(keep, field_find(body, "tools"), &echo->tools_text, e));
    TRY(keep_text(keep, field_find(body, "metadata"), &echo->metadata, e));
    TRY(keep_text(keep, field_find(body, "reasoning"), &echo->reasoning, e));
    const json *text = field_find(body, "text");
    TRY(keep_text(keep, text ? field_find(text, "format") : NULL, &echo->format, e));
    return keep_text(keep, field_find(body, "tool_choice"), &echo->tool_choice, e);
}

status responses_request_parse(const json *body, const json *before, const chat_context *x,
                               arena *a, arena *keep, generation_request *out, responses_echo *echo,
                               err *e)
{
    bool uses_tools;
    responses_chat chat;
    responses_echo kept = {0};
    generation_request r = {.policy = *x->defaults, .n = 1};
    r.policy.seed = x->seed;
    if (!json_is(body, JSON_OBJECT))
        return err_set(e, ERR_INVALID, "", -1, "the body is %s, want an object", field_kind(body));
    TRY(check_unsupported(body, e));
    TRY(field_bool(body, "stream", &r.streams, e));
    TRY(field_int(body, "max_output_tokens", 1, INT64_MAX, &kept.max_output, e));
    r.max_tokens = kept.max_output;
    TRY(order_fields_parse(body, &r, e));
    TRY(field_check_metadata(body, e));
    TRY(sampling_fields_parse(body, x->V, a, &r.policy, e));
    TRY(parse_logprobs(body, &r, e));
    TRY(answer_format_responses(body, &r.format, e));
    TRY(reasoning_fields_parse(body, x, &r, e));
    TRY(responses_to_chat(a, body, before, &chat, e));
    TRY(answer_format_choice_responses(body, &chat, &r.format, &uses_tools, e));
    TRY(message_parse(a, chat.chat, x->caps, &r.chat, e));
    TRY(keep_echo(body, &chat, keep, &kept, e));
    if (!uses_tools) r.chat.tools = NULL;
    TRY(answer_format_tools(body, r.chat.tools, &chat, a, &r.format, e));
    *out = r;
    *echo = kept;
    return ERR_OK;
}
