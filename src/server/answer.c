/* One answer of a generation: engine events in, parts of an answer out. */
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
    int n_logprobs_before = last ? last->logprobs_to : 0;
    if (last && last->kind == kind && kind != OUTPARSE_CALL_BEGIN) {
        last->to = to;
        last->logprobs_to = c->n_settled;
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
    c->parts[c->n_parts++] = (answer_part){.kind = kind,
                                           .from = from,
                                           .to = to,
                                           .logprobs_from = n_logprobs_before,
                                           .logprobs_to = c->n_settled};
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

static void pass_on(answer *c, const outparse_event *part)
{
    const generation *g = c->g;
    if (part->kind == OUTPARSE_CALL_BEGIN && !add_call(c)) {
        c->is_starved = true;
        return;
    }
    if (part->kind != OUTPARSE_REASONING && part->kind != OUTPARSE_CONTENT &&
        part->index >= c->n_calls)
        return; /* its beginning was lost, see above */
    if (part->kind == OUTPARSE_CONTENT) answer_settle_logprobs(c, part->text);
    if (part->kind != OUTPARSE_REASONING) c->is_reasoning = false;
    if (!g->request.streams || g->dialect->keeps_text || g->is_checked) keep_part(c, part);
    if (g->request.streams) g->dialect->part(c->g, c, part);
}

/* What `shown` has become goes on as content. */
static void pass_shown(answer *c)
{
    c->is_starved |= c->shown.failed || c->stops.held.failed;
    if (c->shown.len > 0)
        pass_on(c, &(outparse_event){.kind = OUTPARSE_CONTENT, .text = buf_str(&c->shown)});
    buf_clear(&c->shown);
}

/* No stop string reaches into what follows. */
static void pass_held(answer *c)
{
    if (!c->has_stops || c->is_cut) return;
    c->is_starved |= c->stops.held.failed;
    stop_flush(&c->stops, &c->shown);
    pass_shown(c);
}

/* The parser's callback. A stream needs the ids of its calls too, but not their text. */
static void take_part(void *ctx, const outparse_event *part)
{
    answer *c = ctx;
    if (c->g->request.is_warm_up || c->is_cut) return;
    outparse_event fresh = *part;
    if (part->kind == OUTPARSE_CONTENT) {
        size_t n = part->text.len < c->n_prefill ? part->text.len : c->n_prefill;
        c->n_prefill -= n;
        fresh.text = str_skip(part->text, n);
        if (fresh.text.len == 0) return;
    } else {
        c->n_prefill = 0; /* what was held back of it has become a mark */
    }
    if (c->has_stops && part->kind == OUTPARSE_CONTENT) {
        stop_push(&c->stops, fresh.text, &c->shown);
        pass_shown(c);
        c->is_cut = c->stops.hit >= 0;
        return;
    }
    pass_held(c);
    pass_on(c, &fresh);
}

/* --- life --------------------------------------------------------------------------------------
 */

status answer_open(answer *c, generation *g, int index, err *e)
{
    *c = (answer){
        .g = g, .index = index, .stop_string = -1, .is_reasoning = g->starts_in_reasoning};
    buf_init(&c->reasoning);
    buf_init(&c->content);
    buf_init(&c->raw);
    buf_init(&c->shown);
    stop_init(&c->stops, NULL, 0);
    detok_init(&c->text, tokenizer_vocab(g->server->tokens), true);
    if (g->request.prompt != PROMPT_CHAT) return ERR_OK;
    c->keeps_turn = g->turn_prompt.n_bytes > 0;
    c->has_stops = g->request.n_stop > 0;
    c->goes_by_token = c->has_stops ||
                       (g->request.wants_logprobs && g->request.logprobs == LOGPROBS_OF_CONTENT);
    if (c->has_stops) stop_init(&c->stops, g->request.stop, g->request.n_stop);
    if (c->stops.held.failed) return err_set(e, ERR_NOMEM, "stop", -1, "stop strings");
    outparse_options o = {.tools = g->tools,
                          .starts_in_reasoning = g->starts_in_reasoning,
                          .text_has_no_calls = g->request.format.form != ANSWER_FREE,
                          .emit = take_part,
                          .ctx = c};
    TRY(outparse_open(&c->parser, &o, e));
    /* The parser has to know that text has begun; what it makes of it is not said again. */
    str prefill = str_trim(g->request.prefill);
    c->n_prefill = prefill.len;
    return outparse_feed(c->parser, prefill, e);
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
    mem_free(c->logprobs);
    buf_fini(&c->reasoning);
    buf_fini(&c->content);
    buf_fini(&c->raw);
    buf_fini(&c->shown);
    stop_fini(&c->stops);
    token_ids_fini(&c->turn);
    *c = (answer){0};
}

/* --- tokens ------------------------------------------------------------------------------------
 */

static bool is_end_token(const answer *c, int32_t id)
{
    const engine_info *about = c->g->server->about;
    for (int i = 0; i < about->n_eos && !c->g->request.policy.ignore_eos; i++)
        if (about->eos[i] == id) return true;
    return false;
}

static void count_token(answer *c, const engine_event *ev, int i)
{
    const server *s = c->g->server;
    int32_t id = ev->ids[i];
    if (id == s->think_open && s->think_open >= 0) c->is_reasoning = true;
    c->reasoning_tokens += c->is_reasoning && c->parser;
    if (id == s->think_close && s->think_close >= 0) c->is_reasoning = false;
    if (ev->logprobs && !is_end_token(c, id))
        c->is_starved |= !answer_add_logprob(c, id, &ev->logprobs[i]);
}

/* --- text --------------------------------------------------------------------------------------
 */

static status feed(answer *c, str text, err *e)
{
    if (c->parser) return outparse_feed(c->parser, text, e);
    if (text.len > 0) take_part(c, &(outparse_event){.kind = OUTPARSE_CONTENT, .text = text});
    return ERR_OK;
}

/* The tokens of an event one by one, up to a stop string. */
static status feed_tokens(answer *c, const engine_event *ev, err *e)
{
    int64_t n_before = ev->usage.completion_tokens - ev->n_ids;
    for (int i = 0; i < ev->n_ids && !c->is_cut; i++) {
        count_token(c, ev, i);
        buf_clear(&c->raw);
        if (!is_end_token(c, ev->ids[i])) detok_push(&c->text, ev->ids[i], &c->raw);
        if (c->raw.failed) return err_set(e, ERR_NOMEM, "answer", -1, "text");
        TRY(feed(c, buf_str(&c->raw), e));
        if (ev->logprobs) answer_sift_logprobs(c);
        if (!c->is_cut) continue;
        c->usage.completion_tokens = n_before + i + 1;
        c->stop_string = c->stops.hit;
    }
    return ERR_OK;
}

static status finish(answer *c, const engine_event *ev, err *e)
{
    c->is_done = true;
    c->reason = c->is_cut ? ENGINE_STOP_STRING : ev->reason;
    if (c->is_cut) return ERR_OK;
    if (!c->has_stops) c->stop_string = ev->stop_string;
    if (c->goes_by_token) {
        buf_clear(&c->raw);
        detok_flush(&c->text, &c->raw);
        if (c->raw.failed) return err_set(e, ERR_NOMEM, "answer", -1, "text");
        TRY(feed(c, buf_str(&c->raw), e));
    }
    if (c->parser) TRY(outparse_finish(c->parser, e));
    pass_held(c);
    if (!c->is_cut) return ERR_OK;
    c->reason = ENGINE_STOP_STRING; /* in what the parser still held back */
    c->stop_string = c->stops.hit;
    return ERR_OK;
}

static status check_memory(const answer *c, err *e)
{
    if (c->is_starved || c->reasoning.failed || c->content.failed)
        return err_set(e, ERR_NOMEM, "answer", -1, "text");
    for (int i = 0; i < c->n_calls; i++)
        if (c->calls[i].name.failed || c->calls[i].arguments.failed)
            return err_set(e, ERR_NOMEM, "answer", -1, "tool call");
    return ERR_OK;
}

/* ---- the turn as it was generated ---- */

static void drop_turn(answer *c)
{
    token_ids_fini(&c->turn);
    c->keeps_turn = false;
}

static void add_to_turn(answer *c, const engine_event *ev)
{
    for (int i = 0; i < ev->n_ids && c->keeps_turn; i++)
        if (!token_ids_push(&c->turn, ev->ids[i])) drop_turn(c);
}

/* It ended by itself: should it come back, it is known. */
static void keep_turn(answer *c)
{
    const generation *g = c->g;
    str *ids = mem_new_array((size_t)c->n_calls, sizeof *ids);
    for (int i = 0; i < c->n_calls && ids; i++) ids[i] = str_from(c->calls[i].id);
    turn t = {.n_messages = g->n_messages,
              .n_ids = c->turn.n,
              .n_calls = c->n_calls,
              .ids = c->turn.ptr,
              .call_ids = ids};
    if (ids) turn_memory_put(engine_turns(g->server->engine), &g->turn_prompt, &t);
    mem_free(ids);
    drop_turn(c);
}

status answer_take(answer *c, const engine_event *ev, err *e)
{
    bool is_first = c->first_tokens == 0 && ev->n_ids > 0;
    add_to_turn(c, ev);
    if (!c->is_cut) {
        c->usage = ev->usage;
        if (c->goes_by_token) {
            TRY(feed_tokens(c, ev, e));
        } else {
            for (int i = 0; i < ev->n_ids; i++) count_token(c, ev, i);
            TRY(feed(c, ev->text, e));
        }
    }
    if (is_first) {
        c->first_tokens = ev->n_ids;
        c->first_ms = ev->usage.decode_ms;
    }
    if (ev->kind == ENGINE_FINISH) {
        TRY(finish(c, ev, e));
        answer_finish_logprobs(c);
    }
    TRY(check_memory(c, e));
    if (c->is_done && c->keeps_turn && c->reason == ENGINE_STOP) keep_turn(c);
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
