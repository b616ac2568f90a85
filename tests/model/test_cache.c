/* tags: one-thread, timeout=600
 *
 * The prompt cache under the Identity rule: what a request takes over from earlier work never
 * shows in its ids. Every case is compared with an engine that keeps nothing. */
#include "model/engine_fixture.h"

enum { NEW_TOKENS = 12, CONTEXT = 1024 };

static const char story[] =
    "<|im_start|>system\nYou are a coding agent. Answer in one short piece of code. Tools: read a "
    "file, write a file, list a folder, run the tests, search the sources for a word, show the "
    "history of a line. Call one at a time and wait for what it says.<|im_end|>\n"
    "<|im_start|>user\nWrite a Python function smallest that returns the smallest item of a list, "
    "and then tell a story of 3 days about Felix in Riga, who is 31 and works as a baker. "
    "Sort these words: temple, anchor, needle, kernel, socket, amber, river. Extract name, city as "
    "JSON. Repeat exactly: river lantern matrix quiet socket amber. The file a.txt has the lines "
    "red, green, blue; the file b.txt has the lines one, two, three, four. Fix the test "
    "that fails, say what was wrong, and write the words of both files in the order of "
    "their length. Then "
    "multiply 7 by 8 and add 15, and spell the result.<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";
static const char next_turn[] =
    "<|im_end|>\n<|im_start|>user\nNow the largest one, and what is 12 + 30?<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

typedef struct {
    const char *model, *backend;
    bool has_draft;
    engine_kv kv;
    int prefill_rows;
} setting;

static engine *open_cached(const setting *v, int n_lanes, int64_t cache_bytes, bool evicts)
{
    char target[4300], draft[4300];
    snprintf(target, sizeof target, "%s/models/%s", test_root(), v->model);
    snprintf(draft, sizeof draft, "%s/models/%s-dflash2", test_root(), v->model);
    return run_open(&(engine_options){.model = target,
                                      .draft = v->has_draft ? draft : NULL,
                                      .backend = v->backend,
                                      .n_threads = 2,
                                      .n_lanes = n_lanes,
                                      .prefill_rows = v->prefill_rows,
                                      .max_context = CONTEXT,
                                      .kv = v->kv,
                                      .draft_rows = -1,
                                      .cache_bytes = cache_bytes,
                                      .guards_steps = true,
                                      .evicts_always = evicts});
}

/* Two engines alike but for the cache. */
typedef struct {
    engine *cold, *warm;
    const char *what;
} pair;

static pair open_pair(const setting *v, bool evicts)
{
    return (pair){open_cached(v, 1, -1, false), open_cached(v, 1, 0, evicts), v->backend};
}

static void close_pair(pair *p)
{
    engine_close(p->cold);
    engine_close(p->warm);
}

/* Log-probabilities of got are those of want from token `from` on: sharper than ids, which small
 * models choose by little. */
static void expect_same_bits(const run_choice *got, const run_choice *want, int from)
{
    assert_true(got->n + from <= want->n);
    assert_memory_equal(got->logprob, want->logprob + from, (size_t)got->n * sizeof(float));
}

/* The request on both: the same ids, nothing taken over on the cold one. Returns what was taken
 * over on the warm one; its answer is in *out. */
static int64_t expect_same(const pair *p, const token_ids *ids, int n_ids, double temperature,
                           int n_new, run_result *out)
{
    static run_result want;
    engine_request q = run_request(ids->ptr, n_ids, n_new, temperature, 7);
    q.wants_logprobs = true;
    run_submit(p->cold, q, &want);
    run_all(p->cold);
    run_submit(p->warm, q, out);
    run_all(p->warm);
    run_expect_same(&out->choice[0], &want.choice[0], p->what);
    expect_same_bits(&out->choice[0], &want.choice[0], 0);
    assert_int_equal(want.choice[0].usage.cached_tokens, 0);
    return out->choice[0].usage.cached_tokens;
}

static void append(token_ids *ids, const int32_t *more, int n)
{
    for (int i = 0; i < n; i++) assert_true(token_ids_push(ids, more[i]));
}

/* A session: the same prompt again, with more behind it, with an answer and a turn behind it,
 * shortened, changed in the middle. */
static void expect_session(const setting *v, double temperature)
{
    static run_result r;
    pair p = open_pair(v, false);
    token_ids ids = run_encode(p.warm, story), turn = run_encode(p.warm, next_turn);
    int n = ids.n, whole = (n - 1) / 64 * 64;
    assert_true(n > 200);
    assert_int_equal(expect_same(&p, &ids, n, temperature, NEW_TOKENS, &r), 0);
    assert_int_equal(expect_same(&p, &ids, n, temperature, NEW_TOKENS, &r), whole);
    append(&ids, r.choice[0].ids, r.choice[0].n);
    assert_true(expect_same(&p, &ids, n + 1, temperature, NEW_TOKENS, &r) >= whole);
    append(&ids, turn.ptr, turn.n);
    assert_true(expect_same(&p, &ids, ids.n, temperature, NEW_TOKENS, &r) >= whole);
    whole = (ids.n - 1) / 64 * 64;
    append(&ids, r.choice[0].ids, r.choice[0].n);
    append(&ids, turn.ptr, turn.n);
    assert_true(expect_same(&p, &ids, ids.n, temperature, NEW_TOKENS, &r) >= whole);
    /* Shorter: states are kept at the ends of messages, so not all of it. */
    assert_true(expect_same(&p, &ids, n - 40, temperature, NEW_TOKENS, &r) >= 64);
    ids.ptr[130] ^= 1;
    assert_int_equal(expect_same(&p, &ids, ids.n, temperature, NEW_TOKENS, &r) % 64, 0);
    assert_true(r.choice[0].usage.cached_tokens <= 128);
    engine_cache_counters c = engine_stats(p.warm).cache;
    assert_int_equal(c.lookups, 7);
    assert_int_equal(c.hits, c.lookups - 1);
    assert_int_equal(c.n_held_blocks, 0);
    assert_int_equal(c.n_free_blocks + c.n_cached_blocks, c.n_blocks);
    token_ids_fini(&ids);
    token_ids_fini(&turn);
    close_pair(&p);
}

TEST(a_session_answers_as_if_nothing_were_kept_on_cpu_dense)
{
    expect_session(&(setting){"mini-dense", "cpu", true, ENGINE_KV_INT8, 512}, 0);
    expect_session(&(setting){"mini-dense", "cpu", false, ENGINE_KV_BF16, 512}, 0.8);
    expect_session(&(setting){"mini-dense", "cpu", true, ENGINE_KV_F32, 63}, 0.8);
}

TEST(a_session_answers_as_if_nothing_were_kept_on_cpu_moe)
{
    expect_session(&(setting){"mini-moe", "cpu", true, ENGINE_KV_INT8, 100}, 0.8);
}

/* ref is slow: a prompt of two blocks and a bit, again, and with its answer behind it. */
static void expect_repeat(const setting *v, double temperature)
{
    static run_result r;
    pair p = open_pair(v, false);
    token_ids ids = run_encode(p.warm, story);
    ids.n = 133;
    assert_int_equal(expect_same(&p, &ids, ids.n, temperature, 6, &r), 0);
    assert_int_equal(expect_same(&p, &ids, ids.n, temperature, 6, &r), 128);
    append(&ids, r.choice[0].ids, r.choice[0].n);
    assert_int_equal(expect_same(&p, &ids, ids.n, temperature, 3, &r), 128);
    token_ids_fini(&ids);
    close_pair(&p);
}

TEST(a_prompt_sent_again_answers_as_if_nothing_were_kept_on_ref)
{
    expect_repeat(&(setting){"mini-dense", "ref", true, ENGINE_KV_INT8, 512}, 0.8);
    expect_repeat(&(setting){"mini-moe", "ref", true, ENGINE_KV_F32, 100}, 0);
}

TEST(a_session_answers_as_if_nothing_were_kept_on_cuda)
{
    run_need_backend("cuda");
    expect_session(&(setting){"mini-dense", "cuda", true, ENGINE_KV_INT8, 512}, 0.8);
    expect_session(&(setting){"mini-moe", "cuda", true, ENGINE_KV_BF16, 512}, 0);
    expect_session(&(setting){"mini-dense", "cuda", false, ENGINE_KV_INT8, 63}, 0);
}

/* users.md 5: a prompt that ends anywhere round a block's edge, and resumes at any. */
TEST(a_prompt_may_end_at_any_place_of_a_block)
{
    static run_result r;
    setting v = {"mini-dense", "cpu", true, ENGINE_KV_INT8, 512};
    pair p = open_pair(&v, false);
    token_ids ids = run_encode(p.warm, story);
    static const int extra[] = {0, 1, 2, 7, 31, 62, 63, 64, 65};
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        int n = 128 + extra[i];
        int64_t cached = expect_same(&p, &ids, n, 0.8, 4, &r);
        if (i > 0) assert_true(cached >= (n - 1) / 64 * 64 - 64);
    }
    token_ids_fini(&ids);
    close_pair(&p);
}

/* A long answer crosses blocks inside accepted proposals. What was generated is sent again, cut
 * at many places, and with the cycle's own rows cut by max_tokens. */
static void expect_same_turns(const setting *v, bool evicts)
{
    static run_result whole, r;
    pair p = open_pair(v, evicts);
    token_ids ids = run_encode(p.warm, story);
    int n = ids.n;
    engine_request q = run_request(ids.ptr, n, 150, 0.8, 7);
    q.policy.ignore_eos = true;
    q.wants_logprobs = true;
    run_submit(p.warm, q, &whole);
    run_all(p.warm);
    assert_int_equal(whole.choice[0].n, 150);
    append(&ids, whole.choice[0].ids, 150);
    for (int k = 10; k < 150; k += 45) {
        q = run_request(ids.ptr, n + k, 150 - k < 12 ? 150 - k : 12, 0.8, 7);
        q.policy.ignore_eos = true;
        q.wants_logprobs = true;
        run_submit(p.warm, q, &r);
        run_all(p.warm);
        expect_same_bits(&r.choice[0], &whole.choice[0], k);
        for (int i = 0; i < r.choice[0].n; i++)
            assert_int_equal(r.choice[0].ids[i], whole.choice[0].ids[k + i]);
        /* The answer's own boundaries were kept too. */
        if (!evicts) assert_true(r.choice[0].usage.cached_tokens >= (n + k - 1) / 64 * 64);
    }
    expect_same(&p, &ids, ids.n, 0.8, 8, &r);
    token_ids_fini(&ids);
    close_pair(&p);
}

TEST(a_turn_generated_is_a_prefix_like_a_turn_sent)
{
    expect_same_turns(&(setting){"mini-dense", "cpu", true, ENGINE_KV_INT8, 512}, false);
    expect_same_turns(&(setting){"mini-dense", "cpu", false, ENGINE_KV_F32, 512}, false);
    expect_same_turns(&(setting){"mini-moe", "cpu", true, ENGINE_KV_BF16, 512}, false);
}

TEST(eviction_at_every_chance_does_not_change_the_ids)
{
    setting v = {"mini-dense", "cpu", true, ENGINE_KV_INT8, 64};
    static run_result r;
    pair p = open_pair(&v, true);
    token_ids ids = run_encode(p.warm, story);
    int64_t taken_over = 0;
    for (int i = 0; i < 4; i++) taken_over += expect_same(&p, &ids, ids.n - i, 0.8, 8, &r);
    assert_true(taken_over > 0);
    assert_true(engine_stats(p.warm).cache.evicted_states > 0);
    token_ids_fini(&ids);
    close_pair(&p);
    expect_same_turns(&v, true);
}

/* Six prompts that share nothing, in a pool that holds three of them. */
TEST(a_full_pool_makes_room_and_stays_right)
{
    setting v = {"mini-dense", "cpu", true, ENGINE_KV_INT8, 512};
    static run_result r;
    pair p = open_pair(&v, false);
    token_ids ids = run_encode(p.warm, story);
    for (int i = 0; i < 6; i++) {
        ids.ptr[0] = 400 + i;
        assert_int_equal(expect_same(&p, &ids, ids.n, 0.8, 4, &r), 0);
    }
    assert_int_equal(expect_same(&p, &ids, ids.n, 0.8, 4, &r), (ids.n - 1) / 64 * 64);
    engine_cache_counters c = engine_stats(p.warm).cache;
    assert_true(c.evicted_blocks >= 4);
    assert_int_equal(c.n_free_blocks + c.n_cached_blocks, c.n_blocks);
    token_ids_fini(&ids);
    close_pair(&p);
}

/* The draft sees the same context after a restore, so it guesses as well. */
TEST(acceptance_after_a_restore_is_that_of_a_cold_run)
{
    static run_result cold, warm;
    setting v = {"mini-dense", "cpu", true, ENGINE_KV_INT8, 512};
    engine *en = open_cached(&v, 1, 0, false);
    token_ids ids = run_encode(en, story);
    engine_request q = run_request(ids.ptr, ids.n, 120, 0, 1);
    q.policy.ignore_eos = true;
    run_submit(en, q, &cold);
    run_all(en);
    run_submit(en, q, &warm);
    run_all(en);
    const engine_usage *a = &cold.choice[0].usage, *b = &warm.choice[0].usage;
    assert_true(b->cached_tokens >= 256);
    assert_true(a->accepted > 20);
    assert_true(b->accepted * 100 >= a->accepted * 98);
    token_ids_fini(&ids);
    engine_close(en);
}

TEST(the_choices_of_a_request_share_its_prompt)
{
    static run_result want, got;
    setting v = {"mini-dense", "cpu", true, ENGINE_KV_INT8, 128};
    engine *cold = open_cached(&v, 3, -1, false), *warm = open_cached(&v, 3, 0, false);
    token_ids ids = run_encode(cold, story);
    engine_request q = run_request(ids.ptr, ids.n, 10, 0.8, 5);
    q.n = 3;
    run_submit(cold, q, &want);
    run_all(cold);
    run_submit(warm, q, &got);
    run_all(warm);
    for (int i = 0; i < 3; i++) {
        run_expect_same(&got.choice[i], &want.choice[i], "a choice");
        assert_int_equal(got.choice[i].usage.cached_tokens, i ? (ids.n - 1) / 64 * 64 : 0);
    }
    assert_int_equal(engine_stats(warm).cache.waits, 2);
    assert_int_equal(engine_stats(cold).cache.waits, 0);
    token_ids_fini(&ids);
    engine_close(cold);
    engine_close(warm);
}

/* Two prompts that part in the middle: the second waits for what they share and no longer. */
TEST(a_prompt_waits_for_a_prefix_that_another_lane_computes)
{
    static run_result first, second, small, want;
    setting v = {"mini-moe", "cpu", true, ENGINE_KV_INT8, 64};
    engine *en = open_cached(&v, 3, 0, false), *cold = open_cached(&v, 1, -1, false);
    token_ids ids = run_encode(en, story), other = run_encode(en, story),
              few = run_encode(en, "def");
    other.ptr[200] ^= 1;
    run_submit(en, run_request(ids.ptr, ids.n, 8, 0, 1), &first);
    run_submit(en, run_request(other.ptr, other.n, 8, 0, 1), &second);
    run_submit(en, run_request(few.ptr, few.n, 4, 0, 1), &small);
    run_all(en);
    assert_int_equal(second.choice[0].usage.cached_tokens, 192);
    assert_int_equal(engine_stats(en).cache.waits, 1);
    run_submit(cold, run_request(other.ptr, other.n, 8, 0, 1), &want);
    run_all(cold);
    run_expect_same(&second.choice[0], &want.choice[0], "behind a shared prefix");
    /* Who came later and shares nothing went ahead. */
    assert_true(small.choice[0].usage.queue_ms < second.choice[0].usage.queue_ms);
    token_ids_fini(&ids);
    token_ids_fini(&other);
    token_ids_fini(&few);
    engine_close(en);
    engine_close(cold);
}

TEST(what_a_canceled_prompt_had_computed_is_taken_over)
{
    static run_result r;
    setting v = {"mini-dense", "cpu", true, ENGINE_KV_INT8, 64};
    pair p = open_pair(&v, false);
    token_ids ids = run_encode(p.warm, story);
    err e = {0};
    uint64_t id;
    engine_request q = run_request(ids.ptr, ids.n, 8, 0.8, 7);
    memset(&r, 0, sizeof r);
    q.on_event = run_on_event;
    q.ctx = &r;
    CHECK_OK(engine_submit(p.warm, &q, &id, &e), &e);
    for (int i = 0; i < 3; i++) assert_true(engine_step(p.warm));
    engine_cancel(p.warm, id);
    run_all(p.warm);
    assert_int_equal(r.choice[0].reason, ENGINE_CANCELED);
    assert_int_equal(expect_same(&p, &ids, ids.n, 0.8, 8, &r), 192);
    token_ids_fini(&ids);
    close_pair(&p);
}

/* ---- random work ---- */

enum { KINDS = 8, ROUNDS = 50 };

typedef struct {
    int n_ids, n_new;
    double temperature;
    run_choice want;
} kind;

static void make_kinds(const setting *v, const token_ids *ids, kind *kinds, uint64_t *rng)
{
    static run_result r;
    engine *cold = open_cached(v, 1, -1, false);
    for (int i = 0; i < KINDS; i++) {
        kind *k = &kinds[i];
        k->n_ids = 30 + (int)(test_random(rng) % (uint64_t)(ids->n - 30));
        k->n_new = 1 + (int)(test_random(rng) % 20);
        k->temperature = i & 1 ? 0.8 : 0;
        run_submit(cold, run_request(ids->ptr, k->n_ids, k->n_new, k->temperature, 3), &r);
        run_all(cold);
        k->want = r.choice[0];
    }
    engine_close(cold);
}

/* Requests come and go, some are canceled, in a pool that cannot keep all. */
static void expect_random_work(const setting *v, int n_lanes, bool evicts, uint64_t rng)
{
    static run_result results[ROUNDS];
    static kind kinds[KINDS];
    uint64_t ids_of[ROUNDS] = {0};
    int which[ROUNDS];
    engine *en = open_cached(v, n_lanes, 0, evicts);
    token_ids ids = run_encode(en, story);
    make_kinds(v, &ids, kinds, &rng);
    for (int i = 0; i < ROUNDS; i++) {
        const kind *k = &kinds[which[i] = (int)(test_random(&rng) % KINDS)];
        engine_request q = run_request(ids.ptr, k->n_ids, k->n_new, k->temperature, 3);
        err e = {0};
        memset(&results[i], 0, sizeof results[i]);
        q.on_event = run_on_event;
        q.ctx = &results[i];
        CHECK_OK(engine_submit(en, &q, &ids_of[i], &e), &e);
        for (int n = (int)(test_random(&rng) % 5); n > 0; n--) engine_step(en);
        if (test_random(&rng) % 4 == 0)
            engine_cancel(en, ids_of[test_random(&rng) % (uint64_t)(i + 1)]);
    }
    run_all(en);
    for (int i = 0; i < ROUNDS; i++) {
        const run_choice *c = &results[i].choice[0], *want = &kinds[which[i]].want;
        assert_true(c->is_done);
        if (c->reason != ENGINE_CANCELED) run_expect_same(c, want, "random work");
        for (int j = 0; j < c->n; j++) assert_int_equal(c->ids[j], want->ids[j]);
    }
    engine_counters n = engine_stats(en);
    assert_int_equal(n.n_running + n.n_waiting, 0);
    assert_int_equal(n.cache.n_held_blocks, 0);
    assert_int_equal(n.cache.n_free_blocks + n.cache.n_cached_blocks, n.cache.n_blocks);
    assert_true(n.cache.reused_tokens > 0);
    token_ids_fini(&ids);
    engine_close(en);
}

TEST(random_work_with_cancels_gives_right_answers_and_every_block_back)
{
    uint64_t seed = test_seed();
    setting v = {"mini-dense", "cpu", true, ENGINE_KV_INT8, 96};
    expect_random_work(&v, 3, false, seed);
    expect_random_work(&v, 2, true, seed + 1);
}
