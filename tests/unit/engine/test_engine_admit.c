/* tags: slow */
/* Who gets a lane, who gives it up, and what becomes of those that a step fails. */
#include "engine/engine_admit_priv.h"

#include <math.h>

#include "model/engine_fixture.h"

static engine_options mini(int n_lanes)
{
    return (engine_options){.model = "models/mini-dense",
                            .draft = "models/mini-dense-dflash2",
                            .backend = "cpu",
                            .n_threads = 2,
                            .n_lanes = n_lanes,
                            .prefill_rows = 64,
                            .max_context = 512,
                            .draft_rows = -1,
                            .guards_steps = true};
}

enum { TEXT = 512 };

/* Tokens that say nothing, no two blocks alike; prompts with another seed share nothing. */
static const int32_t *text(int seed)
{
    static int32_t ids[TEXT];
    for (int i = 0; i < TEXT; i++) ids[i] = 300 + (i * 37 + seed * 101 + i * i % 29) % 1500;
    return ids;
}

static engine_request ask(int seed, int n_ids, int n_new)
{
    engine_request q = run_request(text(seed), n_ids, n_new, 0.8, 3);
    q.policy.ignore_eos = true;
    return q;
}

/* The same requests one by one on an engine of their own. */
static void run_alone(const engine_request *q, const int *seeds, run_result *out, int n)
{
    engine_options o = mini(1);
    o.cache_bytes = -1;
    engine *en = run_open(&o);
    for (int i = 0; i < n; i++) {
        engine_request r = q[i];
        r.ids = text(seeds[i]);
        r.priority = 0;
        run_submit(en, r, &out[i]);
        run_all(en);
    }
    engine_close(en);
}

static void expect_all_back(engine *en)
{
    engine_counters c = engine_stats(en);
    assert_int_equal(c.n_waiting + c.n_running, 0);
    assert_int_equal(c.cache.n_held_blocks, 0);
    assert_int_equal(c.cache.n_free_blocks + c.cache.n_cached_blocks, c.cache.n_blocks);
    assert_int_equal(c.submitted, c.finished);
}

/* ---- suspension ---- */

static void expect_right_under_pressure(int64_t cache_bytes)
{
    static run_result got[4], want[4];
    static const int seeds[] = {1, 2, 3, 4};
    engine_request q[4];
    engine_options o = mini(4);
    o.kv_blocks = 9; /* one whole context is 8; the four come to 4 each */
    o.cache_bytes = cache_bytes;
    engine *en = run_open(&o);
    for (int i = 0; i < 4; i++) {
        q[i] = ask(seeds[i], 60, 150);
        run_submit(en, q[i], &got[i]);
    }
    run_all(en);
    expect_all_back(en);
    assert_true(engine_stats(en).suspensions > 0);
    assert_int_equal(got[0].choice[0].usage.suspensions, 0); /* the first goes on */
    int64_t n = 0;
    for (int i = 0; i < 4; i++) n += got[i].choice[0].usage.suspensions;
    assert_int_equal(n, engine_stats(en).suspensions);
    engine_close(en);
    run_alone(q, seeds, want, 4);
    for (int i = 0; i < 4; i++)
        run_expect_same(&got[i].choice[0], &want[i].choice[0], "under pressure");
}

TEST(four_answers_that_do_not_fit_side_by_side_are_all_right)
{
    expect_right_under_pressure(0);
    expect_right_under_pressure(-1);
}

TEST(what_is_suspended_can_be_canceled)
{
    static run_result got[2];
    engine_options o = mini(1);
    engine *en = run_open(&o);
    err e = {0};
    uint64_t id;
    engine_request q = ask(1, 40, 100);
    memset(got, 0, sizeof got);
    q.on_event = run_on_event;
    q.ctx = &got[0];
    CHECK_OK(engine_submit(en, &q, &id, &e), &e);
    while (got[0].choice[0].n < 10) assert_true(engine_step(en));
    engine_request urgent = ask(2, 40, 20);
    urgent.priority = 5;
    run_submit(en, urgent, &got[1]);
    assert_true(engine_step(en));
    assert_int_equal(engine_stats(en).n_waiting, 1);
    engine_cancel(en, id);
    run_all(en);
    assert_int_equal(got[0].choice[0].reason, ENGINE_CANCELED);
    assert_true(got[0].choice[0].n < 100);
    assert_int_equal(got[1].choice[0].n, 20);
    expect_all_back(en);
    engine_close(en);
}

/* A consumer sees the prompt done once, however often it was computed. */
static int64_t last_prefilled;
static int n_prefills;
static void watch_prefill(void *ctx, const engine_event *ev)
{
    run_on_event(ctx, ev);
    if (ev->kind != ENGINE_PREFILL) return;
    assert_true(ev->prefilled > last_prefilled);
    assert_int_equal(((run_result *)ctx)->choice[0].n, 0);
    last_prefilled = ev->prefilled;
    n_prefills++;
}

TEST(the_progress_of_a_prompt_never_goes_back)
{
    static run_result got;
    engine_options o = mini(1);
    o.suspends_always = true;
    o.cache_bytes = -1;
    engine *en = run_open(&o);
    err e = {0};
    uint64_t id;
    engine_request q = ask(1, 250, 6);
    memset(&got, 0, sizeof got);
    q.on_event = watch_prefill;
    q.ctx = &got;
    last_prefilled = n_prefills = 0;
    CHECK_OK(engine_submit(en, &q, &id, &e), &e);
    run_all(en);
    assert_int_equal(got.choice[0].n, 6);
    assert_int_equal(last_prefilled, 249);
    assert_int_equal(n_prefills, 4);
    assert_true(got.choice[0].usage.suspensions >= 4);
    engine_close(en);
}

/* ---- order ---- */

typedef struct {
    run_result result;
    int name;
} named;

static int finished[32], n_finished;
static void note_finish(void *ctx, const engine_event *ev)
{
    named *n = ctx;
    run_on_event(&n->result, ev);
    if (ev->kind == ENGINE_FINISH) finished[n_finished++] = n->name;
}

static void submit_named(engine *en, named *n, int name, engine_request q)
{
    err e = {0};
    uint64_t id;
    memset(n, 0, sizeof *n);
    n->name = name;
    q.on_event = note_finish;
    q.ctx = n;
    CHECK_OK(engine_submit(en, &q, &id, &e), &e);
}

static int place_of(int name)
{
    for (int i = 0; i < n_finished; i++)
        if (finished[i] == name) return i;
    fail_msg("%d did not finish", name);
    return -1;
}

TEST(the_more_urgent_goes_first)
{
    static named n[4];
    engine_options o = mini(1);
    engine *en = run_open(&o);
    static const int priority[] = {0, -1, 2, 1};
    n_finished = 0;
    for (int i = 0; i < 4; i++) {
        engine_request q = ask(i, 30, 4);
        q.priority = priority[i];
        submit_named(en, &n[i], i, q);
    }
    run_all(en);
    static const int want[] = {2, 3, 0, 1};
    assert_memory_equal(finished, want, sizeof want);
    assert_int_equal(engine_stats(en).suspensions, 0);
    engine_close(en);
}

/* A prompt waits for what it shares with one under way, but not when that one is less urgent. */
TEST(the_more_urgent_does_not_wait_for_a_less_urgent_prefix)
{
    static run_result first, second;
    for (int priority = 0; priority < 2; priority++) {
        engine_options o = mini(2);
        engine *en = run_open(&o);
        run_submit(en, ask(1, 400, 2), &first);
        assert_true(engine_step(en));
        engine_request q = ask(1, 400, 2);
        q.priority = priority;
        run_submit(en, q, &second);
        run_all(en);
        run_expect_same(&second.choice[0], &first.choice[0], "the same prompt");
        assert_int_equal(engine_stats(en).cache.waits, 1 - priority);
        engine_close(en);
    }
}

/* Shorter prompts pass a longer one by, but by no more work than its own. */
TEST(a_long_prompt_is_overtaken_by_no_more_than_its_own_work)
{
    static named n[16];
    engine_options o = mini(1);
    o.cache_bytes = -1;
    engine *en = run_open(&o);
    n_finished = 0;
    submit_named(en, &n[0], 0, ask(0, 200, 2));
    for (int i = 1; i <= 12; i++) submit_named(en, &n[i], i, ask(i, 40, 2));
    run_all(en);
    assert_int_equal(n_finished, 13);
    assert_in_range(place_of(0), 3, 5);
    for (int i = 1; i < 12; i++) assert_true(place_of(i) < place_of(i + 1));
    engine_close(en);
}

TEST(a_short_prompt_passes_a_long_one_that_is_under_way)
{
    static named n[2];
    engine_options o = mini(2);
    engine *en = run_open(&o);
    n_finished = 0;
    submit_named(en, &n[0], 0, ask(0, 480, 2));
    for (int i = 0; i < 2; i++) assert_true(engine_step(en));
    submit_named(en, &n[1], 1, ask(1, 64, 2));
    run_all(en);
    assert_int_equal(place_of(1), 0);
    engine_close(en);
}

/* With much time owed to decoding an answer is done before the next slice of a prompt beside it;
 * with none owed slices and cycles take turns. */
TEST(a_decode_share_holds_prompts_back)
{
    static run_result answer, prompt;
    for (int owes = 0; owes < 2; owes++) {
        engine_options o = mini(2);
        o.draft = NULL;
        o.slice_ms = -1;
        o.decode_share = owes ? 10 : 0;
        engine *en = run_open(&o);
        run_submit(en, ask(1, 20, 8), &answer);
        while (answer.choice[0].n < 1) assert_true(engine_step(en));
        run_submit(en, ask(2, 480, 1), &prompt);
        while (!answer.choice[0].is_done) assert_true(engine_step(en));
        int64_t slices = engine_stats(en).tally.slice.n - 1;
        if (owes)
            assert_in_range(slices, 1, 3);
        else
            assert_in_range(slices, 6, 8);
        run_all(en);
        engine_close(en);
    }
}

/* ---- steps that fail ---- */

static backend_ops spoiled;
static const backend_ops *real;
static int64_t n_calls, fails_at, n_nan;
static status fails_with;

static status failing_attn(backend *b, const attn_args *a)
{
    return ++n_calls == fails_at ? fails_with : real->attn(b, a);
}

/* The logits of whatever is sampled, n_nan times from call fails_at on, are no numbers. */
static status nan_sample(backend *b, const sample_args *a)
{
    n_calls++;
    float *logits = a->logits.ptr;
    if (n_calls >= fails_at && n_calls < fails_at + n_nan)
        for (int64_t i = 0; i < (int64_t)a->M * a->V; i++) logits[i] = NAN;
    return real->sample(b, a);
}

static void spoil(engine *en, int64_t at)
{
    backend *be = (backend *)(uintptr_t)cycle_backend(en->cycle);
    real = be->ops;
    spoiled = *real;
    be->ops = &spoiled;
    n_calls = 0;
    fails_at = at;
}

typedef struct {
    run_choice choice;
    err error;
} outcome;

static void on_outcome(void *ctx, const engine_event *ev)
{
    outcome *o = ctx;
    for (int i = 0; i < ev->n_ids; i++) o->choice.ids[o->choice.n++] = ev->ids[i];
    if (ev->kind != ENGINE_FINISH) return;
    o->choice.is_done = true;
    o->choice.reason = ev->reason;
    if (ev->error) o->error = *ev->error;
}

static void submit_outcome(engine *en, engine_request q, outcome *out)
{
    err e = {0};
    uint64_t id;
    memset(out, 0, sizeof *out);
    q.on_event = on_outcome;
    q.ctx = out;
    CHECK_OK(engine_submit(en, &q, &id, &e), &e);
}

static void expect_ids(const outcome *got, const run_choice *want)
{
    assert_int_equal(got->choice.reason, ENGINE_LENGTH);
    assert_int_equal(got->choice.n, want->n);
    assert_memory_equal(got->choice.ids, want->ids, (size_t)want->n * 4);
}

/* users.md H5: out of memory in mid-request, at many places of three prompts and answers. */
TEST(out_of_memory_fails_one_request_and_the_others_are_right)
{
    static run_result want[3];
    static outcome got[3];
    static const int seeds[] = {1, 2, 3};
    engine_request q[] = {ask(1, 100, 12), ask(2, 70, 12), ask(3, 30, 12)};
    run_alone(q, seeds, want, 3);
    int64_t last = 1;
    for (int64_t at = 1; at <= last; at += 13) {
        engine_options o = mini(3);
        engine *en = run_open(&o);
        run_all(en);
        spoil(en, at);
        spoiled.attn = failing_attn;
        fails_with = ERR_NOMEM;
        for (int i = 0; i < 3; i++) {
            q[i].ids = text(seeds[i]);
            submit_outcome(en, q[i], &got[i]);
        }
        run_all(en);
        int n_failed = 0;
        for (int i = 0; i < 3; i++) {
            assert_true(got[i].choice.is_done);
            if (got[i].choice.reason == ENGINE_FAILED) {
                n_failed++;
                assert_int_equal(got[i].error.code, ERR_NOMEM);
            } else {
                expect_ids(&got[i], &want[i].choice[0]);
            }
        }
        assert_int_equal(n_failed, 1);
        if (at == 1) last = n_calls - 1;
        expect_all_back(en);
        submit_outcome(en, (q[0].ids = text(1), q[0]), &got[0]); /* the next one works */
        run_all(en);
        expect_ids(&got[0], &want[0].choice[0]);
        engine_close(en);
    }
    assert_true(last > 10);
}

/* users.md 5: the cache entry goes, the answer is computed again and is right. */
TEST(numbers_that_are_none_are_computed_again)
{
    static run_result want[2];
    static outcome got[2];
    static const int seeds[] = {1, 2};
    engine_request q[] = {ask(1, 140, 12), ask(2, 70, 12)};
    run_alone(q, seeds, want, 2);
    for (int at = 1; at < 6; at += 2) {
        engine_options o = mini(2);
        engine *en = run_open(&o);
        run_all(en);
        submit_outcome(en, (q[0].ids = text(1), q[0]), &got[0]);
        run_all(en);
        spoil(en, at);
        spoiled.sample = nan_sample;
        n_nan = 1;
        for (int i = 0; i < 2; i++) submit_outcome(en, (q[i].ids = text(seeds[i]), q[i]), &got[i]);
        run_all(en);
        for (int i = 0; i < 2; i++) expect_ids(&got[i], &want[i].choice[0]);
        assert_in_range(engine_stats(en).recomputed, 1, 2);
        expect_all_back(en);
        engine_close(en);
    }
}

TEST(numbers_that_are_none_again_fail_the_request_alone)
{
    static run_result want[1];
    static outcome got;
    static const int seeds[] = {1};
    engine_request q = ask(1, 140, 12);
    run_alone(&q, seeds, want, 1);
    engine_options o = mini(1);
    engine *en = run_open(&o);
    run_all(en);
    spoil(en, 2);
    spoiled.sample = nan_sample;
    n_nan = 2;
    q.ids = text(1);
    submit_outcome(en, q, &got);
    run_all(en);
    assert_int_equal(got.choice.reason, ENGINE_FAILED);
    assert_string_equal(got.error.where, "numbers");
    assert_int_equal(engine_stats(en).recomputed, 2);
    submit_outcome(en, q, &got);
    run_all(en);
    expect_ids(&got, &want[0].choice[0]);
    assert_int_equal(engine_stats(en).cache.clears, 0);
    expect_all_back(en);
    engine_close(en);
}

/* ---- counters ---- */

TEST(latencies_and_widths_are_counted)
{
    static run_result got[3];
    engine_options o = mini(2);
    engine *en = run_open(&o);
    int64_t n_tokens = 0, n_cycles = 0, n_lanes = 0;
    for (int i = 0; i < 3; i++) run_submit(en, ask(i, 100, 20), &got[i]);
    run_all(en);
    engine_counters c = engine_stats(en);
    for (int i = 0; i < 3; i++) {
        n_tokens += got[i].choice[0].n;
        n_cycles += got[i].choice[0].usage.cycles;
    }
    for (int i = 0; i < ENGINE_WIDTHS; i++) n_lanes += c.tally.widths[i];
    assert_int_equal(c.tally.queue.n, 3);
    assert_int_equal(c.tally.first_token.n, 3);
    assert_int_equal(n_lanes, n_cycles);
    assert_true(c.tally.token.n > 0 && c.tally.token.n <= n_tokens - 3);
    assert_true(c.tally.cycle.n > 0 && c.tally.cycle.n <= n_cycles);
    assert_true(c.tally.slice.n >= 2);
    assert_true(c.tally.first_token.sum_ms >= c.tally.queue.sum_ms);
    assert_true(c.tally.widths[7] > 0);
    engine_close(en);
}
