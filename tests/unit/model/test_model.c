#include "model/model.h"

#include "support/test.h"

static load_model files;

static const load_model *mini(void)
{
    err e = {0};
    if (!files.path) CHECK_OK(load_model_open(&files, "models/mini-dense", &e), &e);
    return &files;
}

static model_options small(void)
{
    return (model_options){.n_slots = 2,
                           .max_rows = 16,
                           .verify_rows = 8,
                           .logit_rows = 16,
                           .max_context = 128,
                           .kv = KV_INT8};
}

TEST(options_out_of_range_are_refused_by_name)
{
    struct {
        const char *where;
        model_options o;
    } cases[] = {
        {"lanes",
         {.n_slots = 0, .max_rows = 16, .verify_rows = 1, .logit_rows = 1, .max_context = 64}},
        {"lanes",
         {.n_slots = 65, .max_rows = 99, .verify_rows = 1, .logit_rows = 1, .max_context = 64}},
        {"draft-rows",
         {.n_slots = 1, .max_rows = 99, .verify_rows = 17, .logit_rows = 1, .max_context = 64}},
        {"prefill-rows",
         {.n_slots = 4, .max_rows = 8, .verify_rows = 8, .logit_rows = 1, .max_context = 64}},
        {"max-context",
         {.n_slots = 1, .max_rows = 8, .verify_rows = 8, .logit_rows = 1, .max_context = 1 << 20}},
    };
    backend *be = NULL;
    err e = {0};
    CHECK_OK(backend_open(&be, &(backend_options){.name = "ref", .n_threads = 1}, &e), &e);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model *m = NULL;
        assert_int_equal(model_open(&m, be, mini(), &cases[i].o, &e), ERR_INVALID);
        assert_string_equal(e.where, cases[i].where);
        assert_null(m);
    }
    be->ops->close(be);
}

TEST(the_plan_is_what_open_takes)
{
    backend *be = NULL;
    err e = {0};
    model *m = NULL;
    model_options o = small();
    model_memory plan;
    CHECK_OK(backend_open(&be, &(backend_options){.name = "ref", .n_threads = 1}, &e), &e);
    CHECK_OK(model_plan(mini(), &o, be->act, &plan, &e), &e);
    CHECK_OK(model_open(&m, be, mini(), &o, &e), &e);
    model_memory is = model_bytes(m);
    assert_int_equal(is.kv, plan.kv);
    assert_int_equal(is.states, plan.states);
    assert_int_equal(is.scratch, plan.scratch);
    /* 2 attention layers, 4 blocks of 64 positions, K and V of 256 bytes and a scale each */
    assert_int_equal(plan.kv, 2 * 4 * 64 * 2 * (256 + 4));
    model_close(m);
    be->ops->close(be);
}

TEST(kv_formats_take_one_two_and_four_bytes)
{
    model_options o = small();
    model_memory plan;
    err e = {0};
    o.kv = KV_BF16;
    CHECK_OK(model_plan(mini(), &o, DTYPE_F32, &plan, &e), &e);
    assert_int_equal(plan.kv, 2 * 4 * 64 * 2 * 512);
    o.kv = KV_F32;
    CHECK_OK(model_plan(mini(), &o, DTYPE_F32, &plan, &e), &e);
    assert_int_equal(plan.kv, 2 * 4 * 64 * 2 * 1024);
}
