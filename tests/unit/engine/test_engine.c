/* tags: slow */
#include "engine/engine.h"

#include "base/mem.h"
#include "model/engine_fixture.h"

static engine *open_mini(int n_lanes)
{
    return run_open(&(engine_options){.model = "models/mini-dense",
                                      .draft = "models/mini-dense-dflash2",
                                      .backend = "ref",
                                      .n_threads = 2,
                                      .n_lanes = n_lanes,
                                      .max_context = 256,
                                      .draft_rows = -1,
                                      .guards_steps = true});
}

static const char sum_prompt[] =
    "<|im_start|>user\nWhat is 12 + 30?<|im_end|>\n<|im_start|>assistant\n"
    "<think>\n\n</think>\n\n";

TEST(an_answer_ends_at_the_end_token_and_its_text_leaves_it_out)
{
    engine *en = open_mini(1);
    token_ids ids = run_encode(en, sum_prompt);
    static run_result r;
    run_submit(en, run_request(ids.ptr, ids.n, 48, 0, 1), &r);
    run_all(en);
    assert_int_equal(r.choice[0].reason, ENGINE_STOP);
    assert_int_equal(r.choice[0].ids[r.choice[0].n - 1], 2069);
    assert_true(r.choice[0].n_text > 0);
    assert_null(strstr(r.choice[0].text, "<|im_end|>"));
    assert_int_equal(r.choice[0].usage.prompt_tokens, ids.n);
    assert_int_equal(r.choice[0].usage.completion_tokens, r.choice[0].n);
    token_ids_fini(&ids);
    engine_close(en);
}

TEST(a_prompt_of_one_token_generates)
{
    engine *en = open_mini(1);
    static run_result r;
    int32_t id = 406;
    run_submit(en, run_request(&id, 1, 5, 0, 1), &r);
    run_all(en);
    assert_int_equal(r.choice[0].n, 5);
    assert_int_equal(r.choice[0].reason, ENGINE_LENGTH);
    engine_close(en);
}

TEST(max_tokens_one_gives_one_token)
{
    engine *en = open_mini(1);
    token_ids ids = run_encode(en, "def");
    static run_result r;
    run_submit(en, run_request(ids.ptr, ids.n, 1, 0, 1), &r);
    run_all(en);
    assert_int_equal(r.choice[0].n, 1);
    assert_int_equal(r.choice[0].reason, ENGINE_LENGTH);
    token_ids_fini(&ids);
    engine_close(en);
}

TEST(the_context_ends_a_generation_and_too_long_a_prompt_is_refused)
{
    engine *en = open_mini(1);
    int32_t ids[256];
    for (int i = 0; i < 256; i++) ids[i] = 300 + i;
    static run_result r;
    engine_request q = run_request(ids, 250, 0, 0, 1);
    q.policy.ignore_eos = true;
    run_submit(en, q, &r);
    run_all(en);
    assert_int_equal(r.choice[0].n, 6);
    assert_int_equal(r.choice[0].reason, ENGINE_LENGTH);
    err e = {0};
    uint64_t id;
    q.n_ids = 256;
    assert_int_equal(engine_submit(en, &q, &id, &e), ERR_LIMIT);
    assert_string_equal(e.where, "context_length_exceeded");
    engine_close(en);
}

TEST(a_context_smaller_than_a_block_or_a_slice_is_kept_to)
{
    engine *en = run_open(&(engine_options){.model = "models/mini-dense",
                                            .backend = "ref",
                                            .n_threads = 1,
                                            .n_lanes = 1,
                                            .max_context = 20,
                                            .draft = "models/mini-dense-dflash2",
                                            .draft_rows = -1});
    assert_int_equal(engine_about(en)->max_context, 20);
    int32_t ids[20];
    for (int i = 0; i < 20; i++) ids[i] = 300 + i;
    static run_result r;
    engine_request q = run_request(ids, 18, 0, 0, 1);
    q.policy.ignore_eos = true;
    run_submit(en, q, &r);
    run_all(en);
    assert_int_equal(r.choice[0].n, 2);
    err e = {0};
    uint64_t id;
    q.n_ids = 20;
    assert_int_equal(engine_submit(en, &q, &id, &e), ERR_LIMIT);
    engine_close(en);
}

TEST(bad_requests_are_refused_by_name)
{
    engine *en = open_mini(1);
    int32_t ids[] = {1, 5000};
    uint64_t id;
    err e = {0};
    engine_request q = run_request(ids, 2, 4, 0, 1);
    assert_int_equal(engine_submit(en, &q, &id, &e), ERR_INVALID);
    assert_string_equal(e.where, "prompt");
    q = run_request(ids, 0, 4, 0, 1);
    assert_int_equal(engine_submit(en, &q, &id, &e), ERR_INVALID);
    q = run_request(ids, 1, 4, 3, 1);
    assert_int_equal(engine_submit(en, &q, &id, &e), ERR_INVALID);
    assert_string_equal(e.where, "temperature");
    q = run_request(ids, 1, 4, 1, 1);
    q.n = 65;
    assert_int_equal(engine_submit(en, &q, &id, &e), ERR_INVALID);
    str empty = STR("");
    q = run_request(ids, 1, 4, 1, 1);
    q.stop = &empty;
    q.n_stop = 1;
    assert_int_equal(engine_submit(en, &q, &id, &e), ERR_INVALID);
    assert_string_equal(e.where, "stop");
    engine_close(en);
}

TEST(four_choices_differ_and_repeat_by_seed)
{
    engine *en = open_mini(2);
    token_ids ids = run_encode(
        en, "<|im_start|>user\nTell a story of 3 days about Mara in Oslo.<|im_end|>\n"
            "<|im_start|>assistant\n");
    static run_result a, b, c;
    engine_request q = run_request(ids.ptr, ids.n, 24, 1, 42);
    q.n = 4;
    run_submit(en, q, &a);
    run_all(en);
    run_submit(en, q, &b);
    run_all(en);
    q.policy.seed = 43;
    run_submit(en, q, &c);
    run_all(en);
    assert_int_equal(a.n_done, 4);
    for (int i = 0; i < 4; i++) run_expect_same(&b.choice[i], &a.choice[i], "same seed");
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(a.choice[i].ids, a.choice[j].ids, sizeof(int32_t) * 12);
        assert_memory_not_equal(a.choice[i].ids, c.choice[i].ids, sizeof(int32_t) * 12);
    }
    token_ids_fini(&ids);
    engine_close(en);
}

TEST(a_stop_string_cuts_inside_an_accepted_block)
{
    engine *en = open_mini(1);
    token_ids ids = run_encode(en, sum_prompt);
    static run_result whole, cut;
    engine_request q = run_request(ids.ptr, ids.n, 48, 0, 1);
    run_submit(en, q, &whole);
    run_all(en);
    const char *text = whole.choice[0].text;
    assert_true(whole.choice[0].n_text > 10);
    str stop = {text + 5, 4};
    q.stop = &stop;
    q.n_stop = 1;
    run_submit(en, q, &cut);
    run_all(en);
    assert_int_equal(cut.choice[0].reason, ENGINE_STOP_STRING);
    char needle[5] = {text[5], text[6], text[7], text[8], 0};
    assert_int_equal(cut.choice[0].n_text, (size_t)(strstr(text, needle) - text));
    assert_memory_equal(cut.choice[0].text, text, cut.choice[0].n_text);
    assert_true(cut.choice[0].n < whole.choice[0].n);
    token_ids_fini(&ids);
    engine_close(en);
}

TEST(logprobs_are_of_the_raw_logits_and_do_not_depend_on_drafting)
{
    static run_result with, without;
    for (int i = 0; i < 2; i++) {
        engine *en = run_open(&(engine_options){.model = "models/mini-dense",
                                                .draft = i ? NULL : "models/mini-dense-dflash2",
                                                .backend = "ref",
                                                .n_lanes = 1,
                                                .max_context = 256,
                                                .draft_rows = -1});
        token_ids ids = run_encode(en, sum_prompt);
        engine_request q = run_request(ids.ptr, ids.n, 12, 0.8, 5);
        q.wants_logprobs = true;
        run_submit(en, q, i ? &without : &with);
        run_all(en);
        token_ids_fini(&ids);
        engine_close(en);
    }
    run_expect_same(&with.choice[0], &without.choice[0], "logprobs on");
    for (int i = 0; i < with.choice[0].n; i++) {
        assert_true(with.choice[0].logprob[i] <= 0 && with.choice[0].logprob[i] > -30);
        assert_true(with.choice[0].logprob[i] == without.choice[0].logprob[i]);
    }
}

TEST(penalties_and_bias_give_the_same_ids_with_and_without_a_draft)
{
    static run_result with, without;
    policy_bias bias[] = {{30, 2.5f}, {198, -100}};
    for (int i = 0; i < 2; i++) {
        engine *en = run_open(&(engine_options){.model = "models/mini-dense",
                                                .draft = i ? NULL : "models/mini-dense-dflash2",
                                                .backend = "ref",
                                                .n_lanes = 1,
                                                .max_context = 256,
                                                .draft_rows = -1});
        token_ids ids = run_encode(
            en, "<|im_start|>user\nTell a story of 3 days about Mara in Oslo.<|im_end|>\n"
                "<|im_start|>assistant\n<think>\n\n</think>\n\n");
        engine_request q = run_request(ids.ptr, ids.n, 32, 0.8, 5);
        q.policy.repetition = 1.2;
        q.policy.presence = 0.5;
        q.policy.frequency = 0.3;
        q.policy.top_k = 40;
        q.policy.top_p = 0.95;
        q.policy.min_p = 0.01;
        q.policy.bias = bias;
        q.policy.n_bias = 2;
        run_submit(en, q, i ? &without : &with);
        run_all(en);
        token_ids_fini(&ids);
        engine_close(en);
    }
    run_expect_same(&with.choice[0], &without.choice[0], "penalties");
    for (int i = 0; i < with.choice[0].n; i++) assert_int_not_equal(with.choice[0].ids[i], 198);
}

typedef struct {
    run_result result;
    engine *en;
    int after;
} canceling;

static void cancel_on_event(void *ctx, const engine_event *ev)
{
    canceling *c = ctx;
    run_on_event(&c->result, ev);
    if (c->result.choice[0].n >= c->after) engine_cancel(c->en, ev->request);
}

TEST(cancel_ends_running_and_waiting_requests)
{
    static canceling c;
    static run_result waiting;
    engine *en = open_mini(1);
    int32_t ids[] = {406, 300};
    uint64_t id, id2;
    err e = {0};
    c = (canceling){.en = en, .after = 3};
    engine_request q = run_request(ids, 2, 200, 0, 1);
    q.policy.ignore_eos = true;
    q.on_event = cancel_on_event;
    q.ctx = &c;
    CHECK_OK(engine_submit(en, &q, &id, &e), &e);
    q.on_event = run_on_event;
    q.ctx = &waiting;
    memset(&waiting, 0, sizeof waiting);
    CHECK_OK(engine_submit(en, &q, &id2, &e), &e);
    engine_cancel(en, id2);
    run_all(en);
    assert_int_equal(c.result.choice[0].reason, ENGINE_CANCELED);
    assert_true(c.result.choice[0].n < 200);
    assert_int_equal(waiting.choice[0].reason, ENGINE_CANCELED);
    assert_int_equal(waiting.choice[0].n, 0);
    engine_counters n = engine_stats(en);
    assert_int_equal(n.submitted, 2);
    assert_int_equal(n.canceled, 2);
    assert_int_equal(n.n_running + n.n_waiting, 0);
    engine_close(en);
}

TEST(close_finishes_what_is_left)
{
    static run_result r;
    engine *en = open_mini(1);
    int32_t id = 406;
    run_submit(en, run_request(&id, 1, 50, 0, 1), &r);
    engine_close(en);
    assert_int_equal(r.choice[0].reason, ENGINE_CANCELED);
}

TEST(open_survives_an_allocator_that_fails)
{
    int64_t live = mem_count().n_live;
    int n = 1, step = 1;
    for (;; n += step) {
        engine *en = NULL;
        err e = {0};
        mem_fail_at(n);
        status s = engine_open(&en,
                               &(engine_options){.model = "models/mini-dense",
                                                 .draft = "models/mini-dense-dflash2",
                                                 .backend = "ref",
                                                 .n_threads = 1,
                                                 .n_lanes = 1,
                                                 .max_context = 64,
                                                 .draft_rows = -1},
                               &e);
        mem_fail_at(0);
        if (s == ERR_OK) {
            engine_close(en);
            break;
        }
        if (s != ERR_NOMEM) fail_msg("allocation %d: %s: %s", n, e.where, e.msg);
        assert_int_equal(mem_count().n_live, live);
    }
    assert_true(n > 20);
    assert_int_equal(mem_count().n_live, live);
}
