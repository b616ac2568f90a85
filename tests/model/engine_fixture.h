/* engine_fixture: run requests on an engine to their end and keep what came out. */
#ifndef RIPTIDE_TESTS_ENGINE_FIXTURE_H
#define RIPTIDE_TESTS_ENGINE_FIXTURE_H

#include "backend/backend.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "support/test.h"

enum { RUN_IDS_MAX = 4096, RUN_CHOICES_MAX = 8 };

typedef struct {
    int32_t ids[RUN_IDS_MAX];
    int n;
    char text[16384];
    size_t n_text;
    engine_finish reason;
    engine_usage usage;
    bool is_done;
    float logprob[RUN_IDS_MAX];
} run_choice;

typedef struct {
    run_choice choice[RUN_CHOICES_MAX];
    int n_done;
} run_result;

static inline void run_on_event(void *ctx, const engine_event *ev)
{
    run_result *r = ctx;
    run_choice *c = &r->choice[ev->choice];
    assert_false(c->is_done);
    assert_true(c->n_text + ev->text.len < sizeof c->text);
    if (ev->text.len > 0) memcpy(c->text + c->n_text, ev->text.ptr, ev->text.len);
    c->n_text += ev->text.len;
    for (int i = 0; i < ev->n_ids; i++) {
        assert_true(c->n < RUN_IDS_MAX);
        if (ev->logprobs) c->logprob[c->n] = ev->logprobs[i].logprob;
        c->ids[c->n++] = ev->ids[i];
    }
    c->usage = ev->usage;
    if (ev->kind != ENGINE_FINISH) return;
    c->reason = ev->reason;
    c->is_done = true;
    r->n_done++;
    if (ev->error) fail_msg("%s: %s", ev->error->where, ev->error->msg);
}

/* Skips the test where this machine or build lacks the backend. */
static inline void run_need_backend(const char *name)
{
    err e = {0};
    backend *be = NULL;
    status s = backend_open(&be, &(backend_options){.name = name, .n_threads = 1}, &e);
    if (s == ERR_UNSUPPORTED || s == ERR_DEVICE) TEST_SKIP("%s: %s", name, e.msg);
    CHECK_OK(s, &e);
    be->ops->close(be);
}

static inline engine *run_open(const engine_options *o)
{
    err e = {0};
    engine *en = NULL;
    CHECK_OK(engine_open(&en, o, &e), &e);
    return en;
}

static inline void run_submit(engine *en, engine_request r, run_result *out)
{
    err e = {0};
    uint64_t id;
    memset(out, 0, sizeof *out);
    r.on_event = run_on_event;
    r.ctx = out;
    if (r.n == 0) r.n = 1;
    CHECK_OK(engine_submit(en, &r, &id, &e), &e);
}

static inline void run_all(engine *en)
{
    while (engine_step(en)) continue;
}

static inline engine_request run_request(const int32_t *ids, int n_ids, int max_tokens,
                                         double temperature, uint64_t seed)
{
    engine_request r = {.ids = ids, .n_ids = n_ids, .max_tokens = max_tokens, .n = 1};
    r.policy = policy_neutral();
    r.policy.temperature = temperature;
    r.policy.seed = seed;
    return r;
}

/* Token ids of a text with its special tokens recognised. */
static inline token_ids run_encode(const engine *en, const char *text)
{
    token_ids ids = {0};
    err e = {0};
    CHECK_OK(tokenizer_encode(engine_tokenizer(en), str_from(text), true, 0, &ids, &e), &e);
    return ids;
}

static inline void run_expect_same(const run_choice *got, const run_choice *want, const char *what)
{
    int n = got->n < want->n ? got->n : want->n;
    for (int i = 0; i < n; i++)
        if (got->ids[i] != want->ids[i])
            fail_msg("%s: token %d is %d, want %d", what, i, got->ids[i], want->ids[i]);
    if (got->n != want->n) fail_msg("%s: %d tokens, want %d", what, got->n, want->n);
    assert_int_equal(got->n_text, want->n_text);
    assert_memory_equal(got->text, want->text, got->n_text);
    assert_int_equal(got->reason, want->reason);
}

#endif
