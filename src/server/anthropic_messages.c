/* POST /v1/messages and /v1/messages/count_tokens. */
#include "base/json.h"
#include "server/endpoint_priv.h"
#include "server/messages_output_priv.h"
#include "server/messages_request_priv.h"

static void read_request(generation *g, const json *body, bool needs_limit, api_error *a)
{
    err e = {0};
    chat_context x;
    if (!generation_check_model(g->server, body, a)) return;
    if (!generation_get_context(g, &x, a)) return;
    if (messages_request_parse(body, &x, needs_limit, &g->scratch, &g->request, &e) != ERR_OK)
        generation_explain(g, &e, a);
}

/* --- messages ----------------------------------------------------------------------------------
 */

static void parse(generation *g, const json *body, api_error *a)
{
    read_request(g, body, true, a);
}

/* Agents look for this sentence and then make their conversation shorter. */
static void overflow(api_error *a, int64_t context, int64_t n, bool is_more)
{
    api_error_set(a, 400, "context_length_exceeded", "messages",
                  "prompt is too long: %s%lld tokens > %lld maximum", is_more ? "more than " : "",
                  (long long)n, (long long)context);
}

static void begin(generation *g)
{
    messages_put_start(&g->out, g);
}

static void part(generation *g, answer *c, const outparse_event *event)
{
    messages_put_part(&g->out, g, c, event);
}

static void finish(generation *g, answer *c)
{
    messages_put_finish(&g->out, g, c);
}

static void end(generation *g)
{
    if (!g->request.streams) messages_put_message(&g->out, g);
}

static void fail(generation *g, const api_error *a)
{
    messages_put_error(&g->out, a);
}

static void keep_alive(generation *g)
{
    messages_put_ping(&g->out);
}

void endpoint_messages(server *s, conn *c)
{
    static const dialect messages = {
        .id_prefix = "msg_",
        .call_prefix = "toolu_",
        .keeps_text = true,
        .parse = parse,
        .overflow = overflow,
        .begin = begin,
        .part = part,
        .finish = finish,
        .end = end,
        .fail = fail,
        .keep_alive = keep_alive,
    };
    generation_begin(s, c, &messages);
}

/* --- count_tokens ------------------------------------------------------------------------------
 */

static void parse_count(generation *g, const json *body, api_error *a)
{
    read_request(g, body, false, a);
}

static void put_count(generation *g, str prompt)
{
    (void)prompt;
    buf_printf(&g->out, "{\"input_tokens\":%d}", g->n_prompt);
}

void endpoint_count_tokens(server *s, conn *c)
{
    static const dialect count = {
        .id_prefix = "count_",
        .parse = parse_count,
        .prepared = put_count,
        .overflow = overflow,
    };
    generation_begin(s, c, &count);
}
