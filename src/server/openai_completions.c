/* POST /v1/completions: text that goes on where the prompt ends, without template and roles. */
#include "server/completion_output_priv.h"
#include "server/completion_request_priv.h"
#include "server/endpoint_priv.h"
#include "server/sse_priv.h"

static void parse(generation *g, const json *body, api_error *a)
{
    err e = {0};
    chat_context x;
    if (!generation_check_model(g->server, body, a)) return;
    generation_fill_context(g, &x);
    if (completion_request_parse(body, &x, &g->scratch, &g->request, &e) != ERR_OK)
        generation_explain(g, &e, a);
}

static void begin(generation *g)
{
    (void)g;
}

static void part(generation *g, answer *c, const outparse_event *event)
{
    completion_put_part(&g->out, g, c, event->text);
}

static void finish(generation *g, answer *c)
{
    completion_put_finish(&g->out, g, c);
}

static void end(generation *g)
{
    if (!g->request.streams) {
        completion_put_whole(&g->out, g);
        return;
    }
    if (g->request.includes_usage) completion_put_usage(&g->out, g);
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

void endpoint_completions(server *s, conn *c)
{
    static const dialect completions = {
        .id_prefix = "cmpl-",
        .parse = parse,
        .begin = begin,
        .part = part,
        .finish = finish,
        .end = end,
        .fail = fail,
        .keep_alive = keep_alive,
    };
    generation_begin(s, c, &completions);
}
