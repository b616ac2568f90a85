/* tags: timeout=600
 *
 * The cases C and L of users.md that an engine decides, with the draft on and lengths that a test
 * can afford; RIPTIDE_TEST_SCALE=14 makes them 14 times as long, up to 32K tokens, which takes
 * minutes. What a hit saves is counted in tokens, not in time. C7 waits for a cache on disk. */
#include <stdlib.h>

#include "model/engine_fixture.h"

enum { SCALE_MAX = 14 }; /* the model has 32,768 positions */

static int scale(void)
{
    const char *text = getenv("RIPTIDE_TEST_SCALE");
    int n = text ? atoi(text) : 1;
    assert_in_range(n, 1, SCALE_MAX);
    return n;
}

static int longest(void)
{
    return 2300 * scale() + 300;
}

static engine *open_session(bool has_draft, int64_t cache_bytes)
{
    return run_open(&(engine_options){.model = "models/mini-dense",
                                      .draft = has_draft ? "models/mini-dense-dflash2" : NULL,
                                      .backend = "cpu",
                                      .n_threads = 2,
                                      .n_lanes = 1,
                                      .prefill_rows = 512,
                                      .max_context = longest(),
                                      .draft_rows = -1,
                                      .slice_ms = -1, /* slices by number: what is kept is known */
                                      .cache_bytes = cache_bytes,
                                      .guards_steps = true});
}

/* n tokens of code like no other; what begins with another word shares nothing. */
static token_ids make_text(const engine *en, const char *word, int n)
{
    token_ids ids = {0};
    err e = {0};
    char line[128];
    for (int i = 0; ids.n < n; i++) {
        snprintf(line, sizeof line, "def %s_%d(a, b):\n    return %d * a + b[%d]\n\n", word, i,
                 i * 7 % 97, i % 13);
        CHECK_OK(tokenizer_encode(engine_tokenizer(en), str_from(line), false, 0, &ids, &e), &e);
    }
    return ids;
}

static void ask(engine *en, const int32_t *ids, int n, int n_new, run_result *out)
{
    engine_request q = run_request(ids, n, n_new, 0, 1);
    q.policy.ignore_eos = true;
    q.wants_logprobs = true;
    run_submit(en, q, out);
    run_all(en);
    assert_int_equal(out->choice[0].n, n_new);
}

static void expect_same_bits(const run_result *got, const run_result *want, const char *what)
{
    run_expect_same(&got->choice[0], &want->choice[0], what);
    assert_memory_equal(got->choice[0].logprob, want->choice[0].logprob,
                        (size_t)got->choice[0].n * sizeof(float));
}

TEST(c1_an_identical_prompt_computes_less_than_a_twentieth_again)
{
    static run_result cold, warm;
    int n = 2200 * scale();
    engine *en = open_session(true, 0);
    token_ids ids = make_text(en, "same", n);
    ask(en, ids.ptr, n, 24, &cold);
    ask(en, ids.ptr, n, 24, &warm);
    expect_same_bits(&warm, &cold, "the second time");
    assert_true((n - warm.choice[0].usage.cached_tokens) * 20 < n);
    token_ids_fini(&ids);
    engine_close(en);
}

/* C3 and C5: prompts of 2,200 that share 1,600, and 1,500; the draft guesses as it does cold. */
TEST(c3_prompts_that_part_in_the_middle_hit_and_c5_the_draft_does_not_suffer)
{
    static run_result first, second, third, want;
    static const int shared[] = {1600, 1500};
    int all = 2200 * scale();
    engine *cold = open_session(true, -1);
    for (int i = 0; i < 2; i++) {
        engine *en = open_session(true, 0);
        token_ids a = make_text(en, "head", all), b = make_text(en, "tail", all);
        int n = shared[i] * scale(), whole = n / 64 * 64;
        ask(en, a.ptr, all, 4, &first);
        memcpy(a.ptr + n, b.ptr, (size_t)(all - n) * sizeof *a.ptr);
        ask(en, a.ptr, all, 48, &second);
        assert_in_range(second.choice[0].usage.cached_tokens, whole / 512 * 512, whole);
        /* Now the place where they part is known. */
        memcpy(a.ptr + n, b.ptr + 700 * scale(), (size_t)(all - n) * sizeof *a.ptr);
        ask(en, a.ptr, all, 48, &third);
        assert_int_equal(third.choice[0].usage.cached_tokens, whole);
        if (i == 1) {
            ask(cold, a.ptr, all, 48, &want);
            expect_same_bits(&third, &want, "behind what is shared");
            const engine_usage *w = &third.choice[0].usage, *c = &want.choice[0].usage;
            assert_true(c->accepted > 0);
            assert_true(w->accepted * 100 >= c->accepted * 98);
        }
        token_ids_fini(&a);
        token_ids_fini(&b);
        engine_close(en);
    }
    engine_close(cold);
}

/* L1: what is asked at any depth, cold and warm, with the draft and without: the same. The model is
 * too small to be asked for needles; its log-probabilities stand for them. */
TEST(l1_every_depth_answers_the_same_cold_and_warm_with_and_without_a_draft)
{
    static run_result got[10], want;
    int step = 200 * scale();
    engine *warm = open_session(true, 0);
    token_ids ids = make_text(warm, "deep", 10 * step);
    for (int i = 1; i <= 10; i++) {
        ask(warm, ids.ptr, step * i, 6, &got[i - 1]);
        if (i > 1) assert_true(got[i - 1].choice[0].usage.cached_tokens >= step * (i - 1) - 128);
    }
    for (int has_draft = 0; has_draft < 2; has_draft++) {
        engine *cold = open_session(has_draft, -1);
        for (int i = 3; i <= 10; i += 7) {
            ask(cold, ids.ptr, step * i, 6, &want);
            expect_same_bits(&got[i - 1], &want, "at a depth");
        }
        engine_close(cold);
    }
    token_ids_fini(&ids);
    engine_close(warm);
}

/* L3: turn after turn; memory is flat, nothing fails, no answer is empty, each turn computes its
 * own tokens and little more. */
TEST(l3_turn_after_turn_keeps_memory_flat_and_stays_a_hit)
{
    static run_result r, want;
    enum { TURNS = 60, ANSWER = 6 };
    int turn_size = 36 * scale();
    engine *en = open_session(true, 0);
    token_ids text = make_text(en, "turn", TURNS * turn_size + 64), ids = {0};
    int64_t live = 0, computed = 0;
    for (int i = 0; i < TURNS; i++) {
        for (int k = 0; k < turn_size; k++)
            assert_true(token_ids_push(&ids, text.ptr[i * turn_size + k]));
        ask(en, ids.ptr, ids.n, ANSWER, &r);
        int64_t fresh = ids.n - r.choice[0].usage.cached_tokens;
        assert_true(r.choice[0].n_text > 0);
        assert_true(i == 0 || fresh <= turn_size + ANSWER + 2 * 64);
        computed += fresh;
        for (int k = 0; k < ANSWER; k++) assert_true(token_ids_push(&ids, r.choice[0].ids[k]));
        if (i == 10) live = mem_count().n_live;
    }
    assert_int_equal(mem_count().n_live, live);
    assert_true(ids.n > 2500 * scale() - 400);
    assert_true(computed < 4 * (int64_t)ids.n);
    engine_cache_counters c = engine_stats(en).cache;
    /* Of the first prompts, which are shorter than a block, there is nothing to take over. */
    assert_in_range(c.lookups - c.hits, 1, 2);
    assert_int_equal(c.n_free_blocks + c.n_cached_blocks, c.n_blocks);
    engine_close(en);
    en = open_session(false, -1);
    ask(en, ids.ptr, ids.n - ANSWER, ANSWER, &want);
    expect_same_bits(&r, &want, "the last turn");
    engine_close(en);
    token_ids_fini(&ids);
    token_ids_fini(&text);
}
