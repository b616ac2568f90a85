/* tags: one-thread, timeout=600
 *
 * The Identity rule (design.md): the ids of a request depend on the request alone. Both bundled
 * models, every backend this machine has, greedy and sampled. */
#include "model/engine_fixture.h"

enum { NEW_TOKENS = 24 };

static const char prompt_text[] =
    "<|im_start|>system\nYou are a coding agent. Answer in one short piece of code.<|im_end|>\n"
    "<|im_start|>user\nWrite a Python function smallest that returns the smallest item of a list, "
    "and then tell a story of 3 days about Felix in Riga, who is 31 and works as a baker. "
    "Sort these words: temple, anchor, needle, kernel, socket, amber, river. Extract name, city as "
    "JSON. Repeat exactly: river lantern matrix quiet socket amber. What is 12 + 30? C: function "
    "swap, the swap of two numbers.<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

/* For the instruction sets that are no product: an answer that still crosses a block. */
static const char short_text[] =
    "<|im_start|>user\nWrite a Python function smallest that returns the smallest item of a list, "
    "and sort these words: temple, anchor, needle, river. Tell a story of 3 days about Felix in "
    "Riga.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

typedef struct {
    const char *model, *backend, *prompt;
    char target[4300], draft[4300];
} subject;

static void subject_init(subject *s, const char *model, const char *backend)
{
    s->model = model;
    s->backend = backend;
    s->prompt = prompt_text;
    snprintf(s->target, sizeof s->target, "%s/models/%s", test_root(), model);
    snprintf(s->draft, sizeof s->draft, "%s/models/%s-dflash2", test_root(), model);
}

/* One setting that must not matter. */
typedef struct {
    const char *name;
    bool has_draft;
    int draft_rows, n_threads, prefill_rows;
    engine_kv kv;
} setting;

static engine *open_setting(const subject *s, const setting *v, int n_lanes)
{
    engine_options o = {.model = s->target,
                        .draft = v->has_draft ? s->draft : NULL,
                        .backend = s->backend,
                        .n_threads = v->n_threads,
                        .n_lanes = n_lanes,
                        .prefill_rows = v->prefill_rows,
                        .max_context = 512,
                        .kv = v->kv,
                        .draft_rows = v->draft_rows,
                        .guards_steps = true};
    return run_open(&o);
}

static void generate(const subject *s, const setting *v, double temperature, run_result *out)
{
    engine *en = open_setting(s, v, 1);
    token_ids ids = run_encode(en, s->prompt);
    if (s->prompt == short_text)
        assert_true(ids.n < 64 && ids.n + 16 > 64);
    else
        assert_true(ids.n > 130);
    run_submit(en, run_request(ids.ptr, ids.n, NEW_TOKENS, temperature, 7), out);
    run_all(en);
    assert_int_equal(out->n_done, 1);
    token_ids_fini(&ids);
    engine_close(en);
}

static const setting plain = {"plain", false, -1, 2, 512, ENGINE_KV_INT8};

static void expect_same_under(const char *model, const char *backend, const setting *settings,
                              int n)
{
    static run_result want, got;
    subject s;
    subject_init(&s, model, backend);
    for (int hot = 0; hot < 2; hot++) {
        generate(&s, &plain, hot ? 0.8 : 0.0, &want);
        assert_true(want.choice[0].n > 4);
        for (int i = 0; i < n; i++) {
            char what[160];
            snprintf(what, sizeof what, "%s on %s, temperature %s, %s", model, backend,
                     hot ? "0.8" : "0", settings[i].name);
            generate(&s, &settings[i], hot ? 0.8 : 0.0, &got);
            run_expect_same(&got.choice[0], &want.choice[0], what);
            if (settings[i].has_draft) assert_true(got.choice[0].usage.drafted > 0);
        }
    }
}

static const setting draft_widths[] = {
    {"draft", true, -1, 2, 512, ENGINE_KV_INT8},  {"draft 1", true, 1, 2, 512, ENGINE_KV_INT8},
    {"draft 2", true, 2, 2, 512, ENGINE_KV_INT8}, {"draft 3", true, 3, 2, 512, ENGINE_KV_INT8},
    {"draft 4", true, 4, 2, 512, ENGINE_KV_INT8}, {"draft 5", true, 5, 2, 512, ENGINE_KV_INT8},
    {"draft 6", true, 6, 2, 512, ENGINE_KV_INT8}, {"draft 7", true, 7, 2, 512, ENGINE_KV_INT8},
    {"draft 0", true, 0, 2, 512, ENGINE_KV_INT8},
};
static const setting slicings[] = {
    {"1 thread", true, -1, 1, 512, ENGINE_KV_INT8},
    {"prefill rows 1", false, -1, 2, 1, ENGINE_KV_INT8},
    {"prefill rows 63", true, -1, 2, 63, ENGINE_KV_INT8},
    {"prefill rows 64", false, -1, 2, 64, ENGINE_KV_INT8},
    {"prefill rows 100", true, -1, 2, 100, ENGINE_KV_INT8},
};

#define WIDTHS draft_widths, (int)(sizeof draft_widths / sizeof *draft_widths)
#define SLICINGS slicings, (int)(sizeof slicings / sizeof *slicings)

/* "draft 0" drafts nothing. */
static void expect_same_at_all_widths(const char *model, const char *backend)
{
    expect_same_under(model, backend, draft_widths, 8);
    static run_result want, got;
    subject s;
    subject_init(&s, model, backend);
    generate(&s, &plain, 0.8, &want);
    generate(&s, &draft_widths[8], 0.8, &got);
    run_expect_same(&got.choice[0], &want.choice[0], "draft 0");
    assert_int_equal(got.choice[0].usage.drafted, 0);
}

TEST(draft_and_width_do_not_change_the_ids_on_ref_dense)
{
    expect_same_at_all_widths("mini-dense", "ref");
}
TEST(draft_and_width_do_not_change_the_ids_on_ref_moe)
{
    expect_same_at_all_widths("mini-moe", "ref");
}
TEST(draft_and_width_do_not_change_the_ids_on_cpu_dense)
{
    expect_same_at_all_widths("mini-dense", "cpu");
}
TEST(draft_and_width_do_not_change_the_ids_on_cpu_moe)
{
    expect_same_at_all_widths("mini-moe", "cpu");
}

TEST(threads_and_slices_do_not_change_the_ids_on_ref_dense)
{
    expect_same_under("mini-dense", "ref", SLICINGS);
}
TEST(threads_and_slices_do_not_change_the_ids_on_ref_moe)
{
    expect_same_under("mini-moe", "ref", SLICINGS);
}
TEST(threads_and_slices_do_not_change_the_ids_on_cpu_dense)
{
    expect_same_under("mini-dense", "cpu", SLICINGS);
}
TEST(threads_and_slices_do_not_change_the_ids_on_cpu_moe)
{
    expect_same_under("mini-moe", "cpu", SLICINGS);
}

TEST(draft_and_width_do_not_change_the_ids_on_cuda)
{
    run_need_backend("cuda");
    expect_same_at_all_widths("mini-dense", "cuda");
    expect_same_at_all_widths("mini-moe", "cuda");
}

TEST(slices_do_not_change_the_ids_on_cuda)
{
    run_need_backend("cuda");
    expect_same_under("mini-dense", "cuda", SLICINGS);
    expect_same_under("mini-moe", "cuda", SLICINGS);
}

/* Prompt + the first k answer tokens, sent as a prompt, must continue as the turn went on. */
static void expect_same_when_sent_again(const char *model, const char *backend, const char *prompt,
                                        engine_kv kv)
{
    static run_result whole, rest;
    subject s;
    subject_init(&s, model, backend);
    setting v = {"again", true, -1, 2, 100, kv};
    engine *en = open_setting(&s, &v, 1);
    token_ids ids = run_encode(en, prompt);
    int n_prompt = ids.n;
    for (int hot = 0; hot < 2; hot++) {
        ids.n = n_prompt;
        run_submit(en, run_request(ids.ptr, n_prompt, NEW_TOKENS, hot ? 0.8 : 0, 11), &whole);
        run_all(en);
        int n = whole.choice[0].n, cuts[] = {1, n / 2, n - 1};
        for (int i = 0; i < n; i++) assert_true(token_ids_push(&ids, whole.choice[0].ids[i]));
        for (int c = 0; c < 3; c++) {
            int k = cuts[c];
            run_submit(en, run_request(ids.ptr, n_prompt + k, NEW_TOKENS - k, hot ? 0.8 : 0, 11),
                       &rest);
            run_all(en);
            assert_int_equal(rest.choice[0].n, n - k);
            for (int i = 0; i < n - k; i++)
                assert_int_equal(rest.choice[0].ids[i], whole.choice[0].ids[k + i]);
        }
    }
    token_ids_fini(&ids);
    engine_close(en);
}

TEST(a_turn_sent_again_continues_like_the_turn_generated_on_ref)
{
    expect_same_when_sent_again("mini-dense", "ref", prompt_text, ENGINE_KV_INT8);
    expect_same_when_sent_again("mini-moe", "ref", prompt_text, ENGINE_KV_F32);
}

TEST(a_turn_sent_again_continues_like_the_turn_generated_on_cpu)
{
    expect_same_when_sent_again("mini-dense", "cpu", prompt_text, ENGINE_KV_BF16);
    expect_same_when_sent_again("mini-moe", "cpu", prompt_text, ENGINE_KV_INT8);
}

TEST(a_turn_sent_again_continues_like_the_turn_generated_on_cuda)
{
    run_need_backend("cuda");
    expect_same_when_sent_again("mini-dense", "cuda", prompt_text, ENGINE_KV_INT8);
    expect_same_when_sent_again("mini-moe", "cuda", prompt_text, ENGINE_KV_BF16);
}

enum { COMPANY_MAX = 64 };

/* The i-th of many different requests: prompts of many lengths, greedy and sampled ones. */
static void submit_one(engine *en, const char *prompt, int i, run_result *out)
{
    static const char *const texts[3] = {
        "<|im_start|>user\nWhat is %d + 30?<|im_end|>\n<|im_start|>assistant\n<think>\n", "def f%d",
        "<|im_start|>user\nTell a story of %d days about Mara in Oslo.<|im_end|>\n"};
    char text[200];
    snprintf(text, sizeof text, texts[(i + 2) % 3], 4 + i);
    token_ids ids = run_encode(en, i % 8 == 0 ? prompt : text);
    run_submit(en, run_request(ids.ptr, ids.n, 10 + 3 * (i % 4), i & 1 ? 0.8 : 0, 3 + (uint64_t)i),
               out);
    token_ids_fini(&ids);
}

/* As many different requests at once as there are lanes, at least 4, against each alone. */
static void expect_same_in_company(const char *model, const char *backend, int n_lanes,
                                   const char *prompt)
{
    static run_result alone[COMPANY_MAX], together[COMPANY_MAX];
    int n = n_lanes > 4 ? n_lanes : 4;
    subject s;
    subject_init(&s, model, backend);
    setting v = {"lanes", true, -1, 2, 48, ENGINE_KV_INT8};
    for (int mode = 0; mode < 2; mode++) {
        engine *en = open_setting(&s, &v, mode ? n_lanes : 1);
        for (int i = 0; i < n; i++) {
            submit_one(en, prompt, i, mode ? &together[i] : &alone[i]);
            if (!mode) run_all(en);
        }
        run_all(en);
        engine_close(en);
    }
    for (int i = 0; i < n; i++) {
        char what[60];
        snprintf(what, sizeof what, "request %d among %d lanes", i, n_lanes);
        run_expect_same(&together[i].choice[0], &alone[i].choice[0], what);
    }
}

TEST(company_of_other_lanes_does_not_change_the_ids_on_ref)
{
    expect_same_in_company("mini-dense", "ref", 2, prompt_text);
    expect_same_in_company("mini-moe", "ref", 4, prompt_text);
}

TEST(company_of_other_lanes_does_not_change_the_ids_on_cpu)
{
    expect_same_in_company("mini-dense", "cpu", 4, prompt_text);
    expect_same_in_company("mini-moe", "cpu", 3, prompt_text);
}

TEST(company_of_other_lanes_does_not_change_the_ids_on_cuda)
{
    run_need_backend("cuda");
    expect_same_in_company("mini-dense", "cuda", 4, prompt_text);
    expect_same_in_company("mini-moe", "cuda", 16, prompt_text);
    expect_same_in_company("mini-dense", "cuda", 64, prompt_text);
}

/* ---- instruction sets --------------------------------------------------------------------- */

/* The tests above take the best set of this machine; these a part of them on each there is. That
 * all sets give equal bits is more than design.md asks for: v16_priv.h promises it. */
static void expect_identity_on_set(const char *backend)
{
    static const setting cuts[] = {
        {"draft, 1 thread, prefill rows 33", true, -1, 1, 33, ENGINE_KV_INT8},
        {"draft 2, prefill rows 1", true, 2, 2, 1, ENGINE_KV_INT8},
    };
    static const char *const models[] = {"mini-dense", "mini-moe"};
    static run_result best, want, got;
    run_need_backend(backend);
    for (int m = 0; m < 2; m++) {
        subject s;
        subject_init(&s, models[m], "cpu");
        s.prompt = short_text;
        generate(&s, &plain, 0.8, &best);
        subject_init(&s, models[m], backend);
        s.prompt = short_text;
        generate(&s, &plain, 0.8, &want);
        assert_true(want.choice[0].n > 16);
        run_expect_same(&want.choice[0], &best.choice[0], backend);
        for (int i = 0; i < 2; i++) {
            generate(&s, &cuts[i], 0.8, &got);
            run_expect_same(&got.choice[0], &want.choice[0], cuts[i].name);
        }
    }
    expect_same_when_sent_again("mini-dense", backend, short_text, ENGINE_KV_BF16);
    expect_same_in_company("mini-moe", backend, 3, short_text);
}

TEST(no_choice_changes_the_ids_on_cpu_scalar)
{
    expect_identity_on_set("cpu:scalar");
}
TEST(no_choice_changes_the_ids_on_cpu_avx2)
{
    expect_identity_on_set("cpu:avx2");
}
TEST(no_choice_changes_the_ids_on_cpu_avx512)
{
    expect_identity_on_set("cpu:avx512");
}
TEST(no_choice_changes_the_ids_on_cpu_avx512vnni)
{
    expect_identity_on_set("cpu:avx512vnni");
}
TEST(no_choice_changes_the_ids_on_cpu_amx)
{
    expect_identity_on_set("cpu:amx");
}
