/* tags: one-thread, timeout=600
 *
 * What drafting is worth: tokens per cycle on a prompt set, and coupled sampling's acceptance
 * against optimal rejection sampling on the very same positions. */
#include "decode/cycle_priv.h"
#include "decode/dflash_priv.h"
#include "model/engine_fixture.h"
#include "model/prompt_fixture.h"

enum { GREEDY_TOKENS = 160, HOT_TOKENS = 64 };

static void paths(const char *model, char *target, char *draft, size_t cap)
{
    snprintf(target, cap, "%s/models/%s", test_root(), model);
    snprintf(draft, cap, "%s/models/%s-dflash2", test_root(), model);
}

/* Tokens per cycle at temperature 0 over the whole prompt set. */
static double greedy_tokens_per_cycle(const char *model)
{
    char target[4300], draft[4300];
    paths(model, target, draft, sizeof target);
    engine *en = run_open(&(engine_options){.model = target,
                                            .draft = draft,
                                            .backend = "cpu",
                                            .n_lanes = 4,
                                            .max_context = 2048,
                                            .draft_rows = -1});
    prompts p;
    prompts_open(&p, engine_about(en)->chat_template);
    run_result *out = mem_new_array((size_t)p.list->n, sizeof *out);
    int i = 0;
    for (const json *x = p.list->first; x; x = x->next) {
        token_ids ids = prompts_encode(&p, x, engine_tokenizer(en));
        run_submit(en, run_request(ids.ptr, ids.n, GREEDY_TOKENS, 0, 1), &out[i++]);
        token_ids_fini(&ids);
    }
    run_all(en);
    double tokens = 0, cycles = 0;
    for (i = 0; i < p.list->n; i++) {
        tokens += (double)out[i].choice[0].n;
        cycles += (double)out[i].choice[0].usage.cycles;
    }
    mem_free(out);
    prompts_close(&p);
    engine_close(en);
    print_message("%s: %.0f tokens in %.0f cycles: %.3f tokens per cycle\n", model, tokens, cycles,
                  tokens / cycles);
    return tokens / cycles;
}

TEST(a_cycle_brings_at_least_four_and_a_half_tokens_on_mini_dense)
{
    assert_true(greedy_tokens_per_cycle("mini-dense") >= 4.5);
}

typedef struct {
    double coupled, optimal;
    int n;
} tally;

/* softmax(x / temperature) in place. */
static void soften(double *x, int n, double temperature)
{
    double top = x[0], sum = 0;
    for (int i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (int i = 0; i < n; i++) sum += x[i] = exp((x[i] - top) / temperature);
    for (int i = 0; i < n; i++) x[i] /= sum;
}

/* The selector's conditional over the candidates of row i (model-spec F2, F3), from the draft's own
 * unary values and projections. */
static void draft_distribution(const cycle *c, int i, int32_t prev, double temperature, double *q)
{
    const draft *d = c->drafter;
    int k = d->arch.select_top_k, R = d->arch.select_rank;
    const int32_t *ids = (const int32_t *)d->top_ids.ptr + i * k;
    const float *vals = (const float *)d->top_vals.ptr + i * k,
                *r = (const float *)d->r.ptr + i * R;
    float from[256], to[256];
    const weights *w = c->draft_files.weights;
    tensor_row_f32(weights_find(w, "candidate_selector.predecessor_codebook"), prev, from);
    for (int a = 0; a < k; a++) {
        tensor_row_f32(weights_find(w, "candidate_selector.successor_codebook"), ids[a], to);
        q[a] = (double)vals[a];
        for (int m = 0; m < R; m++) q[a] += (double)from[m] * (double)r[m] * (double)to[m];
    }
    soften(q, k, temperature);
}

/* Every proposal that was judged: right or wrong, and how often the best lossless rule would have
 * taken one there: sum over x of min(p(x), q(x)). */
static void judge(const cycle *c, const cycle_lane *lane, const cycle_result *r, double temperature,
                  double *p, tally *t)
{
    int V = c->files.target.V, k = c->drafter->arch.select_top_k;
    const float *logits = model_logits(c->target).ptr;
    double q[OPS_TOPK_MAX];
    for (int i = 0; i < r->n_drafted && i <= r->n_accepted && i < r->n; i++) {
        for (int v = 0; v < V; v++) p[v] = (double)logits[(int64_t)i * V + v];
        soften(p, V, temperature);
        draft_distribution(c, i, i ? r->proposals[i - 1] : lane->anchor, temperature, q);
        const int32_t *ids = (const int32_t *)c->drafter->top_ids.ptr + i * k;
        for (int a = 0; a < k; a++) t->optimal += q[a] < p[ids[a]] ? q[a] : p[ids[a]];
        t->coupled += i < r->n_accepted;
        t->n++;
    }
}

static void run_hot(cycle *c, const token_ids *ids, uint64_t seed, double temperature, double *p,
                    tally *t)
{
    int32_t blocks[16];
    for (int i = 0; i < 16; i++) blocks[i] = i;
    sample_policy policy = {
        .seed = seed, .temperature = (float)temperature, .top_p = 1, .repetition = 1};
    for (int i = 0; i < c->files.target.n_eos; i++)
        policy.eos[policy.n_eos++] = c->files.target.eos[i];
    assert_int_equal(cycle_reset(c, 0), ERR_OK);
    assert_int_equal(cycle_set_blocks(c, 0, 0, blocks, 16), ERR_OK);
    assert_int_equal(cycle_set_policy(c, 0, &policy, NULL), ERR_OK);
    int n = ids->n - 1;
    cycle_slice slice = {.slot = 0, .ids = ids->ptr, .n = n, .pos = 0, .prompt_end = n};
    assert_int_equal(cycle_prefill(c, &slice, 1), ERR_OK);
    cycle_lane lane = {.slot = 0, .anchor = ids->ptr[n], .pos = n};
    for (int left = HOT_TOKENS; left > 0;) {
        lane.max_new = left < OPS_ROWS_MAX ? left : OPS_ROWS_MAX;
        lane.n_draft = c->max_draft < lane.max_new - 1 ? c->max_draft : lane.max_new - 1;
        cycle_result r;
        assert_int_equal(cycle_step(c, &lane, 1, &r), ERR_OK);
        judge(c, &lane, &r, temperature, p, t);
        lane.pos += r.n;
        lane.anchor = r.ids[r.n - 1];
        left -= r.n;
        for (int i = 0; i < policy.n_eos; i++)
            if (lane.anchor == policy.eos[i]) left = 0;
    }
}

static void expect_near_optimal(const char *model)
{
    char target[4300], draft[4300];
    paths(model, target, draft, sizeof target);
    cycle *c = NULL;
    tokenizer *tok = NULL;
    err e = {0};
    CHECK_OK(cycle_open(&c,
                        &(cycle_options){.model = target,
                                         .draft = draft,
                                         .backend = "cpu",
                                         .n_slots = 1,
                                         .prefill_rows = 512,
                                         .max_context = 1024,
                                         .kv = KV_INT8,
                                         .max_draft = -1},
                        &e),
             &e);
    CHECK_OK(tokenizer_open(&tok, c->files.tokenizer_json, "tokenizer.json", &e), &e);
    prompts p;
    prompts_open(&p, c->files.chat_template);
    double *scratch = mem_new_array((size_t)c->files.target.V, sizeof *scratch);
    tally t = {0};
    uint64_t seed = 1;
    for (const json *x = p.list->first; x; x = x->next) {
        token_ids ids = prompts_encode(&p, x, tok);
        run_hot(c, &ids, seed++, 0.8, scratch, &t);
        token_ids_fini(&ids);
    }
    print_message("%s at 0.8: %d proposals judged, coupled %.4f, optimal %.4f, ratio %.4f\n", model,
                  t.n, t.coupled / t.n, t.optimal / t.n, t.coupled / t.optimal);
    assert_true(t.n > 1000);
    assert_true(t.coupled >= 0.90 * t.optimal);
    mem_free(scratch);
    prompts_close(&p);
    tokenizer_close(tok);
    cycle_close(c);
}

TEST(coupled_acceptance_is_near_that_of_optimal_rejection_sampling)
{
    expect_near_optimal("mini-dense");
    expect_near_optimal("mini-moe");
}
