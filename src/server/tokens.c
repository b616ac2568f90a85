/* POST /tokenize, /detokenize and /apply-template: what a prompt is made of. Nothing is computed by
 * the model, and there is no limit to the context. */
#include "base/utf8.h"
#include "server/chat_request_priv.h"
#include "server/completion_request_priv.h"
#include "server/endpoint_priv.h"
#include "server/fields_priv.h"

/* --- tokenize ----------------------------------------------------------------------------------
 */

static void parse_text(generation *g, const json *body, api_error *a)
{
    tokenize_request r;
    err e = {0};
    if (!generation_check_model(g->server, body, a)) return;
    if (tokenize_request_parse(body, &r, &e) != ERR_OK) {
        generation_explain(g, &e, a);
        return;
    }
    g->request = (generation_request){.prompt = PROMPT_TEXT,
                                      .n = 1,
                                      .text = r.text,
                                      .has_plain_specials = r.has_plain_specials,
                                      .shows_pieces = r.with_pieces};
}

/* A token that is only a part of a character is shown as its bytes. */
static void put_piece(json_writer *w, str bytes)
{
    if (utf8_check(bytes) < 0) {
        json_string(w, bytes);
        return;
    }
    json_open_array(w);
    for (size_t i = 0; i < bytes.len; i++) json_int(w, (unsigned char)bytes.ptr[i]);
    json_close_array(w);
}

static void put_tokens(generation *g, str prompt)
{
    const vocab *v = tokenizer_vocab(g->server->tokens);
    json_writer w;
    (void)prompt;
    json_writer_init(&w, &g->out);
    json_open_object(&w);
    json_key(&w, "tokens");
    json_open_array(&w);
    for (int i = 0; i < g->ids.n; i++) {
        if (!g->request.shows_pieces) {
            json_int(&w, g->ids.ptr[i]);
            continue;
        }
        json_open_object(&w);
        json_key(&w, "id");
        json_int(&w, g->ids.ptr[i]);
        json_key(&w, "piece");
        put_piece(&w, vocab_bytes(v, g->ids.ptr[i]));
        json_close_object(&w);
    }
    json_close_array(&w);
    json_key(&w, "count");
    json_int(&w, g->ids.n);
    json_key(&w, "max_model_len");
    json_int(&w, g->server->about->max_context);
    json_close_object(&w);
}

void endpoint_tokenize(server *s, conn *c)
{
    static const dialect tokenize = {
        .id_prefix = "tok-", .parse = parse_text, .prepared = put_tokens};
    generation_begin(s, c, &tokenize);
}

/* --- detokenize --------------------------------------------------------------------------------
 */

static void parse_tokens(generation *g, const json *body, api_error *a)
{
    err e = {0};
    generation_request r = {.prompt = PROMPT_IDS, .n = 1};
    if (!generation_check_model(g->server, body, a)) return;
    if (detokenize_request_parse(body, g->server->about->V, &g->scratch, &r.ids, &r.n_ids, &e) !=
        ERR_OK)
        generation_explain(g, &e, a);
    else
        g->request = r;
}

static void put_text(generation *g, str prompt)
{
    const vocab *v = tokenizer_vocab(g->server->tokens);
    buf text;
    json_writer w;
    (void)prompt;
    buf_init(&text);
    for (int i = 0; i < g->ids.n; i++) buf_put_str(&text, vocab_bytes(v, g->ids.ptr[i]));
    json_writer_init(&w, &g->out);
    json_open_object(&w);
    json_key(&w, "content");
    json_string(&w, buf_str(&text));
    json_close_object(&w);
    if (text.failed) g->out.failed = true;
    buf_fini(&text);
}

void endpoint_detokenize(server *s, conn *c)
{
    static const dialect detokenize = {
        .id_prefix = "tok-", .parse = parse_tokens, .prepared = put_text};
    generation_begin(s, c, &detokenize);
}

/* --- apply-template ----------------------------------------------------------------------------
 */

static void parse_chat(generation *g, const json *body, api_error *a)
{
    err e = {0};
    chat_context x;
    bool adds_prompt = true;
    if (!generation_check_model(g->server, body, a)) return;
    if (!generation_get_context(g, &x, a)) return;
    status s = chat_request_parse(body, &x, &g->scratch, &g->request, &e);
    if (s == ERR_OK) s = field_bool(body, "add_generation_prompt", &adds_prompt, &e);
    if (s != ERR_OK) generation_explain(g, &e, a);
    g->request.ends_open = !adds_prompt;
}

static void put_prompt(generation *g, str prompt)
{
    json_writer w;
    json_writer_init(&w, &g->out);
    json_open_object(&w);
    json_key(&w, "prompt");
    json_string(&w, prompt);
    json_close_object(&w);
}

void endpoint_apply_template(server *s, conn *c)
{
    static const dialect apply = {.id_prefix = "tok-", .parse = parse_chat, .prepared = put_prompt};
    generation_begin(s, c, &apply);
}
