/* tags: threads, fast
 *
 * Logits behind a prompt, without an answer: those of the parity probe (`riptide logits`), bit for
 * bit, cold or from the prompt cache, alone or beside answers. */
#include "decode/cycle.h"
#include "model/engine_fixture.h"

static const char prompt_text[] =
    "<|im_start|>system\nYou are asked to judge. Reply with the letter of the one option that fits "
    "best, and with nothing else.<|im_end|>\n<|im_start|>user\nMara lives in Oslo. Where does Mara "
    "live? A: Riga, B: Oslo, C: elsewhere, D: nowhere. Repeat exactly: river lantern matrix quiet "
    "socket amber.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

enum { OPTIONS = 4, LAST = 3071 };
static const int32_t options[OPTIONS] = {32, 33, 0, LAST};

static void probe(const char *model, const token_ids *ids, float *out)
{
    err e = {0};
    cycle *c = NULL;
    static float logits[1 << 16];
    CHECK_OK(cycle_open(&c,
                        &(cycle_options){.model = model,
                                         .backend = "cpu",
                                         .n_threads = 2,
                                         .n_slots = 1,
                                         .prefill_rows = 64,
                                         .max_context = 512,
                                         .kv = KV_INT8,
                                         .logit_rows = 64},
                        &e),
             &e);
    cycle_probe_args a = {.ids = ids->ptr, .n = ids->n, .rows = 1, .logits = logits};
    CHECK_OK(cycle_probe(c, &a, &e), &e);
    for (int i = 0; i < OPTIONS; i++) out[i] = logits[options[i]];
    cycle_close(c);
}

static void submit_scores(engine *en, const token_ids *ids, float *scores, run_result *out)
{
    engine_request r = run_request(ids->ptr, ids->n, 0, 0, 1);
    r.score_ids = options;
    r.n_scores = OPTIONS;
    r.scores = scores;
    run_submit(en, r, out);
}

static void expect_scores(const char *model, const char *draft)
{
    static run_result out[4];
    float want[OPTIONS], got[4][OPTIONS] = {{0}};
    engine *en = run_open(&(engine_options){.model = model,
                                            .draft = draft,
                                            .backend = "cpu",
                                            .n_threads = 2,
                                            .n_lanes = 3,
                                            .max_context = 512,
                                            .draft_rows = draft ? -1 : 0,
                                            .guards_steps = true});
    token_ids ids = run_encode(en, prompt_text);
    assert_true(ids.n > 64);
    probe(model, &ids, want);
    for (int i = 0; i < 2; i++) {
        submit_scores(en, &ids, got[i], &out[i]);
        run_all(en);
    }
    assert_true(out[0].choice[0].usage.cached_tokens == 0);
    assert_true(out[1].choice[0].usage.cached_tokens >= 64);
    run_submit(en, run_request(ids.ptr, ids.n, 20, 0, 1), &out[2]); /* beside an answer */
    for (int i = 0; i < 3; i++) engine_step(en);
    submit_scores(en, &ids, got[2], &out[3]);
    run_all(en);
    assert_true(out[2].choice[0].n > 3);
    for (int i = 0; i < 3; i++) assert_memory_equal(got[i], want, sizeof want);
    for (int i = 0; i < 4; i++) {
        if (i == 2) continue;
        assert_int_equal(out[i].choice[0].reason, ENGINE_STOP);
        assert_int_equal(out[i].choice[0].n, 0);
        assert_int_equal(out[i].choice[0].n_text, 0);
    }
    token_ids_fini(&ids);
    engine_close(en);
}

TEST(scores_are_the_logits_of_the_probe)
{
    expect_scores("models/mini-dense", NULL);
    expect_scores("models/mini-dense", "models/mini-dense-dflash2");
    expect_scores("models/mini-moe", "models/mini-moe-dflash2");
}

TEST(what_cannot_be_scored_is_refused)
{
    err e = {0};
    uint64_t id;
    float score;
    int32_t bad = 1 << 20;
    static run_result out;
    engine *en = run_open(&(engine_options){.model = "models/mini-dense",
                                            .backend = "cpu",
                                            .n_threads = 1,
                                            .n_lanes = 1,
                                            .max_context = 128});
    engine_request r = run_request(options, 1, 0, 0, 1);
    r.score_ids = &bad;
    r.n_scores = 1;
    r.scores = &score;
    r.on_event = run_on_event;
    r.ctx = &out;
    CHECK_STATUS(engine_submit(en, &r, &id, &e), ERR_INVALID);
    r.score_ids = options;
    r.n = 2;
    CHECK_STATUS(engine_submit(en, &r, &id, &e), ERR_INVALID);
    assert_string_equal(e.where, "scores");
    engine_close(en);
}
