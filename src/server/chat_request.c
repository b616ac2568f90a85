#include "server/chat_request_priv.h"

#include <stdio.h>

#include "server/fields_priv.h"
#include "server/prefill_priv.h"
#include "server/sampling_fields_priv.h"

/* --- what is not there yet is refused by name: never half an answer ------------------------------
 */

static status refuse_member(const json *body, const char *name, const char *why, err *e)
{
    if (!field_find(body, name)) return ERR_OK;
    return err_set(e, ERR_UNSUPPORTED, name, -1, "%s", why);
}

static status check_modalities(const json *body, err *e)
{
    const json *list = NULL;
    TRY(field_array(body, "modalities", &list, e));
    for (const json *v = list ? list->first : NULL; v; v = v->next)
        if (!json_is(v, JSON_STRING) || !str_is(v->text, "text"))
            return err_set(e, ERR_UNSUPPORTED, "modalities", -1, "only \"text\" is supported");
    return ERR_OK;
}

/* What would change the answer, unless it is said to do nothing: 0 or an empty list. */
static status refuse_effect(const json *body, const char *name, err *e)
{
    double number;
    const json *v = field_find(body, name);
    if (!v || (json_is(v, JSON_ARRAY) && v->n == 0)) return ERR_OK;
    if (json_is(v, JSON_NUMBER) && json_to_double(v, &number) && number == 0) return ERR_OK;
    return err_set(e, ERR_UNSUPPORTED, name, -1, "is not supported");
}

static status check_unsupported(const json *body, err *e)
{
    TRY(check_modalities(body, e));
    TRY(refuse_effect(body, "stop_token_ids", e));
    TRY(refuse_effect(body, "min_tokens", e));
    TRY(refuse_member(body, "audio", "there is no audio output", e));
    TRY(refuse_member(body, "functions", "is the old form; use \"tools\"", e));
    return refuse_member(body, "function_call", "is the old form; use \"tool_choice\"", e);
}

/* --- tools ---------------------------------------------------------------------------------------
 */

static bool is_visual(const json *part)
{
    str type = STR("");
    json_to_str(json_get(part, "type"), &type);
    return str_find(type, STR("image"), 0) >= 0 || str_find(type, STR("video"), 0) >= 0;
}

/* The template would leave a place for a picture that nobody fills. */
static status check_text_only(const json *messages, err *e)
{
    int i = 0;
    for (const json *m = messages->first; m; m = m->next, i++) {
        const json *content = json_get(m, "content");
        int k = 0;
        if (!json_is(content, JSON_ARRAY)) continue;
        for (const json *part = content->first; part; part = part->next, k++) {
            char where[64];
            if (!is_visual(part)) continue;
            snprintf(where, sizeof where, "/messages/%d/content/%d", i, k);
            return err_set(e, ERR_UNSUPPORTED, where, -1,
                           "images are not supported here, only text");
        }
    }
    return ERR_OK;
}

static status parse_messages(const json *body, const chat_context *x, arena *a,
                             generation_request *r, err *e)
{
    bool uses_tools, continues = false;
    message_set *out = &r->chat;
    const json *list = NULL;
    TRY(field_array(body, "messages", &list, e));
    if (!list) return err_set(e, ERR_INVALID, "messages", -1, "is missing");
    if (list->n == 0) return err_set(e, ERR_INVALID, "messages", -1, "is empty");
    TRY(answer_format_chat(body, &r->format, e));
    TRY(answer_format_choice_chat(body, &r->format, &uses_tools, e));
    TRY(message_parse(a, body, x->caps, out, e));
    TRY(check_text_only(list, e));
    if (!uses_tools) out->tools = NULL;
    TRY(answer_format_tools(body, out->tools, NULL, a, &r->format, e));
    TRY(field_bool(body, "continue_final_message", &continues, e));
    return continues ? prefill_take(r, x, a, e) : ERR_OK;
}

/* --- the rest ------------------------------------------------------------------------------------
 */

static status parse_stream(const json *body, generation_request *r, err *e)
{
    const json *options = NULL;
    TRY(field_bool(body, "stream", &r->streams, e));
    TRY(field_bool(body, "return_progress", &r->shows_progress, e));
    if (r->shows_progress && !r->streams)
        return err_set(e, ERR_INVALID, "return_progress", -1, "needs \"stream\": true");
    TRY(field_object(body, "stream_options", &options, e));
    return options ? field_bool(options, "include_usage", &r->includes_usage, e) : ERR_OK;
}

static status parse_limits(const json *body, int choices_max, generation_request *r, err *e)
{
    int64_t n = 1;
    TRY(order_fields_parse(body, r, e));
    TRY(field_check_metadata(body, e));
    TRY(field_int(body, "n", 1, choices_max, &n, e));
    r->n = (int)n;
    TRY(field_int(body, "max_tokens", 1, INT64_MAX, &r->max_tokens, e));
    return field_int(body, "max_completion_tokens", 1, INT64_MAX, &r->max_tokens, e);
}

static status parse_logprobs(const json *body, generation_request *r, err *e)
{
    int64_t top = 0;
    TRY(field_bool(body, "logprobs", &r->wants_logprobs, e));
    TRY(field_int(body, "top_logprobs", 0, ENGINE_TOP_MAX, &top, e));
    if (top > 0 && !r->wants_logprobs)
        return err_set(e, ERR_INVALID, "top_logprobs", -1, "needs \"logprobs\": true");
    r->top_logprobs = (int)top;
    return ERR_OK;
}

status chat_request_parse(const json *body, const chat_context *x, arena *a,
                          generation_request *out, err *e)
{
    generation_request r = {.policy = *x->defaults, .n = 1};
    r.policy.seed = x->seed;
    if (!json_is(body, JSON_OBJECT))
        return err_set(e, ERR_INVALID, "", -1, "the body is %s, want an object", field_kind(body));
    TRY(check_unsupported(body, e));
    TRY(parse_stream(body, &r, e));
    TRY(parse_limits(body, x->choices_max, &r, e));
    TRY(sampling_fields_parse(body, x->V, a, &r.policy, e));
    TRY(sampling_fields_stop(body, "stop", a, &r.stop, &r.n_stop, e));
    TRY(parse_logprobs(body, &r, e));
    TRY(parse_messages(body, x, a, &r, e));
    TRY(reasoning_fields_parse(body, x, &r, e));
    *out = r;
    return ERR_OK;
}
