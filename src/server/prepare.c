/* A request's way from bytes to token ids, on a helper thread: JSON, the dialect's fields, the
 * chat template, the tokenizer. Reads the server only where nothing changes. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/fields_priv.h"
#include "server/scores_priv.h"
#include "session/history.h"

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

bool generation_check_model(const server *s, const json *body, api_error *a)
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

void generation_fill_context(const generation *g, chat_context *x)
{
    const server *s = g->server;
    *x = (chat_context){.defaults = &s->about->defaults,
                        .V = s->about->V,
                        .choices_max = s->opt.choices_max,
                        .seed = g->seed,
                        .has_reasoning_limit = s->opt.reasoning_most >= 0,
                        .reasoning_most = s->opt.reasoning_most,
                        .ends_loops = !s->opt.allows_loops,
                        .caps = s->template ? template_get_caps(s->template) : NULL};
}

bool generation_get_context(const generation *g, chat_context *x, api_error *a)
{
    generation_fill_context(g, x);
    if (x->caps) return true;
    api_error_set(a, 400, "invalid_request_error", "messages", "the model has no chat template");
    return false;
}

static status encode_chat(generation *g, buf *text, err *e)
{
    const server *s = g->server;
    history_made made;
    history_request h = {
        .tpl = s->template,
        .tokens = s->tokens,
        .turns = s->engine ? engine_turns(s->engine) : NULL,
        .input = {.messages = g->request.chat.messages,
                  .tools = g->request.chat.tools,
                  .kwargs = g->request.chat.kwargs,
                  .bos_token = s->about->bos_token,
                  .eos_token = s->about->eos_token,
                  .add_generation_prompt = !g->request.ends_open},
        .prefill = g->request.prefill,
        .max_tokens = PROMPT_TOKENS_MAX,
    };
    TRY(history_encode(&h, text, &g->ids, &made, e));
    g->turn_prompt = made.prompt;
    g->n_messages = h.input.messages->n;
    return ERR_OK;
}

static status encode_text(generation *g, buf *text, err *e)
{
    const generation_request *r = &g->request;
    buf_put_str(text, r->text);
    if (text->failed) return err_set(e, ERR_NOMEM, "prompt", -1, "copy");
    return tokenizer_encode(g->server->tokens, r->text, !r->has_plain_specials, PROMPT_TOKENS_MAX,
                            &g->ids, e);
}

status generation_make_prompt(generation *g, buf *text, bool *is_more, err *e)
{
    const generation_request *r = &g->request;
    status s = ERR_OK;
    if (r->prompt != PROMPT_IDS) {
        s = r->prompt == PROMPT_CHAT ? encode_chat(g, text, e) : encode_text(g, text, e);
        /* A token has a byte or more, so a shorter text is refused for something else. */
        *is_more = s == ERR_LIMIT && text->len > PROMPT_TOKENS_MAX;
    } else if (!token_ids_reserve(&g->ids, r->n_ids)) {
        s = err_set(e, ERR_NOMEM, "prompt", -1, "%d ids", r->n_ids);
    } else {
        for (int i = 0; i < r->n_ids; i++) token_ids_push(&g->ids, r->ids[i]);
    }
    return s;
}

/* The dialect names the stop string that ended an answer. */
static status keep_stops(generation *g, err *e)
{
    generation_request *r = &g->request;
    if (r->n_stop == 0) return ERR_OK;
    str *kept = arena_new_array(&g->mem, (size_t)r->n_stop, sizeof *kept);
    if (!kept) return err_set(e, ERR_NOMEM, "stop", -1, "copy");
    for (int i = 0; i < r->n_stop; i++) {
        kept[i] = (str){arena_copy(&g->mem, r->stop[i].ptr, r->stop[i].len), r->stop[i].len};
        if (!kept[i].ptr) return err_set(e, ERR_NOMEM, "stop", -1, "copy");
    }
    r->stop = kept;
    return ERR_OK;
}

/* Copy a value into g->mem. */
static status keep_json(generation *g, const json *v, const char *field, const json **out, err *e)
{
    buf text;
    buf_init(&text);
    json_put_value(&text, v, JSON_COMPACT);
    const char *copy = text.failed ? NULL : arena_copy(&g->mem, buf_str(&text).ptr, text.len);
    str source = {copy, text.len};
    buf_fini(&text);
    if (!copy) return err_set(e, ERR_NOMEM, field, -1, "copy");
    return json_parse(&g->mem, source, field, DEPTH_MAX + 1, 0, out, e);
}

/* The output parser looks at the tools until the end; the request itself goes before. */
static status keep_tools(generation *g, err *e)
{
    const json *tools = g->request.chat.tools;
    return tools ? keep_json(g, tools, "tools", &g->tools, e) : ERR_OK;
}

static status keep_strict(generation *g, answer_format *f, err *e)
{
    str *names = arena_new_array(&g->mem, (size_t)f->n_strict + 1, sizeof *names);
    if (!names) return err_set(e, ERR_NOMEM, "tools", -1, "copy");
    for (int i = 0; i < f->n_strict; i++) {
        names[i] = (str){arena_copy(&g->mem, f->strict[i].ptr, f->strict[i].len), f->strict[i].len};
        if (!names[i].ptr) return err_set(e, ERR_NOMEM, "tools", -1, "copy");
    }
    f->strict = names;
    return ERR_OK;
}

/* The grammar of the answer, and what is needed to judge it when it is finished. */
static status make_grammar(generation *g, err *e)
{
    answer_format *f = &g->request.format;
    bool is_whole = false;
    if (g->dialect->prepared || !answer_format_has_grammar(f)) return ERR_OK;
    if (f->form == ANSWER_GRAMMAR || f->form == ANSWER_REGEX) g->tools = NULL;
    TRY(engine_prepare_grammars(g->server->engine, e));
    TRY(answer_format_compile(f, g->request.chat.tools, &g->server->grammars, &g->grammar,
                              &is_whole, e));
    TRY(keep_strict(g, f, e));
    if (f->form == ANSWER_SCHEMA && is_whole) TRY(keep_json(g, f->schema, f->field, &g->schema, e));
    g->is_checked = g->schema || f->n_strict > 0;
    return ERR_OK;
}

static void set_overflow(api_error *a, int64_t context, int64_t n, bool is_more)
{
    api_error_set(
        a, 400, "context_length_exceeded", "messages",
        "This model's maximum context length is %lld tokens, but the prompt has %s%lld tokens. "
        "Please shorten it.",
        (long long)context, is_more ? "more than " : "", (long long)n);
}

/* Turn what came of encoding into the request's error, if it is one. */
static void check_prompt(generation *g, status s, bool is_more, const err *e)
{
    int64_t context = g->server->about->max_context;
    bool has_limit = !g->dialect->prepared, is_over = s == ERR_OK && g->ids.n >= context;
    bool is_chat = g->request.prompt == PROMPT_CHAT;
    if (is_more || (has_limit && is_over))
        (g->dialect->overflow ? g->dialect->overflow : set_overflow)(
            &g->error, context, is_more ? PROMPT_TOKENS_MAX : g->ids.n, is_more);
    else if (s != ERR_OK)
        generation_explain(g, e, &g->error);
    else if (g->ids.n == 0 && has_limit)
        api_error_set(&g->error, 400, "invalid_request_error", "messages", "the prompt is empty");
    if (!is_chat && strcmp(g->error.param, "messages") == 0)
        snprintf(g->error.param, sizeof g->error.param, "prompt");
}

static void tokenise(generation *g)
{
    buf text;
    err e = {0};
    bool is_more = false;
    buf_init(&text);
    status s = generation_make_prompt(g, &text, &is_more, &e);
    if (s == ERR_OK) s = keep_tools(g, &e);
    if (s == ERR_OK) s = keep_stops(g, &e);
    if (s == ERR_OK) s = make_grammar(g, &e);
    g->starts_in_reasoning = s == ERR_OK && g->request.prompt == PROMPT_CHAT &&
                             g->request.prefill.len == 0 && outparse_is_open_think(buf_str(&text));
    g->n_prompt = g->ids.n;
    check_prompt(g, s, is_more, &e);
    if (!g->error.http && g->dialect->prepared) g->dialect->prepared(g, buf_str(&text));
    buf_fini(&text);
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
    if (g->error.http) return;
    if (g->request.is_scored)
        scores_prepare(g);
    else
        tokenise(g);
}
