/* tags: timeout=600
 *
 * The cases C and L of users.md that an engine decides, and of its rows 1, 2 and 41 what is about
 * the places where states are kept, with the draft on and lengths that a test can afford;
 * RIPTIDE_TEST_SCALE=14 makes C and L 14 times as long, up to 32K tokens, which takes minutes. What
 * a hit saves is counted in tokens, not in time. C7 waits for a cache on disk. */
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

enum { SLICE = 512 };

static engine_options session_options(bool has_draft, int64_t cache_bytes)
{
    return (engine_options){.model = "models/mini-dense",
                            .draft = has_draft ? "models/mini-dense-dflash2" : NULL,
                            .backend = "cpu",
                            .n_threads = 2,
                            .n_lanes = 1,
                            .prefill_rows = SLICE,
                            .max_context = longest(),
                            .draft_rows = -1,
                            .slice_ms = -1, /* slices by number: what is kept is known */
                            .cache_bytes = cache_bytes,
                            .guards_steps = true};
}

static engine *open_session(bool has_draft, int64_t cache_bytes)
{
    engine_options o = session_options(has_draft, cache_bytes);
    return run_open(&o);
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

/* The least that is taken over of `shared` tokens of a prompt of `all` where nothing told that
 * another one would part from it there: all of it but for a slice while every slice's state is
 * kept. Of more slices than there are states for, those that stay lie no farther apart than twice
 * an even share. */
static int least_shared(engine *en, int shared, int all)
{
    engine_cache_counters c = engine_stats(en).cache;
    int n_kept = c.n_states - 1; /* the lane's own is one */
    if (all / SLICE + 2 <= n_kept) return shared / SLICE * SLICE;
    assert_true(c.evicted_states > 0);
    int least = shared - 2 * all / n_kept;
    assert_true(least > shared / 2); /* else it is no hit to speak of */
    return least;
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
        assert_in_range(second.choice[0].usage.cached_tokens, least_shared(en, whole, all), whole);
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

/* However many rows a slice may have, half of what is shared is taken over at least. */
TEST(c3_prompts_hit_that_part_inside_what_would_have_been_one_slice)
{
    static run_result r;
    static const int shared[] = {1600, 1500, 700};
    engine_options o = session_options(true, 0);
    o.prefill_rows = 2048;
    engine *en = run_open(&o);
    token_ids a = make_text(en, "head", 2200), b = make_text(en, "tail", 2200);
    ask(en, a.ptr, 2200, 4, &r);
    for (int i = 0; i < 3; i++) {
        int n = shared[i];
        memcpy(b.ptr, a.ptr, (size_t)n * sizeof *b.ptr);
        b.ptr[n] = a.ptr[n] ^ 1;
        ask(en, b.ptr, n + 300, 4, &r);
        assert_in_range(r.choice[0].usage.cached_tokens, n / 2, n);
    }
    token_ids_fini(&a);
    token_ids_fini(&b);
    engine_close(en);
}

/* Rows 1 and 2: a conversation is taken up again at an earlier message, wherever slices ended. */
TEST(a_conversation_goes_on_from_the_beginning_of_an_earlier_message)
{
    static run_result r;
    enum { MESSAGES = 5, SIZE = 520 };
    engine_options o = session_options(true, 0);
    o.prefill_rows = 2048;
    o.max_context = MESSAGES * SIZE + 100;
    engine *en = run_open(&o);
    token_ids ids = {0}, text = make_text(en, "turn", MESSAGES * SIZE),
              mark = run_encode(en, "<|im_start|>");
    int begin[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        begin[i] = ids.n;
        assert_true(token_ids_push(&ids, mark.ptr[0]));
        for (int k = 1; k < SIZE; k++) assert_true(token_ids_push(&ids, text.ptr[i * SIZE + k]));
    }
    ask(en, ids.ptr, ids.n, 4, &r);
    /* The second but last, and the one that ends what is first of all. */
    for (int i = MESSAGES - 2; i > 0; i -= 2) {
        int n = begin[i];
        ids.ptr[n + 1] ^= 1;
        ask(en, ids.ptr, n + 90, 4, &r);
        ids.ptr[n + 1] ^= 1;
        assert_int_equal(r.choice[0].usage.cached_tokens, n / 64 * 64);
    }
    token_ids_fini(&ids);
    token_ids_fini(&text);
    token_ids_fini(&mark);
    engine_close(en);
}

/* Row 41: title and sub-agent calls beside a session, in a pool that holds hardly more than it. */
TEST(short_requests_do_not_push_out_a_long_session)
{
    static run_result r;
    enum { SESSION = 2000, TITLE = 150, TITLES = 60 };
    engine_options o = session_options(true, 0);
    o.max_context = SESSION + 200;
    o.kv_blocks = (SESSION + 200) / 64 + 6;
    engine *en = run_open(&o);
    token_ids ids = make_text(en, "session", SESSION), title = make_text(en, "title", TITLE);
    ask(en, ids.ptr, SESSION, 8, &r);
    for (int i = 0; i < TITLES; i++) {
        title.ptr[0] = 300 + i; /* they share nothing */
        ask(en, title.ptr, TITLE, 6, &r);
        assert_int_equal(r.choice[0].usage.cached_tokens, 0);
    }
    assert_true(engine_stats(en).cache.evicted_blocks > TITLES);
    ask(en, ids.ptr, SESSION, 8, &r);
    assert_int_equal(r.choice[0].usage.cached_tokens, (SESSION - 1) / 64 * 64);
    token_ids_fini(&ids);
    token_ids_fini(&title);
    engine_close(en);
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
    enum { TURNS = 100, ANSWER = 6 };
    int turn_size = 20 * scale(), step = turn_size + ANSWER;
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
    assert_int_equal(ids.n, TURNS * step);
    assert_true(computed < 4 * (int64_t)ids.n);
    engine_cache_counters c = engine_stats(en).cache;
    /* Before a block is full there is nothing to take over. */
    assert_int_equal(c.lookups - c.hits, (64 + step - 1) / step);
    assert_int_equal(c.n_free_blocks + c.n_cached_blocks, c.n_blocks);
    engine_close(en);
    en = open_session(false, -1);
    ask(en, ids.ptr, ids.n - ANSWER, ANSWER, &want);
    expect_same_bits(&r, &want, "the last turn");
    engine_close(en);
    token_ids_fini(&ids);
    token_ids_fini(&text);
}
