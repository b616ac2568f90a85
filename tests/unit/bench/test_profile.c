/* tags: slow */
/* Profiles of the bundled model: stages are all there, and measuring changes nothing. */
#include <stdlib.h>

#include "base/json.h"
#include "bench/profile_priv.h"
#include "support/test.h"

static profile_decode decoded[2];
static profile_prefill prefilled;

static profile_request request(int width)
{
    profile_request r = {.engine = {.model = "models/mini-dense",
                                    .draft = "models/mini-dense-dflash2",
                                    .backend = "cpu",
                                    .n_threads = 1,
                                    .prefill_rows = 16,
                                    .draft_rows = width,
                                    .kv = ENGINE_KV_INT8},
                         .n_lanes = 2,
                         .lanes = {1, 2},
                         .n_prompts = 1,
                         .prompts = {40},
                         .tokens = 4};
    return r;
}

static void measure(profiler *p, profile_request *r)
{
    err e;
    CHECK_OK(profiler_open(p, r, &e), &e);
    const backend_ops *ops = p->b->ops;
    CHECK_STATUS(profiler_prefill(p, 40, &prefilled), ERR_OK);
    CHECK_STATUS(profiler_decode(p, 40, 1, &decoded[0]), ERR_OK);
    CHECK_STATUS(profiler_decode(p, 40, 2, &decoded[1]), ERR_OK);
    assert_ptr_equal(p->b->ops, ops);
}

static const stage *find(const stage_table *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->list[i].name, name) == 0) return &t->list[i];
    fail_msg("no stage %s", name);
    return NULL;
}

TEST(a_drafted_cycle_has_its_stages)
{
    profile_request r = request(3);
    profiler p;
    measure(&p, &r);
    assert_int_equal(r.width, 3);
    for (int i = 0; i < 2; i++) {
        const profile_decode *d = &decoded[i];
        const stage_table *t = &d->stages;
        assert_int_equal(d->n_cycles, 4);
        assert_int_equal((int)d->drafted, 4 * 3 * (i + 1));
        assert_true(d->tokens_per_cycle >= 1 && d->tokens_per_cycle <= 4);
        assert_int_equal(find(t, "target embed")->n_calls, d->n_staged);
        assert_int_equal(find(t, "draft embed")->n_calls, d->n_staged);
        assert_int_equal(find(t, "target attn")->n_calls, d->n_staged * 2);
        assert_int_equal(find(t, "target gdn_commit")->n_calls, d->n_staged * 6);
        assert_int_equal(find(t, "target linear head 3072x384")->n_calls, d->n_staged);
        assert_int_equal(find(t, "draft linear selector and head 3136x384")->n_calls, d->n_staged);
        assert_int_equal(find(t, "context linear fc 384x1152")->n_calls, d->n_staged);
        double ns = 0;
        for (int k = 0; k < t->n; k++) ns += t->list[k].ns;
        assert_true(fabs(ns - t->ns) < 1);
        const profile_parts *x = &d->parts;
        assert_true(d->has_parts && x->draft > 0 && x->target > 0 && x->context > 0);
        assert_true(x->whole >= x->draft && x->whole >= x->target && x->whole >= x->context);
        assert_true(d->single.draft == 0 && d->single.target > 0);
    }
    /* The context that is read grows with the lanes, the weights do not. */
    const stage *one = find(&decoded[0].stages, "target attn");
    const stage *two = find(&decoded[1].stages, "target attn");
    assert_true(two->n_bytes > 1.8 * one->n_bytes);
    one = find(&decoded[0].stages, "target linear head 3072x384");
    two = find(&decoded[1].stages, "target linear head 3072x384");
    assert_true(two->n_bytes < 1.5 * one->n_bytes && two->n_ops == 2 * one->n_ops);
    profiler_close(&p);
}

TEST(a_prompt_is_timed_but_for_its_last_slice)
{
    profile_request r = request(0);
    profiler p;
    measure(&p, &r);
    assert_int_equal(prefilled.n_timed, 32);
    assert_int_equal(prefilled.staged_pos, 32);
    assert_int_equal(prefilled.staged_rows, 7);
    assert_int_equal(find(&prefilled.stages, "target gdn_scan")->n_calls, 6);
    assert_true(prefilled.ms > 0);
    assert_int_equal((int)decoded[0].drafted, 0);
    profiler_close(&p);
}

TEST(the_same_settings_give_the_same_hash_and_json_that_parses)
{
    profile_request r = request(2);
    profiler p;
    measure(&p, &r);
    uint64_t first = decoded[1].output_hash;
    profiler_close(&p);
    measure(&p, &r);
    assert_true(decoded[1].output_hash == first && first != decoded[0].output_hash);
    profile_context x = {.r = &r, .p = &p, .peak = {.read = 1e9, .n_ops = 1e12, .machine = "m"}};
    buf out;
    arena a;
    err e;
    const json *root;
    buf_init(&out);
    arena_init(&a, 0);
    profile_json(&x, &prefilled, 1, decoded, 2, &out);
    assert_false(out.failed);
    CHECK_OK(json_parse(&a, buf_str(&out), "out", 8, JSON_UNIQUE_KEYS, &root, &e), &e);
    assert_int_equal(json_get(root, "decode")->n, 2);
    const json *d = json_at(json_get(root, "decode"), 1);
    assert_int_equal(json_get(d, "output_hash")->text.len, 16);
    assert_int_equal(json_get(d, "stages")->n, decoded[1].stages.n);
    arena_fini(&a);
    buf_fini(&out);
    profiler_close(&p);
}

TEST(the_floor_is_the_slower_of_reading_and_computing)
{
    peak k = {.read = 1e9, .n_ops = 2e9};
    assert_true(profile_floor_ns(&k, 100, 100) == 100);
    assert_true(profile_floor_ns(&k, 100, 400) == 200);
    k.n_ops = 0;
    assert_true(profile_floor_ns(&k, 100, 400) == 100);
    stage_table t = {.n = 2, .list = {{.n_bytes = 100}, {.n_bytes = 50}}};
    assert_true(profile_table_floor_ns(&k, &t) == 150);
}

TEST(a_prompt_longer_than_the_model_is_refused)
{
    profile_request r = request(0);
    profiler p;
    err e;
    r.prompts[0] = 1 << 15;
    CHECK_STATUS(profiler_open(&p, &r, &e), ERR_INVALID);
    assert_string_equal(e.where, "--prompt-tokens");
    profiler_close(&p);
}

TEST(this_machine_has_a_bandwidth_and_a_name)
{
    peak k;
    err e;
    CHECK_OK(peak_measure(&k, "cpu", 1, &e), &e);
    assert_true(k.read > 1e8);
    assert_true(k.machine[0] != '\0');
}

TEST(widths_that_the_policy_chooses_have_their_stages_too)
{
    static profile_decode d;
    profile_request r = request(ENGINE_ROWS_AUTO);
    profiler p;
    err e;
    CHECK_OK(profiler_open(&p, &r, &e), &e);
    assert_non_null(p.widths);
    assert_int_equal(r.width, 7);
    CHECK_STATUS(profiler_prefill(&p, 40, &prefilled), ERR_OK);
    CHECK_STATUS(profiler_decode(&p, 40, 2, &d), ERR_OK);
    assert_int_equal(d.n_cycles, 4);
    assert_in_range((int)d.drafted, 0, 4 * 7 * 2);
    assert_int_equal(find(&d.stages, "target attn")->n_calls, d.n_staged * 2);
    assert_true(d.tokens_per_cycle >= 1 && d.tokens_per_cycle <= 8);
    profiler_close(&p);
}
