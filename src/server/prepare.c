/* A request's way from bytes to token ids, on a helper thread: JSON, the dialect's fields, the
 * chat template, the tokenizer. Reads the server only where nothing changes. */
#include "base/mem.h"
#include "server/generation_priv.h"

enum {
    DEPTH_MAX = 128,
    PROMPT_TOKENS_MAX = 1 << 22, /* counted exactly up to here, for the error's text */
};

void generation_explain(const generation *g, const err *e, api_error *a)
{
    bool is_at_limit = g->scratch.limit && g->scratch.n_bytes > g->scratch.limit / 2;
    api_error_from(a, e);
    if (e->code == ERR_NOMEM && is_at_limit)
        api_error_set(a, 413, "request_too_large", NULL,
                      "the request takes too much memory to read");
}

/* *is_more: there are more tokens than are counted. */
static status encode(generation *g, const buf *text, const segments *parts, bool *is_more, err *e)
{
    tokenizer_segment *list = arena_new_array(&g->scratch, (size_t)parts->n, sizeof *list);
    if (!list) return err_set(e, ERR_NOMEM, "messages", -1, "segments");
    for (int64_t i = 0; i < parts->n; i++) {
        const segment *p = &parts->ptr[i];
        list[i] = (tokenizer_segment){
            .text = str_slice(buf_str(text), p->offset, p->offset + p->len),
            .specials = p->is_template};
    }
    status s = tokenizer_encode_segments(g->server->tokens, list, (int)parts->n, PROMPT_TOKENS_MAX,
                                         &g->ids, e);
    /* A token has a byte or more, so a shorter text is refused for something else. */
    *is_more = s == ERR_LIMIT && text->len > PROMPT_TOKENS_MAX;
    return s;
}

static status render(generation *g, buf *text, segments *parts, err *e)
{
    const server *s = g->server;
    if (!s->template)
        return err_set(e, ERR_UNSUPPORTED, "messages", -1, "the model has no chat template");
    template_input in = {
        .messages = g->request.chat.messages,
        .tools = g->request.chat.tools,
        .kwargs = g->request.chat.kwargs,
        .bos_token = s->about->bos_token,
        .eos_token = s->about->eos_token,
        .add_generation_prompt = true,
    };
    return template_render(s->template, &in, text, parts, e);
}

/* The output parser looks at the tools until the end; the request itself goes before. */
static status keep_tools(generation *g, err *e)
{
    buf text;
    if (!g->request.chat.tools) return ERR_OK;
    buf_init(&text);
    json_put_value(&text, g->request.chat.tools, JSON_COMPACT);
    const char *copy = text.failed ? NULL : arena_copy(&g->mem, buf_str(&text).ptr, text.len);
    str source = {copy, text.len};
    buf_fini(&text);
    if (!copy) return err_set(e, ERR_NOMEM, "tools", -1, "copy");
    return json_parse(&g->mem, source, "tools", DEPTH_MAX + 1, 0, &g->tools, e);
}

static void set_overflow(api_error *a, int64_t context, int n, bool is_more)
{
    api_error_set(
        a, 400, "context_length_exceeded", "messages",
        "This model's maximum context length is %lld tokens, but the prompt has %s%d tokens. "
        "Please shorten it.",
        (long long)context, is_more ? "more than " : "", n);
}

static void tokenise(generation *g)
{
    buf text;
    segments parts;
    err e = {0};
    bool is_more = false;
    buf_init(&text);
    segments_init(&parts);
    status s = render(g, &text, &parts, &e);
    if (s == ERR_OK) s = encode(g, &text, &parts, &is_more, &e);
    if (s == ERR_OK) s = keep_tools(g, &e);
    g->starts_in_reasoning = s == ERR_OK && outparse_is_open_think(buf_str(&text));
    segments_fini(&parts);
    buf_fini(&text);

    int64_t context = g->server->about->max_context;
    if (is_more || (s == ERR_OK && g->ids.n >= context))
        set_overflow(&g->error, context, is_more ? PROMPT_TOKENS_MAX : g->ids.n, is_more);
    else if (s != ERR_OK)
        generation_explain(g, &e, &g->error);
    else if (g->ids.n == 0)
        api_error_set(&g->error, 400, "invalid_request_error", "messages", "the prompt is empty");
}

void generation_prepare(generation *g)
{
    err e = {0};
    const json *root;
    status s = json_parse(&g->scratch, buf_str(&g->body), "", DEPTH_MAX, 0, &root, &e);
    if (s != ERR_OK) {
        generation_explain(g, &e, &g->error);
        return;
    }
    g->dialect->parse(g, root, &g->error);
    if (!g->error.http) tokenise(g);
}
