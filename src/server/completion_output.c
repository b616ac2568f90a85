#include "server/completion_output_priv.h"

#include <math.h>

#include "base/utf8.h"
#include "server/chat_output_priv.h"
#include "server/sse_priv.h"

/* --- log probabilities, in the old form -------------------------------------------------------
 */

/* The text of a token; what is no text by itself as "bytes:\xe2\x82", as OpenAI does it. */
static void put_name(buf *out, const vocab *v, int32_t id)
{
    str bytes = vocab_bytes(v, id);
    buf_clear(out);
    if (utf8_check(bytes) < 0) {
        buf_put_str(out, bytes);
        return;
    }
    buf_put_c(out, "bytes:");
    for (size_t i = 0; i < bytes.len; i++) buf_printf(out, "\\x%02x", (unsigned char)bytes.ptr[i]);
}

static void put_probability(json_writer *w, float logprob)
{
    json_double(w, isfinite(logprob) ? (double)logprob : -9999.0); /* JSON has no -inf */
}

/* The most probable tokens, and the chosen one where it is not among them. */
static void put_top(json_writer *w, const vocab *v, const answer_logprob *t, int n_top, buf *name)
{
    bool has_own = false;
    json_open_object(w);
    for (int i = 0; i < n_top && i < ENGINE_TOP_MAX && t->p.top_ids[i] >= 0; i++) {
        has_own |= t->p.top_ids[i] == t->id;
        put_name(name, v, t->p.top_ids[i]);
        json_key_str(w, buf_str(name));
        put_probability(w, t->p.top_logprobs[i]);
    }
    if (!has_own) {
        put_name(name, v, t->id);
        json_key_str(w, buf_str(name));
        put_probability(w, t->p.logprob);
    }
    json_close_object(w);
}

/* Numbers from..to. */
static void put_logprobs(json_writer *w, const answer *c, int from, int to)
{
    const vocab *v = tokenizer_vocab(c->g->server->tokens);
    const answer_logprob *list = c->logprobs;
    buf name;
    buf_init(&name);
    json_open_object(w);
    json_key(w, "tokens");
    json_open_array(w);
    for (int i = from; i < to; i++) {
        put_name(&name, v, list[i].id);
        json_string(w, buf_str(&name));
    }
    json_close_array(w);
    json_key(w, "token_logprobs");
    json_open_array(w);
    for (int i = from; i < to; i++) put_probability(w, list[i].p.logprob);
    json_close_array(w);
    json_key(w, "top_logprobs");
    json_open_array(w);
    for (int i = from; i < to; i++) put_top(w, v, &list[i], c->g->request.top_logprobs, &name);
    json_close_array(w);
    json_key(w, "text_offset");
    json_open_array(w);
    for (int i = from; i < to; i++) json_int(w, (int64_t)list[i].offset);
    json_close_array(w);
    json_close_object(w);
    w->out->failed |= name.failed;
    buf_fini(&name);
}

/* --- the answer --------------------------------------------------------------------------------
 */

static void put_choice(json_writer *w, const answer *c, str text, const char *finish_reason)
{
    json_open_object(w);
    json_key(w, "index");
    json_int(w, c->index);
    json_key(w, "text");
    json_string(w, text);
    json_key(w, "logprobs");
    if (c->g->request.wants_logprobs)
        put_logprobs(w, c, c->n_told, c->n_settled);
    else
        json_null(w);
    json_key(w, "finish_reason");
    if (finish_reason)
        json_c_string(w, finish_reason);
    else
        json_null(w);
    json_close_object(w);
}

/* finish_reason NULL: not the last one of the choice. */
static void put_chunk(buf *out, const generation *g, answer *c, str text, const char *finish_reason)
{
    json_writer w;
    sse_open_event(out, NULL);
    json_writer_init(&w, out);
    chat_write_head(&w, g, "text_completion");
    json_key(&w, "choices");
    json_open_array(&w);
    put_choice(&w, c, text, finish_reason);
    answer_told_logprobs(c);
    json_close_array(&w);
    if (finish_reason) {
        json_key(&w, "timings");
        chat_write_timings(&w, c);
    }
    json_close_object(&w);
    sse_close_event(out);
}

void completion_put_part(buf *out, const generation *g, answer *c, str text)
{
    put_chunk(out, g, c, text, NULL);
}

void completion_put_finish(buf *out, const generation *g, answer *c)
{
    put_chunk(out, g, c, STR(""), answer_finish_reason(c));
}

void completion_put_usage(buf *out, const generation *g)
{
    json_writer w;
    sse_open_event(out, NULL);
    json_writer_init(&w, out);
    chat_write_head(&w, g, "text_completion");
    json_key(&w, "choices");
    json_raw(&w, STR("[]"));
    json_key(&w, "usage");
    chat_write_usage(&w, g);
    json_close_object(&w);
    sse_close_event(out);
}

void completion_put_whole(buf *out, const generation *g)
{
    json_writer w;
    json_writer_init(&w, out);
    chat_write_head(&w, g, "text_completion");
    json_key(&w, "choices");
    json_open_array(&w);
    for (int i = 0; i < g->request.n; i++) {
        const answer *c = &g->answers[i];
        put_choice(&w, c, buf_str(&c->content), answer_finish_reason(c));
    }
    json_close_array(&w);
    json_key(&w, "usage");
    chat_write_usage(&w, g);
    json_key(&w, "timings");
    chat_write_timings(&w, &g->answers[0]);
    json_close_object(&w);
}
