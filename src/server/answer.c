/* One answer of a generation: engine events in, parts of an answer out. */
#include <math.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/generation_priv.h"

/* --- parts -------------------------------------------------------------------------------------
 */

static answer_call *add_call(answer *c)
{
    if (c->n_calls == c->calls_cap) {
        int cap = c->calls_cap ? 2 * c->calls_cap : 4;
        answer_call *more = mem_resize(c->calls, (size_t)cap * sizeof *more);
        if (!more) return NULL;
        c->calls = more;
        c->calls_cap = cap;
    }
    answer_call *call = &c->calls[c->n_calls++];
    *call = (answer_call){0};
    const char *prefix = c->g->dialect->call_prefix;
    server_new_id(c->g->server, prefix ? prefix : "call_", call->id);
    return call;
}

/* Note where the text belongs that is about to be kept. */
static void add_part(answer *c, outparse_kind kind, size_t from, size_t to)
{
    answer_part *last = c->n_parts ? &c->parts[c->n_parts - 1] : NULL;
    if (last && last->kind == kind && kind != OUTPARSE_CALL_BEGIN) {
        last->to = to;
        return;
    }
    if (c->n_parts == c->parts_cap) {
        int cap = c->parts_cap ? 2 * c->parts_cap : 4;
        answer_part *more = mem_resize(c->parts, (size_t)cap * sizeof *more);
        if (!more) {
            c->is_starved = true;
            return;
        }
        c->parts = more;
        c->parts_cap = cap;
    }
    c->parts[c->n_parts++] = (answer_part){kind, from, to};
}

static void keep_part(answer *c, const outparse_event *part)
{
    size_t n = part->text.len, i = (size_t)part->index;
    switch (part->kind) {
    case OUTPARSE_REASONING:
        add_part(c, part->kind, c->reasoning.len, c->reasoning.len + n);
        buf_put_str(&c->reasoning, part->text);
        break;
    case OUTPARSE_CONTENT:
        add_part(c, part->kind, c->content.len, c->content.len + n);
        buf_put_str(&c->content, part->text);
        break;
    case OUTPARSE_CALL_BEGIN:
        add_part(c, part->kind, i, i + 1);
        buf_put_str(&c->calls[part->index].name, part->text);
        break;
    case OUTPARSE_ARGUMENTS: buf_put_str(&c->calls[part->index].arguments, part->text); break;
    case OUTPARSE_CALL_END: break;
    }
}

/* The parser's callback. A stream needs the ids of its calls too, but not their text. */
static void take_part(void *ctx, const outparse_event *part)
{
    answer *c = ctx;
    const generation *g = c->g;
    if (g->request.is_warm_up) return;
    if (part->kind == OUTPARSE_CALL_BEGIN && !add_call(c)) {
        c->is_starved = true;
        return;
    }
    if (part->kind != OUTPARSE_REASONING && part->kind != OUTPARSE_CONTENT &&
        part->index >= c->n_calls)
        return; /* its beginning was lost, see above */
    if (part->kind != OUTPARSE_REASONING) c->is_reasoning = false;
    if (!g->request.streams || g->dialect->keeps_text) keep_part(c, part);
    if (g->request.streams) g->dialect->part(c->g, c, part);
}

/* --- life --------------------------------------------------------------------------------------
 */

status answer_open(answer *c, generation *g, int index, err *e)
{
    *c = (answer){
        .g = g, .index = index, .stop_string = -1, .is_reasoning = g->starts_in_reasoning};
    buf_init(&c->reasoning);
    buf_init(&c->content);
    buf_init(&c->logprobs);
    if (g->request.prompt != PROMPT_CHAT) return ERR_OK;
    outparse_options o = {.tools = g->tools,
                          .starts_in_reasoning = g->starts_in_reasoning,
                          .emit = take_part,
                          .ctx = c};
    return outparse_open(&c->parser, &o, e);
}

void answer_close(answer *c)
{
    outparse_close(c->parser);
    for (int i = 0; i < c->n_calls; i++) {
        buf_fini(&c->calls[i].name);
        buf_fini(&c->calls[i].arguments);
    }
    mem_free(c->calls);
    mem_free(c->parts);
    buf_fini(&c->reasoning);
    buf_fini(&c->content);
    buf_fini(&c->logprobs);
    *c = (answer){0};
}

/* --- tokens ------------------------------------------------------------------------------------
 */

static void put_token(json_writer *w, const vocab *v, int32_t id, float logprob)
{
    str bytes = vocab_bytes(v, id);
    json_key(w, "token");
    json_string(w, bytes);
    json_key(w, "logprob");
    json_double(w, isfinite(logprob) ? (double)logprob : -9999.0); /* JSON has no -inf */
    json_key(w, "bytes");
    json_open_array(w);
    for (size_t i = 0; i < bytes.len; i++) json_int(w, (unsigned char)bytes.ptr[i]);
    json_close_array(w);
}

static void put_logprob(buf *out, const vocab *v, int32_t id, const engine_logprob *p, int n_top)
{
    json_writer w;
    if (out->len) buf_put_byte(out, ',');
    json_writer_init(&w, out);
    json_open_object(&w);
    put_token(&w, v, id, p->logprob);
    json_key(&w, "top_logprobs");
    json_open_array(&w);
    for (int i = 0; i < n_top && i < ENGINE_TOP_MAX && p->top_ids[i] >= 0; i++) {
        json_open_object(&w);
        put_token(&w, v, p->top_ids[i], p->top_logprobs[i]);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
}

static bool is_end_token(const answer *c, int32_t id)
{
    const engine_info *about = c->g->server->about;
    for (int i = 0; i < about->n_eos && !c->g->request.policy.ignore_eos; i++)
        if (about->eos[i] == id) return true;
    return false;
}

static void count_tokens(answer *c, const engine_event *ev)
{
    const server *s = c->g->server;
    const vocab *v = tokenizer_vocab(s->tokens);
    for (int i = 0; i < ev->n_ids; i++) {
        if (ev->ids[i] == s->think_open && s->think_open >= 0) c->is_reasoning = true;
        c->reasoning_tokens += c->is_reasoning && c->parser;
        if (ev->ids[i] == s->think_close && s->think_close >= 0) c->is_reasoning = false;
        if (ev->logprobs && !is_end_token(c, ev->ids[i]))
            put_logprob(&c->logprobs, v, ev->ids[i], &ev->logprobs[i], c->g->request.top_logprobs);
    }
    if (c->first_tokens == 0 && ev->n_ids > 0) {
        c->first_tokens = ev->n_ids;
        c->first_ms = ev->usage.decode_ms;
    }
}

/* Text of the model, and its end. */
static status feed(answer *c, str text, bool ends, err *e)
{
    if (c->parser) {
        TRY(outparse_feed(c->parser, text, e));
        return ends ? outparse_finish(c->parser, e) : ERR_OK;
    }
    if (text.len > 0) take_part(c, &(outparse_event){.kind = OUTPARSE_CONTENT, .text = text});
    return ERR_OK;
}

status answer_take(answer *c, const engine_event *ev, err *e)
{
    c->usage = ev->usage;
    count_tokens(c, ev);
    if (ev->kind == ENGINE_FINISH) {
        c->reason = ev->reason;
        c->stop_string = ev->stop_string;
        c->is_done = true;
    }
    TRY(feed(c, ev->text, c->is_done, e));
    if (c->is_starved || c->reasoning.failed || c->content.failed || c->logprobs.failed)
        return err_set(e, ERR_NOMEM, "answer", -1, "text");
    for (int i = 0; i < c->n_calls; i++)
        if (c->calls[i].name.failed || c->calls[i].arguments.failed)
            return err_set(e, ERR_NOMEM, "answer", -1, "tool call");
    return ERR_OK;
}

bool answer_next_piece(str text, size_t *at, str *piece)
{
    size_t left = text.len - *at, n = left < ANSWER_PIECE_MAX ? left : ANSWER_PIECE_MAX;
    *piece = str_slice(text, *at, *at + n);
    if (n < left) piece->len -= (size_t)utf8_tail(*piece);
    *at += piece->len;
    return piece->len > 0;
}

str answer_part_text(const answer *c, const answer_part *part)
{
    const buf *b = part->kind == OUTPARSE_REASONING ? &c->reasoning : &c->content;
    return str_slice(buf_str(b), part->from, part->to);
}

const char *answer_finish_reason(const answer *c)
{
    if (c->reason == ENGINE_LENGTH) return "length";
    return c->n_calls > 0 ? "tool_calls" : "stop";
}

double answer_rate(const answer *c)
{
    double ms = c->usage.decode_ms - c->first_ms;
    int64_t n = c->usage.completion_tokens - c->first_tokens;
    return ms > 0 && n > 0 ? (double)n * 1000 / ms : 0;
}
