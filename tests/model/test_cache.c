/* tags: timeout=600
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

/* The request on both: the same ids, nothing taken over on the cold one. Returns what was taken
 * over on the warm one; its answer is in *out. */
static int64_t expect_same(const pair *p, const token_ids *ids, int n_ids, double temperature,
                           int n_new, run_result *out)
{
    static run_result want;
    engine_request q = run_request(ids->ptr, n_ids, n_new, temperature, 7);
    run_submit(p->cold, q, &want);
    run_all(p->cold);
    run_submit(p->warm, q, out);
    run_all(p->warm);
    run_expect_same(&out->choice[0], &want.choice[0], p->what);
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
    run_submit(p.warm, q, &whole);
    run_all(p.warm);
    assert_int_equal(whole.choice[0].n, 150);
    append(&ids, whole.choice[0].ids, 150);
    for (int k = 10; k < 150; k += 45) {
        q = run_request(ids.ptr, n + k, 150 - k < 12 ? 150 - k : 12, 0.8, 7);
        q.policy.ignore_eos = true;
        run_submit(p.warm, q, &r);
        run_all(p.warm);
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
