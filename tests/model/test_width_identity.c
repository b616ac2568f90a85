/* tags: timeout=600
 *
 * Draft widths that change from cycle to cycle, by chance or by the policy, and the Identity rule:
 * the ids are those of plain decoding. Widths of 0 for a while leave the draft's context behind;
 * what it proposes when it is asked again must be what it would have proposed anyway. */
#include "base/rng.h"
#include "decode/width.h"
#include "model/engine_fixture.h"

enum { NEW_TOKENS = 40, LANES = 3 };

static const char *const prompt_texts[LANES] = {
    "<|im_start|>user\nWrite a Python function smallest that returns the smallest item of a list."
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "<|im_start|>user\nTell a story of 3 days about Felix in Riga.<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "<|im_start|>user\nRepeat exactly: river lantern matrix quiet socket amber river lantern "
    "matrix quiet socket amber.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
};

typedef struct {
    int n_ids[LANES];
    int32_t ids[LANES][512];
} prompt_ids;

typedef struct {
    int n[LANES], n_drafted[LANES], n_accepted[LANES];
    int32_t ids[LANES][NEW_TOKENS + OPS_ROWS_MAX];
} answers;

static void paths(const char *model, char *target, char *draft, size_t cap)
{
    snprintf(target, cap, "%s/models/%s", test_root(), model);
    snprintf(draft, cap, "%s/models/%s-dflash2", test_root(), model);
}

static void encode_prompts(const char *model, prompt_ids *out)
{
    char target[4300], draft[4300];
    err e = {0};
    load_model files = {0};
    tokenizer *tok = NULL;
    paths(model, target, draft, sizeof target);
    CHECK_OK(load_model_open(&files, target, &e), &e);
    CHECK_OK(tokenizer_open(&tok, files.tokenizer_json, "tokenizer.json", &e), &e);
    for (int l = 0; l < LANES; l++) {
        token_ids ids = {0};
        CHECK_OK(tokenizer_encode(tok, str_from(prompt_texts[l]), true, 0, &ids, &e), &e);
        assert_in_range(ids.n, 8, 512);
        out->n_ids[l] = ids.n;
        memcpy(out->ids[l], ids.ptr, (size_t)ids.n * sizeof *ids.ptr);
        token_ids_fini(&ids);
    }
    tokenizer_close(tok);
    load_model_close(&files);
}

static cycle *open_cycle(const char *model, const char *backend, bool has_draft)
{
    char target[4300], draft[4300];
    err e = {0};
    cycle *c = NULL;
    paths(model, target, draft, sizeof target);
    CHECK_OK(cycle_open(&c,
                        &(cycle_options){.model = target,
                                         .draft = has_draft ? draft : NULL,
                                         .backend = backend,
                                         .n_threads = 2,
                                         .n_slots = LANES,
                                         .prefill_rows = 64,
                                         .max_context = 320,
                                         .kv = KV_INT8,
                                         .max_draft = -1},
                        &e),
             &e);
    return c;
}

static void start_lane(cycle *c, int slot, const prompt_ids *p, double temperature)
{
    int32_t blocks[5];
    for (int i = 0; i < 5; i++) blocks[i] = 5 * slot + i;
    sample_policy policy = {
        .seed = 5 + (uint64_t)slot, .temperature = (float)temperature, .top_p = 1, .repetition = 1};
    assert_int_equal(cycle_reset(c, slot), ERR_OK);
    assert_int_equal(cycle_set_blocks(c, slot, 0, blocks, 5), ERR_OK);
    assert_int_equal(cycle_set_policy(c, slot, &policy, NULL), ERR_OK);
    int n = p->n_ids[slot] - 1;
    for (int at = 0; at < n; at += 64) {
        cycle_slice s = {.slot = slot,
                         .ids = p->ids[slot] + at,
                         .n = n - at < 64 ? n - at : 64,
                         .pos = at,
                         .prompt_end = n};
        assert_int_equal(cycle_prefill(c, &s, 1), ERR_OK);
    }
}

/* Widths of a lane from a seed: spells of 0 to 12 cycles in which nothing is proposed, between
 * single cycles of any width. Seed 0 always asks for the most. */
typedef struct {
    uint64_t state;
    int n_zero;
} width_source;

static int next_width(width_source *w, int most)
{
    if (w->state == 0) return most;
    if (w->n_zero > 0) {
        w->n_zero--;
        return 0;
    }
    uint64_t r = test_random(&w->state);
    if (r % 4 == 0) w->n_zero = (int)(r >> 33) % 13;
    return (int)(r >> 2 & 0xffff) % (most + 1);
}

/* Decode all lanes together; with `policy` it may narrow what the source asks for. */
static void decode(cycle *c, const prompt_ids *p, double temperature, uint64_t seed,
                   width_policy *policy, answers *out)
{
    cycle_lane lanes[LANES];
    cycle_result results[LANES];
    width_source source[LANES];
    memset(out, 0, sizeof *out);
    int64_t pos[LANES];
    int32_t anchor[LANES];
    for (int l = 0; l < LANES; l++) {
        start_lane(c, l, p, temperature);
        if (policy) width_forget(policy, l);
        pos[l] = p->n_ids[l] - 1;
        anchor[l] = p->ids[l][pos[l]];
        source[l] = (width_source){.state = seed ? seed + (uint64_t)l : 0};
    }
    for (;;) {
        int L = 0;
        for (int l = 0; l < LANES; l++) {
            int left = NEW_TOKENS - out->n[l];
            if (left <= 0) continue;
            int most = cycle_max_draft(c) < left - 1 ? cycle_max_draft(c) : left - 1;
            lanes[L++] = (cycle_lane){.slot = l,
                                      .anchor = anchor[l],
                                      .pos = pos[l],
                                      .n_draft = next_width(&source[l], most),
                                      .max_new = left < OPS_ROWS_MAX ? left : OPS_ROWS_MAX};
        }
        if (L == 0) return;
        width_choose(policy, lanes, L);
        assert_int_equal(width_step(policy, c, lanes, L, results), ERR_OK);
        for (int i = 0; i < L; i++) {
            int l = lanes[i].slot;
            const cycle_result *r = &results[i];
            assert_in_range(r->n, 1, lanes[i].n_draft + 1);
            memcpy(out->ids[l] + out->n[l], r->ids, (size_t)r->n * sizeof *r->ids);
            out->n[l] += r->n;
            out->n_drafted[l] += r->n_drafted;
            out->n_accepted[l] += r->n_accepted;
            pos[l] += r->n;
            anchor[l] = r->ids[r->n - 1];
        }
    }
}

static void expect_same(const answers *got, const answers *want, const char *what)
{
    for (int l = 0; l < LANES; l++) {
        assert_int_equal(got->n[l], want->n[l]);
        for (int i = 0; i < want->n[l]; i++)
            if (got->ids[l][i] != want->ids[l][i])
                fail_msg("%s: lane %d, token %d is %d, want %d", what, l, i, got->ids[l][i],
                         want->ids[l][i]);
    }
}

/* Costs under which the policy goes back and forth: proposals are worth it only when most are
 * right, and trials are cheap. */
static void make_policy(width_policy *p, double row)
{
    width_costs c = {.max_draft = 7};
    width_curve_add(&c.plain, 1, 1);
    width_curve_add(&c.verify, 2, 1 + row);
    width_curve_add(&c.verify, 24, 1 + 23 * row);
    width_curve_add(&c.draft_one, 1, 0.3);
    width_curve_add(&c.draft_all, 1, 0.3);
    width_init(p, &c);
}

static void expect_same_at_any_widths(const char *model, const char *backend, int n_seeds)
{
    static prompt_ids p;
    static answers want, got;
    static width_policy policy;
    encode_prompts(model, &p);
    cycle *plain = open_cycle(model, backend, false), *c = open_cycle(model, backend, true);
    for (int hot = 0; hot < 2; hot++) {
        char what[160];
        decode(plain, &p, hot ? 0.8 : 0, 0, NULL, &want);
        for (int seed = 1; seed <= n_seeds; seed++) {
            snprintf(what, sizeof what, "%s on %s, temperature %s, widths of seed %d", model,
                     backend, hot ? "0.8" : "0", seed);
            decode(c, &p, hot ? 0.8 : 0, (uint64_t)(1000 * seed), NULL, &got);
            expect_same(&got, &want, what);
            assert_true(got.n_drafted[0] > 0 && got.n_accepted[0] + got.n_accepted[2] > 0);
        }
        snprintf(what, sizeof what, "%s on %s, temperature %s, the policy's widths", model, backend,
                 hot ? "0.8" : "0");
        make_policy(&policy, 0.3);
        decode(c, &p, hot ? 0.8 : 0, 0, &policy, &got);
        expect_same(&got, &want, what);
    }
    cycle_close(c);
    cycle_close(plain);
}

TEST(widths_by_chance_do_not_change_the_ids_on_ref_dense)
{
    expect_same_at_any_widths("mini-dense", "ref", 1);
}
TEST(widths_by_chance_do_not_change_the_ids_on_ref_moe)
{
    expect_same_at_any_widths("mini-moe", "ref", 1);
}
TEST(widths_by_chance_do_not_change_the_ids_on_cpu_dense)
{
    expect_same_at_any_widths("mini-dense", "cpu", 4);
}
TEST(widths_by_chance_do_not_change_the_ids_on_cpu_moe)
{
    expect_same_at_any_widths("mini-moe", "cpu", 4);
}
TEST(widths_by_chance_do_not_change_the_ids_on_cuda)
{
    run_need_backend("cuda");
    expect_same_at_any_widths("mini-dense", "cuda", 6);
    expect_same_at_any_widths("mini-moe", "cuda", 6);
}

/* ---- the engine --------------------------------------------------------------------------- */

static void run_engine(const char *model, const char *backend, int draft_rows, run_result *out)
{
    char target[4300], draft[4300];
    paths(model, target, draft, sizeof target);
    engine *en = run_open(&(engine_options){.model = target,
                                            .draft = draft_rows == 0 ? NULL : draft,
                                            .backend = backend,
                                            .n_threads = 2,
                                            .n_lanes = 2,
                                            .prefill_rows = 64,
                                            .max_context = 320,
                                            .draft_rows = draft_rows,
                                            .guards_steps = true});
    for (int l = 0; l < LANES; l++) {
        token_ids ids = run_encode(en, prompt_texts[l]);
        run_submit(en, run_request(ids.ptr, ids.n, NEW_TOKENS, l == 1 ? 0.8 : 0, 3), &out[l]);
        token_ids_fini(&ids);
    }
    run_all(en);
    engine_close(en);
}

static void expect_same_with_auto(const char *model, const char *backend)
{
    static run_result want[LANES], got[LANES];
    run_engine(model, backend, 0, want);
    run_engine(model, backend, ENGINE_ROWS_AUTO, got);
    for (int l = 0; l < LANES; l++)
        run_expect_same(&got[l].choice[0], &want[l].choice[0], "widths by the engine's own policy");
}

TEST(an_engine_that_chooses_its_widths_gives_the_ids_of_one_without_a_draft)
{
    expect_same_with_auto("mini-dense", "cpu");
    expect_same_with_auto("mini-moe", "cpu");
}
