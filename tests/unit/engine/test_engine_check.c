/* tags: threads-elsewhere */
/* The exercise after the start: what it says of the bundled pair, of a spoiled draft, and of a
 * model that knows nothing; and that nothing is left of it. */
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine_check.h"
#include "engine/engine_tokenizer.h"
#include "model/engine_fixture.h"
#include "model/random_gguf.h"

/* However long it takes. */
static engine_check check_of(cycle_options o)
{
    engine_check k;
    cycle *c = NULL;
    tokenizer *t = NULL;
    err e = {0};
    o.backend = "cpu";
    o.n_threads = 1;
    o.n_slots = 1;
    o.prefill_rows = 16;
    o.max_context = 1024;
    o.max_draft = -1;
    CHECK_OK(cycle_open(&c, &o, &e), &e);
    CHECK_OK(engine_tokenizer_open(&t, cycle_files(c), &e), &e);
    CHECK_OK(engine_check_run(c, t, (engine_check_limits){INFINITY, INFINITY}, NULL, NULL, &k, &e),
             &e);
    assert_true(!k.is_slow && k.n_scored > 30 && k.token_ms > 0 && k.ms > k.token_ms);
    tokenizer_close(t);
    cycle_close(c);
    return k;
}

static const char *line_of(const engine_check *k)
{
    static char text[400];
    engine_check_format(k, text, sizeof text);
    return text;
}

static const char MODEL[] = "models/mini-dense", DRAFT[] = "models/mini-dense-dflash2";

TEST(the_bundled_pair_knows_its_answer_and_its_draft_fits)
{
    engine_check k = check_of((cycle_options){.model = MODEL, .draft = DRAFT});
    assert_true(k.has_draft && k.loss > 0 && k.loss < 1 && k.tokens >= 2 * k.cycles);
    assert_true(k.max_draft == 7 && k.tokens <= 8 * k.cycles);
    assert_false(engine_check_is_bad(&k));
    assert_non_null(strstr(line_of(&k), "draft fits; loss of a known answer 0."));
    assert_non_null(strstr(line_of(&k), "tokens a cycle of 7 proposals"));
    assert_null(strstr(line_of(&k), "DOUBTFUL"));
}

TEST(a_draft_that_is_never_right_is_told)
{
    engine_check k = check_of(
        (cycle_options){.model = MODEL, .draft = DRAFT, .spoils_drafts = true});
    assert_true(engine_check_is_bad(&k) && k.loss < 1 && k.tokens < 1.3 * k.cycles);
    assert_non_null(strstr(line_of(&k), "DOUBTFUL, is it this model's draft?"));
}

TEST(a_model_that_knows_nothing_is_told)
{
    char path[] = "/tmp/riptide-check-XXXXXX";
    int f = mkstemp(path);
    assert_true(f >= 0);
    close(f);
    random_write(path, &(random_spec){.type = DTYPE_Q8_0, .seed = 4});
    engine_check k = check_of((cycle_options){.model = path});
    unlink(path);
    assert_true(engine_check_is_bad(&k) && k.cycles == 0 && !k.has_draft);
    assert_true(k.loss > k.loss_most && k.loss_most > 0.5 * log(RANDOM_V));
    assert_non_null(strstr(line_of(&k), "DOUBTFUL, are the weights what they say?"));
}

static void keep(void *ctx, const engine_check *k)
{
    assert_true(k->ms > 0);
    ++*(int *)ctx;
}

/* The ids of a request are the same with the exercise before it, and one that waits goes first. */
TEST(nothing_is_left_of_it)
{
    static run_result want, got;
    int n_checks = 0;
    engine_options o = {.model = "models/mini-dense",
                        .draft = "models/mini-dense-dflash2",
                        .backend = "cpu",
                        .n_threads = 1,
                        .n_lanes = 1,
                        .draft_rows = 4,
                        .max_context = 256};
    for (int i = 0; i < 2; i++) {
        if (i) o.on_check = keep, o.check_ctx = &n_checks;
        engine *en = run_open(&o);
        if (i) run_all(en);
        token_ids ids = run_encode(en, "<|im_start|>user\nSort: b, a, c.<|im_end|>\n");
        run_submit(en, run_request(ids.ptr, ids.n, 24, 0.7, 3), i ? &got : &want);
        run_all(en);
        token_ids_fini(&ids);
        assert_int_equal(engine_stats(en).submitted, 1);
        engine_close(en);
    }
    assert_int_equal(n_checks, 1);
    run_expect_same(&got.choice[0], &want.choice[0], "after the exercise");
    engine *en = run_open(&o);
    int32_t one = 5;
    run_submit(en, run_request(&one, 1, 4, 0, 3), &got);
    run_all(en);
    engine_close(en);
    assert_int_equal(n_checks, 1); /* as before: a request waited */
}

TEST(a_slow_model_is_not_tried)
{
    engine_check k = {.ms = 700, .token_ms = 300, .is_slow = true};
    assert_false(engine_check_is_bad(&k));
    assert_non_null(strstr(line_of(&k), "a token takes 300 ms here"));
}
