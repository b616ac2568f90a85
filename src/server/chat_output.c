#include "server/chat_output_priv.h"

#include "build_id.h"
#include "server/sse_priv.h"

/* --- counts --------------------------------------------------------------------------------------
 */

void chat_write_usage(json_writer *w, const generation *g)
{
    int64_t n_prompt = g->answers[0].usage.prompt_tokens, n_new = 0, n_reasoning = 0;
    int64_t n_cached = g->answers[0].usage.cached_tokens;
    for (int i = 0; i < g->request.n; i++) {
        n_new += g->answers[i].usage.completion_tokens;
        n_reasoning += g->answers[i].reasoning_tokens;
    }
    json_open_object(w);
    json_key(w, "prompt_tokens");
    json_int(w, n_prompt);
    json_key(w, "completion_tokens");
    json_int(w, n_new);
    json_key(w, "total_tokens");
    json_int(w, n_prompt + n_new);
    json_key(w, "prompt_tokens_details");
    json_open_object(w);
    json_key(w, "cached_tokens");
    json_int(w, n_cached);
    json_close_object(w);
    json_key(w, "completion_tokens_details");
    json_open_object(w);
    json_key(w, "reasoning_tokens");
    json_int(w, n_reasoning);
    json_close_object(w);
    json_close_object(w);
}

static double per_second(int64_t n, double ms)
{
    return ms > 0 ? (double)n * 1000 / ms : 0;
}

/* Three decimals: the rest is noise. */
static void put_milli(json_writer *w, const char *key, double v)
{
    json_key(w, key);
    json_double(w, (double)(int64_t)(v * 1000 + 0.5) / 1000);
}

void chat_write_timings(json_writer *w, const answer *c)
{
    static const char *const stops[] = {[ENGINE_CACHE_OFF] = "off",
                                        [ENGINE_CACHE_END] = "end",
                                        [ENGINE_CACHE_TOKENS] = "tokens",
                                        [ENGINE_CACHE_STATE] = "state"};
    const engine_usage *u = &c->usage;
    json_open_object(w);
    json_key(w, "prompt_n");
    json_int(w, u->prompt_tokens - u->cached_tokens);
    json_key(w, "cache_n");
    json_int(w, u->cached_tokens);
    json_key(w, "cache_stop");
    json_c_string(w, stops[u->cache_stop]);
    json_key(w, "predicted_n");
    json_int(w, u->completion_tokens);
    put_milli(w, "queue_ms", u->queue_ms);
    put_milli(w, "prompt_ms", u->prefill_ms);
    put_milli(w, "predicted_ms", u->decode_ms);
    put_milli(w, "prompt_per_second",
              per_second(u->prompt_tokens - u->cached_tokens, u->prefill_ms));
    put_milli(w, "predicted_per_second", answer_rate(c));
    json_key(w, "cycles");
    json_int(w, u->cycles);
    json_key(w, "draft_n");
    json_int(w, u->drafted);
    json_key(w, "draft_n_accepted");
    json_int(w, u->accepted);
    json_close_object(w);
}

/* Numbers from..to. */
static void put_logprobs(json_writer *w, const answer *c, int from, int to)
{
    json_key(w, "logprobs");
    json_open_object(w);
    json_key(w, "content");
    answer_write_logprobs(w, c, from, to);
    json_key(w, "refusal");
    json_null(w);
    json_close_object(w);
}

/* --- chunks --------------------------------------------------------------------------------------
 */

void chat_write_head(json_writer *w, const generation *g, const char *object)
{
    json_open_object(w);
    json_key(w, "id");
    json_c_string(w, g->id);
    json_key(w, "object");
    json_c_string(w, object);
    json_key(w, "created");
    json_int(w, g->created_s);
    json_key(w, "model");
    json_c_string(w, g->server->about->model_name);
    json_key(w, "system_fingerprint");
    json_c_string(w, "riptide-" RIPTIDE_BUILD_ID);
}

/* Begin a chunk in `out`: everything up to the content of `delta`. */
static void begin_chunk(json_writer *w, buf *out, const generation *g, const answer *c)
{
    sse_open_event(out, NULL);
    json_writer_init(w, out);
    chat_write_head(w, g, "chat.completion.chunk");
    json_key(w, "choices");
    json_open_array(w);
    json_open_object(w);
    json_key(w, "index");
    json_int(w, c->index);
    json_key(w, "delta");
    json_open_object(w);
}

/* total: prompt tokens; cache: of these, taken over; processed: those and what was read so far;
 * time_ms: since the request came. */
void chat_put_progress(buf *out, const generation *g, const answer *c, const engine_event *ev)
{
    json_writer chunk, *w = &chunk;
    begin_chunk(w, out, g, c);
    json_close_object(w);
    json_key(w, "logprobs");
    json_null(w);
    json_key(w, "finish_reason");
    json_null(w);
    json_close_object(w);
    json_close_array(w);
    json_key(w, "prompt_progress");
    json_open_object(w);
    json_key(w, "total");
    json_int(w, ev->usage.prompt_tokens);
    json_key(w, "cache");
    json_int(w, ev->usage.cached_tokens);
    json_key(w, "processed");
    json_int(w, ev->prefilled);
    json_key(w, "time_ms");
    json_int(w, (int64_t)(uv_now(&g->server->loop) - g->begin_ms));
    json_close_object(w);
    json_close_object(w);
    sse_close_event(out);
}

/* c NULL: without logprobs. */
static void end_chunk(json_writer *w, const generation *g, answer *c, const char *finish_reason)
{
    json_close_object(w);
    if (c && c->n_settled > c->n_told) {
        put_logprobs(w, c, c->n_told, c->n_settled);
        answer_told_logprobs(c);
    } else {
        json_key(w, "logprobs");
        json_null(w);
    }
    json_key(w, "finish_reason");
    if (finish_reason)
        json_c_string(w, finish_reason);
    else
        json_null(w);
    json_close_object(w);
    json_close_array(w);
    if (g->request.includes_usage) {
        json_key(w, "usage");
        json_null(w);
    }
    if (finish_reason) {
        json_key(w, "timings");
        chat_write_timings(w, c);
    }
    json_close_object(w);
    sse_close_event(w->out);
}

void chat_put_role(buf *out, const generation *g, const answer *c)
{
    json_writer w;
    begin_chunk(&w, out, g, c);
    json_key(&w, "role");
    json_c_string(&w, "assistant");
    json_key(&w, "content");
    json_c_string(&w, "");
    end_chunk(&w, g, NULL, NULL);
}

static void put_text(buf *out, const generation *g, answer *c, const char *key, str text)
{
    json_writer w;
    begin_chunk(&w, out, g, c);
    json_key(&w, key);
    json_string(&w, text);
    end_chunk(&w, g, c, NULL);
}

static void put_call(buf *out, const generation *g, answer *c, int index, str name, str arguments)
{
    json_writer chunk, *w = &chunk;
    begin_chunk(w, out, g, c);
    json_key(w, "tool_calls");
    json_open_array(w);
    json_open_object(w);
    json_key(w, "index");
    json_int(w, index);
    if (name.ptr) {
        json_key(w, "id");
        json_c_string(w, c->calls[index].id);
        json_key(w, "type");
        json_c_string(w, "function");
    }
    json_key(w, "function");
    json_open_object(w);
    if (name.ptr) {
        json_key(w, "name");
        json_string(w, name);
    }
    json_key(w, "arguments");
    json_string(w, arguments);
    json_close_object(w);
    json_close_object(w);
    json_close_array(w);
    end_chunk(w, g, c, NULL);
}

/* Long arguments in pieces, never cut inside a character. */
static void put_arguments(buf *out, const generation *g, answer *c, const outparse_event *part)
{
    str none = {NULL, 0};
    size_t at = 0;
    for (str piece; answer_next_piece(part->text, &at, &piece);)
        put_call(out, g, c, part->index, none, piece);
}

void chat_put_part(buf *out, const generation *g, answer *c, const outparse_event *part)
{
    switch (part->kind) {
    case OUTPARSE_REASONING: put_text(out, g, c, "reasoning_content", part->text); break;
    case OUTPARSE_CONTENT: put_text(out, g, c, "content", part->text); break;
    case OUTPARSE_CALL_BEGIN: put_call(out, g, c, part->index, part->text, STR("")); break;
    case OUTPARSE_ARGUMENTS: put_arguments(out, g, c, part); break;
    case OUTPARSE_CALL_END: break;
    }
}

void chat_put_finish(buf *out, const generation *g, answer *c)
{
    json_writer w;
    begin_chunk(&w, out, g, c);
    end_chunk(&w, g, c, answer_finish_reason(c));
}

void chat_put_usage(buf *out, const generation *g)
{
    json_writer w;
    sse_open_event(out, NULL);
    json_writer_init(&w, out);
    chat_write_head(&w, g, "chat.completion.chunk");
    json_key(&w, "choices");
    json_raw(&w, STR("[]"));
    json_key(&w, "usage");
    chat_write_usage(&w, g);
    json_close_object(&w);
    sse_close_event(out);
}

/* --- the whole answer ----------------------------------------------------------------------------
 */

static void put_calls(json_writer *w, const answer *c)
{
    json_key(w, "tool_calls");
    json_open_array(w);
    for (int i = 0; i < c->n_calls; i++) {
        json_open_object(w);
        json_key(w, "id");
        json_c_string(w, c->calls[i].id);
        json_key(w, "type");
        json_c_string(w, "function");
        json_key(w, "function");
        json_open_object(w);
        json_key(w, "name");
        json_string(w, buf_str(&c->calls[i].name));
        json_key(w, "arguments");
        json_string(w, buf_str(&c->calls[i].arguments));
        json_close_object(w);
        json_close_object(w);
    }
    json_close_array(w);
}

static void put_choice(json_writer *w, const generation *g, const answer *c)
{
    json_open_object(w);
    json_key(w, "index");
    json_int(w, c->index);
    json_key(w, "message");
    json_open_object(w);
    json_key(w, "role");
    json_c_string(w, "assistant");
    json_key(w, "content");
    if (c->content.len == 0 && c->n_calls > 0)
        json_null(w);
    else
        json_string(w, buf_str(&c->content));
    json_key(w, "refusal");
    json_null(w);
    if (c->reasoning.len) {
        json_key(w, "reasoning_content");
        json_string(w, buf_str(&c->reasoning));
    }
    if (c->n_calls > 0) put_calls(w, c);
    json_close_object(w);
    if (g->request.wants_logprobs) {
        put_logprobs(w, c, 0, c->n_settled);
    } else {
        json_key(w, "logprobs");
        json_null(w);
    }
    json_key(w, "finish_reason");
    json_c_string(w, answer_finish_reason(c));
    json_close_object(w);
}

void chat_put_completion(buf *out, const generation *g)
{
    json_writer w;
    json_writer_init(&w, out);
    chat_write_head(&w, g, "chat.completion");
    json_key(&w, "choices");
    json_open_array(&w);
    for (int i = 0; i < g->request.n; i++) put_choice(&w, g, &g->answers[i]);
    json_close_array(&w);
    json_key(&w, "usage");
    chat_write_usage(&w, g);
    json_key(&w, "timings");
    chat_write_timings(&w, &g->answers[0]);
    json_close_object(&w);
}
