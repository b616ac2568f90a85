#include "server/responses_output_priv.h"

#include <stdio.h>

#include "base/json.h"
#include "chat/anthropic.h"
#include "server/sse_priv.h"

static const answer_part nothing = {.kind = OUTPARSE_CONTENT};

/* --- items -------------------------------------------------------------------------------------
 */

static const responses_echo *echo_of(const generation *g)
{
    return g->extra;
}

/* By the name that the model was told, or, as models forget it, by a name that one namespace has.
 */
static const responses_tool *find_tool(const generation *g, str name)
{
    const responses_echo *echo = echo_of(g);
    const responses_tool *only = NULL;
    int n = 0;
    for (int i = 0; i < echo->n_tools; i++) {
        const responses_tool *tool = &echo->tools[i];
        if (str_equal(tool->flat, name)) return tool;
        if (!str_equal(tool->name, name)) continue;
        only = tool;
        n++;
    }
    return n == 1 ? only : NULL;
}

static bool is_custom(const generation *g, const answer_call *call)
{
    const responses_tool *tool = find_tool(g, buf_str(&call->name));
    return tool && tool->is_custom;
}

/* "fc_0123…_2": the item's kind, the response's own digits, its place. */
static void put_item_id(json_writer *w, const char *key, const generation *g, const char *kind,
                        int index)
{
    char id[100];
    snprintf(id, sizeof id, "%s_%s_%d", kind, g->id + strlen("resp_"), index);
    json_key(w, key);
    json_c_string(w, id);
}

static const char *kind_of(const generation *g, const answer *c, const answer_part *part)
{
    if (part->kind == OUTPARSE_REASONING) return "rs";
    if (part->kind == OUTPARSE_CONTENT) return "msg";
    return is_custom(g, &c->calls[part->from]) ? "ctc" : "fc";
}

/* The text that a custom tool is called with. */
static void put_input(json_writer *w, const answer_call *call)
{
    arena a;
    const json *v = NULL;
    str input = buf_str(&call->arguments);
    arena_init(&a, 0);
    status s = json_parse(&a, input, "arguments", 128, 0, &v, NULL);
    if (s == ERR_NOMEM) w->out->failed = true;
    json_to_str(json_get(v, "input"), &input);
    json_string(w, input);
    arena_fini(&a);
}

static void put_call(json_writer *w, const generation *g, const answer_call *call, bool is_new)
{
    str name = buf_str(&call->name);
    const responses_tool *tool = find_tool(g, name);
    json_key(w, "type");
    json_c_string(w, is_custom(g, call) ? "custom_tool_call" : "function_call");
    json_key(w, "call_id");
    json_c_string(w, call->id);
    json_key(w, "name");
    json_string(w, tool ? tool->name : name);
    if (tool && tool->space.len) {
        json_key(w, "namespace");
        json_string(w, tool->space);
    }
    json_key(w, is_custom(g, call) ? "input" : "arguments");
    if (is_new)
        json_c_string(w, "");
    else if (is_custom(g, call))
        put_input(w, call);
    else
        json_string(w, buf_str(&call->arguments));
}

/* {"type":"summary_text","text"} or {"type":"output_text",…}; part NULL: as it is announced. */
static void put_text_part(json_writer *w, const answer *c, outparse_kind kind,
                          const answer_part *part)
{
    str text = part ? answer_part_text(c, part) : STR("");
    json_open_object(w);
    json_key(w, "type");
    json_c_string(w, kind == OUTPARSE_REASONING ? "summary_text" : "output_text");
    json_key(w, "text");
    json_string(w, text);
    if (kind == OUTPARSE_CONTENT) {
        json_key(w, "annotations");
        json_raw(w, STR("[]"));
        json_key(w, "logprobs");
        answer_write_logprobs(w, c, part ? part->logprobs_from : 0, part ? part->logprobs_to : 0);
    }
    json_close_object(w);
}

static void put_texts(json_writer *w, const char *key, const answer *c, const answer_part *part,
                      bool is_new)
{
    json_key(w, key);
    json_open_array(w);
    if (!is_new) put_text_part(w, c, part->kind, part);
    json_close_array(w);
}

/* is_new: as it is announced, without content. */
static void put_item(json_writer *w, const generation *g, const answer *c, int index,
                     const answer_part *part, bool is_new, const char *state)
{
    json_open_object(w);
    put_item_id(w, "id", g, kind_of(g, c, part), index);
    if (part->kind == OUTPARSE_CALL_BEGIN) {
        put_call(w, g, &c->calls[part->from], is_new);
    } else if (part->kind == OUTPARSE_CONTENT) {
        json_key(w, "type");
        json_c_string(w, "message");
        json_key(w, "role");
        json_c_string(w, "assistant");
        put_texts(w, "content", c, part, is_new);
    } else {
        json_key(w, "type");
        json_c_string(w, "reasoning");
        put_texts(w, "summary", c, part, is_new);
        if (echo_of(g)->wants_encrypted && !is_new) {
            buf text;
            buf_init(&text);
            anthropic_put_signature(&text, answer_part_text(c, part), false);
            json_key(w, "encrypted_content");
            json_string(w, buf_str(&text));
            if (text.failed) w->out->failed = true;
            buf_fini(&text);
        }
    }
    json_key(w, "status");
    json_c_string(w, state);
    json_close_object(w);
}

static const char *item_state(const answer *c, int index)
{
    bool is_cut = c->is_done && c->reason == ENGINE_LENGTH && index == c->n_parts - 1;
    return is_cut ? "incomplete" : "completed";
}

static void put_items(json_writer *w, const generation *g, const answer *c)
{
    for (int i = 0; i < c->n_parts; i++)
        put_item(w, g, c, i, &c->parts[i], false, item_state(c, i));
}

/* --- the response ------------------------------------------------------------------------------
 */

static const char *state_of(const answer *c)
{
    if (!c->is_done) return "in_progress";
    return c->reason == ENGINE_LENGTH ? "incomplete" : "completed";
}

static void put_usage(json_writer *w, const generation *g, const answer *c)
{
    if (!c->is_done) return; /* the official types have no null here */
    json_key(w, "usage");
    json_open_object(w);
    json_key(w, "input_tokens");
    json_int(w, g->n_prompt);
    json_key(w, "input_tokens_details");
    json_open_object(w);
    json_key(w, "cached_tokens");
    json_int(w, c->usage.cached_tokens);
    json_key(w, "cache_write_tokens");
    json_int(w, 0);
    json_close_object(w);
    json_key(w, "output_tokens");
    json_int(w, c->usage.completion_tokens);
    json_key(w, "output_tokens_details");
    json_open_object(w);
    json_key(w, "reasoning_tokens");
    json_int(w, c->reasoning_tokens);
    json_close_object(w);
    json_key(w, "total_tokens");
    json_int(w, g->n_prompt + c->usage.completion_tokens);
    json_close_object(w);
}

static void put_raw(json_writer *w, const char *key, str text, const char *instead)
{
    json_key(w, key);
    json_raw(w, instead && str_is(text, "null") ? str_from(instead) : text);
}

static void put_request(json_writer *w, const generation *g)
{
    const responses_echo *echo = echo_of(g);
    put_raw(w, "instructions", echo->instructions, NULL);
    put_raw(w, "metadata", echo->metadata, "{}");
    put_raw(w, "reasoning", echo->reasoning, NULL);
    put_raw(w, "tool_choice", echo->tool_choice, "\"auto\"");
    put_raw(w, "tools", echo->tools_text, "[]");
    json_key(w, "parallel_tool_calls");
    json_bool(w, echo->has_parallel_calls);
    json_key(w, "store");
    json_bool(w, echo->is_stored);
    json_key(w, "previous_response_id");
    if (echo->previous_id.len)
        json_string(w, echo->previous_id);
    else
        json_null(w);
    json_key(w, "max_output_tokens");
    if (echo->max_output)
        json_int(w, echo->max_output);
    else
        json_null(w);
    json_key(w, "temperature");
    json_double(w, g->request.policy.temperature);
    json_key(w, "top_p");
    json_double(w, g->request.policy.top_p);
    json_key(w, "top_logprobs");
    json_int(w, g->request.top_logprobs);
    json_key(w, "truncation");
    json_c_string(w, "disabled");
    json_key(w, "background");
    json_bool(w, false);
    json_key(w, "text");
    json_open_object(w);
    put_raw(w, "format", echo->format, "{\"type\":\"text\"}");
    json_close_object(w);
}

/* failure NULL: none. */
static void put_response(json_writer *w, const generation *g, const api_error *failure)
{
    const answer *c = &g->answers[0];
    json_open_object(w);
    json_key(w, "id");
    json_c_string(w, g->id);
    json_key(w, "object");
    json_c_string(w, "response");
    json_key(w, "created_at");
    json_int(w, g->created_s);
    json_key(w, "status");
    json_c_string(w, failure ? "failed" : state_of(c));
    json_key(w, "error");
    if (failure) {
        json_open_object(w);
        json_key(w, "code");
        json_c_string(w, "server_error");
        json_key(w, "message");
        json_c_string(w, failure->message);
        json_close_object(w);
    } else {
        json_null(w);
    }
    json_key(w, "incomplete_details");
    if (!failure && c->is_done && c->reason == ENGINE_LENGTH)
        json_raw(w, STR("{\"reason\":\"max_output_tokens\"}"));
    else
        json_null(w);
    json_key(w, "model");
    json_c_string(w, g->server->about->model_name);
    json_key(w, "output");
    json_open_array(w);
    if (c->is_done && !failure) put_items(w, g, c);
    json_close_array(w);
    put_request(w, g);
    put_usage(w, g, c);
    json_close_object(w);
}

void responses_put_response(buf *out, const generation *g)
{
    json_writer w;
    json_writer_init(&w, out);
    put_response(&w, g, NULL);
}

void responses_put_items(buf *out, const generation *g)
{
    json_writer w;
    str before = echo_of(g)->items; /* "[…]" */
    bool is_empty = before.len <= 2;
    buf more;
    buf_init(&more);
    json_writer_init(&w, &more);
    json_open_array(&w);
    put_items(&w, g, &g->answers[0]);
    json_close_array(&w);
    buf_put_str(out, str_slice(before, 0, before.len - 1));
    if (!is_empty && more.len > 2) buf_put_byte(out, ',');
    buf_put_str(out, str_skip(buf_str(&more), more.len ? 1 : 0));
    if (more.failed) out->failed = true;
    buf_fini(&more);
}

/* --- events ------------------------------------------------------------------------------------
 */

static json_writer *begin_event(json_writer *w, generation *g, const char *name)
{
    sse_open_event(&g->out, name);
    json_writer_init(w, &g->out);
    json_open_object(w);
    json_key(w, "type");
    json_c_string(w, name);
    json_key(w, "sequence_number");
    json_int(w, g->n_events++);
    return w;
}

static void end_event(json_writer *w)
{
    json_close_object(w);
    sse_close_event(w->out);
}

static void put_response_event(generation *g, const char *name, const api_error *failure)
{
    json_writer event, *w = begin_event(&event, g, name);
    json_key(w, "response");
    put_response(w, g, failure);
    end_event(w);
}

void responses_put_start(generation *g)
{
    put_response_event(g, "response.created", NULL);
    put_response_event(g, "response.in_progress", NULL);
}

/* The part of the open item; nothing when there was no memory to keep it. */
static const answer_part *open_part(const answer *c)
{
    return c->n_blocks > 0 && c->n_blocks <= c->n_parts ? &c->parts[c->n_blocks - 1] : &nothing;
}

/* An event of the open item, up to its own members. */
static json_writer *begin_item_event(json_writer *w, generation *g, const answer *c,
                                     const char *name)
{
    begin_event(w, g, name);
    put_item_id(w, "item_id", g, kind_of(g, c, open_part(c)), c->n_blocks - 1);
    json_key(w, "output_index");
    json_int(w, c->n_blocks - 1);
    if (c->open_kind != OUTPARSE_CALL_BEGIN) {
        json_key(w, c->open_kind == OUTPARSE_REASONING ? "summary_index" : "content_index");
        json_int(w, 0);
    }
    return w;
}

static void put_item_state(generation *g, const answer *c, const char *name, bool is_new,
                           const char *state)
{
    json_writer event, *w = begin_event(&event, g, name);
    json_key(w, "output_index");
    json_int(w, c->n_blocks - 1);
    json_key(w, "item");
    put_item(w, g, c, c->n_blocks - 1, open_part(c), is_new, state);
    end_event(w);
}

/* Text of the open item: a delta, or all of it; with the log probabilities from..to. */
static void put_text(generation *g, const answer *c, const char *name, const char *key, str text,
                     int from, int to)
{
    json_writer event, *w = begin_item_event(&event, g, c, name);
    json_key(w, key);
    json_string(w, text);
    if (c->open_kind == OUTPARSE_CONTENT) {
        json_key(w, "logprobs");
        answer_write_logprobs(w, c, from, to);
    }
    end_event(w);
}

/* part NULL: it begins. */
static void put_part_event(generation *g, const answer *c, const char *name,
                           const answer_part *part)
{
    json_writer event, *w = begin_item_event(&event, g, c, name);
    json_key(w, "part");
    put_text_part(w, c, c->open_kind, part);
    end_event(w);
}

static void end_text(generation *g, const answer *c)
{
    bool is_reasoning = c->open_kind == OUTPARSE_REASONING;
    const answer_part *part = open_part(c);
    put_text(g, c,
             is_reasoning ? "response.reasoning_summary_text.done" : "response.output_text.done",
             "text", answer_part_text(c, part), part->logprobs_from, part->logprobs_to);
    put_part_event(
        g, c, is_reasoning ? "response.reasoning_summary_part.done" : "response.content_part.done",
        part);
}

static void end_call(generation *g, const answer *c)
{
    json_writer event, *w = &event;
    const answer_part *part = open_part(c);
    if (part->kind != OUTPARSE_CALL_BEGIN) return;
    const answer_call *call = &c->calls[part->from];
    const responses_tool *tool = find_tool(g, buf_str(&call->name));
    if (is_custom(g, call)) {
        static const char *const names[][2] = {{"response.custom_tool_call_input.delta", "delta"},
                                               {"response.custom_tool_call_input.done", "input"}};
        for (int i = 0; i < 2; i++) { /* its text is only known at the end */
            begin_item_event(w, g, c, names[i][0]);
            json_key(w, names[i][1]);
            put_input(w, call);
            end_event(w);
        }
        return;
    }
    begin_item_event(w, g, c, "response.function_call_arguments.done");
    json_key(w, "name");
    json_string(w, tool ? tool->name : buf_str(&call->name));
    json_key(w, "arguments");
    json_string(w, buf_str(&call->arguments));
    end_event(w);
}

static void end_item(generation *g, answer *c)
{
    if (!c->has_open_block) return;
    if (c->open_kind == OUTPARSE_CALL_BEGIN)
        end_call(g, c);
    else
        end_text(g, c);
    put_item_state(g, c, "response.output_item.done", false, item_state(c, c->n_blocks - 1));
    c->has_open_block = false;
}

static void begin_item(generation *g, answer *c, outparse_kind kind)
{
    if (c->has_open_block && c->open_kind == kind && kind != OUTPARSE_CALL_BEGIN) return;
    end_item(g, c);
    c->n_blocks++;
    c->has_open_block = true;
    c->open_kind = kind;
    put_item_state(g, c, "response.output_item.added", true, "in_progress");
    if (kind == OUTPARSE_REASONING)
        put_part_event(g, c, "response.reasoning_summary_part.added", NULL);
    else if (kind == OUTPARSE_CONTENT)
        put_part_event(g, c, "response.content_part.added", NULL);
}

void responses_put_part(generation *g, answer *c, const outparse_event *part)
{
    size_t at = 0;
    switch (part->kind) {
    case OUTPARSE_REASONING:
        begin_item(g, c, part->kind);
        put_text(g, c, "response.reasoning_summary_text.delta", "delta", part->text, 0, 0);
        break;
    case OUTPARSE_CONTENT:
        begin_item(g, c, part->kind);
        put_text(g, c, "response.output_text.delta", "delta", part->text, c->n_told, c->n_settled);
        answer_told_logprobs(c);
        break;
    case OUTPARSE_CALL_BEGIN: begin_item(g, c, part->kind); break;
    case OUTPARSE_ARGUMENTS:
        if (is_custom(g, &c->calls[part->index])) break;
        for (str piece; answer_next_piece(part->text, &at, &piece);)
            put_text(g, c, "response.function_call_arguments.delta", "delta", piece, 0, 0);
        break;
    case OUTPARSE_CALL_END: end_item(g, c); break;
    }
}

void responses_put_finish(generation *g, answer *c)
{
    end_item(g, c);
    put_response_event(g, c->reason == ENGINE_LENGTH ? "response.incomplete" : "response.completed",
                       NULL);
}

void responses_put_failure(generation *g, const api_error *a)
{
    put_response_event(g, "response.failed", a);
}
