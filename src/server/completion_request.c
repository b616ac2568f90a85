#include "server/completion_request_priv.h"

#include "server/fields_priv.h"
#include "server/sampling_fields_priv.h"

enum { MAX_TOKENS_DEFAULT = 16 };

static status check_object(const json *body, err *e)
{
    if (json_is(body, JSON_OBJECT)) return ERR_OK;
    return err_set(e, ERR_INVALID, "", -1, "the body is %s, want an object", field_kind(body));
}

/* An array of token ids, in `a`. */
static status parse_ids(const json *list, const char *name, int V, arena *a, const int32_t **ids,
                        int *n, err *e)
{
    int32_t *out = arena_new_array(a, (size_t)list->n + 1, sizeof *out);
    if (!out) return err_set(e, ERR_NOMEM, name, -1, "%d ids", list->n);
    int i = 0;
    for (const json *v = list->first; v; v = v->next, i++) {
        int64_t id;
        if (!json_to_int64(v, &id) || id < 0 || id >= V)
            return err_set(e, ERR_INVALID, name, -1, "element %d is no token id below %d", i, V);
        out[i] = (int32_t)id;
    }
    *ids = out;
    *n = list->n;
    return ERR_OK;
}

static status parse_prompt(const json *body, int V, arena *a, generation_request *r, err *e)
{
    const json *v = field_find(body, "prompt");
    if (!v) return err_set(e, ERR_INVALID, "prompt", -1, "is missing");
    if (v->kind == JSON_ARRAY && v->n > 0 &&
        (v->first->kind == JSON_STRING || v->first->kind == JSON_ARRAY)) {
        if (v->n > 1)
            return err_set(e, ERR_UNSUPPORTED, "prompt", -1, "holds %d prompts, want one", v->n);
        v = v->first;
    }
    if (v->kind == JSON_ARRAY) {
        r->prompt = PROMPT_IDS;
        return parse_ids(v, "prompt", V, a, &r->ids, &r->n_ids, e);
    }
    r->prompt = PROMPT_TEXT;
    if (json_to_str(v, &r->text)) return ERR_OK;
    return err_set(e, ERR_INVALID, "prompt", -1, "is %s, want a string or token ids",
                   field_kind(v));
}

static status check_unsupported(const json *body, int n, err *e)
{
    str suffix = STR("");
    bool echo = false;
    int64_t best_of = n;
    TRY(field_str(body, "suffix", &suffix, e));
    TRY(field_bool(body, "echo", &echo, e));
    TRY(field_int(body, "best_of", 1, INT64_MAX, &best_of, e));
    if (suffix.len > 0)
        return err_set(e, ERR_UNSUPPORTED, "suffix", -1, "text is only added at the end");
    if (echo) return err_set(e, ERR_UNSUPPORTED, "echo", -1, "the prompt is not repeated");
    if (best_of != n)
        return err_set(e, ERR_UNSUPPORTED, "best_of", -1, "every choice is returned, see \"n\"");
    return ERR_OK;
}

/* How many alternatives to each token; 0: the tokens alone. `false` is what some clients send for
 * none. */
static status parse_logprobs(const json *body, generation_request *r, err *e)
{
    int64_t top = 0;
    const json *v = field_find(body, "logprobs");
    if (!v || json_is(v, JSON_FALSE)) return ERR_OK;
    TRY(field_int(body, "logprobs", 0, ENGINE_TOP_MAX, &top, e));
    r->wants_logprobs = true;
    r->logprobs = LOGPROBS_OF_TEXT;
    r->top_logprobs = (int)top;
    return ERR_OK;
}

status completion_request_parse(const json *body, const chat_context *x, arena *a,
                                generation_request *out, err *e)
{
    const json *options = NULL;
    int64_t n = 1;
    generation_request r = {.policy = *x->defaults, .max_tokens = MAX_TOKENS_DEFAULT};
    r.policy.seed = x->seed;
    TRY(check_object(body, e));
    TRY(field_int(body, "n", 1, x->choices_max, &n, e));
    r.n = (int)n;
    TRY(check_unsupported(body, r.n, e));
    TRY(parse_logprobs(body, &r, e));
    TRY(field_bool(body, "stream", &r.streams, e));
    TRY(field_object(body, "stream_options", &options, e));
    if (options) TRY(field_bool(options, "include_usage", &r.includes_usage, e));
    TRY(field_int(body, "max_tokens", 1, INT64_MAX, &r.max_tokens, e));
    TRY(order_fields_parse(body, &r, e));
    TRY(field_check_metadata(body, e));
    TRY(sampling_fields_parse(body, x->V, a, &r.policy, e));
    TRY(sampling_fields_stop(body, "stop", a, &r.stop, &r.n_stop, e));
    TRY(parse_prompt(body, x->V, a, &r, e));
    TRY(answer_format_chat(body, &r.format, e));
    *out = r;
    return ERR_OK;
}

status tokenize_request_parse(const json *body, tokenize_request *out, err *e)
{
    tokenize_request r = {.text = {NULL, 0}};
    bool parses_special = true, adds_special;
    TRY(check_object(body, e));
    TRY(field_str(body, "prompt", &r.text, e));
    TRY(field_str(body, "content", &r.text, e));
    if (!r.text.ptr) return err_set(e, ERR_INVALID, "content", -1, "is missing");
    TRY(field_bool(body, "add_special", &adds_special, e)); /* these models have none to add */
    TRY(field_bool(body, "parse_special", &parses_special, e));
    TRY(field_bool(body, "with_pieces", &r.with_pieces, e));
    r.has_plain_specials = !parses_special;
    *out = r;
    return ERR_OK;
}

status detokenize_request_parse(const json *body, int V, arena *a, const int32_t **ids, int *n,
                                err *e)
{
    const json *list = NULL;
    TRY(check_object(body, e));
    TRY(field_array(body, "tokens", &list, e));
    if (!list) return err_set(e, ERR_INVALID, "tokens", -1, "is missing");
    return parse_ids(list, "tokens", V, a, ids, n, e);
}
