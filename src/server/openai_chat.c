/* POST /v1/chat/completions. */
#include "server/chat_output_priv.h"
#include "server/chat_request_priv.h"
#include "server/endpoint_priv.h"
#include "server/sse_priv.h"

static void parse(generation *g, const json *body, api_error *a)
{
    err e = {0};
    chat_context x;
    if (!generation_check_model(g->server, body, a)) return;
    if (!generation_get_context(g, &x, a)) return;
    if (chat_request_parse(body, &x, &g->scratch, &g->request, &e) != ERR_OK)
        generation_explain(g, &e, a);
}

static void begin(generation *g)
{
    for (int i = 0; i < g->request.n; i++) chat_put_role(&g->out, g, &g->answers[i]);
}

static void part(generation *g, answer *c, const outparse_event *event)
{
    chat_put_part(&g->out, g, c, event);
}

static void finish(generation *g, answer *c)
{
    chat_put_finish(&g->out, g, c);
}

static void end(generation *g)
{
    if (!g->request.streams) {
        chat_put_completion(&g->out, g);
        return;
    }
    if (g->request.includes_usage) chat_put_usage(&g->out, g);
    sse_put_event(&g->out, NULL, STR("[DONE]"));
}

static void fail(generation *g, const api_error *a)
{
    sse_put_failure(&g->out, a);
}

static void keep_alive(generation *g)
{
    sse_put_comment(&g->out, "keep-alive");
}

static void progress(generation *g, answer *c, const engine_event *ev)
{
    chat_put_progress(&g->out, g, c, ev);
}

void endpoint_chat_completions(server *s, conn *c)
{
    static const dialect chat = {
        .id_prefix = "chatcmpl-",
        .parse = parse,
        .begin = begin,
        .part = part,
        .finish = finish,
        .end = end,
        .fail = fail,
        .keep_alive = keep_alive,
        .progress = progress,
    };
    generation_begin(s, c, &chat);
}
