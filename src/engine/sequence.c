#include "engine/sequence_priv.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

static status copy_stops(request *r, const engine_request *from, err *e)
{
    if (from->n_stop > STOP_STRINGS_MAX)
        return err_set(e, ERR_INVALID, "stop", -1, "%d strings, at most %d", from->n_stop,
                       STOP_STRINGS_MAX);
    str *copy = arena_new_array(&r->mem, (size_t)from->n_stop + 1, sizeof *copy);
    if (!copy) return err_set(e, ERR_NOMEM, "request", -1, "stop strings");
    for (int i = 0; i < from->n_stop; i++) {
        str s = from->stop[i];
        if (s.len == 0 || s.len > STOP_BYTES_MAX)
            return err_set(e, ERR_INVALID, "stop", -1, "string %d has %zu bytes, want 1 to %d", i,
                           s.len, STOP_BYTES_MAX);
        copy[i] = (str){arena_copy(&r->mem, s.ptr, s.len), s.len};
        if (!copy[i].ptr) return err_set(e, ERR_NOMEM, "request", -1, "stop strings");
    }
    r->stop = copy;
    r->n_stop = from->n_stop;
    return ERR_OK;
}

status request_new(request **out, const engine_request *from, int64_t max_tokens, err *e)
{
    request *r = mem_new(sizeof *r);
    if (!r) return err_set(e, ERR_NOMEM, "request", -1, "request");
    arena_init(&r->mem, 0);
    size_t bias_bytes = (size_t)from->policy.n_bias * sizeof *from->policy.bias;
    r->ids = (const int32_t *)(void *)arena_copy(&r->mem, from->ids, (size_t)from->n_ids * 4);
    r->policy = from->policy;
    r->policy.bias = (const policy_bias *)(void *)arena_copy(&r->mem, from->policy.bias,
                                                             bias_bytes);
    r->n_ids = from->n_ids;
    r->max_tokens = max_tokens;
    r->wants_logprobs = from->wants_logprobs;
    r->keeps_special = from->keeps_special;
    r->grammar = from->grammar ? grammar_hold(from->grammar) : NULL;
    r->starts_in_reasoning = from->starts_in_reasoning;
    r->reasoning_most = from->has_reasoning_limit ? from->reasoning_most : -1;
    r->ends_loops = from->ends_loops;
    r->priority = from->priority;
    r->score_ids = (const int32_t *)(void *)arena_copy(&r->mem, from->score_ids,
                                                       (size_t)from->n_scores * 4);
    r->n_scores = from->n_scores;
    r->scores = from->scores;
    r->on_event = from->on_event;
    r->ctx = from->ctx;
    status s = r->ids && r->policy.bias && r->score_ids
                   ? copy_stops(r, from, e)
                   : err_set(e, ERR_NOMEM, "request", -1, "prompt of %d tokens", from->n_ids);
    if (s != ERR_OK) {
        request_free(r);
        return s;
    }
    *out = r;
    return ERR_OK;
}

void request_free(request *r)
{
    if (!r) return;
    grammar_close(r->grammar);
    arena_fini(&r->mem);
    mem_free(r);
}

status sequence_new(sequence **out, request *r, int choice, const vocab *v, err *e)
{
    sequence *s = mem_new(sizeof *s);
    if (!s) return err_set(e, ERR_NOMEM, "request", -1, "choice %d", choice);
    s->req = r;
    s->choice = choice;
    s->slot = s->cell = -1;
    s->n_blocks = (int)((r->n_ids + r->max_tokens + OPS_BLOCK - 1) / OPS_BLOCK);
    s->blocks = mem_new_array((size_t)s->n_blocks, sizeof *s->blocks);
    s->ids = mem_new_array((size_t)(r->n_ids + r->max_tokens), sizeof *s->ids);
    s->work_stamp = -1;
    detok_init(&s->detok, v, !r->keeps_special);
    stop_init(&s->stop, r->stop, r->n_stop);
    buf_init(&s->raw);
    buf_init(&s->text);
    /* The most text that one cycle can bring, so that a step allocates nothing. */
    size_t most = (size_t)(OPS_ROWS_MAX + 1) * ((size_t)vocab_longest(v) * 3 + 16) + STOP_BYTES_MAX;
    bool ok = s->blocks && s->ids && buf_reserve(&s->raw, most) &&
              buf_reserve(&s->text, most + STOP_BYTES_MAX);
    if (r->wants_logprobs)
        ok = ok && (s->logprobs = mem_new_array(OPS_ROWS_MAX, sizeof *s->logprobs));
    if (!ok || s->stop.held.failed) {
        sequence_free(s);
        return err_set(e, ERR_NOMEM, "request", -1, "choice %d", choice);
    }
    memcpy(s->ids, r->ids, (size_t)r->n_ids * sizeof *s->ids);
    s->submitted_ns = clock_ns();
    s->usage.prompt_tokens = r->n_ids;
    *out = s;
    return ERR_OK;
}

void sequence_free(sequence *s)
{
    if (!s) return;
    mem_free(s->blocks);
    mem_free(s->ids);
    mem_free(s->logprobs);
    constraint_close(s->constraint);
    stop_fini(&s->stop);
    buf_fini(&s->raw);
    buf_fini(&s->text);
    mem_free(s);
}

sample_policy sequence_policy(const sequence *s, const int32_t *eos, int n_eos, sample_bias *bias)
{
    const policy *p = &s->req->policy;
    sample_policy out = {
        .seed = p->seed,
        .choice = (uint32_t)s->choice,
        .top_k = (int32_t)p->top_k,
        .temperature = (float)p->temperature,
        .top_p = (float)p->top_p,
        .min_p = (float)p->min_p,
        .repetition = (float)p->repetition,
        .presence = (float)p->presence,
        .frequency = (float)p->frequency,
        .has_mask = s->constraint != NULL,
    };
    for (int i = 0; i < p->n_bias; i++) {
        float v = p->bias[i].value;
        bias[out.n_bias++] = (sample_bias){p->bias[i].id, v <= -100 ? -INFINITY : v};
    }
    for (int i = 0; i < n_eos; i++) {
        if (!p->ignore_eos)
            out.eos[out.n_eos++] = eos[i];
        else if (out.n_bias < OPS_BIAS_MAX)
            bias[out.n_bias++] = (sample_bias){eos[i], -INFINITY};
    }
    return out;
}

static engine_event event_of(const sequence *s, engine_event_kind kind)
{
    engine_event ev = {.request = s->req->id,
                       .choice = s->choice,
                       .kind = kind,
                       .stop_string = -1,
                       .usage = s->usage};
    return ev;
}

static void copy_logprobs(sequence *s, const cycle_result *r)
{
    for (int i = 0; i < r->n; i++) {
        engine_logprob *to = &s->logprobs[i];
        to->logprob = r->logprob[i];
        for (int j = 0; j < ENGINE_TOP_MAX; j++) {
            to->top_ids[j] = r->top_ids[i][j];
            to->top_logprobs[j] = r->top_logprobs[i][j];
        }
    }
}

bool sequence_emit(sequence *s, const cycle_result *r, bool ends, int *n_used)
{
    buf_clear(&s->text);
    int used = 0;
    while (used < r->n && s->stop.hit < 0) {
        bool is_end_token = ends && used == r->n - 1;
        buf_clear(&s->raw);
        if (!is_end_token || s->req->keeps_special) detok_push(&s->detok, r->ids[used], &s->raw);
        stop_push(&s->stop, buf_str(&s->raw), &s->text);
        s->ids[s->req->n_ids + s->n_new + used] = r->ids[used];
        used++;
    }
    *n_used = used;
    s->n_new += used;
    s->usage.completion_tokens = s->n_new;
    engine_event ev = event_of(s, ENGINE_TOKENS);
    ev.ids = r->ids;
    ev.n_ids = used;
    ev.text = buf_str(&s->text);
    if (s->logprobs) {
        copy_logprobs(s, r);
        ev.logprobs = s->logprobs;
    }
    s->req->on_event(s->req->ctx, &ev);
    return s->stop.hit >= 0;
}

void sequence_emit_prefill(sequence *s)
{
    if (s->n_new > 0 || s->pos <= s->shown) return; /* done before it was suspended */
    s->shown = s->pos;
    engine_event ev = event_of(s, ENGINE_PREFILL);
    ev.prefilled = s->pos;
    s->req->on_event(s->req->ctx, &ev);
}

void sequence_finish(sequence *s, engine_finish reason, const err *error)
{
    buf_clear(&s->text);
    if (reason != ENGINE_STOP_STRING) {
        buf_clear(&s->raw);
        detok_flush(&s->detok, &s->raw);
        stop_push(&s->stop, buf_str(&s->raw), &s->text);
        stop_flush(&s->stop, &s->text);
    }
    engine_event ev = event_of(s, ENGINE_FINISH);
    ev.text = buf_str(&s->text);
    ev.reason = reason;
    ev.stop_string = reason == ENGINE_STOP_STRING ? s->stop.hit : -1;
    ev.error = reason == ENGINE_FAILED ? error : NULL;
    s->req->on_event(s->req->ctx, &ev);
}
