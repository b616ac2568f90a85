/* POST /v1/chat/completions. */
#include "server/chat_output_priv.h"
#include "server/chat_request_priv.h"
#include "server/endpoint_priv.h"
#include "server/fields_priv.h"
#include "server/sse_priv.h"

/* The name of our model, or of none: then the request is not for us. */
static bool check_model(const server *s, const json *body, api_error *a)
{
    str name;
    err e = {0};
    if (!json_is(body, JSON_OBJECT) || !field_find(body, "model")) return true;
    if (field_str(body, "model", &name, &e) != ERR_OK) {
        api_error_from(a, &e);
        return false;
    }
    if (server_has_name(s, name)) return true;
    api_error_set(a, 404, "model_not_found", "model",
                  "there is no model \"%.*s\" here; this is \"%s\"",
                  (int)(name.len < 200 ? name.len : 200), name.ptr, s->about->model_name);
    return false;
}

static void parse(generation *g, const json *body, api_error *a)
{
    const server *s = g->server;
    if (!check_model(s, body, a)) return;
    if (!s->template) {
        api_error_set(a, 400, "invalid_request_error", "messages",
                      "the model has no chat template");
        return;
    }
    err e = {0};
    chat_context x = {.defaults = &s->about->defaults,
                      .V = s->about->V,
                      .choices_max = s->opt.choices_max,
                      .seed = g->seed,
                      .caps = template_get_caps(s->template)};
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
    buf text;
    buf_init(&text);
    api_error_put_openai(&text, a);
    if (!text.failed) sse_put_event(&g->out, NULL, buf_str(&text));
    buf_fini(&text);
    sse_put_event(&g->out, NULL, STR("[DONE]"));
}

static void keep_alive(generation *g)
{
    sse_put_comment(&g->out, "keep-alive");
}

void endpoint_chat_completions(server *s, conn *c)
{
    static const dialect chat = {"chatcmpl-", parse, begin, part, finish, end, fail, keep_alive};
    generation_begin(s, c, &chat);
}
