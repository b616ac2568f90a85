#include "server/messages_request_priv.h"

#include "chat/anthropic.h"
#include "server/fields_priv.h"
#include "server/prefill_priv.h"
#include "server/sampling_fields_priv.h"

/* What is not there, or has no effect and is of another type than the protocol says. */
static status check_unsupported(const json *body, err *e)
{
    const json *servers = NULL, *metadata = NULL;
    str user_id;
    TRY(field_object(body, "metadata", &metadata, e));
    if (metadata && field_str(metadata, "user_id", &user_id, NULL) != ERR_OK)
        return err_set(e, ERR_INVALID, "metadata.user_id", -1, "want a string");
    TRY(field_array(body, "mcp_servers", &servers, e));
    if (servers && servers->n > 0)
        return err_set(e, ERR_UNSUPPORTED, "mcp_servers", -1, "this server calls no tools itself");
    return ERR_OK;
}

static status parse_limit(const json *body, generation_request *r, err *e)
{
    int64_t n = -1;
    TRY(field_int(body, "max_tokens", 0, INT64_MAX, &n, e));
    if (n < 0) return err_set(e, ERR_INVALID, "max_tokens", -1, "is missing");
    r->is_warm_up = n == 0;
    r->max_tokens = n == 0 ? 1 : n;
    return ERR_OK;
}

static status parse_thinking(const json *body, generation_request *r, err *e)
{
    const json *thinking = NULL;
    str display = STR("summarized");
    TRY(field_object(body, "thinking", &thinking, e));
    if (thinking) TRY(field_str(thinking, "display", &display, e));
    if (thinking && field_find(thinking, "budget_tokens")) {
        TRY(field_int(thinking, "budget_tokens", 0, INT64_MAX, &r->reasoning_most, e));
        r->has_reasoning_limit = true;
    }
    r->hides_reasoning = str_is(display, "omitted");
    return ERR_OK;
}

status messages_request_parse(const json *body, const chat_context *x, bool needs_limit, arena *a,
                              generation_request *out, err *e)
{
    const json *chat = NULL;
    bool uses_tools;
    generation_request r = {.policy = *x->defaults, .n = 1};
    r.policy.seed = x->seed;
    if (!json_is(body, JSON_OBJECT))
        return err_set(e, ERR_INVALID, "", -1, "the body is %s, want an object", field_kind(body));
    TRY(check_unsupported(body, e));
    TRY(field_bool(body, "stream", &r.streams, e));
    if (needs_limit) TRY(parse_limit(body, &r, e));
    TRY(order_fields_parse(body, &r, e));
    TRY(sampling_fields_parse(body, x->V, a, &r.policy, e));
    TRY(sampling_fields_stop(body, "stop_sequences", a, &r.stop, &r.n_stop, e));
    TRY(answer_format_messages(body, &r.format, e));
    TRY(answer_format_choice_messages(body, &r.format, &uses_tools, e));
    TRY(reasoning_fields_parse(body, x, &r, e));
    TRY(parse_thinking(body, &r, e));
    TRY(anthropic_to_chat(a, body, &chat, e));
    TRY(message_parse(a, chat, x->caps, &r.chat, e));
    if (!uses_tools) r.chat.tools = NULL;
    TRY(answer_format_tools(body, r.chat.tools, NULL, a, &r.format, e));
    TRY(prefill_take(&r, x, a, e));
    *out = r;
    return ERR_OK;
}
