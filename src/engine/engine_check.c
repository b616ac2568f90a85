#include "engine/engine_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

/* Guessing evenly loses log V. A trained model loses a fraction of that on plain code; one whose
 * norms or heads are wrong loses more than guessing. A draft of its own brings 3 to 5 tokens. */
static const double LOSS_SHARE = 0.6, PACE_LEAST = 1.3;
enum { SCORED_LEAST = 8, CYCLES_LEAST = 4, ANSWER_MOST = 48 };

static const char question[] =
    "<|im_start|>user\nWrite a Python function smallest that returns the smallest item of a "
    "list.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
static const char answer[] =
    "```python\ndef smallest(numbers):\n    best = numbers[0]\n    for element in numbers[1:]:\n"
    "        if element < best:\n            best = element\n    return best\n```";

typedef struct {
    cycle *c;
    engine_check_limits most;
    bool (*stops)(void *ctx);
    void *ctx;
    int64_t start_ns;
    token_ids question, answer;
    int32_t *all;  /* owned [V] 0, 1, … */
    float *logits; /* owned [V] */
    engine_check *out;
} check;

static bool is_over(const check *k)
{
    return clock_ms_since(k->start_ns) > k->most.all_ms || (k->stops && k->stops(k->ctx));
}

static status begin(check *k)
{
    int32_t blocks[64];
    int n = (int)(k->question.n + ANSWER_MOST + k->answer.n + OPS_ROWS_MAX) / OPS_BLOCK + 1;
    sample_policy greedy = {.temperature = 0, .top_p = 1, .repetition = 1};
    for (int i = 0; i < n; i++) blocks[i] = i;
    TRY(cycle_reset(k->c, 0));
    TRY(cycle_set_blocks(k->c, 0, 0, blocks, n));
    return cycle_set_policy(k->c, 0, &greedy, NULL);
}

/* All tokens of the question but the last, which is the first anchor. */
static status prefill(check *k)
{
    int n = k->question.n - 1, most = cycle_prefill_rows(k->c);
    for (int at = 0; at < n; at += most) {
        cycle_slice s = {.slot = 0,
                         .ids = k->question.ptr + at,
                         .n = n - at < most ? n - at : most,
                         .pos = at,
                         .prompt_end = n};
        TRY(cycle_prefill(k->c, &s, 1));
    }
    return ERR_OK;
}

static double loss_of(const float *logits, int V, int32_t id)
{
    double most = (double)logits[0], sum = 0;
    for (int i = 1; i < V; i++) most = (double)logits[i] > most ? (double)logits[i] : most;
    for (int i = 0; i < V; i++) sum += exp((double)logits[i] - most);
    return most + log(sum) - (double)logits[id];
}

/* The known answer, token by token, whatever the model would say. */
static status score(check *k)
{
    int V = cycle_files(k->c)->target.V;
    cycle_result r;
    double sum = 0;
    int n = 0;
    TRY(begin(k));
    TRY(prefill(k));
    int32_t anchor = k->question.ptr[k->question.n - 1];
    for (; n < k->answer.n && !is_over(k); n++) {
        cycle_lane lane = {.slot = 0, .anchor = anchor, .pos = k->question.n - 1 + n, .max_new = 1};
        TRY(cycle_step(k->c, &lane, 1, &r));
        TRY(cycle_read_logits(k->c, 0, k->all, V, k->logits));
        anchor = k->answer.ptr[n];
        sum += loss_of(k->logits, V, anchor);
    }
    if (n < SCORED_LEAST) return ERR_OK;
    k->out->n_scored = n;
    k->out->loss = sum / n;
    return ERR_OK;
}

static bool is_end(const check *k, int32_t id)
{
    const arch_target *a = &cycle_files(k->c)->target;
    for (int i = 0; i < a->n_eos; i++)
        if (a->eos[i] == id) return true;
    return false;
}

/* The model's own answer with as many proposals as there can be. */
static status answer_freely(check *k)
{
    int width = cycle_max_draft(k->c), cycles = 0, tokens = 0;
    cycle_result r = {0};
    bool has_ended = false;
    if (!cycle_has_draft(k->c) || width == 0) return ERR_OK;
    TRY(begin(k));
    TRY(prefill(k));
    int32_t anchor = k->question.ptr[k->question.n - 1];
    while (tokens < ANSWER_MOST && !has_ended && !is_over(k)) {
        cycle_lane lane = {.slot = 0,
                           .anchor = anchor,
                           .pos = k->question.n - 1 + tokens,
                           .n_draft = width,
                           .max_new = width + 1};
        TRY(cycle_step(k->c, &lane, 1, &r));
        for (int i = 0; i < r.n && !has_ended; i++) {
            has_ended = is_end(k, r.ids[i]);
            tokens++;
        }
        cycles++;
        anchor = r.ids[r.n - 1];
    }
    if (cycles < CYCLES_LEAST) return ERR_OK;
    k->out->cycles = cycles;
    k->out->tokens = tokens;
    k->out->max_draft = width;
    return ERR_OK;
}

/* One cycle with nothing before it; the second of two, since the first wakes threads and clocks. */
static status time_token(check *k)
{
    cycle_lane lane = {.slot = 0, .anchor = k->question.ptr[0], .max_new = 1};
    cycle_result r;
    TRY(begin(k));
    for (int i = 0; i < 2; i++) {
        int64_t from = clock_ns();
        TRY(cycle_step(k->c, &lane, 1, &r));
        k->out->token_ms = clock_ms_since(from);
        if (k->out->token_ms > 10 * k->most.token_ms) break;
    }
    k->out->is_slow = k->out->token_ms > k->most.token_ms;
    return ERR_OK;
}

static status prepare(check *k, const tokenizer *t, err *e)
{
    int V = cycle_files(k->c)->target.V;
    TRY(tokenizer_encode(t, STR(question), true, 1024, &k->question, e));
    TRY(tokenizer_encode(t, STR(answer), false, 1024, &k->answer, e));
    k->all = mem_new_array((size_t)V, sizeof *k->all);
    k->logits = mem_new_array((size_t)V, sizeof *k->logits);
    if (!k->all || !k->logits) return err_set(e, ERR_NOMEM, "self-test", -1, "%d logits", V);
    for (int i = 0; i < V; i++) k->all[i] = i;
    k->out->loss_most = LOSS_SHARE * log(V);
    k->out->pace_least = PACE_LEAST;
    return ERR_OK;
}

static status run(check *k)
{
    int64_t room = cycle_n_blocks(k->c) * OPS_BLOCK;
    int need = k->question.n + k->answer.n + ANSWER_MOST + 2 * OPS_ROWS_MAX;
    if (cycle_max_context(k->c) < room) room = cycle_max_context(k->c);
    if (need > room || need > 60 * OPS_BLOCK) return ERR_OK;
    status s = time_token(k);
    if (s == ERR_OK && !k->out->is_slow) s = answer_freely(k);
    if (s == ERR_OK && !k->out->is_slow) s = score(k);
    if (s != ERR_OK) return s;
    return cycle_reset(k->c, 0);
}

engine_check_limits engine_check_usual_limits(void)
{
    return (engine_check_limits){.token_ms = 25, .all_ms = 1000};
}

status engine_check_run(cycle *c, const tokenizer *t, engine_check_limits most,
                        bool (*stops)(void *ctx), void *ctx, engine_check *out, err *e)
{
    check k = {
        .c = c, .most = most, .stops = stops, .ctx = ctx, .start_ns = clock_ns(), .out = out};
    *out = (engine_check){.has_draft = cycle_has_draft(c)};
    status s = prepare(&k, t, e);
    if (s == ERR_OK && k.question.n > 1) s = run(&k);
    out->ms = clock_ms_since(k.start_ns);
    token_ids_fini(&k.question);
    token_ids_fini(&k.answer);
    mem_free(k.all);
    mem_free(k.logits);
    return s;
}

static bool is_loss_bad(const engine_check *k)
{
    return k->n_scored > 0 && !(k->loss <= k->loss_most);
}

static bool is_pace_bad(const engine_check *k)
{
    return k->cycles > 0 && k->tokens < k->pace_least * k->cycles;
}

bool engine_check_is_bad(const engine_check *k)
{
    return is_loss_bad(k) || is_pace_bad(k);
}

static void add(char *out, int cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void add(char *out, int cap, const char *fmt, ...)
{
    size_t at = strlen(out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + at, (size_t)cap - at, fmt, args);
    va_end(args);
}

void engine_check_format(const engine_check *k, char *out, int cap)
{
    snprintf(out, (size_t)cap, "self-test in %.0f ms: weights finite, tokenizer round trip%s",
             k->ms, k->has_draft ? ", draft fits" : "");
    if (k->is_slow) {
        add(out, cap, "; a token takes %.0f ms here, so loss and draft were not tried",
            k->token_ms);
        return;
    }
    if (k->n_scored > 0)
        add(out, cap, "; loss of a known answer %.2f, at most %.2f is right", k->loss,
            k->loss_most);
    if (is_loss_bad(k)) add(out, cap, ": DOUBTFUL, are the weights what they say?");
    if (k->cycles > 0)
        add(out, cap, "; %.2f tokens a cycle of %d proposals", (double)k->tokens / k->cycles,
            k->max_draft);
    if (is_pace_bad(k)) add(out, cap, ": DOUBTFUL, is it this model's draft?");
}
