/* Engines, requests and comparisons of the oracle's cases. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "bench/oracle_priv.h"

/* Chat turns and code like no other, n tokens of it. */
static status make_text(oracle *o, engine *en, int n, err *e)
{
    static const char *const verbs[] = {"read", "sort", "swap", "count", "merge", "print", "check"};
    static const char *const nouns[] = {"list", "file", "name", "word", "row", "item"};
    token_ids ids = {0};
    buf line;
    buf_init(&line);
    buf_put_c(&line, "<|im_start|>system\nYou are a coding agent. Answer in one short piece of "
                     "code.<|im_end|>\n<|im_start|>user\n");
    status s = ERR_OK;
    for (int i = 0; s == ERR_OK && ids.n < n; i++) {
        buf_printf(&line, "Write a Python function %s_%s that takes %d items.\n", verbs[i % 7],
                   nouns[i / 7 % 6], i * 7 % 97);
        if (i % 4 == 3)
            buf_put_c(&line, "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\ndef f(a):\n"
                             "    return a\n<|im_end|>\n<|im_start|>user\n");
        s = tokenizer_encode(engine_tokenizer(en), buf_str(&line), true, 0, &ids, e);
        buf_clear(&line);
    }
    buf_fini(&line);
    o->n_text = n;
    o->text = mem_new_array((size_t)n, sizeof *o->text);
    if (s == ERR_OK && !o->text) s = err_set(e, ERR_NOMEM, "oracle", -1, "%d tokens", n);
    if (s == ERR_OK) memcpy(o->text, ids.ptr, (size_t)n * sizeof *o->text);
    token_ids_fini(&ids);
    return s;
}

engine_options oracle_plain(const oracle *o)
{
    engine_options v = o->r->engine;
    v.n_lanes = 1;
    v.draft = NULL;
    v.prefill_rows = 1 << 16;
    v.slice_ms = -1;
    v.decode_share = 0;
    v.cache_bytes = -1;
    v.guards_steps = true;
    v.max_context = o->r->n_prompt + 4 * OPS_BLOCK + 2 * o->r->n_new;
    return v;
}

engine_options oracle_usual(const oracle *o)
{
    engine_options v = oracle_plain(o);
    v.draft = o->r->engine.draft;
    v.draft_rows = -1;
    v.prefill_rows = 512;
    v.cache_bytes = 0;
    return v;
}

oracle_ask oracle_prompt(const oracle *o, oracle_kind kind)
{
    return (oracle_ask){
        .ids = o->text, .n_ids = o->r->n_prompt, .n_new = o->r->n_new, .kind = kind};
}

const char *oracle_kind_name(oracle_kind kind)
{
    static const char *const names[ORACLE_KINDS] = {"greedy", "sampled", "penalised", "masked"};
    return names[kind];
}

bool oracle_check(oracle *o, bool holds, const char *what)
{
    if (!holds && !o->detail[0]) snprintf(o->detail, sizeof o->detail, "%s", what);
    return holds;
}

static bool failed(oracle *o, const err *e)
{
    char text[192];
    err_format(e, text, sizeof text);
    return oracle_check(o, false, text);
}

bool oracle_engine(oracle *o, const engine_options *options)
{
    err e = {0};
    engine_close(o->en);
    o->en = NULL;
    return engine_open(&o->en, options, &e) == ERR_OK || failed(o, &e);
}

static void on_event(void *ctx, const engine_event *ev)
{
    oracle_answer *a = ctx;
    for (int i = 0; i < ev->n_ids && a->n < ORACLE_NEW_MAX; i++) {
        a->logprob[a->n] = ev->logprobs ? ev->logprobs[i].logprob : 0;
        a->ids[a->n++] = ev->ids[i];
    }
    a->usage = ev->usage;
    if (ev->kind != ENGINE_FINISH) return;
    a->is_done = true;
    a->reason = ev->reason;
    if (ev->error) a->failure = *ev->error;
}

bool oracle_submit(oracle *o, const oracle_ask *a, oracle_answer *out)
{
    err e = {0};
    uint64_t id;
    engine_request q = {.ids = a->ids,
                        .n_ids = a->n_ids,
                        .max_tokens = a->n_new,
                        .policy = policy_neutral(),
                        .n = 1,
                        .wants_logprobs = true,
                        .priority = a->priority,
                        .on_event = on_event,
                        .ctx = out};
    q.policy.seed = 11;
    q.grammar = a->kind == ORACLE_MASKED ? o->words : NULL;
    q.policy.ignore_eos = q.grammar == NULL;
    q.policy.temperature = a->kind == ORACLE_GREEDY ? 0 : 0.8;
    if (a->kind == ORACLE_SAMPLED) {
        q.policy.top_k = 40;
        q.policy.top_p = 0.95;
    }
    if (a->kind == ORACLE_PENALISED) {
        q.policy.repetition = 1.2;
        q.policy.presence = 0.4;
        q.policy.frequency = 0.3;
    }
    *out = (oracle_answer){.n_asked = a->n_new};
    return engine_submit(o->en, &q, &id, &e) == ERR_OK || failed(o, &e);
}

void oracle_steps(oracle *o)
{
    while (engine_step(o->en)) continue;
}

bool oracle_answer_to(oracle *o, const oracle_ask *a, oracle_answer *out)
{
    if (!oracle_submit(o, a, out)) return false;
    oracle_steps(o);
    return oracle_check(o, out->is_done, "a request did not end");
}

bool oracle_same(oracle *o, const oracle_answer *got, const oracle_answer *want, int from,
                 const char *what)
{
    char text[192];
    if (got->failure.code != ERR_OK) return failed(o, &got->failure);
    if (!got->is_done) return oracle_check(o, false, "a request did not end");
    int n = got->n < want->n - from ? got->n : want->n - from;
    for (int i = 0; i < n; i++) {
        int32_t id = want->ids[from + i];
        if (got->ids[i] != id) {
            snprintf(text, sizeof text, "%s: token %d is %d, want %d", what, i, got->ids[i], id);
            return oracle_check(o, false, text);
        }
        if (memcmp(&got->logprob[i], &want->logprob[from + i], sizeof(float)) != 0) {
            snprintf(text, sizeof text, "%s: token %d has log-probability %.9g, want %.9g", what, i,
                     (double)got->logprob[i], (double)want->logprob[from + i]);
            return oracle_check(o, false, text);
        }
    }
    if (n == got->n_asked && n == got->n && got->reason == ENGINE_LENGTH) return true;
    snprintf(text, sizeof text, "%s: %d tokens, want %d", what, got->n, got->n_asked);
    return oracle_check(o, false, text);
}

void oracle_end(oracle *o, const char *name)
{
    if (o->en) {
        engine_cache_counters c = engine_stats(o->en).cache;
        oracle_check(o, c.n_held_blocks == 0 && c.n_free_blocks + c.n_cached_blocks == c.n_blocks,
                     "blocks were lost");
    }
    engine_close(o->en);
    o->en = NULL;
    o->n_failed += o->detail[0] != 0;
    o->r->on_case(o->r->ctx, name, o->detail[0] ? o->detail : NULL);
    o->detail[0] = 0;
}

status oracle_open(oracle *o, const oracle_request *r, err *e)
{
    *o = (oracle){.r = r};
    engine_options plain = oracle_plain(o);
    /* Longer than any answer, so that it never ends. */
    TRY(grammar_open_regex(&o->words, STR("[a-z, ]{2000,4000}"), e));
    TRY(engine_open(&o->en, &plain, e));
    TRY(make_text(o, o->en, r->n_prompt + 8 * OPS_BLOCK, e));
    for (int k = 0; k < ORACLE_KINDS; k++) {
        oracle_ask a = oracle_prompt(o, (oracle_kind)k);
        bool ok = oracle_answer_to(o, &a, &o->want[k]);
        if (o->want[k].failure.code != ERR_OK) *e = o->want[k].failure;
        if (o->want[k].failure.code != ERR_OK) return e->code;
        if (!ok || o->want[k].n != r->n_new)
            return err_set(e, ERR_INVALID, "oracle", -1, "the plain engine: %s", o->detail);
    }
    return ERR_OK;
}

void oracle_close(oracle *o)
{
    engine_close(o->en);
    grammar_close(o->words);
    mem_free(o->text);
}
