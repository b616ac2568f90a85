#include "server/messages_output_priv.h"

#include "chat/anthropic.h"
#include "server/sse_priv.h"

/* --- what both forms have ----------------------------------------------------------------------
 */

static const char *stop_reason(const generation *g, const answer *c)
{
    const engine_usage *u = &c->usage;
    switch (c->reason) {
    case ENGINE_STOP_STRING: return "stop_sequence";
    case ENGINE_LENGTH:
        return g->request.max_tokens == 0 || u->completion_tokens < g->request.max_tokens
                   ? "model_context_window_exceeded"
                   : "max_tokens";
    default: return c->n_calls > 0 ? "tool_use" : "end_turn";
    }
}

static void put_stop(json_writer *w, const generation *g, const answer *c)
{
    json_key(w, "stop_reason");
    if (c)
        json_c_string(w, stop_reason(g, c));
    else
        json_null(w);
    json_key(w, "stop_sequence");
    if (c && c->reason == ENGINE_STOP_STRING && c->stop_string >= 0)
        json_string(w, g->request.stop[c->stop_string]);
    else
        json_null(w);
    json_key(w, "stop_details");
    json_null(w);
}

/* c NULL: before anything was said. */
static void put_usage(json_writer *w, const generation *g, const answer *c)
{
    bool has_output = c && !g->request.is_warm_up;
    int64_t n_cached = c ? c->usage.cached_tokens : 0;
    json_open_object(w);
    json_key(w, "input_tokens"); /* what was read from the cache is not among them */
    json_int(w, g->n_prompt - n_cached);
    json_key(w, "cache_creation_input_tokens");
    json_int(w, 0);
    json_key(w, "cache_read_input_tokens");
    json_int(w, n_cached);
    json_key(w, "output_tokens");
    json_int(w, has_output ? c->usage.completion_tokens : 0);
    json_key(w, "output_tokens_details");
    json_open_object(w);
    json_key(w, "thinking_tokens");
    json_int(w, has_output ? c->reasoning_tokens : 0);
    json_close_object(w);
    json_key(w, "server_tool_use");
    json_null(w);
}

static void put_message_usage(json_writer *w, const generation *g, const answer *c)
{
    json_key(w, "usage");
    put_usage(w, g, c);
    json_key(w, "cache_creation");
    json_null(w);
    json_key(w, "inference_geo");
    json_null(w);
    json_key(w, "service_tier");
    json_null(w);
    json_key(w, "speed");
    json_null(w);
    json_close_object(w);
}

/* Up to the content. */
static void put_head(json_writer *w, const generation *g)
{
    json_open_object(w);
    json_key(w, "id");
    json_c_string(w, g->id);
    json_key(w, "type");
    json_c_string(w, "message");
    json_key(w, "role");
    json_c_string(w, "assistant");
    json_key(w, "model");
    json_c_string(w, g->server->about->model_name);
    json_key(w, "container");
    json_null(w);
    json_key(w, "diagnostics");
    json_null(w);
    json_key(w, "content");
    json_open_array(w);
}

static void put_text_block(json_writer *w, str text)
{
    json_key(w, "type");
    json_c_string(w, "text");
    json_key(w, "text");
    json_string(w, text);
    json_key(w, "citations");
    json_raw(w, STR("[]")); /* one client knows no null here */
}

static void put_thinking_block(json_writer *w, str text, str signature)
{
    json_key(w, "type");
    json_c_string(w, "thinking");
    json_key(w, "thinking");
    json_string(w, text);
    json_key(w, "signature");
    json_string(w, signature);
}

/* input: JSON text of an object. */
static void put_call_block(json_writer *w, const answer_call *call, str name, str input)
{
    json_key(w, "type");
    json_c_string(w, "tool_use");
    json_key(w, "id");
    json_c_string(w, call->id);
    json_key(w, "name");
    json_string(w, name);
    json_key(w, "input");
    json_raw(w, input);
    json_key(w, "caller");
    json_raw(w, STR("{\"type\":\"direct\"}"));
}

/* --- the stream --------------------------------------------------------------------------------
 */

static void begin_event(json_writer *w, buf *out, const char *name)
{
    sse_open_event(out, name);
    json_writer_init(w, out);
    json_open_object(w);
    json_key(w, "type");
    json_c_string(w, name);
}

static void end_event(json_writer *w)
{
    json_close_object(w);
    sse_close_event(w->out);
}

void messages_put_ping(buf *out)
{
    json_writer w;
    begin_event(&w, out, "ping");
    end_event(&w);
}

void messages_put_error(buf *out, const api_error *a)
{
    buf text;
    buf_init(&text);
    api_error_put_anthropic(&text, a);
    if (text.failed)
        out->failed = true;
    else
        sse_put_event(out, "error", buf_str(&text));
    buf_fini(&text);
}

void messages_put_start(buf *out, const generation *g)
{
    json_writer w;
    begin_event(&w, out, "message_start");
    json_key(&w, "message");
    put_head(&w, g);
    json_close_array(&w);
    put_stop(&w, g, NULL);
    put_message_usage(&w, g, NULL);
    json_close_object(&w);
    end_event(&w);
    messages_put_ping(out);
}

/* One member of a delta, in the open block. */
static void put_delta(buf *out, const answer *c, const char *type, const char *key, str text)
{
    json_writer w;
    begin_event(&w, out, "content_block_delta");
    json_key(&w, "index");
    json_int(&w, c->n_blocks - 1);
    json_key(&w, "delta");
    json_open_object(&w);
    json_key(&w, "type");
    json_c_string(&w, type);
    json_key(&w, key);
    json_string(&w, text);
    json_close_object(&w);
    end_event(&w);
}

/* What the open block of thinking holds. */
static str open_thinking(const answer *c)
{
    for (int i = c->n_parts - 1; i >= 0; i--)
        if (c->parts[i].kind == OUTPARSE_REASONING) return answer_part_text(c, &c->parts[i]);
    return STR("");
}

static void end_block(buf *out, const generation *g, answer *c)
{
    json_writer w;
    if (!c->has_open_block) return;
    if (c->open_kind == OUTPARSE_REASONING) {
        buf signature;
        buf_init(&signature);
        anthropic_put_signature(&signature, open_thinking(c), g->request.hides_reasoning);
        if (signature.failed) out->failed = true;
        put_delta(out, c, "signature_delta", "signature", buf_str(&signature));
        buf_fini(&signature);
    }
    begin_event(&w, out, "content_block_stop");
    json_key(&w, "index");
    json_int(&w, c->n_blocks - 1);
    end_event(&w);
    c->has_open_block = false;
}

/* name: of a call. */
static void begin_block(buf *out, const generation *g, answer *c, outparse_kind kind, int call,
                        str name)
{
    json_writer w;
    if (c->has_open_block && c->open_kind == kind && kind != OUTPARSE_CALL_BEGIN) return;
    end_block(out, g, c);
    begin_event(&w, out, "content_block_start");
    json_key(&w, "index");
    json_int(&w, c->n_blocks++);
    json_key(&w, "content_block");
    json_open_object(&w);
    if (kind == OUTPARSE_REASONING)
        put_thinking_block(&w, STR(""), STR(""));
    else if (kind == OUTPARSE_CONTENT)
        put_text_block(&w, STR(""));
    else
        put_call_block(&w, &c->calls[call], name, STR("{}"));
    json_close_object(&w);
    end_event(&w);
    c->has_open_block = true;
    c->open_kind = kind;
}

void messages_put_part(buf *out, const generation *g, answer *c, const outparse_event *part)
{
    size_t at = 0;
    switch (part->kind) {
    case OUTPARSE_REASONING:
        begin_block(out, g, c, part->kind, 0, STR(""));
        if (!g->request.hides_reasoning)
            put_delta(out, c, "thinking_delta", "thinking", part->text);
        break;
    case OUTPARSE_CONTENT:
        begin_block(out, g, c, part->kind, 0, STR(""));
        put_delta(out, c, "text_delta", "text", part->text);
        break;
    case OUTPARSE_CALL_BEGIN: begin_block(out, g, c, part->kind, part->index, part->text); break;
    case OUTPARSE_ARGUMENTS:
        for (str piece; answer_next_piece(part->text, &at, &piece);)
            put_delta(out, c, "input_json_delta", "partial_json", piece);
        break;
    case OUTPARSE_CALL_END: end_block(out, g, c); break;
    }
}

void messages_put_finish(buf *out, const generation *g, answer *c)
{
    json_writer w;
    end_block(out, g, c);
    begin_event(&w, out, "message_delta");
    json_key(&w, "delta");
    json_open_object(&w);
    json_key(&w, "container");
    json_null(&w);
    put_stop(&w, g, c);
    json_close_object(&w);
    json_key(&w, "usage");
    put_usage(&w, g, c);
    json_close_object(&w);
    end_event(&w);
    begin_event(&w, out, "message_stop");
    end_event(&w);
}

/* --- the whole answer --------------------------------------------------------------------------
 */

static void put_block(json_writer *w, const generation *g, const answer *c, const answer_part *part)
{
    json_open_object(w);
    if (part->kind == OUTPARSE_CALL_BEGIN) {
        const answer_call *call = &c->calls[part->from];
        put_call_block(w, call, buf_str(&call->name), buf_str(&call->arguments));
    } else if (part->kind == OUTPARSE_CONTENT) {
        put_text_block(w, answer_part_text(c, part));
    } else {
        buf signature;
        buf_init(&signature);
        str text = answer_part_text(c, part);
        anthropic_put_signature(&signature, text, g->request.hides_reasoning);
        if (signature.failed) w->out->failed = true;
        put_thinking_block(w, g->request.hides_reasoning ? STR("") : text, buf_str(&signature));
        buf_fini(&signature);
    }
    json_close_object(w);
}

void messages_put_message(buf *out, const generation *g)
{
    json_writer w;
    const answer *c = &g->answers[0];
    json_writer_init(&w, out);
    put_head(&w, g);
    for (int i = 0; i < c->n_parts; i++) put_block(&w, g, c, &c->parts[i]);
    json_close_array(&w);
    put_stop(&w, g, c);
    put_message_usage(&w, g, c);
    json_close_object(&w);
}
