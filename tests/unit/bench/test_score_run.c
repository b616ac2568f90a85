/* tags: slow
 *
 * Scores of the bundled models: ref against itself is perfect, cpu near it, and windows cut it. */
#include "base/mem.h"
#include "bench/score_priv.h"
#include "support/test.h"

static score_request request(const char *model, const char *backend, engine_kv kv)
{
    return (score_request){.engine = {.model = model,
                                      .backend = backend,
                                      .n_threads = 2,
                                      .n_lanes = 1,
                                      .prefill_rows = 512,
                                      .kv = kv},
                           .against = "ref",
                           .against_kv = ENGINE_KV_F32,
                           .text = score_bundled_text(),
                           .max_tokens = 150,
                           .window = 100};
}

static score_result run(const score_request *r)
{
    score_result x;
    err e = {0};
    CHECK_OK(score_run(r, &x, &e), &e);
    return x;
}

TEST(ref_scores_itself_perfectly)
{
    score_request r = request("models/mini-dense", "ref", ENGINE_KV_F32);
    score_result x = run(&r);
    assert_int_equal(x.n_tokens, 150);
    assert_int_equal(x.n_windows, 2);
    assert_int_equal(x.s.n, 148);
    assert_int_equal(x.s.n_same, 148);
    assert_true(x.s.kl == 0 && x.s.worst_kl == 0 && score_median_norm(&x.s) == 0);
    assert_true(x.s.nll == x.s.reference_nll && x.s.nll > 0);
    assert_string_equal(x.backend, "ref");
    mem_free(x.s.norms);
}

/* Bounds of the goldens (issue "CPU"), and a format that must cost something. */
TEST(cpu_is_near_ref_in_every_kv_format)
{
    for (int kv = ENGINE_KV_INT8; kv <= ENGINE_KV_F32; kv++) {
        score_request r = request("models/mini-moe", "cpu", (engine_kv)kv);
        score_result x = run(&r);
        assert_true(x.s.kl > 0 && x.s.kl / (double)x.s.n < 1e-3);
        assert_true(score_median_norm(&x.s) <= 1e-2);
        assert_true((double)x.s.n_clear_same >= 0.99 * (double)x.s.n_clear);
        assert_true(x.s.n_clear > x.s.n / 2);
        mem_free(x.s.norms);
    }
}

/* Each window begins with nothing: the first one's rows do not hear of what follows. */
TEST(a_window_stands_alone)
{
    score_request r = request("models/mini-dense", "cpu", ENGINE_KV_INT8);
    r.against = "cpu";
    r.against_kv = ENGINE_KV_INT8;
    score_result both = run(&r);
    r.max_tokens = 100;
    score_result first = run(&r);
    r.max_tokens = 150;
    r.window = 150;
    score_result whole = run(&r);
    assert_int_equal(first.s.n, 99);
    assert_int_equal(whole.s.n, 149);
    assert_true(both.s.kl == 0 && whole.s.kl == 0);
    assert_true(first.s.nll < both.s.nll && both.s.nll != whole.s.nll);
    mem_free(both.s.norms);
    mem_free(first.s.norms);
    mem_free(whole.s.norms);
}

static void expect_error(const score_request *r, status want, const char *where)
{
    score_result x;
    err e = {0};
    CHECK_STATUS(score_run(r, &x, &e), want);
    assert_string_equal(e.where, where);
    mem_free(x.s.norms);
}

TEST(what_cannot_be_scored_is_refused)
{
    score_request r = request("models/mini-dense", "cpu", ENGINE_KV_INT8);
    r.text = STR("a");
    expect_error(&r, ERR_INVALID, "--text");
    r.text = score_bundled_text();
    r.window = 1 << 19;
    expect_error(&r, ERR_INVALID, "--window");
    r.window = 100;
    r.against = "abacus";
    expect_error(&r, ERR_INVALID, "backend");
    r.engine.model = "models/none";
    expect_error(&r, ERR_IO, "models/none");
}

/* Memory that ends anywhere between here and the end leaves nothing behind. */
TEST(every_failed_allocation_is_given_back)
{
    score_request r = request("models/mini-dense", "cpu", ENGINE_KV_INT8);
    r.against = "cpu";
    r.max_tokens = 20;
    int64_t before = mem_count().n_live, step = 1;
    status s = ERR_NOMEM;
    for (int64_t n = 1; s != ERR_OK; n += step, step = n / 16 + 1) {
        score_result x;
        err e = {0};
        mem_fail_at(n);
        s = score_run(&r, &x, &e);
        mem_fail_at(0);
        mem_free(x.s.norms);
        if (s != ERR_OK) CHECK_STATUS(s, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, before);
    }
}
